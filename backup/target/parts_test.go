package target_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/target"
)

// halfS3 keeps to If-None-Match for what goes in one request, and may not for what goes in parts.
type halfS3 struct {
	carelessS3
	parts   map[string][]byte
	inParts []string // names of what went in parts
	honors  bool     // also in parts
	hides   bool     // what is asked for by HEAD, as if another writer came right after
	left    int      // uploads in parts under way
}

func (s *halfS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/b"), "/")
	q := r.URL.Query()
	s.mu.Lock()
	_, there := s.objects[name]
	refuse := there && r.Header.Get("If-None-Match") == "*"
	handled := true
	switch {
	case r.Method == "HEAD" && s.hides:
		w.WriteHeader(404)
	case r.Method == "POST" && q.Has("uploads"):
		s.left++
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
	case r.Method == "PUT" && q.Has("partNumber"):
		data, _ := io.ReadAll(r.Body)
		s.parts[q.Get("partNumber")] = data
		w.Header().Set("ETag", `"e"`)
	case r.Method == "POST" && q.Has("uploadId"):
		if s.honors && refuse {
			s.refuse(w)
			break
		}
		s.left--
		s.inParts = append(s.inParts, name)
		s.objects[name] = nil
		for i := range len(s.parts) {
			s.objects[name] = append(s.objects[name], s.parts[fmt.Sprint(i+1)]...)
		}
		clear(s.parts)
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Key>%s</Key></CompleteMultipartUploadResult>", name)
	case r.Method == "DELETE" && q.Has("uploadId"):
		s.left--
		w.WriteHeader(204)
	case r.Method == "PUT" && refuse:
		s.refuse(w)
	default:
		handled = false
	}
	s.mu.Unlock()
	if !handled {
		s.carelessS3.ServeHTTP(w, r)
	}
}

func (s *halfS3) refuse(w http.ResponseWriter) {
	w.WriteHeader(412)
	io.WriteString(w, "<Error><Code>PreconditionFailed</Code></Error>")
}

func openHalf(t *testing.T, honors bool) (*halfS3, *target.Target) {
	s := &halfS3{carelessS3: carelessS3{objects: map[string][]byte{}}, parts: map[string][]byte{}, honors: honors}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	b, err := target.Open(t.Context(), "s3://b/some?endpoint="+server.URL+"&path_style=true", target.Credentials{AccessKey: "a", SecretKey: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

// Two daemons that take themselves for the leader contend for the name of a delta. What decides is the request that was tried.
func TestPut_SendsADeltaInOneRequest(t *testing.T) {
	s, b := openHalf(t, false)
	s.hides = true
	brief := backup.Retry{For: time.Second}
	name := backup.DeltaPlace("prod", "a1b2", 1, 0, 1).Name()
	mine := backup.Content{Head: bytes.Repeat([]byte("m"), 20<<20)}
	if err := brief.Put(t.Context(), b, name, mine, nil); err != nil {
		t.Fatal(err)
	}
	other := backup.Content{Head: bytes.Repeat([]byte("o"), 21<<20)}
	if err := brief.Put(t.Context(), b, name, other, nil); !errors.Is(err, backup.ErrExists) {
		t.Errorf("the second one: %v", err)
	}
	if err := brief.Put(t.Context(), b, name, mine, nil); err != nil {
		t.Errorf("the first one again: %v", err)
	}
	if len(s.inParts) > 0 || !bytes.Equal(s.objects["some/"+name], mine.Head) {
		t.Errorf("%q went in parts; %d bytes are there", s.inParts, len(s.objects["some/"+name]))
	}
}

// What goes in parts may meet its like, too: two daemons may merge the same backups.
func TestMark_NoticesAStoreThatOverwritesInParts(t *testing.T) {
	for _, honors := range []bool{false, true} {
		s, b := openHalf(t, honors)
		m, err := (&backup.Store{Bucket: b, Cluster: "prod"}).Mark(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if m.Overwrites == honors || s.left != 0 {
			t.Errorf("it honors the condition: %v, and is said to overwrite: %v; %d uploads are left", honors, m.Overwrites, s.left)
		}
	}
}

// What came back altered is removed only where the store keeps to the condition also in parts.
func TestCreate_RemovesNothingFromAStoreThatOverwritesInParts(t *testing.T) {
	for _, honors := range []bool{false, true} {
		s, b := openHalf(t, honors)
		s.altered = true
		if err := b.Create(t.Context(), "x", backup.Content{Head: []byte("1")}); err == nil || (len(s.objects) == 0) != honors {
			t.Errorf("%v, %d objects", err, len(s.objects))
		}
	}
}

// A real server takes and refuses the one and the other.
func TestOpen_S3TriesWhatGoesInParts(t *testing.T) {
	address, _ := backuptest.Gateway(t, "backups")
	b, err := target.Open(t.Context(), "s3://backups/p?region=us-east-1&endpoint=http://"+address+"&path_style=true",
		target.Credentials{AccessKey: backuptest.AccessKey, SecretKey: backuptest.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, c := range map[string]backup.Content{
		"whole": {Head: bytes.Repeat([]byte("w"), 17<<20), Unasked: true, Whole: true}, "parts": {Head: []byte("p"), Unasked: true, InParts: true},
	} {
		if err := b.Create(t.Context(), name, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.Create(t.Context(), name, c); !errors.Is(err, backup.ErrExists) {
			t.Errorf("%s again: %v", name, err)
		}
	}
}
