package cke

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// JoinID names one node's one membership in an incarnation; never used twice. Twelve characters of [a-z0-9].
type JoinID string

// IncarnationState is how far a cluster's life has come.
type IncarnationState string

// Incarnation states. forming → formed; forming → abandoned when a bootstrap could not be finished
// before any client was served.
const (
	Forming   IncarnationState = "forming"
	Formed    IncarnationState = "formed"
	Abandoned IncarnationState = "abandoned"
	// Restoring: the cluster goes on from a snapshot; restoring → formed once its members serve what was restored.
	Restoring IncarnationState = "restoring"
	// Awaiting: the cluster was declared to be restored and is never bootstrapped; awaiting → restoring.
	Awaiting IncarnationState = "awaiting-restore"
)

// Incarnation is one life of a cluster, from a bootstrap or a restore to its end.
// It is written before anything touches a node; a cluster that has one is never bootstrapped again.
type Incarnation struct {
	// ID is fresh and random; it is a label on every volume and container of this life.
	ID string `json:"id"`
	// Token is etcd's initial-cluster-token: fresh and random, so that member and cluster ids differ from every other life's.
	Token string           `json:"token"`
	State IncarnationState `json:"state"`
	// Founders are the first joins, sorted by peer URL. They never change.
	Founders []Join `json:"founders"`
	// ClusterID is etcd's cluster id in hex; set when State becomes Formed.
	ClusterID string    `json:"clusterID,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	FormedAt  time.Time `json:"formedAt,omitzero"`
	// AbandonedAt is when its bootstrap was given up: set before the first of its founders is stopped. It never forms
	// after that.
	AbandonedAt time.Time `json:"abandonedAt,omitzero"`
	// Previous are the ids of abandoned lives of this cluster. None ever served a client, so what is left of
	// them on nodes may be removed.
	Previous []string `json:"previous,omitempty"`
	// Replaced are the ids of lives that a restore took the place of. What they left on nodes is kept.
	Replaced []string `json:"replaced,omitempty"`
	// Restore tells what this life was restored from; nil: it was bootstrapped.
	Restore *Restoration `json:"restore,omitempty"`
	// SeenUpTo is a revision up to which clients may have seen those of lives before, which are not on record; 0: not known.
	SeenUpTo int64 `json:"seenUpTo,omitempty"`
}

// Floor is a revision up to which clients of this life, and of those before it, may have seen revisions when it began.
func (i *Incarnation) Floor() int64 {
	if i == nil {
		return 0
	}
	return max(i.SeenUpTo, i.Restore.Floor())
}

// Life reports whether id names this incarnation.
func (i *Incarnation) Life(id string) bool { return i != nil && i.ID == id }

// OfAnother reports whether an answer comes from another cluster than the one on record: it says nothing about this one. A member that
// was bootstrapped anew by hand may have its old id, and a person may know of one and leave it where it is.
func (i Identity) OfAnother(e EndpointStatus) bool {
	inc := i.Incarnation
	return inc != nil && inc.ClusterID != "" && e.ClusterID != "" && e.ClusterID != inc.ClusterID
}

// Lives returns the ids of this incarnation and of those that restores replaced, the present one first.
func (i *Incarnation) Lives() []string {
	if i == nil {
		return nil
	}
	before := slices.Clone(i.Replaced)
	slices.Reverse(before)
	return append([]string{i.ID}, before...)
}

// keptMarks is how many lives a mark names at the most: no store is brought back from before so many restores.
const keptMarks = 100

// Over are the newest lives of this cluster that are over: those that restores replaced, and those that were abandoned. What a restore
// replaces comes back if that is called off, which it can be until its members may have been started.
func (i Identity) Over() []string {
	if i.Incarnation == nil {
		return nil
	}
	last := i.Incarnation // that comes back if all restores under way are called off
	for last.State == Restoring && last.Restore != nil && last.Restore.Before != nil && !i.Started() {
		last = last.Restore.Before
	}
	previous := slices.DeleteFunc(slices.Clone(i.Incarnation.Previous), last.Life)
	return slices.Concat(newestOf(last.Replaced, keptMarks/2), newestOf(previous, keptMarks/2))
}

// Marked is what a mark names after these lives ended, too; more: it did not name all of them.
func Marked(before, over []string) (all []string, more bool) {
	all = slices.Clone(before)
	for _, id := range over {
		if !slices.Contains(all, id) {
			all, more = append(all, id), true
		}
	}
	return newestOf(all, keptMarks), more
}

// IsOver returns the nodes that answer and have the life on record marked as over: a restore has taken its place, or it was called off.
// Then the store is older than the cluster.
func (i Identity) IsOver(nodes []NodeStatus) (marked []Node) {
	for _, n := range nodes {
		if n.Answered() && slices.ContainsFunc(n.Over, i.Incarnation.Life) {
			marked = append(marked, n.Node)
		}
	}
	return marked
}

// WasAbandoned reports whether id names a life of this cluster that was abandoned before it served anybody.
func (i *Incarnation) WasAbandoned(id string) bool {
	return i != nil && (i.State == Abandoned && i.ID == id || slices.Contains(i.Previous, id))
}

// GaveUp reports whether id names a life of this cluster whose bootstrap was given up by the record.
func (i *Incarnation) GaveUp(id string) bool {
	return i.WasAbandoned(id) || i.Life(id) && !i.AbandonedAt.IsZero()
}

// MayBecome reports whether next may follow i in the store: a life only goes forward, and one whose bootstrap was given up
// does not form.
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

// WasReplaced reports whether id names an incarnation that a restore took the place of.
func (i *Incarnation) WasReplaced(id string) bool {
	return i != nil && slices.Contains(i.Replaced, id)
}

// Keeps reports whether a membership is one of this incarnation, or one that ended in a life before it and left a volume.
func (i *Incarnation) Keeps(j Join) bool {
	return i.Life(j.Incarnation) || !j.EndedAt.IsZero() && i.WasReplaced(j.Incarnation)
}

// Join is one node's one membership. It is stored before its first start.
type Join struct {
	ID          JoinID `json:"id"`
	Incarnation string `json:"incarnation"`
	// Node is the machine as it was declared when the join was made; address and SSH access stay known
	// even after the node has left the cluster file.
	Node Node `json:"node"`
	// Member is the member's name in etcd.
	Member string `json:"member"`
	// Volume is the name of both the volume and the container.
	Volume     string `json:"volume"`
	ClientPort int    `json:"clientPort"`
	PeerPort   int    `json:"peerPort"`
	// Etcd is how its container is described: the options of the cluster file that were last applied to it.
	Etcd EtcdOptions `json:"etcd"`
	// Made are the limits that its engine gave the container where those are not the ones asked for: it discards what its
	// kernel does not support. Nil: as asked for.
	Made *Resources `json:"made,omitempty"`
	// Newest is the minor of etcd 3.x that its log was made ready for, which is not undone by going back; 0: that of Etcd.
	Newest int `json:"newest,omitempty"`
	// Bundle names the authorities that the member was started with last, see Authorities.Bundle: etcd reads them when it
	// starts. Empty: those that the cluster was founded with.
	Bundle string `json:"bundle,omitempty"`
	// MemberID is etcd's member id in hex, once known.
	MemberID string `json:"memberID,omitempty"`
	// StartedAt is set before the first start: from then on the volume must hold a WAL, or its data is gone.
	StartedAt time.Time `json:"startedAt,omitzero"`
	// Stopping is set before its engine is asked to stop it, and cleared once the engine has answered: until then the request may be
	// carried out at any time, also long after it was given up.
	Stopping bool `json:"stopping,omitempty"`
	// Apart is set where two clusters, or one with older data, were found, and a person lifted the freeze while this member did not
	// serve and others did: it served without them, and is put aside. It is stopped, and not started any more, until it is replaced.
	Apart bool `json:"apart,omitempty"`
	// Repair is set before its member is removed for lost data, or as a learner that did not come up: nobody asked for one
	// member fewer, so whatever takes its place waits for nobody's consent.
	Repair bool `json:"repair,omitempty"`
	// NeverVoted is set before its member is removed as a learner, or where it never started and no volume of it was seen: a volume
	// holds nothing that voters do not hold, and goes with the membership.
	NeverVoted bool `json:"neverVoted,omitempty"`
	// EndedAt is set once its member has left the member list for good; the volume may still be there.
	EndedAt time.Time `json:"endedAt,omitzero"`
	// KeepUntil is when an archived volume may be removed; zero: it is kept until a person purges it.
	KeepUntil time.Time `json:"keepUntil,omitzero"`
	// PurgedAt is set before the volume of an ended membership is removed.
	PurgedAt time.Time `json:"purgedAt,omitzero"`
	// RemovedAt is set once that volume is known to be gone.
	RemovedAt time.Time `json:"removedAt,omitzero"`
}

// Expired reports whether the volume of an ended membership is to be removed now: its time is over, or its removal was
// begun.
func (j Join) Expired(now time.Time) bool {
	switch {
	case j.EndedAt.IsZero() || !j.RemovedAt.IsZero():
		return false
	case !j.PurgedAt.IsZero():
		return true
	}
	return !j.KeepUntil.IsZero() && !now.Before(j.KeepUntil)
}

// PeerURL is where the other members reach this join.
func (j Join) PeerURL() string { return httpsURL(j.Node.Address, j.PeerPort) }

// ClientURL is where clients reach this join.
func (j Join) ClientURL() string { return httpsURL(j.Node.Address, j.ClientPort) }

// Place is where the member of this join is reached: its client URL and its peer URL.
func (j Join) Place() string { return j.ClientURL() + " " + j.PeerURL() }

// NewIncarnation makes a fresh identity for a bootstrap of c on its control-plane nodes. Nothing is stored.
// previous is the abandoned life that it follows, or nil.
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

// NewJoin makes a fresh membership of n in an incarnation. Nothing is stored.
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

// FirstRevision is the revision of a cluster that no client has written to. Source: etcd, mvcc.
const FirstRevision = 1
