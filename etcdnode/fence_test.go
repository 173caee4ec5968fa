package etcdnode

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
)

// deposal ends a term after so many requests were answered, and notes those that change something after that: the daemon was
// frozen while it waited for an answer, and goes on before anything has told it.
type deposal struct {
	mu       sync.Mutex
	after    int // requests
	answered []string
	late     []string
	over     bool
}

func (d *deposal) guard() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return fmt.Errorf("the session ran out: %w", cke.ErrDeposed)
	}
	return nil
}

func (d *deposal) heard(request string, changes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over && changes {
		d.late = append(d.late, request)
	}
	d.answered = append(d.answered, request)
	d.over = d.over || len(d.answered) >= d.after
}

// begin starts counting anew.
func (d *deposal) begin(after int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.after, d.over, d.answered, d.late = after, after == 0, nil, nil
}

func writesEngine(request string) bool {
	return !strings.HasPrefix(request, "GET ") && !strings.HasPrefix(request, "HEAD ")
}

// changesEngine also counts looks into containers, which may cost data.
func changesEngine(request string) bool {
	return writesEngine(request) || strings.HasSuffix(request, "/archive")
}

// engineAct is one method as it is called, with what the engine answers.
type engineAct struct {
	method  string
	answers []string // request, answer, …
	call    func(context.Context, *Fleet, cke.Machine) error
	reads   bool // it changes nothing
}

const (
	fencedInspect = `{"Id":"c1","Name":"/etcd-cke.j1","State":{"Status":"STATE","StartedAt":"STARTED"},"Config":{"Image":"etcd:v3","Labels":{"cke.cluster":"demo","cke.incarnation":"life","cke.join":"j1"}},"HostConfig":{"RestartPolicy":{"Name":"RESTART"}}}`
	fencedVolume  = `{"Name":"etcd-cke.j1","Labels":{"cke.cluster":"demo","cke.incarnation":"life","cke.join":"j1"},"Options":{"device":"DEVICE"}}`
	fencedForeign = `{"Id":"f1","Name":"/etcd","State":{"Status":"running","StartedAt":"2026-01-01T00:00:00Z"},"Config":{"Image":"etcd","Env":["ETCD_INITIAL_ADVERTISE_PEER_URLS=https://10.0.0.4:2380"]},"HostConfig":{"RestartPolicy":{"Name":"always"}}}`
	inspectMember = "GET /containers/etcd-cke.j1/json"
)

func inspected(state, restart string) string {
	started := "2026-01-01T00:00:00Z"
	if state == "created" {
		started = "0001-01-01T00:00:00Z"
	}
	return strings.NewReplacer("STATE", state, "STARTED", started, "RESTART", restart).Replace(fencedInspect)
}

func volumeIn(device string) string { return strings.Replace(fencedVolume, "DEVICE", device, 1) }

func engineActs(node cke.Node) []engineAct {
	j := cke.Join{ID: "j1", Incarnation: "life", Volume: "etcd-cke.j1", Member: "n1", Node: node, ClientPort: 2379, PeerPort: 2380, Etcd: cke.EtcdOptions{Image: "etcd:v3"}}
	inDir := j
	inDir.Etcd.VolumeRoot = "/srv/etcd"
	spec := cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData, Token: "token"}
	helper := []string{"POST /containers/create", `{"Id":"h1"}`, "HEAD /containers/etcd-cke.j1.helper/archive", "", "PUT /containers/etcd-cke.j1.helper/archive", "", "DELETE /containers/etcd-cke.j1.helper", ""}
	snapshot := []byte("a snapshot")
	return []engineAct{
		{method: "EnsureImage", answers: []string{"POST /images/create", "{}"},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.EnsureImage(ctx, "etcd:v3", nil) }},
		{method: "EnsureVolume", answers: []string{"POST /volumes/create", volumeIn("")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.EnsureVolume(ctx, spec) }},
		{method: "EnsureVolume", answers: append([]string{"POST /volumes/create", volumeIn("/srv/etcd/etcd-cke.j1")}, helper...),
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				s := spec
				s.Join = inDir
				return m.EnsureVolume(ctx, s)
			}},
		{method: "EnsureContainer", answers: []string{"GET /volumes/etcd-cke.j1", volumeIn(""), inspectMember, inspected("exited", "no"), "DELETE /containers/c1", "", "POST /containers/create", `{"Id":"c2"}`},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				s := spec
				s.Join.StartedAt = time.Now()
				return m.EnsureContainer(ctx, s)
			}},
		{method: "TryOptions", answers: []string{"GET /images/etcd:v3/json", "{}", "POST /containers/create", `{"Id":"o1"}`, "POST /containers/o1/start", "",
			"POST /containers/o1/wait", `{"StatusCode":1}`, "GET /containers/o1/logs", "", "DELETE /containers/o1", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.TryOptions(ctx, spec) }},
		{method: "PutFiles", answers: []string{inspectMember, inspected("created", "no"), "PUT /containers/c1/archive", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				return m.PutFiles(ctx, j, []cke.File{{Path: "pki/ca.crt", Mode: 0o644, Data: []byte("x")}})
			}},
		{method: "PutFounder", answers: []string{inspectMember, inspected("created", "no"), "PUT /containers/c1/archive", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				founder := spec
				founder.Mode, founder.Peers = cke.StartPrepared, []cke.Peer{{Name: spec.Join.Member, URL: spec.Join.PeerURL()}}
				return m.PutFounder(ctx, founder, []cke.File{{Path: "pki/ca.crt", Mode: 0o644, Data: []byte("x")}})
			}},
		{method: "Certificates", reads: true, answers: []string{inspectMember, inspected("running", "always")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				_, _, err := m.Certificates(ctx, j)
				return err
			}},
		{method: "Data", reads: true, answers: []string{inspectMember, inspected("exited", "always")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { _, err := m.Data(ctx, j); return err }},
		{method: "StartContainer", answers: []string{inspectMember, inspected("exited", "always"), "POST /containers/c1/start", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.StartContainer(ctx, j) }},
		{method: "KeepRunning", answers: []string{inspectMember, inspected("running", "no"), "POST /containers/c1/update", "{}"},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.KeepRunning(ctx, j) }},
		{method: "StopContainer", answers: []string{inspectMember, inspected("running", "always"), "POST /containers/c1/update", "{}", "POST /containers/c1/stop", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.StopContainer(ctx, j, time.Second) }},
		{method: "RemoveContainer", answers: []string{inspectMember, inspected("exited", "no"), "DELETE /containers/c1", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.RemoveContainer(ctx, j) }},
		{method: "MarkOver", answers: []string{"GET /volumes", `{"Volumes":[{"Name":"cke-over.demo.1","Labels":{"cke.cluster":"demo","cke.over":"a"}}]}`,
			"POST /volumes/create", `{"Name":"cke-over.demo.c8687a08aa5d6ed2","Labels":{"cke.cluster":"demo","cke.over":"a b"}}`, "DELETE /volumes/cke-over.demo.1", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				return m.MarkOver(ctx, "demo", []string{"b"})
			}},
		{method: "RemoveVolume", answers: []string{"GET /volumes/etcd-cke.j1", volumeIn(""), "DELETE /volumes/etcd-cke.j1", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.RemoveVolume(ctx, j) }},
		{method: "RemoveVolume", answers: append([]string{"GET /volumes/etcd-cke.j1", volumeIn("/srv/etcd/etcd-cke.j1"), "DELETE /volumes/etcd-cke.j1", ""}, helper...),
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.RemoveVolume(ctx, inDir) }},
		{method: "DataSize", reads: true, answers: []string{inspectMember, inspected("running", "always")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { _, err := m.DataSize(ctx, j); return err }},
		{method: "Clock", reads: true, call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { _, err := m.Clock(ctx); return err }},
		{method: "Container", reads: true, answers: []string{inspectMember, inspected("exited", "always")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { _, err := m.Container(ctx, j); return err }},
		{method: "Foreign", reads: true, answers: []string{"GET /containers/f1/json", fencedForeign},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { _, err := m.Foreign(ctx, "f1"); return err }},
		{method: "StopForeign", answers: []string{"GET /containers/f1/json", fencedForeign, "POST /containers/f1/update", "{}", "POST /containers/f1/stop", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				return m.StopForeign(ctx, "f1", []string{"https://10.0.0.4:2380"}, time.Second)
			}},
		{method: "RestoreData", answers: []string{inspectMember, inspected("created", "no"), "POST /containers/create", `{"Id":"o1"}`, "PUT /containers/o1/archive", "",
			"POST /containers/o1/start", "", "POST /containers/o1/wait", `{"StatusCode":0}`, "DELETE /containers/o1", ""},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error {
				return m.RestoreData(ctx, cke.RestoreSpec{Member: spec, Snapshot: cke.Snapshot{Size: int64(len(snapshot)), Digest: "d"}},
					func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(snapshot)), nil }, func(string) {})
			}},
		{method: "SaveData", reads: true, answers: []string{inspectMember, inspected("exited", "no")},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { return m.SaveData(ctx, j, io.Discard) }},
		{method: "Boot", answers: []string{"GET /images/etcd:v3/json", "{}", "POST /containers/create", `{"Id":"v1"}`},
			call: func(ctx context.Context, _ *Fleet, m cke.Machine) error { // as a visit
				_, err := m.Boot(ctx, "etcd:v3")
				if errors.Is(err, cke.ErrNotFound) && !errors.Is(err, cke.ErrDeposed) {
					return nil
				}
				return err
			}},
		{method: "Visit", answers: []string{"GET /images/etcd:v3/json", "{}", "POST /containers/create", `{"Id":"v1"}`},
			call: func(ctx context.Context, f *Fleet, _ cke.Machine) error { // the fake engine takes no files of it: it is removed again
				_, err := f.Visit(ctx, node, Visit{Image: "etcd:v3", Program: []byte("x")}, func(context.Context) error { return nil })
				if errors.Is(err, cke.ErrNotFound) && !errors.Is(err, cke.ErrDeposed) {
					return nil
				}
				return err
			}},
	}
}

// methodsOf are the names of a port's methods.
func methodsOf[T any]() (names []string) {
	for port, i := reflect.TypeFor[T](), 0; i < port.NumMethod(); i++ {
		names = append(names, port.Method(i).Name)
	}
	return names
}

func TestFence_NoRequestChangesAnythingOnANodeOnceTheTermIsOver(t *testing.T) {
	t.Parallel()
	node := newFakeNode(t, "127.0.30.1", "ed25519", "ed25519")
	var d deposal
	fleet := fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		c.Guard, c.Program = d.guard, func() ([]byte, error) { return []byte("x"), nil }
	}, node)
	m := fleet.Machine(node.node)
	if _, err := m.Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	node.engine.mu.Lock()
	node.engine.heard = func(request string) { d.heard(request, changesEngine(request)) }
	blank := node.engine.answers
	node.engine.mu.Unlock()
	acts := engineActs(node.node)
	for _, method := range methodsOf[cke.Machine]() {
		if !slices.ContainsFunc(acts, func(a engineAct) bool { return a.method == method }) {
			t.Errorf("%s is not played: write down what it asks of an engine", method)
		}
	}
	for _, a := range acts {
		node.engine.mu.Lock()
		node.engine.answers = map[string]string{}
		for request, body := range blank {
			node.engine.answers[request] = body
		}
		for i := 0; i < len(a.answers); i += 2 {
			node.engine.answers[a.answers[i]] = a.answers[i+1]
		}
		node.engine.mu.Unlock()
		d.begin(1000)
		err := a.call(t.Context(), fleet, m)
		asked := slices.Clone(d.answered)
		if changed := slices.ContainsFunc(asked, writesEngine); changed == a.reads || !a.reads && err != nil {
			t.Errorf("%s: changes something: %v; %v; asked %q", a.method, changed, err, asked)
		}
		for k := range asked {
			d.begin(k)
			err := a.call(t.Context(), fleet, m)
			if d.late != nil {
				t.Errorf("%s, deposed after %q: %q", a.method, asked[:k], d.late)
			}
			if slices.ContainsFunc(asked[k:], changesEngine) && !errors.Is(err, cke.ErrDeposed) {
				t.Errorf("%s, deposed after %q: %v", a.method, asked[:k], err)
			}
		}
	}
}

func TestFence_NoRequestChangesAnythingThroughAMemberOnceTheTermIsOver(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	member, c := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), ca.TLS("cke")
	var d deposal
	f := New(Config{ClientTLS: func(context.Context) (*tls.Config, error) { return c, nil }, Guard: d.guard, Probe: time.Hour})
	t.Cleanup(f.Close)
	reads := map[string]bool{"Endpoint": true, "Members": true, "Listed": true, "HashKV": true, "Auth": true, "Users": true}
	port, url := reflect.ValueOf(cke.Etcd(f)), member.url()
	arguments := map[string][]any{
		"Endpoint": {url}, "Members": {url}, "Listed": {url}, "AddLearner": {url, "https://127.0.0.1:2380"}, "Promote": {url, "b2"}, "RemoveMember": {url, "b2"},
		"MoveLeader": {url, "b2"}, "UpdateMember": {url, "b2", "https://127.0.0.1:2380"}, "HashKV": {url, int64(7)}, "Compact": {url, int64(7)},
		"Defragment": {url}, "Arm": {url, cke.Alarm{MemberID: "b2", Kind: "CORRUPT"}}, "Disarm": {url, cke.Alarm{MemberID: "b2", Kind: "NOSPACE"}}, "ProveWrite": {url},
		"Auth": {url}, "AdmitSelf": {url}, "SetAuth": {url, true},
		"Users": {url}, "Permit": {url, "a", cke.Grant{KeyRange: cke.PrefixRange("/a/")}}, "Forbid": {url, "a", cke.PrefixRange("/a/")}, "RemoveUser": {url, "a"},
	}
	member.set(func() {
		member.heardOf = func(method string) { d.heard(method, !readMethods[method]) }
	})
	for _, method := range methodsOf[cke.Etcd]() {
		given, known := arguments[method]
		if !known {
			t.Errorf("%s is not played: write down its arguments", method)
			continue
		}
		call := func() (err error) {
			values := []reflect.Value{reflect.ValueOf(t.Context())}
			for _, a := range given {
				values = append(values, reflect.ValueOf(a))
			}
			out := port.MethodByName(method).Call(values)
			err, _ = out[len(out)-1].Interface().(error)
			return err
		}
		d.begin(1000)
		_ = call() // the fake member does not know all of them: what counts is what it is asked
		asked := slices.Clone(d.answered)
		if changed := slices.ContainsFunc(asked, func(m string) bool { return !readMethods[m] }); changed == reads[method] || asked == nil {
			t.Errorf("%s asked %q", method, asked)
		}
		for k := range asked {
			d.begin(k)
			err := call()
			if d.late != nil {
				t.Errorf("%s, deposed after %q: %q", method, asked[:k], d.late)
			}
			if !reads[method] && !errors.Is(err, cke.ErrDeposed) {
				t.Errorf("%s, deposed after %q: %v", method, asked[:k], err)
			}
		}
	}
}

// The look for alarms is a method that changes alarms as well.
func TestFence_KnowsAQuestionForAlarmsFromAChange(t *testing.T) {
	t.Parallel()
	ca := NewTestCA(t)
	member, c := newFakeEtcd(t, ca.TLS("server", "127.0.0.1")), ca.TLS("cke")
	member.set(func() { member.status.Errors = []string{"memberID:161 alarm:NOSPACE"} })
	f := New(Config{ClientTLS: func(context.Context) (*tls.Config, error) { return c, nil }, Guard: func() error { return cke.ErrDeposed }, Probe: time.Hour})
	t.Cleanup(f.Close)
	e, err := f.member(member.url())
	if err != nil {
		t.Fatal(err)
	}
	if facts := e.ask(t.Context(), true, endpointFacts{}); member.count("alarm") != 1 || facts.status.Problem != "" {
		t.Errorf("asked for alarms %d times; %+v", member.count("alarm"), facts.status)
	}
}

// Getting a connection takes time, and so does sending a long body: the term may end meanwhile.
func TestFence_AsksAgainWhenTheRequestIsWritten(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"while it connects", "while it sends"} {
		var d deposal
		d.begin(1)
		ours, theirs := net.Pipe()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			if when == "while it connects" {
				d.heard("a connection", false)
			}
			return &fencedConn{Conn: ours, heard: func() {}}, nil
		}}
		arrived := make(chan int64, 1)
		go func() {
			n, _ := io.Copy(io.Discard, firstChunk{theirs, func() { d.heard("a part", false) }})
			arrived <- n
		}()
		body := bytes.NewReader(make([]byte, 1<<20))
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://engine/containers/c1/archive", body)
		_, err := fencedTransport{d.guard, transport}.RoundTrip(r)
		if !errors.Is(err, cke.ErrDeposed) {
			t.Errorf("%s: %v", when, err)
		}
		ours.Close()
		if n := <-arrived; when == "while it connects" && n > 0 || n > 1<<18 {
			t.Errorf("%s: %d bytes arrived", when, n)
		}
	}
}

// firstChunk calls did after the first bytes have come.
type firstChunk struct {
	io.Reader
	did func()
}

func (f firstChunk) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if n > 0 {
		f.did()
	}
	return n, err
}
