package sim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cke"
)

// StartNew is how cke started bootstrap members before it wrote their first log: with arguments that bootstrap a cluster on an
// empty volume. cke no longer does that.
const StartNew cke.StartMode = "new"

// readyAfter is when a member that finds no leader serves local reads at the latest. Source: etcd, wait-cluster-ready-timeout.
const readyAfter = 5 * time.Second

// container is a Docker container with an etcd in it.
type container struct {
	cke.Container
	node    *Node
	spec    cke.MemberSpec
	foreign bool
	// bare: no engine reports it; it stands for a process that runs without one, or was never observed.
	bare bool
	// keep is the restart policy always; stoppedByHand overrides it until the next start.
	keep, stoppedByHand bool
	restarts            int
	// peerCAs and clientCAs are whom the process trusts: it has read them when it was started.
	peerCAs, clientCAs []string
	// unsure: files landed late in its volume since it was started, and no daemon can tell whether the process has read them.
	unsure bool
	// open is the log that the process has open although it was removed from the volume.
	open *member
	// hangs: the process runs, answers nobody and takes no part, until it is started again.
	hangs bool
	// y is the minor version, yOf the version that it was read from.
	y   int
	yOf string
}

func newContainer(n *Node, s cke.MemberSpec) *container {
	c := &container{node: n, spec: s, keep: s.Mode == cke.StartOwnData}
	c.ID = fmt.Sprintf("%s/%s", n.name, s.Join.Volume)
	c.Name, c.Image, c.State = s.Join.Volume, s.Join.Etcd.Image, cke.ContainerCreated
	c.Cluster, c.Incarnation, c.Join = s.Cluster, s.Join.Incarnation, s.Join.ID
	c.Description, c.Options, c.Place = describe(s), s.Join.Etcd.Digest(), s.Join.Place()
	sum := sha256.Sum256([]byte(c.Image))
	c.ImageID = "sha256:" + hex.EncodeToString(sum[:])
	if !n.discards {
		c.CPUs, c.Memory = s.Join.Etcd.Resources.CPUs, int64(s.Join.Etcd.Resources.Memory)
	}
	return c
}

// describe is the digest of all that a container is made from.
func describe(s cke.MemberSpec) string {
	if s.Mode == cke.StartPrepared { // what follows from it is the same
		s.Mode = cke.StartOwnData
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %v %s %s %d %d %v", s.Cluster, s.Mode, s.Token, s.Peers, s.Join.ID, s.Join.Node.Address, s.Join.ClientPort, s.Join.PeerPort, s.Join.Etcd))
	return hex.EncodeToString(sum[:6])
}

func (c *container) volume() *volume { return c.node.volumes[c.spec.Join.Volume] }

// member returns the member whose process runs in c; nil when none does.
func (c *container) member() *member {
	if c.State != cke.ContainerRunning || c.foreign || c.hangs {
		return nil
	}
	if c.open != nil {
		return c.open
	}
	return c.volume().wal
}

// ready reports whether the member's process serves clients.
func (c *container) ready() bool {
	m := c.member()
	ran := c.node.world.now().Sub(c.StartedAt)
	return m != nil && ran >= c.node.loads && (m.published() || ran >= readyAfter)
}

// run starts the process: what etcd does with its arguments and its data directory at start.
func (c *container) run() {
	w := c.node.world
	c.State, c.StartedAt, c.stoppedByHand, c.hangs = cke.ContainerRunning, w.now(), false, false
	w.unquiet = true
	c.FinishedAt, c.ExitCode, c.LastWords = time.Time{}, 0, ""
	if c.foreign { // what runs in it is no member of ours
		return
	}
	if words := c.boot(); words != "" {
		c.crash(1, words)
		return
	}
	w.log("%s: etcd of %s runs", c.node.name, c.Name)
}

// MissingDirectory is one that no node has: an engine makes no container that is to use it.
const MissingDirectory = "/no/such/directory"

// WrongArgument is one that etcd does not know: it exits at once.
const WrongArgument = "--no-such-flag"

// LateArgument has a value that etcd refuses only when it starts on its data: no try of options notices.
const LateArgument = "--auth-token=none"

// boot returns why etcd ends at once, or "".
func (c *container) boot() string {
	v := c.volume()
	if v == nil {
		return "error mounting volume: no such file or directory"
	}
	worth := v.certificates(0)
	if worth.Damage != "" && c.Cluster != "" {
		return worth.Damage
	}
	c.peerCAs, c.clientCAs, c.unsure = worth.PeerCAs, worth.ClientCAs, false
	if at := c.spec.Join.Node.Address; !c.node.has(at) {
		return fmt.Sprintf("listen tcp %s:%d: bind: cannot assign requested address", at, c.spec.Join.PeerPort)
	}
	for _, port := range []int{c.spec.Join.ClientPort, c.spec.Join.PeerPort} {
		if c.node.taken[port] || c.othersListen(port) {
			return fmt.Sprintf("listen tcp %s:%d: bind: address already in use", c.node.address, port)
		}
	}
	if c.node.full {
		return "write /var/lib/etcd/member/wal/0.tmp: no space left on device"
	}
	if slices.Contains(c.spec.Join.Etcd.ExtraArgs, WrongArgument) {
		return "flag provided but not defined: " + WrongArgument
	}
	if slices.Contains(c.spec.Join.Etcd.ExtraArgs, LateArgument) {
		return "auth: invalid auth options"
	}
	if v.wal != nil {
		if has := v.wal.minor(); has > c.minor() {
			return fmt.Sprintf("invalid downgrade; server version is lower than determined cluster version: 3.%d, 3.%d", c.minor(), has)
		}
		if v.wal.removed {
			return "server error: " + cke.WordsOfRemoved
		}
		if v.unborn {
			v.unborn = false
			c.node.world.wasBorn(c, v.wal)
		}
		c.node.world.beginsWith(c, v.wal)
		return v.wal.starts(c)
	}
	var m *member
	var words string
	switch c.spec.Mode {
	case StartNew:
		m, words = c.node.world.found(c)
	case cke.StartJoin:
		m, words = c.node.world.join(c)
	default:
		words = "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"
	}
	if words == "" {
		v.wal = m
		words = m.starts(c)
		c.node.world.wasBorn(c, m)
	}
	return words
}

func (c *container) othersListen(port int) bool {
	for _, other := range c.node.containers {
		if other != c && other.Running() && (other.spec.Join.ClientPort == port || other.spec.Join.PeerPort == port) {
			return true
		}
	}
	return false
}

// ends notes that the process is gone and stays so.
func (c *container) ends(code int, words string) {
	if c.State == cke.ContainerCreated || c.State == cke.ContainerExited {
		return
	}
	if m := c.member(); m != nil {
		c.node.world.endsWith(m)
	}
	c.open = nil
	c.node.world.unquiet = true
	if c.State == cke.ContainerRestarting { // no process is there to end otherwise, and its log stays
		code, words = c.ExitCode, c.LastWords
	}
	c.State, c.ExitCode, c.LastWords, c.FinishedAt = cke.ContainerExited, code, words, c.node.world.now()
	c.node.world.log("%s: etcd of %s exits with %d %s", c.node.name, c.Name, code, words)
}

// crash notes that the process ended by itself: the engine starts it again when it is to keep running.
func (c *container) crash(code int, words string) {
	c.ends(code, words)
	if c.State != cke.ContainerExited || !c.keep || c.stoppedByHand {
		return
	}
	c.State = cke.ContainerRestarting
	c.restarts++
	pause := min(100*time.Millisecond<<min(c.restarts, 9), time.Minute)
	c.node.world.after(pause, func() {
		if c.State == cke.ContainerRestarting && c.node.on && c.node.containers[c.Name] == c {
			c.run()
		}
	})
}

// shown is the container as the engine shows it to whoever inspects it.
func (c *container) shown() cke.Container {
	s := c.Container
	s.StartsEmpty = c.spec.Mode == StartNew || c.spec.Mode == cke.StartJoin
	if !c.foreign {
		s.KeptDown = !c.keep
	}
	return s
}

// seen is the container as an observation shows it.
func (c *container) seen() cke.Container {
	s := c.shown()
	if !c.foreign && !c.node.slowVolume {
		s.Data = c.data()
	}
	if v := c.volume(); v != nil && c.Cluster != "" && !c.foreign && !c.node.slowVolume {
		worth := v.certificates(c.node.world.certificateLife())
		s.Certificates = &worth
	}
	if !c.foreign && c.Cluster == "" { // the operator runs it
		s.PeerURLs, s.Mounts = []string{c.spec.Join.PeerURL()}, []string{c.spec.Join.Volume}
	}
	return s
}

func (c *container) data() cke.DataState {
	v := c.volume()
	switch {
	case c.node.liesOfData, v != nil && v.wal != nil:
		return cke.DataPresent
	case v == nil:
		return cke.DataUnknown
	}
	return cke.DataMissing
}

// look is the node as the engine shows it for one cluster.
func (n *Node) look(o cke.EtcdOptions, cluster string, s *cke.NodeStatus) {
	w := n.world
	s.EngineVersion, s.SeenAt, s.Clock = "20.10.24", w.now(), n.clock()
	s.Containers, s.Volumes, s.ClientPort, s.PeerPort = nil, nil, cke.PortUnknown, cke.PortUnknown
	ours := false
	for _, c := range n.sorted() {
		if c.bare {
			continue
		}
		s.Containers = append(s.Containers, c.seen())
		at := c.spec.Join
		ours = ours || c.Cluster == cluster && c.Running() && at.ClientPort == o.ClientPort && at.PeerPort == o.PeerPort
	}
	if cluster != "" {
		s.Containers, s.Neighbors = cke.SplitNeighbors(cluster, s.Containers)
	}
	for _, name := range slices.Sorted(maps.Keys(n.volumes)) {
		v := n.volumes[name]
		if v.bare || cluster != "" && v.cluster != "" && v.cluster != cluster {
			continue
		}
		s.Volumes = append(s.Volumes, v.shown())
	}
	s.Over = slices.Clone(n.over[cluster])
	if !ours {
		s.ClientPort, s.PeerPort = n.port(o.ClientPort), n.port(o.PeerPort)
		if n.filtered {
			s.ClientPort = cke.PortUnknown
		}
	}
}

func (n *Node) port(p int) cke.PortState {
	if n.taken[p] || (&container{node: n}).othersListen(p) {
		return cke.PortOpen
	}
	return cke.PortClosed
}

// minor is the y of the version 3.y.z that the process is.
func (c *container) minor() int {
	if of := c.spec.Join.Etcd.Version; c.y == 0 || c.yOf != of {
		if parts := strings.Split(c.version(), "."); len(parts) == 3 {
			c.y, _ = strconv.Atoi(parts[1])
		}
		c.yOf = of
	}
	return c.y
}

// version is that of the process.
func (c *container) version() string {
	return cmp.Or(c.spec.Join.Etcd.Version, cke.DefaultEtcdVersion)
}

// storage is the version of the member's database, which etcd reports from 3.6 on: it follows the cluster's, not the process's.
// Source: etcd, serverVersionAdapter.UpdateStorageVersion.
func (c *container) storage() string {
	if minor := c.member().minor(); minor > 0 && c.minor() > 5 {
		return "3." + strconv.Itoa(minor) + ".0"
	}
	return ""
}
