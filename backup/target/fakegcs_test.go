package target_test

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// objects is what the fakes of object stores keep.
type objects struct {
	mu     sync.Mutex
	stored map[string]stored
	part   map[string][]byte // uploads that are not complete
	serial int
}

type stored struct {
	data  []byte
	time  time.Time
	serie int
}

func newObjects() *objects { return &objects{stored: map[string]stored{}, part: map[string][]byte{}} }

// put stores an object; false if one is there and absent was asked for.
func (o *objects) put(name string, data []byte, absent bool) (stored, bool) {
	if _, ok := o.stored[name]; ok && absent {
		return stored{}, false
	}
	o.serial++
	s := stored{slices.Clone(data), time.Now().UTC().Truncate(time.Second), o.serial}
	o.stored[name] = s
	return s, true
}

// page lists up to limit names with a prefix after one, and whether more follow.
func (o *objects) page(prefix, after string, limit int) (names []string, more bool) {
	for name := range o.stored {
		if strings.HasPrefix(name, prefix) && name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if limit > 0 && len(names) > limit {
		return names[:limit], true
	}
	return names, false
}

// fakePage keeps pages of listings small, so that there are several.
const fakePage = 7

// gcs answers as the JSON API of Google Cloud Storage does, as far as objects of one bucket are written whole or resumably
// under the condition ifGenerationMatch, read, listed and deleted.
type gcs struct {
	*objects
	bucket string
}

func fakeGCS(t *testing.T, bucket string) string {
	t.Helper()
	s := httptest.NewServer(&gcs{newObjects(), bucket})
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func (g *gcs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	api, upload := "/storage/v1/b/"+g.bucket+"/o", "/upload/storage/v1/b/"+g.bucket+"/o"
	path := r.URL.Path
	switch {
	case path == upload && r.URL.Query().Get("uploadType") == "multipart":
		g.whole(w, r)
	case path == upload && r.URL.Query().Has("upload_id"):
		g.resume(w, r)
	case path == upload:
		g.begin(w, r)
	case path == api:
		g.list(w, r)
	case strings.HasPrefix(path, api+"/") && r.Method == http.MethodDelete:
		g.delete(w, strings.TrimPrefix(path, api+"/"))
	case strings.HasPrefix(path, api+"/"):
		g.read(w, r, strings.TrimPrefix(path, api+"/"))
	case strings.HasPrefix(path, "/"+g.bucket+"/"):
		g.read(w, r, strings.TrimPrefix(path, "/"+g.bucket+"/"))
	default:
		gcsError(w, http.StatusNotFound, "no such bucket")
	}
}

func gcsError(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": text}})
}

func crc32c(data []byte) string {
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

func (g *gcs) resource(name string, s stored) map[string]any {
	return map[string]any{
		"kind": "storage#object", "name": name, "bucket": g.bucket, "size": fmt.Sprint(len(s.data)), "generation": fmt.Sprint(s.serie),
		"metageneration": "1", "updated": s.time.Format(time.RFC3339), "timeCreated": s.time.Format(time.RFC3339), "crc32c": crc32c(s.data),
	}
}

func (g *gcs) write(w http.ResponseWriter, name string, data []byte, condition string) {
	s, ok := g.put(name, data, condition == "0")
	if !ok {
		gcsError(w, http.StatusPreconditionFailed, "at least one of the pre-conditions did not hold")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(g.resource(name, s))
}

// whole takes an object in one request of two parts: description and content.
func (g *gcs) whole(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		gcsError(w, http.StatusBadRequest, err.Error())
		return
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var about struct{ Name string }
	var data []byte
	part, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(part).Decode(&about)
	}
	if err == nil {
		part, err = parts.NextPart()
	}
	if err == nil {
		data, err = io.ReadAll(part)
	}
	if err != nil {
		gcsError(w, http.StatusBadRequest, err.Error())
		return
	}
	g.write(w, cmp.Or(r.URL.Query().Get("name"), about.Name), data, r.URL.Query().Get("ifGenerationMatch"))
}

// begin opens a resumable upload.
func (g *gcs) begin(w http.ResponseWriter, r *http.Request) {
	var about struct{ Name string }
	_ = json.NewDecoder(r.Body).Decode(&about) // may be empty
	g.serial++
	q := r.URL.Query()
	q.Set("upload_id", fmt.Sprint(g.serial))
	q.Set("name", cmp.Or(q.Get("name"), about.Name))
	g.part[q.Get("upload_id")] = nil
	w.Header().Set("Location", fmt.Sprintf("http://%s%s?%s", r.Host, r.URL.Path, q.Encode()))
}

// resume takes a chunk; the last one names the size of the whole.
func (g *gcs) resume(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	id := q.Get("upload_id")
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // broken off
	}
	g.part[id] = append(g.part[id], data...)
	_, total, _ := strings.Cut(r.Header.Get("Content-Range"), "/")
	if total == "*" {
		if n := len(g.part[id]); n > 0 {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", n-1))
		}
		w.Header().Set("X-Http-Status-Code-Override", "308") // what clients that know no 308 ask for
		return
	}
	if total != fmt.Sprint(len(g.part[id])) {
		gcsError(w, http.StatusBadRequest, "the size is another one")
		return
	}
	g.write(w, q.Get("name"), g.part[id], q.Get("ifGenerationMatch"))
	delete(g.part, id)
}

func (g *gcs) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	names, more := g.page(q.Get("prefix"), q.Get("pageToken"), fakePage)
	items := []any{}
	for _, n := range names {
		items = append(items, g.resource(n, g.stored[n]))
	}
	answer := map[string]any{"kind": "storage#objects", "items": items}
	if more {
		answer["nextPageToken"] = names[len(names)-1]
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func (g *gcs) delete(w http.ResponseWriter, name string) {
	if _, ok := g.stored[name]; !ok {
		gcsError(w, http.StatusNotFound, "no such object")
		return
	}
	delete(g.stored, name)
	w.WriteHeader(http.StatusNoContent)
}

// read gives the content, or with alt=json and without alt=media what is known of it.
func (g *gcs) read(w http.ResponseWriter, r *http.Request, name string) {
	s, ok := g.stored[name]
	if !ok {
		gcsError(w, http.StatusNotFound, "no such object")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/storage/") && r.URL.Query().Get("alt") != "media" {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(g.resource(name, s))
		return
	}
	w.Header().Set("X-Goog-Generation", strconv.Itoa(s.serie))
	w.Header().Set("X-Goog-Hash", "crc32c="+crc32c(s.data))
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", s.time, strings.NewReader(string(s.data)))
}
