package cke

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// JoinID names one node's membership in an incarnation; never used twice. Twelve characters of [a-z0-9].
type JoinID string

// IncarnationState is the phase of an incarnation.
type IncarnationState string

// Incarnation states. forming → formed; forming → abandoned if a bootstrap could not be completed before any client
// was served.
const (
	Forming   IncarnationState = "forming"
	Formed    IncarnationState = "formed"
	Abandoned IncarnationState = "abandoned"
	// Restoring: the cluster continues from a snapshot; restoring → formed once its members serve the restored data.
	Restoring IncarnationState = "restoring"
	// Awaiting: the cluster was declared for a restore and is never bootstrapped; awaiting → restoring.
	Awaiting IncarnationState = "awaiting-restore"
)

// Incarnation is one life of a cluster, from a bootstrap or a restore to its end. It is stored before anything
// touches a node; a cluster that has one is never bootstrapped again.
type Incarnation struct {
	// ID is new and random; it is a label on every volume and container of this incarnation.
	ID string `json:"id"`
	// Token is etcd's initial-cluster-token: new and random, so that member and cluster ids differ from those of every
	// other incarnation.
	Token string           `json:"token"`
	State IncarnationState `json:"state"`
	// Founders are the first memberships, sorted by peer URL. They never change.
	Founders []Join `json:"founders"`
	// ClusterID is etcd's cluster id in hex; set when State becomes Formed.
	ClusterID string    `json:"clusterID,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	FormedAt  time.Time `json:"formedAt,omitzero"`
	// AbandonedAt is when its bootstrap was given up: set before the first of its members is stopped. It never forms
	// after that.
	AbandonedAt time.Time `json:"abandonedAt,omitzero"`
	// Previous are the ids of abandoned incarnations of this cluster. None ever served a client, so what is left of them
	// on nodes may be removed.
	Previous []string `json:"previous,omitempty"`
	// Replaced are the ids of incarnations that a restore replaced. What they left on nodes is kept.
	Replaced []string `json:"replaced,omitempty"`
	// Restore is what this incarnation was restored from; nil: it was bootstrapped.
	Restore *Restoration `json:"restore,omitempty"`
	// Import is the old cluster that this incarnation continues; nil: cke bootstrapped or restored it.
	Import *Import `json:"import,omitempty"`
	// SeenUpTo is a revision up to which clients may have seen those of earlier incarnations that are not on record; 0:
	// unknown.
	SeenUpTo int64 `json:"seenUpTo,omitempty"`
}

// Floor returns a revision up to which clients may have seen revisions of earlier incarnations, when this one
// started.
func (i *Incarnation) Floor() int64 {
	if i == nil {
		return 0
	}
	return max(i.SeenUpTo, i.Restore.Floor())
}

// Life reports whether id names this incarnation.
func (i *Incarnation) Life(id string) bool { return i != nil && i.ID == id }

// BeforeRestores returns the incarnation that continues if all restores under way are canceled.
func (i *Incarnation) BeforeRestores() *Incarnation {
	for i != nil && i.State == Restoring && i.Restore != nil && i.Restore.Before != nil {
		i = i.Restore.Before
	}
	return i
}

// OnlyCopied reports whether only a copy of its record is known: the cluster was declared to be restored.
func (i *Incarnation) OnlyCopied() bool {
	before := i.BeforeRestores()
	return before != nil && before.State == Awaiting
}

// OfAnother reports whether an answer comes from another cluster than the one on record, see NotOurs.
func (i Identity) OfAnother(e EndpointStatus) bool { return i.NotOurs(e) != "" }

// Ours returns answers in which those that say nothing about this cluster are as good as none, see NotOurs.
func (i Identity) Ours(s EtcdStatus) EtcdStatus {
	if !slices.ContainsFunc(s.Endpoints, i.OfAnother) {
		return s
	}
	s.Endpoints = slices.Clone(s.Endpoints)
	for n, e := range s.Endpoints {
		s.Endpoints[n] = i.OursOf(e)
	}
	return s
}

// OursOf returns what an answer says about this cluster.
func (i Identity) OursOf(e EndpointStatus) EndpointStatus {
	if why := i.NotOurs(e); why != "" {
		return EndpointStatus{Join: e.Join, URL: e.URL, Problem: why}
	}
	return e
}

// NotOurs returns why an answer says nothing about this cluster; empty: it does. A member that was bootstrapped again
// manually may have its old id, and an operator may know of one and leave it. A member that is put aside may serve
// under this cluster's id.
func (i Identity) NotOurs(e EndpointStatus) string {
	inc := i.Incarnation
	if inc != nil && inc.ClusterID != "" && e.ClusterID != "" && e.ClusterID != inc.ClusterID {
		return fmt.Sprintf("it answers with cluster id %s, on record is %s", e.ClusterID, inc.ClusterID)
	}
	if IsApart(i.Joins, e) {
		return "it is put aside"
	}
	return ""
}

// IsApart reports whether an answer comes from a member that is put aside, see Join.Apart. If all are put aside, none
// counts as such.
func IsApart(joins []Join, e EndpointStatus) bool {
	apart, others := false, false
	for i := range joins { // a copy of each takes longer than all the rest
		if j := &joins[i]; !j.Apart {
			others = true
		} else if e.Join == j.ID || e.Join == "" && e.MemberID != "" && e.MemberID == j.MemberID {
			apart = true
		}
	}
	return apart && others
}

// Chosen returns the memberships that are not put aside, see Join.Apart; all of them, if all are.
func Chosen(joins []Join) []Join {
	chosen := slices.DeleteFunc(slices.Clone(joins), func(j Join) bool { return j.Apart })
	if len(chosen) == 0 {
		return joins
	}
	return chosen
}

// OthersVote reports whether a member list has a voter that has started, and whose membership is on record, is not put
// aside and is none of these. cke asks members where memberships are on record.
func OthersVote(list []Member, joins []Join, without ...JoinID) bool {
	return slices.ContainsFunc(joins, func(j Join) bool {
		return !j.Apart && !slices.Contains(without, j.ID) && slices.ContainsFunc(list, func(m Member) bool {
			return m.ID == j.MemberID && !m.Learner && m.Name != ""
		})
	})
}

// Carriers returns the memberships of the members on nodes. An error: there is none on one of them.
func (i Identity) Carriers(nodes []string) (joins []Join, err error) {
	for _, name := range nodes {
		at := slices.IndexFunc(i.Joins, func(j Join) bool { return j.Node.Name() == name })
		if at < 0 {
			var all []string
			for _, j := range i.Joins {
				all = append(all, j.Node.Name())
			}
			return nil, &Error{Code: CodeCannot, What: "node " + name + " has no member", Facts: []string{"members are on " + strings.Join(all, ", ")}, Unchanged: true}
		}
		if j := i.Joins[at]; !slices.ContainsFunc(joins, func(o Join) bool { return o.ID == j.ID }) {
			joins = append(joins, j)
		}
	}
	return joins, nil
}

// PutsAside reports whether memberships, as they are to be stored, put a member aside that was not before.
func (i Identity) PutsAside(joins []Join) bool {
	return slices.ContainsFunc(joins, func(j Join) bool {
		return j.Apart && !slices.ContainsFunc(slices.Concat(i.Joins, i.Ended), func(is Join) bool { return is.ID == j.ID && is.Apart })
	})
}

// PutAside reports whether the member of a membership is put aside, and others are not.
func (i Identity) PutAside(id JoinID) bool { return IsApart(i.Joins, EndpointStatus{Join: id}) }

// Lives returns the ids of this incarnation and of those that restores replaced, the current one first.
func (i *Incarnation) Lives() []string {
	if i == nil {
		return nil
	}
	before := slices.Clone(i.Replaced)
	slices.Reverse(before)
	return append([]string{i.ID}, before...)
}

const (
	// keptMarks is how many ids a mark names at the most: no store is brought back from before so many restores.
	keptMarks = 100
	// markedEnds is how many memberships of a node, the last ones that ended, are marked. It is below keptMarks.
	markedEnds = 20
)

// Over returns the newest incarnations of this cluster that are over: replaced by a restore, or abandoned. A restore
// can be called off, and what it replaces becomes current again, until its members may have been started. So does the
// incarnation from which a cluster is declared to be restored. What restores replaced comes last: a bootstrap is given up
// before there is anything to restore.
func (i Identity) Over() []string {
	if i.Incarnation == nil {
		return nil
	}
	last := i.Incarnation
	var by []string
	if !i.Started() {
		last = last.BeforeRestores()
	} else if last.Restore != nil {
		by = []string{last.ID + startMark}
	}
	previous := slices.DeleteFunc(slices.Clone(i.Incarnation.Previous), last.Life)
	replaced := last.Replaced
	if last.State == Awaiting { // the last one that was started may still serve
		replaced = replaced[:max(0, i.LastStarted(replaced, func(string) bool { return false }))]
	}
	return slices.Concat(newestOf(previous, keptMarks/2), by, newestOf(replaced, keptMarks/2))
}

// LastStarted returns the index of the newest of these incarnations of which a membership has a start on record, or was seen to have
// been started; -1: there is none. A later one was only prepared, or was started since the record was copied.
func (i Identity) LastStarted(lives []string, seen func(life string) bool) int {
	at := len(lives) - 1
	for ; at >= 0 && !seen(lives[at]); at-- {
		if slices.ContainsFunc(slices.Concat(i.Joins, i.Ended), func(j Join) bool { return j.Incarnation == lives[at] && !j.StartedAt.IsZero() }) {
			break
		}
	}
	return at
}

// Marked returns what a mark names once these incarnations are over, too; more: it did not name all of them.
func Marked(before, over []string) (all []string, more bool) {
	all = slices.Clone(before)
	for _, id := range over {
		if !slices.Contains(all, id) {
			all, more = append(all, id), true
		}
	}
	return newestOf(all, keptMarks), more
}

// IsOver returns the nodes that answer and have a mark that the incarnation on record is over: a restore replaced it,
// or was called off. Then the store is older than the cluster.
func (i Identity) IsOver(nodes []NodeStatus) (marked []Node) {
	for _, n := range nodes {
		if n.Answered() && i.Incarnation != nil && i.Incarnation.OverBy(n.Over, i.Incarnation.ID) {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// EndedByMarks returns the current memberships that ended, or were put aside, according to a mark on a node that answers,
// and not according to the store. None becomes current again: the store is older than the cluster.
func (i Identity) EndedByMarks(nodes []NodeStatus) (joins []Join) {
	for _, j := range i.Joins {
		if !j.Apart && slices.ContainsFunc(nodes, func(n NodeStatus) bool { return n.Answered() && n.Marks(j.ID) }) {
			joins = append(joins, j)
		}
	}
	return joins
}

// Marks reports whether a mark on the node names a membership.
func (n NodeStatus) Marks(id JoinID) bool { return slices.Contains(n.Over, string(id)) }

// EndedByMark is why the member of a membership that a mark on its node names is not started: it may be a second cluster,
// or have a vote that was taken over.
func EndedByMark(j Join) error {
	return &Error{Code: CodeOlderStore, What: fmt.Sprintf("the membership of %s ended, according to a mark on the node, and its member is not started", j.Node.Name()),
		Try: "ckecli replace " + j.Node.Name(), Err: ErrConflict}
}

// Unmarked returns the memberships of this incarnation that ended, or were put aside, whose node answers and has no mark
// of that. A membership that never voted needs none.
func (i Identity) Unmarked(nodes []NodeStatus) (joins []Join) {
	ended := slices.DeleteFunc(slices.Clone(i.Ended), func(j Join) bool { return !i.Incarnation.Life(j.Incarnation) || j.NeverVoted })
	slices.SortStableFunc(ended, func(a, b Join) int { return b.EndedAt.Compare(a.EndedAt) }) // newest first
	ended = slices.Concat(slices.DeleteFunc(slices.Clone(i.Joins), func(j Join) bool { return !j.Apart }), ended)
	for _, n := range nodes {
		on := slices.DeleteFunc(slices.Clone(ended), func(j Join) bool { return j.Node.Address != n.Node.Address })
		for _, j := range on[:min(len(on), markedEnds)] {
			if n.Answered() && !n.Marks(j.ID) {
				joins = append(joins, j)
			}
		}
	}
	return joins
}

// WasAbandoned reports whether id names an incarnation of this cluster that was abandoned before it served any
// client.
func (i *Incarnation) WasAbandoned(id string) bool {
	return i != nil && (i.State == Abandoned && i.ID == id || slices.Contains(i.Previous, id))
}

// GaveUp reports whether id names an incarnation of this cluster whose bootstrap is recorded as given up.
func (i *Incarnation) GaveUp(id string) bool {
	return i.WasAbandoned(id) || i.Life(id) && !i.AbandonedAt.IsZero()
}

// MayBecome reports whether next may follow i in the store: states only advance, and an incarnation whose bootstrap
// was given up does not form.
func (i Incarnation) MayBecome(next Incarnation) bool {
	switch {
	case i.ID != next.ID:
		return false
	case i.State == Forming:
		return next.State != Formed || i.AbandonedAt.IsZero()
	case i.State == Restoring && next.State == Formed:
		return true
	}
	return i.State == next.State
}

// WasReplaced reports whether id names an incarnation that a restore replaced.
func (i *Incarnation) WasReplaced(id string) bool {
	return i != nil && slices.Contains(i.Replaced, id)
}

// Keeps reports whether a membership belongs to this incarnation, or ended in an earlier one and left a volume.
func (i *Incarnation) Keeps(j Join) bool {
	return i.Life(j.Incarnation) || !j.EndedAt.IsZero() && i.WasReplaced(j.Incarnation)
}

// Join is one node's one membership. It is stored before its first start.
type Join struct {
	ID          JoinID `json:"id"`
	Incarnation string `json:"incarnation"`
	// Node is the machine as it was declared when the membership was made; address and SSH access stay known after the
	// node has left the cluster file.
	Node Node `json:"node"`
	// Member is the member's name in etcd.
	Member string `json:"member"`
	// Volume is the name of both the volume and the container.
	Volume     string `json:"volume"`
	ClientPort int    `json:"clientPort"`
	PeerPort   int    `json:"peerPort"`
	// PlainPeers: its peers reach it without TLS, as they do in the old cluster that it joined; see Import.
	PlainPeers bool `json:"plainPeers,omitempty"`
	// Etcd is how its container is described: the options of the cluster file that were last applied to it.
	Etcd EtcdOptions `json:"etcd"`
	// Made are the limits that its engine gave the container if they differ from the requested ones: an engine discards
	// what its kernel does not support. Nil: as requested.
	Made *Resources `json:"made,omitempty"`
	// Newest is the minor of etcd 3.x that its log was prepared for, which a downgrade does not undo; 0: that of Etcd.
	Newest int `json:"newest,omitempty"`
	// Bundle names the authorities of the member's last start, see Authorities.Bundle: etcd reads them when it starts.
	// Empty: those of the bootstrap.
	Bundle string `json:"bundle,omitempty"`
	// MemberID is etcd's member id in hex, once known.
	MemberID string `json:"memberID,omitempty"`
	// StartedAt is set before the first start: from then on the volume must contain a WAL, or its data is lost.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Stopping is set before its engine is asked to stop it, and cleared once the engine has answered: until then the
	// request may be carried out at any time, even long after it was given up.
	Stopping bool `json:"stopping,omitempty"`
	// Apart is set if two clusters, or one with older data, were found, and the operator named this member as wrong when
	// he lifted the freeze: it is put aside. It is stopped, and not started again, until it is replaced.
	Apart bool `json:"apart,omitempty"`
	// Repair is set before its member is removed because of lost data, or as a learner that did not start. The number of
	// members was not meant to shrink, so its replacement needs no consent.
	Repair bool `json:"repair,omitempty"`
	// NeverVoted is set before its member is removed as a learner, or if it never started and no volume of it was seen:
	// a volume holds only what voters hold, and is removed with the membership.
	NeverVoted bool `json:"neverVoted,omitempty"`
	// MayVote is set before etcd is asked to promote its member: the request may be carried out at any time, even right
	// before its removal as a learner.
	MayVote bool `json:"mayVote,omitempty"`
	// EndedAt is set once its member has left the member list for good; the volume may still exist.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// KeepUntil is when an archived volume may be removed; zero: it is kept until the operator purges it.
	KeepUntil time.Time `json:"keepUntil,omitzero"`
	// PurgedAt is set before the volume of an ended membership is removed.
	PurgedAt time.Time `json:"purgedAt,omitzero"`
	// RemovedAt is set once that volume is known to be gone.
	RemovedAt time.Time `json:"removedAt,omitzero"`
}

// Expired reports whether the volume of an ended membership must be removed now: its time is over, or its removal was
// started.
func (j Join) Expired(now time.Time) bool {
	switch {
	case j.EndedAt.IsZero() || !j.RemovedAt.IsZero():
		return false
	case !j.PurgedAt.IsZero():
		return true
	}
	return !j.KeepUntil.IsZero() && !now.Before(j.KeepUntil)
}

// Copied reports whether the voters hold all that the volume of an ended membership holds.
func (j Join) Copied() bool { return j.NeverVoted && !j.MayVote }

// PeerURL returns where other members reach this member.
func (j Join) PeerURL() string {
	url := httpsURL(j.Node.Address, j.PeerPort)
	if j.PlainPeers {
		return plain(url)
	}
	return url
}

// ClientURL returns where clients reach this member.
func (j Join) ClientURL() string { return httpsURL(j.Node.Address, j.ClientPort) }

// Place returns where this member is reached: its client URL and its peer URL.
func (j Join) Place() string { return j.ClientURL() + " " + j.PeerURL() }

// NewIncarnation returns a new identity for a bootstrap of c on its control-plane nodes. Nothing is stored. previous
// is the abandoned one that it follows, or nil.
func NewIncarnation(c Cluster, previous *Incarnation, now time.Time) Incarnation {
	inc := Incarnation{ID: randomID(), Token: c.Name + "-" + randomHex(16), State: Forming, CreatedAt: now.UTC()}
	if previous != nil {
		inc.Previous = newestOf(append(slices.Clone(previous.Previous), previous.ID), KeptLives)
	}
	for _, n := range c.ControlPlane() {
		inc.Founders = append(inc.Founders, NewJoin(c, n, inc.ID))
	}
	slices.SortFunc(inc.Founders, func(a, b Join) int { return strings.Compare(a.PeerURL(), b.PeerURL()) })
	return inc
}

// NewJoin returns a new membership of n in an incarnation. Nothing is stored.
func NewJoin(c Cluster, n Node, incarnation string) Join {
	id := JoinID(randomID())
	o := c.Options.Etcd
	return Join{
		ID: id, Incarnation: incarnation, Node: n, Member: n.Name(),
		Volume: o.Volume(id), ClientPort: o.ClientPort, PeerPort: o.PeerPort, Etcd: o,
	}
}

func randomID() string { return randomHex(6) }

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand, Go 1.24
	return hex.EncodeToString(b)
}

// FirstRevision is the revision of a cluster before the first write of a client. Source: etcd, mvcc.
const FirstRevision = 1
