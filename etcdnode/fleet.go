package etcdnode

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"cke"
)

// Config is what a Fleet works with. Collaborators are passed in.
type Config struct {
	// Keys returns the private key (PEM) to log in to a node. cke.ErrNotFound: there is none.
	Keys func(ctx context.Context, n cke.Node) ([]byte, error)
	// AgentSocket is where an ssh-agent listens (usually $SSH_AUTH_SOCK); its keys are tried after those of Keys. Empty:
	// none.
	AgentSocket string
	// HostKeys remembers host keys. nil: only nodes with a host key in the cluster file can be reached.
	HostKeys HostKeys
	// Archives has images that nodes lack; fleets may share it. nil: there are none.
	Archives *Archives
	// Login returns the name and password for a registry, as names of images have it; an empty name: pulls need no
	// login. It is called before each pull. nil: none does.
	Login func(registry string) (username, password string, err error)
	// ClientTLS returns what cke presents to members; called at each handshake. nil result: no certificate authority
	// yet.
	ClientTLS func(ctx context.Context) (*tls.Config, error)
	// OldTLS is ClientTLS for the members of an old cluster, see cke.Import. nil: they are asked only without TLS.
	OldTLS func(ctx context.Context) (*tls.Config, error)
	// Guard is called before every change on a node or through a member. It returns cke.ErrDeposed once the term is
	// over. nil: everything is allowed.
	Guard func() error
	// Beside: another process changes the nodes meanwhile, so files in containers are not read: with an engine before
	// 23.0 that could cost a member its data; see reach. The content of containers is unknown then.
	Beside bool
	// Program returns the probe, which runs on nodes for a moment; nil: it is read beside this program.
	Program func() ([]byte, error)
	// Connected, if set, is called after each attempt to connect to a node; nil: it succeeded.
	Connected func(error)
	// Probe is how often each node and member is probed without other reasons; default probeEvery.
	Probe time.Duration
	// Handshakes bounds the SSH handshakes that all fleets that share it compute at once: a handshake costs 3 ms of CPU
	// here, and thousands at once would all miss their deadlines. A silent node takes none. nil: no bound.
	Handshakes *semaphore.Weighted
	Log        *slog.Logger // nil: silent
}

// Fleet is the access to the nodes and members of one cluster. It dials a node at its first use or once Update
// declares it, and keeps the connection until the node is neither declared nor carries a membership.
type Fleet struct {
	config  Config
	log     *slog.Logger
	changed chan struct{} // cap 1

	faults   faults
	segments segments
	looks    certificateLooks
	reach    reach
	proposal time.Duration // how long a request that goes through raft may take
	mu       sync.Mutex
	closed   bool
	scope    scope
	nodes    map[string]*nodeAccess // by address
	members  map[string]*endpoint   // by client URL
	everSeen bool                   // an observation has been made
	stopped  map[cke.JoinID]bool    // members whose container the last observation saw stopped
	news     chan struct{}          // closed, and made again, when an observation of a node has told something new
}

var (
	_ cke.Machines = (*Fleet)(nil)
	_ cke.Etcd     = (*Fleet)(nil)
)

// scope is what the fleet looks at, as Update told it.
type scope struct {
	cluster    string
	volumeName string
	image      string
	clientPort int
	peerPort   int
	nodes      []cke.Node // declared, then those of joins that are declared no more
	joins      []cke.Join
	beside     []cke.Former // who are asked while a restore replaces them
	unlisted   []cke.Former // who are asked as long as no member list is read through a quorum
	old        *cke.Import  // nil: no import is under way, or was before a restore
	asked      []string     // client URLs of the members that are observed: those of joins, then those of old
	clusterID  string       // on record; empty: not known yet
	// stopped reports whether cke may have stopped the writes of the cluster of this id, which is not the one on record.
	stopped func(clusterID string) bool
}

// New returns a Fleet that knows no node yet. Close stops everything that it started.
func New(c Config) *Fleet {
	if c.Probe <= 0 {
		c.Probe = probeEvery
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Fleet{config: c, log: c.Log, faults: faults{log: c.Log}, reach: reach{beside: c.Beside, began: time.Now()}, proposal: allowed(proposalLimit), changed: make(chan struct{}, 1), news: make(chan struct{}), nodes: map[string]*nodeAccess{}, members: map[string]*endpoint{}}
}

// Machine implements cke.Machines.
func (f *Fleet) Machine(n cke.Node) cke.Machine { return machine{f, n} }

// Update sets what is observed; it may be called at any time. New nodes are dialed at once, removed ones
// disconnected.
func (f *Fleet) Update(spec cke.Cluster, identity cke.Identity, last ...cke.Member) {
	spec = spec.WithDefaults()
	o := spec.Options.Etcd
	sc := scope{cluster: spec.Name, volumeName: o.VolumeName, image: o.Image, clientPort: o.ClientPort, peerPort: o.PeerPort,
		nodes: slices.Clone(spec.Nodes), joins: slices.Clone(identity.Joins), beside: identity.AskedBeside(), unlisted: identity.AskedUnlisted(last), old: identity.Incarnation.BeforeRestores().Importing(), asked: identity.Asked(), stopped: identity.MayStopWritesOf}
	if inc := identity.Incarnation; inc != nil {
		sc.clusterID = inc.ClusterID
	}
	// Nodes of ended memberships are observed only while something on them is to be done.
	for _, j := range slices.Concat(identity.MayRun(), identity.Leaving(time.Now())) {
		if !slices.ContainsFunc(sc.nodes, func(n cke.Node) bool { return n.Address == j.Node.Address }) {
			sc.nodes = append(sc.nodes, j.Node)
		}
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	changed := !f.scope.equal(sc)
	f.scope = sc
	var gone []func()
	for address, a := range f.nodes {
		i := slices.IndexFunc(sc.nodes, func(n cke.Node) bool { return n.Address == address })
		if i < 0 || !sameAccess(a.node, sc.nodes[i]) {
			delete(f.nodes, address)
			gone = append(gone, a.close)
		}
	}
	for _, n := range sc.nodes {
		f.access(n).observe(changed)
	}
	for url, e := range f.members {
		if !slices.Contains(sc.asked, url) && e.idle() || e.old != sc.isOld(url) {
			delete(f.members, url)
			gone = append(gone, e.close)
		}
	}
	for _, url := range sc.asked {
		f.endpoint(url).observe()
	}
	f.mu.Unlock()
	for _, close := range gone {
		close()
	}
}

// isOld reports whether a client URL is that of a member of an old cluster, and of none of cke.
func (sc scope) isOld(url string) bool {
	return slices.Contains(sc.old.URLs(), url) && !slices.ContainsFunc(sc.joins, func(j cke.Join) bool { return j.ClientURL() == url })
}

// equal reports whether both say that the same is to be observed.
func (sc scope) equal(other scope) bool {
	sc.stopped, other.stopped = nil, nil // it is asked anew in each observation
	sc.unlisted, other.unlisted = nil, nil
	return reflect.DeepEqual(sc, other)
}

// sameAccess reports whether both are reached the same way and have one name: keys are kept by it, and commands name it.
func sameAccess(a, b cke.Node) bool {
	return a.Name() == b.Name() && a.Address == b.Address && a.User == b.User && a.SSHAddress() == b.SSHAddress() && a.SSH.HostKey == b.SSH.HostKey
}

// access returns the access to a node, as it is declared now if it is. f.mu is held.
func (f *Fleet) access(n cke.Node) *nodeAccess {
	if i := slices.IndexFunc(f.scope.nodes, func(d cke.Node) bool { return d.Address == n.Address }); i >= 0 {
		n = f.scope.nodes[i]
	}
	a, ok := f.nodes[n.Address]
	if !ok {
		a = newNodeAccess(f, n)
		f.nodes[n.Address] = a
	}
	return a
}

// session returns the connection to a node, dialing if need be. It takes the new access, once, when Update replaces the one
// that it waits for.
func (f *Fleet) session(ctx context.Context, n cke.Node) (s *session, err error) {
	for range 2 {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, errClosed
		}
		a := f.access(n)
		f.mu.Unlock()
		if s, err = a.link.get(ctx); !errors.Is(err, errClosed) {
			break
		}
	}
	return s, err
}

// guard returns an error when nothing may be changed any more.
func (f *Fleet) guard() error {
	if f.config.Guard == nil {
		return nil
	}
	return f.config.Guard()
}

// Changed receives after a possible change; wake-ups are coalesced.
func (f *Fleet) Changed() <-chan struct{} { return f.changed }

func (f *Fleet) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// tell ends the waits for news of nodes.
func (f *Fleet) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.news)
	f.news = make(chan struct{})
}

// Close closes all connections and returns when nothing of them is left. Calls under way fail.
func (f *Fleet) Close() {
	f.mu.Lock()
	f.closed = true
	var wg sync.WaitGroup
	for _, a := range f.nodes {
		wg.Go(a.close)
	}
	for _, e := range f.members {
		wg.Go(e.close)
	}
	f.nodes, f.members = map[string]*nodeAccess{}, map[string]*endpoint{}
	f.mu.Unlock()
	wg.Wait()
}

// Retry makes every node that is not connected try at once instead of pausing: a key or a host key that it waited for
// may exist now.
func (f *Fleet) Retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.nodes {
		if a.link.now() == nil {
			a.link.poke()
		}
	}
}

// wantNode asks for an observation of a node.
func (f *Fleet) wantNode(n cke.Node) {
	f.mu.Lock()
	a := f.nodes[n.Address]
	f.mu.Unlock()
	if a == nil {
		return
	}
	if w := a.watch.Load(); w != nil {
		w.want()
	}
}
