package sim

import (
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cke"
)

// entryKind reports what a log entry does once committed.
type entryKind string

const (
	entryNone    entryKind = ""        // a leader's first, or a proposal that leaves nothing behind
	entryPut     entryKind = "put"     // a client's write; Value names it
	entryAdd     entryKind = "add"     // Member joins as voter or learner
	entryRemove  entryKind = "remove"  // Member leaves for ever
	entryPromote entryKind = "promote" // Member, a learner, becomes a voter
	entryPublish entryKind = "publish" // Member tells its name and client URL
	entryUpdate  entryKind = "update"  // Member is reached at another peer URL
	entryVersion entryKind = "version" // all members run this minor version, or a later one
	entryFill    entryKind = "fill"    // a client's write of a big value over the one before: history until somebody compacts
	entryCompact entryKind = "compact" // that history goes
	entryAlarm   entryKind = "alarm"   // Member raises an alarm; Value names its kind
	entryDisarm  entryKind = "disarm"  // it is taken back
	entryAsk     entryKind = "ask"     // which alarms there are
)

// entry is one log entry; its index is its position plus one.
type entry struct {
	term    uint64
	kind    entryKind
	value   string
	id      uint64
	peer    string
	client  string
	learner bool
	minor   int
	bytes   int64
	legacy  bool // in the form of 3.5, which 3.7 cannot read
}

// member is a member's write-ahead log: all that survives its process.
type member struct {
	id, cluster uint64
	// apart distinguishes the history of a member that continued alone from that of the others.
	apart  uint64
	name   string
	term   uint64
	log    []entry
	commit int // entries known to be committed
	// removed: it learned that it was removed, and never runs again.
	removed bool
	// corrupt: its database is not what its log says.
	corrupt bool
	// peers are where it looks for others while its log is empty.
	peers []string

	// snapshot is how many entries stand behind the last snapshot: they are never read again.
	snapshot int
	// proved is how many committed entries the checker has compared already.
	proved int

	database database
	// What the process that runs, or ran last, was started as.
	runs runs
}

// listed is a member as the committed log reports it.
type listed struct {
	id            uint64
	name          string // empty: never started
	peer, client  string
	learner, gone bool
}

// members returns the committed membership, in the order of joining, with those that left marked gone. It is not to be
// changed, as what the next two return is not.
func (m *member) members() []listed { return m.apply().known }

// present are the members that have not left.
func (m *member) present() []listed { return m.apply().present }

func (m *member) voters() []uint64 { return m.apply().voters }

// minor is the minor version of the cluster: that of the member behind all others, once all have told theirs. It never
// goes back. Source: etcd, server.monitorVersions.
func (m *member) minor() int { return m.apply().minor }

// voted reports whether a member was ever a voter, as far as this log reports.
func (m *member) voted(id uint64) bool {
	return slices.ContainsFunc(m.log[:m.commit], func(e entry) bool {
		return e.id == id && (e.kind == entryPromote || e.kind == entryAdd && !e.learner)
	})
}

// everVoted reports whether a log of its cluster says that a member votes, or did.
func (w *World) everVoted(m *member) bool {
	return w.inALog(m, func(l *member) bool { return l.voted(m.id) })
}

// everRemoved reports whether a log of its cluster says that a member was removed.
func (w *World) everRemoved(m *member) bool {
	return w.inALog(m, func(l *member) bool {
		return slices.ContainsFunc(l.log[:l.commit], func(e entry) bool { return e.kind == entryRemove && e.id == m.id })
	})
}

func (w *World) inALog(m *member, is func(*member) bool) bool {
	for _, n := range w.nodes {
		for _, v := range n.volumes {
			if v.wal != nil && v.wal.history() == m.history() && is(v.wal) {
				return true
			}
		}
	}
	return false
}

// published reports whether the member found the cluster and told its name.
func (m *member) published() bool {
	return slices.ContainsFunc(m.members(), func(l listed) bool { return l.id == m.id && l.name != "" })
}

// announced reports whether the process told the others its name, and where clients reach it now.
func (p process) announced() bool {
	url := p.c.spec.Join.ClientURL()
	return slices.ContainsFunc(p.members(), func(l listed) bool { return l.id == p.id && l.name != "" && l.client == url })
}

func (m *member) lastTerm() uint64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[len(m.log)-1].term
}

// newer reports whether m's log is at least as far as other's: Raft's rule for a vote.
func (m *member) newer(other *member) bool {
	return cmp.Or(cmp.Compare(m.lastTerm(), other.lastTerm()), cmp.Compare(len(m.log), len(other.log))) >= 0
}

// memberID is computed from the peer URL and the token, and from the time for members that join later.
// Source: etcd, membership.NewMember.
func memberID(peerURL, token string, at *time.Time) uint64 {
	seed := peerURL + token
	if at != nil {
		seed += strconv.FormatInt(at.Unix(), 10)
	}
	sum := sha1.Sum([]byte(seed))
	return binary.BigEndian.Uint64(sum[:8])
}

// another distinguishes additions of members: many may come within one second of the world's time.
func (w *World) another() string {
	w.added++
	return strconv.Itoa(w.added)
}

// clusterID is computed from the bootstrap members' member ids.
func clusterID(ids []uint64) uint64 {
	ids = slices.Sorted(slices.Values(ids))
	b := make([]byte, 8*len(ids))
	for i, id := range ids {
		binary.BigEndian.PutUint64(b[8*i:], id)
	}
	sum := sha1.Sum(b)
	return binary.BigEndian.Uint64(sum[:8])
}

func hexID(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}

// foundedMember is the log with which a bootstrap member starts: the state that it was restored to, if any, then the bootstrap members.
func foundedMember(s cke.MemberSpec, values []string) *member {
	m := &member{name: s.Join.Member, term: 1}
	for _, v := range values {
		m.log = append(m.log, entry{term: 1, kind: entryPut, value: v})
	}
	var ids []uint64
	for _, p := range s.Peers {
		id := memberID(p.URL, s.Token, nil)
		ids = append(ids, id)
		m.log = append(m.log, entry{term: 1, kind: entryAdd, id: id, peer: p.URL})
		m.peers = append(m.peers, p.URL)
		if p.URL == s.Join.PeerURL() {
			m.id = id
		}
	}
	m.commit, m.cluster = len(m.log), clusterID(ids)
	return m
}

// found is the first start with --initial-cluster-state=new.
func (w *World) found(c *container) (*member, string) {
	m := foundedMember(c.spec, nil)
	if m.id == 0 {
		return nil, fmt.Sprintf("couldn't find local name %q in the initial cluster configuration", m.name)
	}
	for _, peer := range m.peers {
		other, listens := w.peer(c.node, peer)
		if !listens || other.id == m.id {
			continue
		}
		for _, l := range other.members() {
			if l.id == m.id && l.name != "" {
				return nil, fmt.Sprintf("member %s has already been bootstrapped", hexID(m.id))
			}
		}
	}
	return m, ""
}

// join is the first start of a member that was added, with --initial-cluster-state=existing.
func (w *World) join(c *container) (*member, string) {
	for _, p := range c.spec.Peers {
		other, listens := w.peer(c.node, p.URL)
		if p.URL == c.spec.Join.PeerURL() || !listens {
			continue
		}
		if is, runs := other.minor(), c.minor(); is > runs || is > 0 && is < runs-1 { // Source: etcd, isCompatibleWithCluster
			return nil, fmt.Sprintf("incompatible with current running cluster: 3.%d does not join 3.%d", runs, is)
		}
		present := other.present()
		if len(present) != len(c.spec.Peers) {
			return nil, "error validating peerURLs: member count is unequal"
		}
		for _, l := range present {
			if !slices.ContainsFunc(c.spec.Peers, func(p cke.Peer) bool { return p.URL == l.peer }) {
				return nil, "error validating peerURLs: unmatched member while checking PeerURLs"
			}
			if l.peer == c.spec.Join.PeerURL() {
				m := &member{id: l.id, cluster: other.cluster, apart: other.apart, name: c.spec.Join.Member}
				for _, p := range present {
					m.peers = append(m.peers, p.peer)
				}
				return m, ""
			}
		}
	}
	return nil, "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs"
}

// peer returns the member that listens at a peer URL, as seen from a node.
func (w *World) peer(from *Node, url string) (*member, bool) {
	for _, n := range w.nodes {
		if !n.hosts(url) || !w.connected(from.name, n.name) {
			continue
		}
		for _, c := range n.sorted() {
			if m := c.member(); m != nil && c.spec.Join.PeerURL() == url {
				return m, true
			}
		}
	}
	return nil, false
}
