package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/server"
)

// lockStore is a store with clusters and their reboot queues.
type lockStore struct {
	mu       sync.Mutex
	clusters map[string]cke.Cluster
	requests map[string]*cke.Requests
	identity cke.Identity
	leader   bool
	down     error
	edits    int
	changed  chan struct{}
	edited   chan struct{} // of changes by agents
}

func newLockStore() *lockStore {
	s := &lockStore{leader: true, clusters: map[string]cke.Cluster{}, requests: map[string]*cke.Requests{}, changed: make(chan struct{}, 100), edited: make(chan struct{}, 100)}
	for i, name := range []string{"prod", "test"} {
		c := cke.Cluster{Name: name, Reboot: cke.RebootOptions{FleetLock: true}}
		for k := range 3 {
			n := cke.Node{Hostname: []string{"n1", "n2", "n3"}[k], Address: netip.AddrFrom4([4]byte{10, byte(i), 0, byte(k + 1)}).String()}
			if n.Hostname == "n2" {
				n.Annotations = map[string]string{cke.AnnotationAgent: "cafe" + name}
			}
			c.Nodes = append(c.Nodes, n)
		}
		s.clusters[name], s.requests[name] = c, &cke.Requests{}
	}
	return s
}

func (s *lockStore) Clusters(context.Context) ([]string, error) {
	return []string{"prod", "test"}, s.down
}

func (s *lockStore) Spec(_ context.Context, cluster string) (cke.Spec, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cke.Spec{Cluster: s.clusters[cluster]}, s.down
}

func (s *lockStore) Leader(context.Context, string) (cke.Leader, error) {
	if !s.leader {
		return cke.Leader{}, cke.ErrNotFound
	}
	return cke.Leader{}, nil
}

func (s *lockStore) Identity(context.Context, string) (cke.Identity, error) {
	return s.identity, s.down
}

func (s *lockStore) RequestsOf(_ context.Context, cluster string) (cke.Requests, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := *s.requests[cluster]
	r.Reboots.Entries, r.Repairs.Entries = slices.Clone(r.Reboots.Entries), slices.Clone(r.Repairs.Entries)
	return r, s.down
}

func (s *lockStore) EditQueue(_ context.Context, cluster string, kind cke.QueueKind, _ string, edit func(cke.Queue) (cke.Queue, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := edit(*s.requests[cluster].Queue(kind))
	if err == nil {
		*s.requests[cluster].Queue(kind) = q
		s.edits++
		s.edited <- struct{}{}
	}
	return err
}

func (s *lockStore) Changed(ctx context.Context, _ string) <-chan struct{} {
	out := make(chan struct{})
	go func() {
		defer close(out)
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.changed:
				select {
				case out <- struct{}{}:
				case <-ctx.Done():
				}
			}
		}
	}()
	return out
}

// leads moves the entry of n2 in prod as the leader does.
func (s *lockStore) leads(t *testing.T, do func(*cke.Entry)) {
	t.Helper()
	s.mu.Lock()
	r := s.requests["prod"].Reboots.Of("10.0.0.2")
	if r != nil {
		do(r)
	}
	s.mu.Unlock()
	if r == nil {
		t.Fatal("n2 is not in the queue")
	}
	s.changed <- struct{}{}
}

func (s *lockStore) entry() *cke.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests["prod"].Reboots.Of("10.0.0.2")
	if r == nil {
		return nil
	}
	copied := *r
	return &copied
}

// daemon is FleetLock of a daemon with this store.
func (s *lockStore) daemon(hold time.Duration) http.Handler {
	return server.FleetLock{Store: s, Proxies: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}, Now: time.Now, Log: slog.New(slog.DiscardHandler), Hold: hold}.Handler()
}

// request asks as a machine does, and returns the code and the kind of the answer.
func request(t *testing.T, h http.Handler, from, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("fleet-lock-protocol", "true")
	r.RemoteAddr = from + ":4711"
	return answerTo(t, h, r)
}

func answerTo(t *testing.T, h http.Handler, r *http.Request) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var a struct{ Kind, Value string }
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil && w.Code != http.StatusMethodNotAllowed && w.Code != http.StatusNotFound {
		t.Errorf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code >= 400 && a.Kind != "" && a.Value == "" {
		t.Errorf("%d %s has no text", w.Code, a.Kind)
	}
	return w.Code, a.Kind
}

const cafe = `{"client_params": {"id": "cafeprod", "group": "default"}}`

// A machine asks, waits, may go, says that it is back; each may be repeated, to any of two daemons.
func TestFleetLock_FromQueuedToReleased(t *testing.T) {
	s := newLockStore()
	one, two := s.daemon(time.Millisecond), s.daemon(time.Minute)
	is := func(h http.Handler, path string, code int, kind string) {
		t.Helper()
		if c, k := request(t, h, "10.0.0.2", path, cafe); c != code || k != kind {
			t.Errorf("%s: %d %s, want %d %s", path, c, k, code, kind)
		}
	}
	is(one, server.FleetLockRelease, 200, "") // as an agent does when it starts
	if s.edits != 0 {
		t.Errorf("%d edits for nothing", s.edits)
	}
	is(one, server.FleetLockAsk, 409, "wait")
	is(one, server.FleetLockAsk, 409, "wait")
	<-s.edited
	if r := s.entry(); r == nil || r.Agent != "cafeprod" || r.State != cke.EntryQueued || s.edits != 1 {
		t.Fatalf("%+v, %d edits", r, s.edits)
	}
	s.leads(t, func(r *cke.Entry) { r.To(cke.EntryLeased, time.Now()) })
	is(one, server.FleetLockAsk, 409, "wait")
	s.leads(t, func(r *cke.Entry) { r.AskedAt = time.Now().Add(-time.Minute) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		is(two, server.FleetLockAsk, 200, "")
	}()
	<-s.edited
	if s.entry().AskedAt.Before(time.Now().Add(-50 * time.Second)) {
		t.Error("that it asked again is not on record")
	}
	is(two, server.FleetLockAsk, 409, "wait") // beside the one that waits
	s.leads(t, func(r *cke.Entry) { r.To(cke.EntryRebooting, time.Now()); r.StartedAt, r.Attempt = r.Since, 1 })
	<-done
	s.leads(t, func(r *cke.Entry) { r.AskedAt = time.Now().Add(-time.Minute) })
	is(one, server.FleetLockAsk, 200, "") // the answer was lost
	if s.entry().AskedAt.Before(time.Now().Add(-50 * time.Second)) {
		t.Error("that it asked while it may reboot is not on record")
	}
	is(two, server.FleetLockRelease, 200, "")
	if s.entry().CommandEndedAt.IsZero() {
		t.Error("not released")
	}
	is(one, server.FleetLockRelease, 200, "")
	is(one, server.FleetLockAsk, 409, "returning")
	s.leads(t, func(r *cke.Entry) { r.To(cke.EntryReturning, time.Now()) })
	is(one, server.FleetLockAsk, 409, "returning")
	is(one, server.FleetLockRelease, 200, "")
	s.leads(t, func(r *cke.Entry) { r.State = cke.EntryFailed })
	is(one, server.FleetLockAsk, 409, "failed")
	is(one, server.FleetLockRelease, 200, "")
	if r := s.entry(); r != nil {
		t.Errorf("%+v", r)
	}
}

// A machine that withdraws its request before its turn leaves nothing in the history: an agent may do so any number of times.
func TestFleetLock_AWithdrawnRequestLeavesNoHistory(t *testing.T) {
	s := newLockStore()
	h := s.daemon(time.Millisecond)
	request(t, h, "10.0.0.2", server.FleetLockAsk, cafe)
	if c, _ := request(t, h, "10.0.0.2", server.FleetLockRelease, cafe); c != 200 || s.entry() != nil || s.requests["prod"].Reboots.History != nil {
		t.Errorf("%d %+v %+v", c, s.entry(), s.requests["prod"].Reboots.History)
	}
}

// What stands against a reboot is said, and nothing is granted.
func TestFleetLock_Refuses(t *testing.T) {
	now := time.Now()
	granted := cke.Entry{ID: "r", Node: "n2", Address: "10.0.0.2", Agent: "cafeprod", State: cke.EntryRebooting, StartedAt: now, AskedAt: now}
	with := func(do func(*cke.Entry)) func(*lockStore) {
		return func(s *lockStore) {
			r := granted
			do(&r)
			s.requests["prod"].Reboots.Entries = []cke.Entry{r}
		}
	}
	for name, row := range map[string]struct {
		change func(*lockStore)
		code   int
		kind   string
	}{
		"granted":             {with(func(*cke.Entry) {}), 200, ""},
		"no leader":           {func(s *lockStore) { s.leader = false }, 503, "no_leader"},
		"no store":            {func(s *lockStore) { s.down = errors.New("away") }, 503, "unavailable"},
		"canceled":            {with(func(r *cke.Entry) { r.Canceled = true }), 409, "canceled"},
		"an operator's entry": {with(func(r *cke.Entry) { r.Agent = "" }), 409, "queued"},
		"late":                {with(func(r *cke.Entry) { r.StartedAt = now.Add(-16 * time.Minute) }), 409, "late"},
		"paused": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.requests["prod"].Hold = &cke.Hold{}
		}, 409, "paused"},
		"frozen": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.identity.Freeze = &cke.Freeze{Kind: cke.FreezeTwoQuorums}
		}, 409, "frozen"},
		"hibernated": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.requests["prod"].Hibernation = &cke.Hibernation{}
		}, 409, "hibernated"},
		"its member has a lease": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.identity.Joins = []cke.Join{{ID: "j", Node: s.clusters["prod"].Nodes[1]}}
			s.requests["prod"].Drains = []cke.Drain{{Node: "n2", Entry: "r", Until: now.Add(time.Hour)}}
		}, 200, ""},
		"its lease is over": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.identity.Joins = []cke.Join{{ID: "j", Node: s.clusters["prod"].Nodes[1]}}
			s.requests["prod"].Drains = []cke.Drain{{Node: "n2", Entry: "r", Until: now.Add(-time.Second)}}
		}, 409, "late"},
		"asked for in an older store": {func(s *lockStore) {
			with(func(*cke.Entry) {})(s)
			s.identity.Freeze = &cke.Freeze{Kind: cke.FreezeOlderStore, Held: cke.HoldRequests(time.Time{}, *s.requests["prod"])}
		}, 409, "held"},
		"not switched on": {func(s *lockStore) {
			c := s.clusters["prod"]
			c.Reboot = cke.RebootOptions{Command: "x"}
			s.clusters["prod"] = c
		}, 403, "not_allowed"},
		"twice": {func(s *lockStore) { s.clusters["test"] = s.clusters["prod"] }, 403, "not_allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLockStore()
			row.change(s)
			if c, k := request(t, s.daemon(time.Millisecond), "10.0.0.2", server.FleetLockAsk, cafe); c != row.code || k != row.kind {
				t.Errorf("%d %s, want %d %s", c, k, row.code, row.kind)
			}
		})
	}
}

// A machine asks only for itself, unless a proxy asks for it.
func TestFleetLock_WhoMayAsk(t *testing.T) {
	for _, row := range []struct {
		from, id, group string
		code            int
	}{
		{"10.0.0.2", "cafeprod", "default", 409},
		{"10.0.0.2", "cafeprod", "prod", 409},
		{"[::ffff:10.0.0.2]", "cafeprod", "prod", 409},
		{"10.0.0.2", "cafeprod", "test", 403},
		{"10.0.0.2", "n2", "prod", 403}, // it has an id of its own
		{"10.0.0.1", "n1", "prod", 409},
		{"10.0.0.1", "cafeprod", "prod", 403},
		{"10.0.0.3", "n1", "default", 403},
		{"10.9.0.8", "cafeprod", "prod", 409},
		{"10.9.1.8", "cafeprod", "prod", 403},
		{"10.9.0.8", "n1", "default", 403}, // of which cluster?
		{"127.0.0.1", "n1", "prod", 403},
	} {
		s := newLockStore()
		body, _ := json.Marshal(map[string]any{"client_params": map[string]string{"id": row.id, "group": row.group}})
		if c, k := request(t, s.daemon(time.Millisecond), row.from, server.FleetLockAsk, string(body)); c != row.code {
			t.Errorf("%+v: %d %s", row, c, k)
		}
		if row.code == 403 && s.edits > 0 {
			t.Errorf("%+v: changed the queue", row)
		}
	}
}

// What is no request of the protocol is refused, and read no further than a bound.
func TestFleetLock_HostileInput(t *testing.T) {
	s := newLockStore()
	h := s.daemon(time.Millisecond)
	for name, body := range map[string]string{
		"empty": "", "no JSON": "id=n1", "a list": "[]", "cut": `{"client_params": {"id": "n1"`, "no params": "{}", "no group": `{"client_params": {"id": "n1"}}`,
		"two": cafe + cafe, "garbage after it": cafe + "x", "a number": `{"client_params": {"id": 7, "group": "prod"}}`,
		"a long id":   `{"client_params": {"id": "` + strings.Repeat("a", 200) + `", "group": "prod"}}`,
		"a huge body": `{"client_params": {"id": "` + strings.Repeat("a", 1<<20) + `", "group": "prod"}}`,
		"line breaks": `{"client_params": {"id": "n1\nn2", "group": "prod"}}`,
		"a path":      `{"client_params": {"id": "../n1", "group": "prod"}}`,
	} {
		for _, path := range []string{server.FleetLockAsk, server.FleetLockRelease} {
			if c, k := request(t, h, "10.0.0.1", path, body); c != 400 || k != "bad_request" {
				t.Errorf("%s: %d %s", name, c, k)
			}
		}
	}
	r := httptest.NewRequest(http.MethodPost, server.FleetLockAsk, strings.NewReader(cafe))
	r.RemoteAddr = "10.0.0.2:1"
	if c, k := answerTo(t, h, r); c != 400 || k != "bad_request" {
		t.Errorf("without the header: %d %s", c, k)
	}
	r = httptest.NewRequest(http.MethodGet, server.FleetLockAsk, nil)
	if c, _ := answerTo(t, h, r); c != 405 {
		t.Errorf("GET: %d", c)
	}
	if s.edits > 0 {
		t.Error("the queue was changed")
	}
}
