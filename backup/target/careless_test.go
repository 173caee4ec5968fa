package target_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"testing"

	"cke/backup"
	"cke/backup/target"
)

// carelessS3 speaks S3 and ignores If-None-Match, as servers do that do not know it. altered: what it returns is not what was written.
type carelessS3 struct {
	mu      sync.Mutex
	objects map[string][]byte
	altered bool
	puts    []string
}

func (s *carelessS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/b"), "/")
	data, there := s.objects[name]
	switch {
	case r.Method == "GET" && name == "":
		type object struct {
			Key, LastModified string
			Size              int
		}
		var list struct {
			XMLName     xml.Name `xml:"ListBucketResult"`
			Name        string
			IsTruncated bool
			Contents    []object
		}
		for k, d := range s.objects {
			if strings.HasPrefix(k, r.URL.Query().Get("prefix")) {
				list.Contents = append(list.Contents, object{k, "2026-01-01T00:00:00.000Z", len(d)})
			}
		}
		sort.Slice(list.Contents, func(i, j int) bool { return list.Contents[i].Key < list.Contents[j].Key })
		w.Header().Set("Content-Type", "application/xml")
		xml.NewEncoder(w).Encode(list)
	case r.Method == "PUT":
		s.puts = append(s.puts, fmt.Sprint(name, " If-None-Match: ", r.Header.Get("If-None-Match")))
		d, _ := io.ReadAll(r.Body)
		s.objects[name] = d
	case r.Method == "DELETE":
		delete(s.objects, name)
		w.WriteHeader(204)
	case !there:
		w.WriteHeader(404)
		if r.Method == "GET" {
			io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
		}
	default:
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
		if r.Method == "GET" {
			if s.altered {
				data = bytes.Repeat([]byte("x"), len(data))
			}
			w.Write(data)
		}
	}
}

func openCareless(t *testing.T) (*carelessS3, *target.Target) {
	s := &carelessS3{objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	b, err := target.Open(t.Context(), "s3://b?endpoint="+server.URL+"&path_style=true", target.Credentials{AccessKey: "a", SecretKey: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

func TestMark_NoticesAStoreThatIgnoresTheCondition(t *testing.T) {
	s, b := openCareless(t)
	m, err := (&backup.Store{Bucket: b, Cluster: "prod"}).Mark(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if !m.Overwrites {
		t.Errorf("the target overwrites, and nobody noticed; requests to write: %q", s.puts)
	}
}

// Where a store overwrites, what came back may be of another writer.
func TestCreate_RemovesNothingFromAStoreThatOverwrites(t *testing.T) {
	s, b := openCareless(t)
	s.altered = true
	if err := b.Create(t.Context(), "x", backup.Content{Head: []byte("1")}); err == nil || len(s.objects) != 1 {
		t.Errorf("%v, %d objects", err, len(s.objects))
	}
}
