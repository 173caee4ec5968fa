package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cke"
)

// Node is a machine: power, sshd, a Docker engine with a disk.
type Node struct {
	world         *World
	name, address string
	former        string // an address that it has as well; empty: none
	alias         string // another host by which a foreign member on it is known; empty: none
	left          bool   // it is there no more
	succeeds      bool   // it has the address of a machine that left
	read          bool   // an inventory was read while it was declared
	sshPort       int

	on, frozen bool
	hostKey    int // counts changes
	pinned     int // the one that an operator accepted
	refusesKey bool
	hung       bool
	full       bool
	filtered   bool // the client port does not answer the management host
	liesOfData bool
	slowVolume bool          // looks into a volume do not end in time
	trickles   bool          // members on it receive nothing that is new
	strained   bool          // members on it that write a snapshot after every entry keep up with nobody
	loads      time.Duration // how long a member on it reads its database before it answers clients
	// rejoined is when a member on the node could speak with others again; zero: it always could.
	rejoined time.Time
	taken    map[int]bool // ports with a foreign listener
	slow     time.Duration
	discards bool          // its engine discards limits
	skew     time.Duration // of the node's clock

	boots     int        // counts them
	reboots   RebootMode // what becomes of a command that is to reboot it
	commanded bool       // a command or its agent takes it down, or has, and it was not started since
	granted   bool       // its agent may reboot it, and it was not started since

	images     map[string]bool
	volumes    map[string]*volume
	over       map[string][]string // what is over, by cluster
	tools      map[string]int      // containers that make restored data, by volume: which of all that were ever made
	toolsMade  int
	containers map[string]*container
	order      []*container // by name, as they were sorted last
	backlog    []func()     // what a hung engine was asked for
}

// volume is a Docker volume.
type volume struct {
	name, cluster, incarnation string
	join                       cke.JoinID
	createdAt                  time.Time
	files                      map[string]bool
	damage                     string                // of what is in them, as it was seen where the world was made from
	tls                        map[string][]byte     // what is in those of files that are certificates
	worth                      *cke.CertificateFiles // what the files are worth while certificates last worthFor; nil: to be read
	worthFor                   time.Duration
	signers                    [2]signer // of certificates as they were read last
	wal                        *member   // nil: no write-ahead log
	restored                   string    // digest of the snapshot that it was made from
	bare                       bool      // as of a container: no engine reports it
	late                       bool      // files were put into it by a call that nobody waited for any more
	unborn                     bool      // its log was made for it, and no process ran on it yet
}

// shown is the volume as the engine shows it.
func (v *volume) shown() cke.Volume {
	return cke.Volume{Name: v.name, Cluster: v.cluster, Incarnation: v.incarnation, Join: v.join, CreatedAt: v.createdAt}
}

// hosts reports whether a URL is one on the node.
func (n *Node) hosts(url string) bool {
	host, _, port := strings.Cut(withoutScheme(url), ":")
	return port && n.has(host)
}

// has reports whether an address is one of the node.
func (n *Node) has(address string) bool {
	return address == n.address || address != "" && (address == n.former || address == n.alias)
}

// Name is the node's host name.
func (n *Node) Name() string { return n.name }

// World is the world that the node is in.
func (n *Node) World() *World { return n.world }

// Declared is the node as a cluster file names it.
func (n *Node) Declared() cke.Node {
	return cke.Node{Address: n.address, Hostname: n.name, ControlPlane: true, Zone: zoneAt(n.address), SSH: cke.SSH{Port: n.sshPort}}
}

// awake reports whether anything on the node runs.
func (n *Node) awake() bool { return n.on && !n.frozen }

// wipe leaves a blank disk.
func (n *Node) wipe() {
	n.over = map[string][]string{}
	n.images, n.volumes, n.containers, n.backlog = map[string]bool{}, map[string]*volume{}, map[string]*container{}, nil
	n.taken, n.full, n.tools = map[int]bool{}, false, map[string]int{}
}

func (n *Node) change(what string, do func()) {
	n.world.change(n.name+": "+what, func() {
		if !n.left {
			do()
		}
	})
}

// sorted returns the containers by name. It is not to be changed.
func (n *Node) sorted() []*container {
	same := len(n.order) == len(n.containers)
	for i := 0; same && i < len(n.order); i++ {
		same = n.containers[n.order[i].Name] == n.order[i]
	}
	if !same {
		n.order = slices.SortedFunc(maps.Values(n.containers), func(a, b *container) int { return cmp.Compare(a.Name, b.Name) })
	}
	return n.order
}

// Look returns what really is on the node.
func (n *Node) Look() (containers []cke.Container, volumes []cke.Volume) {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.world.tick()
	var s cke.NodeStatus
	n.look(cke.EtcdOptions{}, "", &s)
	return s.Containers, s.Volumes
}

// trouble is why a connection to the node's sshd cannot be had, or nil. At an address that no machine has, nothing answers.
func (n *Node) trouble(declared cke.Node) *cke.Error {
	fail := func(code cke.Code, what string, cause error) *cke.Error {
		return &cke.Error{Code: code, What: what, Err: cause}
	}
	switch {
	case n == nil, !n.world.connected(Management, n.name):
		return fail(cke.CodeUnreachable, "no answer from sshd", cke.ErrUnreachable)
	case declared.SSH.Port != 0 && declared.SSH.Port != n.sshPort:
		return fail(cke.CodeUnreachable, fmt.Sprintf("nothing listens on port %d", declared.SSH.Port), cke.ErrUnreachable)
	case n.hostKey != n.pinned:
		return fail(cke.CodeHostKey, "shows another host key than the pinned one", nil)
	case n.refusesKey:
		return fail(cke.CodeSSHAuth, "refuses the key", nil)
	}
	return nil
}

func (n *Node) describe() string {
	var b strings.Builder
	state := "on"
	if !n.on {
		state = "off"
	} else if n.frozen {
		state = "frozen"
	}
	fmt.Fprintf(&b, "%s: %s\n", n.name, state)
	for _, c := range n.sorted() {
		fmt.Fprintf(&b, "  container %s %s %s keep=%v by-hand=%v\n", c.Name, c.State, c.spec.Mode, c.keep, c.stoppedByHand)
	}
	for _, name := range slices.Sorted(maps.Keys(n.volumes)) {
		v := n.volumes[name]
		data := "no data"
		if v.wal != nil {
			data = fmt.Sprintf("log of %d entries, %d committed", len(v.wal.log), v.wal.commit)
		}
		fmt.Fprintf(&b, "  volume %s: %d files, %s\n", name, len(v.files), data)
	}
	return b.String()
}

// MadeWith is what a container was made from, but for its limits, which are those that it has now; nothing where there is none.
func (n *Node) MadeWith(volume string) (o cke.EtcdOptions) {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	if c := n.containers[volume]; c != nil {
		o = c.runsWith()
	}
	return o
}

// runsWith are the options of a container with the limits that it has now.
func (c *container) runsWith() cke.EtcdOptions {
	o := c.spec.Join.Etcd
	o.Resources = cke.Resources{CPUs: c.CPUs, Memory: cke.Size(c.Memory)}
	return o
}

// Holds reports whether a volume on the node really holds a write-ahead log.
func (n *Node) Holds(volume string) bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	v := n.volumes[volume]
	return v != nil && v.wal != nil
}

// Marks reports whether a mark on the node names a membership of a cluster as ended.
func (n *Node) Marks(cluster string, id cke.JoinID) bool {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	return slices.Contains(n.over[cluster], string(id))
}
