package etcdnode

import (
	"archive/tar"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// endOfEvents ends the stream of those who follow events.
const endOfEvents = "end"

// fakeEngine answers what a probe asks.
type fakeEngine struct {
	socket string
	server *http.Server

	mu       sync.Mutex
	hang     chan struct{} // not nil: requests wait until it is closed
	hangOn   string        // those alone that contain it
	opened   int           // connections
	requests []string
	heard    func(request string) // nil: nobody listens; not told of pings and of who follows events
	events   chan string          // lines for whoever listens to events
	answers  map[string]string
	files    []string         // names in the archives that were put
	login    string           // of the last pull
	date     func() time.Time // what its clock says; nil: the time
}

func newFakeEngine(t testing.TB) *fakeEngine {
	t.Helper()
	e := &fakeEngine{socket: filepath.Join(t.TempDir(), "docker.sock"), events: make(chan string, 10), answers: map[string]string{
		"GET /containers/json": "[]",
		"GET /volumes":         `{"Volumes":[]}`,
	}}
	l, err := net.Listen("unix", e.socket)
	if err != nil {
		t.Fatal(err)
	}
	e.server = &http.Server{Handler: http.HandlerFunc(e.handle), ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.mu.Lock()
			e.opened++
			e.mu.Unlock()
		}
	}}
	var wg sync.WaitGroup
	wg.Go(func() { e.server.Serve(l) })
	t.Cleanup(func() {
		e.resume()
		e.server.Close()
		wg.Wait()
	})
	return e
}

func (e *fakeEngine) pause() { e.pauseOn("") }

// pauseOn lets requests wait that contain a text.
func (e *fakeEngine) pauseOn(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hang, e.hangOn = make(chan struct{}), text
}

func (e *fakeEngine) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hang != nil {
		close(e.hang)
		e.hang = nil
	}
}

func (e *fakeEngine) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opened
}

// calls are the requests made on behalf of somebody, in their order. A connection pings and follows events on its own, at any time.
func (e *fakeEngine) calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.requests), byItself)
}

func byItself(request string) bool {
	return request == "GET /events" || strings.HasSuffix(request, " /_ping")
}

// asked reports how many requests began with prefix.
func (e *fakeEngine) asked(prefix string) (n int) {
	for _, r := range e.calls() {
		if strings.HasPrefix(r, prefix) {
			n++
		}
	}
	return n
}

func (e *fakeEngine) answer(request, body string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers[request] = body
}

func (e *fakeEngine) handle(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1.41"); ok {
		path = rest
	}
	request := r.Method + " " + path
	var files []string
	if r.Method == http.MethodPut {
		files = namesIn(r.Body)
	}
	e.mu.Lock()
	if path == "/images/create" {
		e.login = r.Header.Get("X-Registry-Auth")
	}
	e.requests, e.files = append(e.requests, request), append(e.files, files...)
	hang := e.hang
	if !strings.Contains(request, e.hangOn) {
		hang = nil
	}
	body, known := e.answers[request]
	heard := e.heard
	e.mu.Unlock()
	if heard != nil && !byItself(request) {
		heard(request)
	}
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Server", "Docker/20.10.24+dfsg1 (linux)")
	if w.Header().Set("Api-Version", "1.41"); e.date != nil {
		w.Header().Set("Date", e.date().UTC().Format(http.TimeFormat))
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case path == "/_ping":
	case path == "/events" && !known:
		follows := r.URL.Query().Get("filters")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			select {
			case line := <-e.events:
				if line == endOfEvents {
					return
				}
				var event struct{ Action string }
				if json.Unmarshal([]byte(line), &event) == nil && !strings.Contains(follows, strconv.Quote(event.Action)) {
					continue
				}
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	case !known:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"message":"no such thing: %s"}`, path)
	case strings.HasPrefix(body, "500 "):
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"message":%q}`, body[4:])
	default:
		if strings.HasSuffix(path, "/archive") {
			w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(`{"size":1}`)))
		}
		io.WriteString(w, body)
		if body == endless {
			for chunk := []byte(strings.Repeat("x", 1<<16)); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
}

// namesIn are the names in an archive, up to what is none.
func namesIn(archive io.Reader) (names []string) {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err != nil {
			return names
		}
		names = append(names, h.Name)
	}
}
