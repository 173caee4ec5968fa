package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"cke"
)

// World is everything outside the daemons. All its parts share one lock.
type World struct {
	mu    sync.Mutex
	now   func() time.Time
	nodes []*Node // by name
	left  []*Node // those that are there no more
	store *Store
	cuts  map[link]bool
	// groups are the raft groups that ever had a leader or looked for one, by cluster id.
	groups   map[uint64]*group
	timers   []timer
	daemons  []*Daemon
	sched    *Scheduler
	tell     func(format string, args ...any) // nil: nobody listens
	late     bool                             // what is written now is a call that was given up
	stale    bool                             // what is done to a node now is a call that nobody waits for any more
	crowded  bool                             // machines make containers for ports of other clusters
	keepsAll bool                             // engines may start by themselves what could start empty
	unquiet  bool                             // something changed since the world was last settled
	skew     time.Duration                    // of the management hosts' clocks
	apart    [Hosts]time.Duration             // how much further the clock of each of them is
	auth     cke.AuthState                    // of etcd
	root     bool                             // etcd has the user root
	users    cke.EtcdUsers                    // of etcd, but for root and cke
	manual   map[string]bool                  // users that operators added without cke
	settles  bool                             // a member is added only where voters have been connected for a while
	muted    bool                             // no member list is read through a quorum
	events   int                              // counts what happened, by whomever
	// Closed reports whether a window is closed from one time to another; nil: none is judged.
	Closed func(w cke.Window, from, to time.Time) bool
	added  int // counts additions of members
	// grantedBy is the daemon that gave an agent its lease last.
	grantedBy int
	watch     func([]Voter)
	marks     map[Situation]int // how often each was reached
	// certificates is how long they last; zero: a year. keys counts those of certificates.
	certificates time.Duration
	keys         int
	// cas are the authorities whose keys are in the store, by secret; clients are those of operators.
	cas     map[string]cke.CA
	clients person

	// backup is what the target holds; noBackup: it is damaged. states are what snapshots hold, by digest.
	backup   []string
	noBackup bool
	// stored is what the last changes that were stored lead to; refuses: the target takes nothing more.
	stored  []string
	refuses bool
	states  map[string][]string
	target  target
	// fetched is what each management host holds of restores, by restore.
	fetched [Hosts]map[string]fetched

	twin  twin
	stock inventory
	checker
}

// timer is something that the world does by itself; do is nil where time alone makes the difference.
type timer struct {
	at time.Time
	do func()
}

// New makes a world without nodes. now is its clock; every wait in it is measured with it.
func New(cluster string, now func() time.Time) *World {
	w := &World{now: now, cuts: map[link]bool{}, groups: map[uint64]*group{}, states: map[string][]string{}, cas: map[string]cke.CA{}, clients: clientsOf(cke.Authorities{}), users: noUsers(), manual: map[string]bool{}}
	w.store = &Store{world: w, cluster: cluster}
	w.checker = checker{world: w, cluster: cluster, born: map[uint64]string{}, outdated: map[string]bool{}, committed: map[uint64][]entry{}}
	return w
}

// OnTrace sets what is called with every event of the world. It is called with the world's lock held.
func (w *World) OnTrace(log func(format string, args ...any)) { w.tell = log }

func (w *World) log(format string, args ...any) {
	if w.tell != nil {
		w.tell(format, args...)
	}
}

// Store returns the store, as an operator's commands see it.
func (w *World) Store() *Store { return w.store }

// AddNode puts a machine with power, network and an empty engine into the world.
func (w *World) AddNode(name, address string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &Node{world: w, name: name, address: address, sshPort: 22, on: true}
	n.wipe()
	w.nodes = append(w.nodes, n)
	slices.SortFunc(w.nodes, func(a, b *Node) int { return cmp.Compare(a.name, b.name) })
	return n
}

// Node returns the machine of this name, also if it left; nil when there is none.
func (w *World) Node(name string) *Node {
	for _, all := range [2][]*Node{w.nodes, w.left} {
		for _, n := range all {
			if n.name == name {
				return n
			}
		}
	}
	return nil
}

// Nodes returns all machines, by name.
func (w *World) Nodes() []*Node { return slices.Clone(w.nodes) }

// Daemons returns all daemons that ever led, in order.
func (w *World) Daemons() []*Daemon {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.daemons)
}

func (w *World) at(address string) *Node {
	for _, n := range w.nodes {
		if n.has(address) {
			return n
		}
	}
	return nil
}

// Hosts is how many management hosts there are. Each daemon runs on the one after that of the daemon before; operators use the first.
const Hosts = 2

// Now is the time by the clock of the first management host.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host(0)
}

func (w *World) host(host int) time.Time { return w.now().Add(w.skew + w.apart[host]) }

// JumpClock sets the clocks of all management hosts forward, or back.
func (w *World) JumpClock(d time.Duration) {
	w.change(fmt.Sprintf("clocks of the management hosts jump by %v", d), func() { w.skew += d })
}

// JumpHost sets the clock of one management host forward, or back.
func (w *World) JumpHost(host int, d time.Duration) {
	w.change(fmt.Sprintf("clock of management host %d jumps by %v", host, d), func() {
		w.apart[host] += d
		if w.apart[0] != w.apart[1] {
			w.mark(HostsApart)
		}
	})
}

// SetClock corrects the clocks of all management hosts.
func (w *World) SetClock() {
	w.change("clocks of the management hosts are set right", func() { w.skew, w.apart = 0, [Hosts]time.Duration{} })
}

// change does something to the world from outside: a fault, a repair, an operator's command.
func (w *World) change(what string, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	w.log("%s", what)
	w.events++
	do()
	w.settle()
	w.poke()
}

// after lets the world do something by itself later on.
func (w *World) after(d time.Duration, do func()) {
	w.timers = append(w.timers, timer{w.now().Add(d), do})
	slices.SortStableFunc(w.timers, func(a, b timer) int { return a.at.Compare(b.at) })
}

// tick does what was due by now.
func (w *World) tick() {
	for len(w.timers) > 0 && !w.timers[0].at.After(w.now()) {
		t := w.timers[0]
		w.timers = w.timers[1:]
		if t.do != nil {
			w.events++
			t.do()
		}
		w.settle()
	}
	if w.unquiet {
		w.settle()
	}
	w.keeps()
}

// settle brings everything that happens at once in the world to its end, then checks the invariants.
func (w *World) settle() {
	w.unquiet = false
	w.settleGroups()
	w.check()
	if w.watch != nil {
		w.watch(w.watched())
	}
}

func (w *World) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	s := ""
	for _, n := range w.nodes {
		s += n.describe()
	}
	return s
}

// Describe returns what is on one node, in a line for each thing.
func (w *World) Describe(node string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.Node(node); n != nil {
		return n.describe()
	}
	return fmt.Sprintf("%s: no such node\n", node)
}
