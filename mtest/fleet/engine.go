package fleet

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// engine answers as a Docker engine of version 20.10 does, as far as cke asks. Answers have all fields that one has: their length is a
// part of what a node costs.
type engine struct {
	node *Node

	mu         sync.Mutex
	containers []*box // in the order in which they were made
	volumes    map[string]*vol
	dirs       map[string]*tree // directories of the node
	listeners  map[chan []byte]filters.Args
	listed     time.Time // when containers were listed last
	asked      map[string]int
	ended      chan struct{}
}

// vol is a volume.
type vol struct {
	volume.Volume
	tree *tree
}

func newEngine(n *Node) *engine {
	return &engine{node: n, volumes: map[string]*vol{}, dirs: map[string]*tree{}, listeners: map[chan []byte]filters.Args{}, asked: map[string]int{}, ended: make(chan struct{})}
}

func (e *engine) close() {
	close(e.ended)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.containers {
		b.end(137, "")
	}
}

// cut breaks all connections to members on the node.
func (e *engine) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.containers {
		if b.member != nil {
			b.member.cut()
		}
	}
}

// askedSince reports whether containers were listed since a time, and each member was asked.
func (e *engine) askedSince(t time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.containers {
		if b.member != nil && !b.member.askedSince(t) {
			return false
		}
	}
	return e.listed.After(t)
}

// refusal is an answer of the engine that is an error.
type refusal struct {
	status  int
	message string
}

func (r refusal) Error() string { return r.message }

func missing(kind, name string) error {
	return refusal{http.StatusNotFound, fmt.Sprintf("No such %s: %s", kind, name)}
}

var apiVersion = regexp.MustCompile(`^/v1\.[0-9]+`)

func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	// Each answer is what is sent as JSON; nil: nothing is. Those that stream write for themselves.
	answer := func(pattern string, do func(w http.ResponseWriter, r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			e.count(pattern)
			value, err := do(w, r)
			var body bytes.Buffer
			status := http.StatusOK
			switch err := err.(type) {
			case nil:
				if value == nil {
					return
				}
				if r.Method == http.MethodPost {
					status = http.StatusCreated
				}
			case refusal:
				status, value = err.status, map[string]string{"message": err.message}
			default:
				status, value = http.StatusInternalServerError, map[string]string{"message": err.Error()}
			}
			if err := json.NewEncoder(&body).Encode(value); err != nil {
				panic(err) // it is all of the engine's own types
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(body.Bytes())
		})
	}
	answer("GET /_ping", func(w http.ResponseWriter, _ *http.Request) (any, error) {
		w.Header().Set("Builder-Version", "1")
		w.Header().Set("Docker-Experimental", "false")
		_, _ = io.WriteString(w, "OK")
		return nil, nil
	})
	answer("GET /events", e.follow)
	answer("GET /containers/json", e.list)
	answer("POST /containers/create", e.create)
	answer("GET /containers/{id}/json", e.inspect)
	answer("POST /containers/{id}/start", e.start)
	answer("POST /containers/{id}/stop", e.stop)
	answer("POST /containers/{id}/update", e.update)
	answer("POST /containers/{id}/wait", e.wait)
	answer("GET /containers/{id}/logs", e.logs)
	answer("POST /containers/{id}/attach", e.attach)
	answer("DELETE /containers/{id}", e.remove)
	answer("HEAD /containers/{id}/archive", e.stat)
	answer("GET /containers/{id}/archive", e.get)
	answer("PUT /containers/{id}/archive", e.put)
	answer("GET /volumes", e.listVolumes)
	answer("POST /volumes/create", e.createVolume)
	answer("GET /volumes/{name}", e.inspectVolume)
	answer("DELETE /volumes/{name}", e.removeVolume)
	answer("GET /images/{ref...}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		ref := strings.TrimSuffix(r.PathValue("ref"), "/json")
		if !hasImage(ref) {
			return nil, missing("image", ref)
		}
		return map[string]any{"Id": imageID(ref), "RepoTags": []string{ref}, "Architecture": "amd64", "Os": "linux"}, nil
	})
	answer("POST /images/create", func(http.ResponseWriter, *http.Request) (any, error) {
		return nil, refusal{http.StatusNotFound, "manifest unknown"}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Server", "Docker/20.10.24+dfsg1 (linux)")
		r.URL.Path = apiVersion.ReplaceAllString(r.URL.Path, "")
		if r.Method == http.MethodHead && r.URL.Path == "/_ping" {
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func (e *engine) count(pattern string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked[pattern]++
}

// hasImage: every image is on the node but those that say otherwise.
func hasImage(ref string) bool { return !strings.HasSuffix(ref, ":none") }

func imageID(ref string) string { return "sha256:" + fmt.Sprintf("%064x", []byte(path.Base(ref)))[:64] }

func newID() string {
	id := make([]byte, 32)
	_, _ = rand.Read(id) // never fails
	return hex.EncodeToString(id)
}

// follow streams events until the client leaves.
func (e *engine) follow(w http.ResponseWriter, r *http.Request) (any, error) {
	which, err := filters.FromJSON(r.URL.Query().Get("filters"))
	if err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	heard := make(chan []byte, 100)
	e.mu.Lock()
	e.listeners[heard] = which
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.listeners, heard)
		e.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case line := <-heard:
			_, _ = w.Write(line)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return nil, nil
		case <-e.ended:
			return nil, nil
		}
	}
}

// tell sends an event to all that follow. e.mu is held.
func (e *engine) tell(kind, action, id string, attributes map[string]string) {
	now := time.Now()
	line, err := json.Marshal(map[string]any{"status": action, "id": id, "from": attributes["image"], "Type": kind, "Action": action,
		"Actor": map[string]any{"ID": id, "Attributes": attributes}, "scope": "local", "time": now.Unix(), "timeNano": now.UnixNano()})
	if err != nil {
		panic(err)
	}
	for heard, which := range e.listeners {
		if which.ExactMatch("type", kind) && which.ExactMatch("event", action) {
			select {
			case heard <- append(line, '\n'):
			default: // an engine drops what is not taken in time
			}
		}
	}
}

func (e *engine) listVolumes(_ http.ResponseWriter, r *http.Request) (any, error) {
	which, err := filters.FromJSON(r.URL.Query().Get("filters"))
	if err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	list := volume.ListResponse{Volumes: []*volume.Volume{}}
	for _, v := range e.volumes {
		if which.Contains("label") && !which.MatchKVList("label", v.Labels) || which.ExactMatch("dangling", "true") && which.Contains("dangling") && e.used(v.Name) != "" {
			continue
		}
		list.Volumes = append(list.Volumes, &v.Volume)
	}
	return list, nil
}

func (e *engine) createVolume(_ http.ResponseWriter, r *http.Request) (any, error) {
	var o volume.CreateOptions
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.makeVolume(o).Volume, nil
}

// makeVolume returns the volume of that name, and makes it if it is not there. e.mu is held.
func (e *engine) makeVolume(o volume.CreateOptions) *vol {
	if o.Name == "" {
		o.Name = newID()
	}
	v := e.volumes[o.Name]
	if v != nil {
		return v
	}
	v = &vol{tree: newTree(), Volume: volume.Volume{Name: o.Name, Driver: "local", Labels: o.Labels, Options: o.DriverOpts, Scope: "local",
		CreatedAt: time.Now().UTC().Format(time.RFC3339), Mountpoint: "/var/lib/docker/volumes/" + o.Name + "/_data"}}
	if dir := o.DriverOpts["device"]; dir != "" && e.dirs[dir] != nil {
		v.tree = e.dirs[dir]
	}
	e.volumes[o.Name] = v
	e.tell("volume", "create", o.Name, map[string]string{"driver": "local"})
	return v
}

func (e *engine) inspectVolume(_ http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v := e.volumes[r.PathValue("name")]; v != nil {
		return v.Volume, nil
	}
	return nil, missing("volume", r.PathValue("name"))
}

func (e *engine) removeVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := r.PathValue("name")
	if e.volumes[name] == nil {
		return nil, missing("volume", name)
	}
	if user := e.used(name); user != "" {
		return nil, refusal{http.StatusConflict, fmt.Sprintf("remove %s: volume is in use - [%s]", name, user)}
	}
	delete(e.volumes, name)
	e.tell("volume", "destroy", name, map[string]string{"driver": "local"})
	w.WriteHeader(http.StatusNoContent)
	return nil, nil
}

// used is the id of a container that has a volume; "": none has. e.mu is held.
func (e *engine) used(name string) string {
	for _, b := range e.containers {
		for _, m := range b.mounts {
			if m.Name == name {
				return b.id
			}
		}
	}
	return ""
}

// at is the place of a path in a container. e.mu is held.
func (e *engine) at(r *http.Request) (b *box, t *tree, name string, err error) {
	if b, err = e.find(r.PathValue("id")); err != nil {
		return nil, nil, "", err
	}
	full := path.Clean("/" + r.URL.Query().Get("path"))
	t, name = b.place(full)
	return b, t, name, nil
}

func notThere(b *box, name string) error {
	return refusal{http.StatusNotFound, fmt.Sprintf("Could not find the file %s in container %s", name, b.id)}
}

// stat sets the header that describes a path.
func (e *engine) stat(w http.ResponseWriter, r *http.Request) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, t, name, err := e.at(r)
	if err != nil {
		return nil, err
	}
	f := t.files[name]
	if f == nil {
		return nil, notThere(b, r.URL.Query().Get("path"))
	}
	mode := os.FileMode(f.mode)
	size := int64(len(f.data))
	if f.dir {
		mode, size = mode|os.ModeDir, 4096
	}
	described, err := json.Marshal(container.PathStat{Name: path.Base(r.URL.Query().Get("path")), Size: size, Mode: mode, Mtime: f.changed})
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(described))
	return nil, err
}

func (e *engine) get(w http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := e.stat(w, r); err != nil {
		return nil, err
	}
	e.mu.Lock()
	_, t, name, err := e.at(r)
	if err != nil {
		e.mu.Unlock()
		return nil, err
	}
	var archive bytes.Buffer
	err = t.pack(name, path.Base(r.URL.Query().Get("path")), &archive)
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", "application/x-tar")
	_, _ = w.Write(archive.Bytes())
	return nil, nil
}

func (e *engine) put(_ http.ResponseWriter, r *http.Request) (any, error) {
	archive, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	b, t, name, err := e.at(r)
	if err != nil {
		return nil, err
	}
	if f := t.files[name]; f == nil || !f.dir {
		return nil, notThere(b, r.URL.Query().Get("path"))
	}
	if err := t.unpack(name, bytes.NewReader(archive)); err != nil {
		return nil, refusal{http.StatusBadRequest, err.Error()}
	}
	return nil, nil
}
