package etcdnode

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cke"
)

// nodeAccess is all that a Fleet holds of one node.
type nodeAccess struct {
	fleet *Fleet
	node  cke.Node
	link  *link
	watch atomic.Pointer[watch[nodeFacts]] // nil until the node is observed
	// hears: the engine's events are followed.
	hears atomic.Bool

	mu      sync.Mutex
	refused string // the pinned host key that the node did not show; empty: it did
	offer   offer
}

// offer is the key that a node shows instead of the pinned one, as it was handed over for the operator to accept.
type offer struct {
	pinned, shown string
	at            time.Time
}

// offerEvery is the least time between two keys of one node that are handed over while the pinned one stays the same. A
// host that shows another one at each connection would have each of them stored.
const offerEvery = 10 * time.Minute

// next returns the offer after this one, and whether it is to be handed over.
func (o offer) next(pinned, shown string, now time.Time) (offer, bool) {
	if o.pinned == pinned && (o.shown == shown || now.Sub(o.at) < offerEvery) {
		return o, false
	}
	return offer{pinned, shown, now}, true
}

func newNodeAccess(f *Fleet, n cke.Node) *nodeAccess {
	a := &nodeAccess{fleet: f, node: n}
	a.link = newLink(n, a.connect, a.moved)
	return a
}

// moved asks for a fresh look at everything, if the node is observed.
func (a *nodeAccess) moved() {
	if w := a.watch.Load(); w != nil {
		w.want()
	}
}

// connect is one attempt of the link's.
func (a *nodeAccess) connect(ctx context.Context) (s *session, err error) {
	defer a.fleet.faults.catch("connect to "+a.node.Name(), &err)
	pinned := a.fleet.pinnedKey(a.node)
	check, err := a.fleet.hostKeyCheck(a.node, pinned)
	if err != nil {
		return nil, err
	}
	s, err = a.fleet.connect(ctx, a.node, check, a.moved)
	a.mu.Lock()
	a.refused = ""
	handOver := false
	if cke.CodeOf(err) == cke.CodeHostKey {
		a.refused = pinned
		if check.shown != nil {
			a.offer, handOver = a.offer.next(pinned, keyLine(check.shown), time.Now())
		}
	}
	shown := a.offer.shown
	a.mu.Unlock()
	if err == nil {
		s.spawn(func() { a.follow(s) })
	}
	if handOver && a.fleet.config.HostKeys != nil {
		ctx, cancel := context.WithTimeout(ctx, allowed(dialLimit))
		defer cancel()
		a.fleet.config.HostKeys.Offered(ctx, a.node.Address, shown)
	}
	if connected := a.fleet.config.Connected; connected != nil && ctx.Err() == nil {
		connected(err)
	}
	return s, err
}

// keyAccepted reports whether another host key is pinned than the one that the node did not show.
func (a *nodeAccess) keyAccepted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != "" && a.refused != a.fleet.pinnedKey(a.node)
}

// observe starts to look at the node, if that has not started. changed: other things are looked for than before. Fleet.mu is held.
func (a *nodeAccess) observe(changed bool) {
	if w := a.watch.Load(); w != nil {
		if changed {
			w.doubt()
		}
		return
	}
	a.watch.Store(newWatch(a.fleet.config.Probe, a.look, func(old, new nodeFacts, late bool) {
		news := !old.sameNews(new)
		if news || late && new.status.Problem == nil {
			a.fleet.wake()
		}
		if news {
			a.fleet.tell()
		}
	}))
}

// close ends the access and returns when nothing of it is left.
func (a *nodeAccess) close() {
	a.link.close()
	if w := a.watch.Load(); w != nil {
		w.close()
	}
}

// eventsRetry is the pause before an event stream that broke is opened again, half to one and a half of it.
const eventsRetry = 500 * time.Millisecond

// follow turns the engine's events into looks and wake-ups until the session ends.
func (a *nodeAccess) follow(s *session) {
	for s.ctx.Err() == nil {
		opened := func() {
			a.hears.Store(true)
			a.moved()
		}
		err := s.engine.events(s.ctx, opened, func(c cke.Container) {
			if sc := a.fleet.currentScope(); c.Name == "" || sc.carriesEtcd(c) || strings.HasPrefix(c.Name, marksPrefix(sc.cluster)) {
				a.fleet.wake()
				a.moved()
			}
		})
		a.hears.Store(false)
		if s.ctx.Err() != nil {
			return
		}
		a.fleet.log.Debug("event stream ended", "node", a.node.Name(), "error", err)
		s.engine.disagree()
		a.moved()
		select {
		case <-s.ctx.Done():
		case <-time.After(eventsRetry/2 + rand.N(eventsRetry)):
		}
	}
}
