package etcdnode

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"cke"
)

// nodeAccess is all that a Fleet holds of one node.
type nodeAccess struct {
	fleet *Fleet
	node  cke.Node
	link  *link
	watch *watch[nodeFacts] // nil until the node is observed; guarded by Fleet.mu

	ctx    context.Context // ends with the access
	cancel context.CancelFunc
	done   chan struct{} // closed when listen has ended; nil until the node is observed
	want   chan struct{} // cap 1: the link or the engine moved

	mu      sync.Mutex
	refused string // the pinned host key that the node did not show; empty: it did
	offered string // the key that it showed instead
}

func newNodeAccess(f *Fleet, n cke.Node) *nodeAccess {
	a := &nodeAccess{fleet: f, node: n, want: make(chan struct{}, 1)}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.link = newLink(n, a.connect, a.moved)
	return a
}

// connect is one attempt of the link's.
func (a *nodeAccess) connect(ctx context.Context) (*session, error) {
	pinned := a.fleet.pinnedKey(a.node)
	check, err := a.fleet.hostKeyCheck(a.node, pinned)
	if err != nil {
		return nil, err
	}
	s, err := a.fleet.connect(ctx, a.node, check, a.moved)
	a.mu.Lock()
	a.refused = ""
	offer := ""
	if cke.CodeOf(err) == cke.CodeHostKey {
		a.refused = pinned
		if check.shown != nil && a.offered != keyLine(check.shown) {
			a.offered = keyLine(check.shown)
			offer = a.offered
		}
	}
	a.mu.Unlock()
	if offer != "" && a.fleet.config.HostKeys != nil {
		a.fleet.config.HostKeys.Offered(ctx, a.node.Address, offer)
	}
	return s, err
}

// keyAccepted reports whether another host key is pinned than the one that the node did not show.
func (a *nodeAccess) keyAccepted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != "" && a.refused != a.fleet.pinnedKey(a.node)
}

// moved asks for a fresh look.
func (a *nodeAccess) moved() {
	select {
	case a.want <- struct{}{}:
	default:
	}
}

// observe begins to look at the node, if that has not begun. Fleet.mu is held.
func (a *nodeAccess) observe() {
	if a.watch != nil {
		return
	}
	a.done = make(chan struct{})
	a.watch = newWatch(a.fleet.config.Probe, a.look, func(old, new nodeFacts) {
		if !old.sameNews(new) {
			a.fleet.wake()
		}
	})
	go func(w *watch[nodeFacts]) {
		defer close(a.done)
		a.listen(w)
	}(a.watch)
}

// close ends the access and returns when nothing of it is left.
func (a *nodeAccess) close() {
	a.cancel()
	a.link.close()
	if a.watch != nil {
		a.watch.close()
		<-a.done
	}
}

// eventsRetry is the pause before the event stream of an engine that ended is opened again.
const eventsRetry = 500 * time.Millisecond

// listen turns the engine's events and the link's moves into looks and wake-ups until the access ends.
func (a *nodeAccess) listen(w *watch[nodeFacts]) {
	var following *session
	var broke chan struct{}
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-a.ctx.Done():
			if broke != nil {
				<-broke
			}
			return
		case <-a.want:
			w.want()
		case <-broke:
			broke, following = nil, nil
			w.want()
			retry.Reset(eventsRetry/2 + rand.N(eventsRetry))
			continue
		case <-retry.C:
		}
		s := a.link.now()
		if s == nil || s == following || broke != nil {
			continue
		}
		following, broke = s, make(chan struct{})
		go func(done chan struct{}) {
			defer close(done)
			a.follow(s, w)
		}(broke)
	}
}

// follow reads one event stream to its end, which comes with the session at the latest.
func (a *nodeAccess) follow(s *session, w *watch[nodeFacts]) {
	err := s.engine.events(s.ctx, func() { w.want() }, func(c cke.Container) {
		if c.Name == "" || a.fleet.currentScope().carriesEtcd(c) {
			a.fleet.wake()
			w.want()
		}
	})
	if s.ctx.Err() == nil {
		a.fleet.log.Debug("event stream ended", "node", a.node.Name(), "error", err)
	}
}
