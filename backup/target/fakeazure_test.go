package target_test

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	azureAccount = "test"
	azureKey     = "c2VjcmV0" // base64
)

// azure answers as Azure's blob service does, as far as block blobs of one container are written, in one or in blocks,
// under the condition If-None-Match: *, read, listed and deleted. It takes only requests that are signed for the account,
// and does not check the signature.
type azure struct {
	*objects
	container string
}

// azureAddress is one for the process, since the library reads it from the environment once. azureServes is what the
// running test has there.
var (
	azureServes  atomic.Pointer[azure]
	azureAddress = sync.OnceValue(func() string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { azureServes.Load().ServeHTTP(w, r) }))
		return strings.TrimPrefix(s.URL, "http://")
	})
)

func fakeAzure(container string) string {
	azureServes.Store(&azure{newObjects(), container})
	return azureAddress()
}

func (a *azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.Header().Set("X-Ms-Version", "2024-11-04")
	if !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+azureAccount+":") {
		azureError(w, http.StatusForbidden, "AuthenticationFailed")
		return
	}
	base := "/" + azureAccount + "/" + a.container
	name, isBlob := strings.CutPrefix(r.URL.Path, base+"/")
	q := r.URL.Query()
	switch {
	case r.URL.Path == base && q.Get("comp") == "list":
		a.list(w, q.Get("prefix"), q.Get("marker"))
	case !isBlob:
		azureError(w, http.StatusNotFound, "ContainerNotFound")
	case r.Method == http.MethodPut && q.Get("comp") == "block":
		a.block(w, r, name+"\n"+q.Get("blockid"))
	case r.Method == http.MethodPut && q.Get("comp") == "blocklist":
		a.commit(w, r, name)
	case r.Method == http.MethodPut:
		if data, err := io.ReadAll(r.Body); err == nil {
			a.write(w, r, name, data)
		}
	case r.Method == http.MethodDelete:
		if _, ok := a.stored[name]; !ok {
			azureError(w, http.StatusNotFound, "BlobNotFound")
			return
		}
		delete(a.stored, name)
		w.WriteHeader(http.StatusAccepted)
	default:
		a.read(w, r, name)
	}
}

func azureError(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, code)
}

func (a *azure) block(w http.ResponseWriter, r *http.Request, key string) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // broken off
	}
	a.part[key] = data
	w.WriteHeader(http.StatusCreated)
}

func (a *azure) commit(w http.ResponseWriter, r *http.Request, name string) {
	var list struct {
		Latest []string `xml:"Latest"`
	}
	if err := xml.NewDecoder(r.Body).Decode(&list); err != nil {
		azureError(w, http.StatusBadRequest, "InvalidXmlDocument")
		return
	}
	var data []byte
	for _, id := range list.Latest {
		part, ok := a.part[name+"\n"+id]
		if !ok {
			azureError(w, http.StatusBadRequest, "InvalidBlockList")
			return
		}
		data = append(data, part...)
	}
	a.write(w, r, name, data)
}

func (a *azure) write(w http.ResponseWriter, r *http.Request, name string, data []byte) {
	s, ok := a.put(name, data, r.Header.Get("If-None-Match") == "*")
	if !ok {
		azureError(w, http.StatusConflict, "BlobAlreadyExists")
		return
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, s.serie))
	w.Header().Set("Last-Modified", s.time.Format(http.TimeFormat))
	w.WriteHeader(http.StatusCreated)
}

func (a *azure) read(w http.ResponseWriter, r *http.Request, name string) {
	s, ok := a.stored[name]
	if !ok {
		azureError(w, http.StatusNotFound, "BlobNotFound")
		return
	}
	if v := r.Header.Get("X-Ms-Range"); v != "" {
		r.Header.Set("Range", v)
	}
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, s.serie))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Ms-Blob-Type", "BlockBlob")
	w.Header().Set("X-Ms-Creation-Time", s.time.Format(http.TimeFormat))
	http.ServeContent(w, r, "", s.time, bytes.NewReader(s.data))
}

func (a *azure) list(w http.ResponseWriter, prefix, marker string) {
	after, _ := base64.URLEncoding.DecodeString(marker)
	names, more := a.page(prefix, string(after), fakePage)
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprint(w, `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>`)
	for _, n := range names {
		s := a.stored[n]
		fmt.Fprint(w, "<Blob><Name>")
		xml.EscapeText(w, []byte(n))
		fmt.Fprintf(w, "</Name><Properties><Last-Modified>%s</Last-Modified><Etag>%d</Etag><Content-Length>%d</Content-Length>"+
			"<BlobType>BlockBlob</BlobType></Properties></Blob>", s.time.Format(http.TimeFormat), s.serie, len(s.data))
	}
	fmt.Fprint(w, "</Blobs><NextMarker>")
	if more {
		fmt.Fprint(w, base64.URLEncoding.EncodeToString([]byte(names[len(names)-1])))
	}
	fmt.Fprint(w, "</NextMarker></EnumerationResults>")
}
