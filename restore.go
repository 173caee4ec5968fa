package cke

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"time"
)

// RevisionBump is the least by which a restored cluster's revision is moved, so that no revision that a client may
// have seen is used again: about a week at 1500 writes a second. Source: etcd docs, disaster recovery.
const RevisionBump = 1_000_000_000

// TrustAny is the word for restoring without a signature by a trusted key.
const TrustAny = "any"

// Snapshot is the state that a cluster is restored to, as one file on a management host.
type Snapshot struct {
	// Revision is the cluster's at that state, from the incarnation and the full below; both are empty for a member's data.
	Revision int64  `json:"revision"`
	Lineage  string `json:"lineage,omitempty"`
	Full     string `json:"full,omitempty"`
	// At is when the newest change in it was received; zero: unknown.
	At time.Time `json:"at,omitzero"`
	// Etcd is the version that the data is of: no etcd of an earlier minor version starts on it. Empty: unknown.
	Etcd string `json:"etcd,omitempty"`
	// Size is in bytes; Digest is the SHA-256 of the file, in hex.
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

// Snapshots holds the snapshot of one restore on the management host. id is the restore's.
type Snapshots interface {
	// Fetch makes the snapshot that an order names, complete and verified. One that was made before under this id is
	// kept. A survivor's data is read from the member of that membership, which must not run; it is read again if the
	// container was started after it was read, and is still there.
	Fetch(ctx context.Context, id string, o RestoreOrder, survivor *Join, progress func(string)) (Snapshot, error)
	// Hash returns etcd's hash of its data right after the snapshot was restored with its revision moved by bump.
	Hash(ctx context.Context, id string, bump int64) (HashKV, error)
	// Open opens the file of a fetched snapshot.
	Open(ctx context.Context, id string) (io.ReadCloser, error)
	// Forget removes what was fetched, and the borrowed key of the backups.
	Forget(ctx context.Context, id string) error
	// NoSecond returns an error if a backup target has backups or an identity of a cluster of this name that this identity does
	// not know. A target that cannot be read is only reported.
	NoSecond(ctx context.Context, target string, id Identity, progress func(string)) error
}

// Restoration is how an incarnation was restored from a snapshot.
type Restoration struct {
	// ID is that of the task that requested it.
	ID    string       `json:"id"`
	By    string       `json:"by,omitempty"` // user@host
	Order RestoreOrder `json:"order"`
	// Snapshot is the state that was restored. Its digest may differ if it had to be fetched again.
	Snapshot Snapshot `json:"snapshot"`
	// Bump is how far the revision was moved, Data etcd's answer about its data right after that.
	Bump int64  `json:"bump"`
	Data HashKV `json:"data"`
	// Before is the incarnation that this one replaces; nil: there was none.
	Before *Incarnation `json:"before,omitempty"`
	// Freeze is the freeze of that incarnation: it applies again if the restore is called off.
	Freeze *Freeze `json:"freeze,omitempty"`
	// Last is the newest revision of that incarnation: it accepts no write after it, and its backups hold all up to it;
	// 0: unknown.
	Last int64 `json:"last,omitempty"`
	// Stopping: cke stops the writes of that incarnation, and may not have allowed them again.
	Stopping bool `json:"stopping,omitempty"`
	// Stops counts how often it did so; each time has a separate alarm.
	Stops int `json:"stops,omitempty"`
	// Canceling: the operator canceled it. It does not continue: it is canceled once enough of the members that it stopped start again.
	Canceling bool `json:"canceling,omitempty"`
	// Fence are the memberships that must no longer run before a member of this incarnation is started.
	Fence []JoinID `json:"fence,omitempty"`
	// Ran is when the containers of those memberships were last started, before the survivor's data was copied. A missing
	// one: never. Only of a recovery; nil: an earlier cke started it.
	Ran map[JoinID]time.Time `json:"ran,omitzero"`
	// Returned are nodes that the order names as destroyed, and that have answered since with a container of their member: what was
	// seen counts for more, so their members are stopped as those of other nodes, see Believed.
	Returned []string `json:"returned,omitempty"`
	// Fenced are memberships on such nodes whose containers were seen to be gone once the start of the restored members was on record: they
	// serve no client, also while their nodes do not answer. Reappeared are nodes of them that were seen with a member after that.
	Fenced     []JoinID `json:"fenced,omitempty"`
	Reappeared []string `json:"reappeared,omitempty"`
	// Prepared are the containers of the restored members, by their ids in their engines, as they were when the start of these members
	// was put on record: none of them had run. Only of a recovery; nil: no start is on record, or an earlier cke put it there.
	Prepared map[JoinID]string `json:"prepared,omitempty"`
	// Members is the newest known member list of the incarnation before; nil: none was known.
	Members []Member `json:"members,omitempty"`
	// MembersAt is the index of raft that the member had applied at least that reported Members; 0: an earlier cke recorded it.
	MembersAt uint64 `json:"membersAt,omitempty"`
	// Outside are member lists of what it replaces, one of each cluster, by which a step stopped no member: others could be a quorum. One that a quorum
	// confirms later takes its place.
	Outside []MemberList `json:"outside,omitempty"`
	// Compared: the store was, with what lies beside the backups. False: an earlier cke recorded it, or it is a recovery.
	Compared bool `json:"compared,omitempty"`
}

// Floor returns the lowest revision that no client of the restored cluster can have seen.
func (r *Restoration) Floor() int64 {
	if r == nil {
		return 0
	}
	return r.Snapshot.Revision + r.Bump
}

// NotStored returns the error of a restore that promised to store all data first, and cannot.
func NotStored(facts ...string) *Error {
	return &Error{Code: CodeNotStored, What: "cannot store the cluster's current data in its backups before the restore", Facts: facts, Try: "ckecli restore"}
}

// Replaces reports whether the cluster of this id serves until the restore replaces it: a restore that replaces an
// earlier one before that one started its members replaces the incarnation before both.
func (r *Restoration) Replaces(clusterID string) bool {
	for b := r.Before; b != nil; b = b.Restore.Before {
		if b.ClusterID == clusterID && clusterID != "" {
			return true
		}
		if b.State != Restoring || b.Restore == nil {
			return false
		}
	}
	return false
}

// With returns the incarnation with what UpdateIncarnation may change taken from the other one.
func (i Incarnation) With(next Incarnation) Incarnation {
	i.State, i.ClusterID, i.FormedAt = next.State, next.ClusterID, next.FormedAt
	if i.AbandonedAt.IsZero() {
		i.AbandonedAt = next.AbandonedAt
	}
	if i.Import != nil && next.Import != nil {
		from := *i.Import
		from.KeepOld, from.Reverting, from.Turned, from.EndedAt = next.Import.KeepOld, next.Import.Reverting, next.Import.Turned, next.Import.EndedAt
		i.Import = &from
	}
	if i.Restore != nil && next.Restore != nil {
		r := *i.Restore
		r.Last, r.Stopping, r.Stops = next.Restore.Last, next.Restore.Stopping, max(r.Stops, next.Restore.Stops)
		r.Canceling = r.Canceling || next.Restore.Canceling
		if next.Restore.Prepared != nil {
			r.Prepared = next.Restore.Prepared
		}
		for _, l := range next.Restore.Outside {
			if l.At >= OfCluster(r.Outside, l.ClusterID).At {
				r.Outside = WithList(r.Outside, l)
			}
		}
		r.Returned, r.Reappeared = With(r.Returned, next.Restore.Returned...), With(r.Reappeared, next.Restore.Reappeared...)
		r.Fenced = With(r.Fenced, next.Restore.Fenced...)
		i.Restore = &r
	}
	return i
}

// RestoreSpec is what a member's data is made from.
type RestoreSpec struct {
	// Member is the member in a cluster of Peers, whose token is new.
	Member   MemberSpec
	Snapshot Snapshot
	Bump     int64
}

// NewRestoration returns a new identity for a cluster that continues from a snapshot, on the control-plane nodes that
// the order does not leave out, in place of what it was. Its cluster id is known from the start. Nothing is stored.
func NewRestoration(c Cluster, was Identity, r Restoration, now time.Time) Incarnation {
	left := c
	left.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return r.Order.Excuses(n.Name()) })
	// If it is canceled, the memberships that ended with it are recognized by the time at which they did: no others have it.
	for slices.ContainsFunc(was.Ended, func(j Join) bool { return j.EndedAt.Equal(now) }) {
		now = now.Add(time.Nanosecond)
	}
	inc := NewIncarnation(left, nil, now)
	r.Freeze = was.Freeze
	inc.State, inc.Restore, inc.Import = Restoring, &r, was.Incarnation.imported(now)
	for _, j := range was.MayRun() {
		inc.Restore.Fence = append(inc.Restore.Fence, j.ID)
	}
	if b := was.Incarnation; b != nil {
		inc.Previous, inc.Replaced = b.Previous, b.Replaced
		if b.State == Abandoned {
			inc.Previous = newestOf(append(slices.Clone(inc.Previous), b.ID), KeptLives)
		} else if b.State != Awaiting {
			inc.Replaced = newestOf(append(slices.Clone(inc.Replaced), b.ID), KeptLives)
		}
		inc.Restore.Stopping = b.State == Restoring && b.Restore != nil && b.Restore.Stopping
		old := *b
		if old.Restore != nil && old.State != Restoring {
			end := *old.Restore
			end.Before, end.Freeze = nil, nil // what was before a restore that ended is told by its records
			old.Restore = &end
		}
		inc.Restore.Before = &old
	}
	inc.ClusterID = clusterIDOf(inc)
	return inc
}

// Restores returns the restores under way that may still need their backups, and what was fetched or borrowed for
// them: the current one, and those that it replaces, which continue if it is canceled. None does once the restored
// members may have been started.
func (i Identity) Restores() (all []Restoration) {
	if i.Started() {
		return nil
	}
	for inc := i.Incarnation; inc != nil && inc.State == Restoring && inc.Restore != nil; inc = inc.Restore.Before {
		all = append(all, *inc.Restore)
	}
	return all
}

// NewAwaiting returns the incarnation of a cluster that was declared for a restore. Nothing is stored.
func NewAwaiting(now time.Time) Incarnation {
	return Incarnation{ID: randomID(), State: Awaiting, CreatedAt: now.UTC()}
}

// Awaiting returns the identity of a cluster that was declared for a restore and that had this identity in another
// store: its members may run, on any nodes, and a restore stops them. Nothing is stored.
func (i Identity) Awaiting(now time.Time) Identity {
	inc := NewAwaiting(now)
	if was := i.Incarnation; was != nil {
		inc.Previous, inc.Replaced, inc.SeenUpTo, inc.Import = was.Previous, was.Replaced, was.Floor(), was.imported(now)
		switch was.State {
		case Awaiting:
		case Abandoned:
			inc.Previous = newestOf(append(slices.Clone(inc.Previous), was.ID), KeptLives)
		default:
			inc.Replaced = newestOf(append(slices.Clone(inc.Replaced), was.ID), KeptLives)
		}
	}
	running := i.MayRun()
	var all []Join
	for _, j := range slices.Concat(i.Joins, i.Ended) {
		if slices.ContainsFunc(running, func(o Join) bool { return o.ID == j.ID }) {
			j.EndedAt = time.Time{}
		}
		all = append(all, j)
	}
	next := NewIdentity(&inc, all)
	next.Authorities = i.Authorities
	return next
}

// Founder is a first member with the id that etcd gives it.
type Founder struct {
	Peer
	ID uint64
}

// Founders returns the peers with their ids, sorted by id.
func (s MemberSpec) Founders() []Founder {
	var all []Founder
	for _, p := range s.Peers {
		all = append(all, Founder{p, founderID(p.URL, s.Token)})
	}
	slices.SortFunc(all, func(a, b Founder) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// founderID computes the id that etcd gives a first member. Source: etcd server, api/membership, computeMemberID.
func founderID(peerURL, token string) uint64 {
	sum := sha1.Sum([]byte(peerURL + token))
	return binary.BigEndian.Uint64(sum[:8])
}

// ClusterIDOf computes the id that etcd gives a cluster with these first members. Source: etcd server,
// api/membership, genID.
func ClusterIDOf(founders []uint64) uint64 {
	var all []byte
	for _, id := range slices.Sorted(slices.Values(founders)) {
		all = binary.BigEndian.AppendUint64(all, id)
	}
	sum := sha1.Sum(all)
	return binary.BigEndian.Uint64(sum[:8])
}

func clusterIDOf(inc Incarnation) string {
	var ids []uint64
	for _, f := range inc.Founders {
		ids = append(ids, founderID(f.PeerURL(), inc.Token))
	}
	return fmt.Sprintf("%x", ClusterIDOf(ids))
}

// Superseded returns the memberships that the current restore replaces: none of them may run any more.
func (i Identity) Superseded() []Join {
	if i.Incarnation == nil || i.Incarnation.Restore == nil {
		return nil
	}
	var joins []Join
	for _, j := range i.Ended {
		if slices.Contains(i.Incarnation.Restore.Fence, j.ID) {
			joins = append(joins, j)
		}
	}
	return joins
}

// MayRun returns the memberships that may run now: the current ones, and those that a restore under way has not
// fenced.
func (i Identity) MayRun() []Join {
	joins := slices.Clone(i.Joins)
	if i.Incarnation != nil && i.Incarnation.State == Restoring {
		joins = append(joins, i.Superseded()...)
	}
	return joins
}

// NameIn returns by which of some names an order means the node of a membership: as it is on record, or as it is declared now; "": by none.
func (i Identity) NameIn(names []string, j Join) string {
	for _, r := range append(i.MayRun(), j) {
		if r.ID == j.ID && slices.Contains(names, r.Node.Name()) {
			return r.Node.Name()
		}
	}
	return ""
}

// BackedUp returns the identity that is backed up: while restored members are being prepared, that of the incarnation
// before.
func (i Identity) BackedUp() Identity {
	if i.Incarnation == nil || i.Incarnation.State != Restoring || i.Incarnation.Restore == nil {
		return i
	}
	was, err := i.RestoreCancelled(*i.Incarnation)
	if err != nil { // restored members may run
		return i
	}
	return was.BackedUp()
}

// BackedUpLives returns the incarnations of the cluster's backups, the current one first. One that awaits its restore has none.
func (i Identity) BackedUpLives() []string {
	inc := i.BackedUp().Incarnation
	lives := inc.Lives()
	if inc != nil && inc.State == Awaiting {
		return lives[1:]
	}
	return lives
}

// Restoring returns the identity once inc has started to replace what the cluster is. ErrConflict: the cluster is no
// longer what inc replaces.
func (i Identity) Restoring(inc Incarnation) (Identity, error) {
	if inc.State != Restoring || inc.Restore == nil {
		return i, fmt.Errorf("incarnation %s is %s: %w", inc.ID, inc.State, ErrConflict)
	}
	if !sameLife(i.Incarnation, inc.Restore.Before) {
		return i, fmt.Errorf("the cluster is no longer the one that %s replaces: %w", inc.ID, ErrConflict)
	}
	all := slices.Clone(inc.Founders)
	for _, j := range slices.Concat(i.Joins, i.Ended) {
		if j.EndedAt.IsZero() {
			j.EndedAt = inc.CreatedAt
		}
		all = append(all, j)
	}
	next := NewIdentity(&inc, all)
	next.Authorities, next.Sighted = i.Authorities, i.Sighted
	return next, nil
}

// RestoreCancelled returns the identity as it was before inc, which is treated as abandoned. ErrConflict: inc is not
// the current incarnation, or it has advanced too far.
func (i Identity) RestoreCancelled(inc Incarnation) (Identity, error) {
	now := i.Incarnation
	if !now.Life(inc.ID) || now.State != Restoring {
		return i, fmt.Errorf("incarnation %s is not being restored: %w", inc.ID, ErrConflict)
	}
	back := NewAwaiting(now.CreatedAt)
	if now.Restore.Before != nil {
		back = *now.Restore.Before
	}
	if back.State == Restoring { // clients may have written since it was put off: what was its last revision counts no more
		again := *back.Restore
		again.Last, again.Stopping = 0, again.Stopping || now.Restore.Stopping
		for _, node := range now.Restore.Returned { // what this one saw counts for the one before
			if slices.Contains(again.Order.Destroyed, node) {
				again.Returned = With(again.Returned, node)
			}
		}
		back.Restore = &again
	}
	// What was called off while this one was being prepared is to be cleaned up as well.
	back.Previous = newestOf(append(slices.DeleteFunc(slices.Clone(now.Previous), back.Life), inc.ID), KeptLives)
	var all []Join
	for _, j := range i.Joins {
		if !j.StartedAt.IsZero() {
			return i, fmt.Errorf("the restored member on %s may have been started: %w", j.Node.Name(), ErrConflict)
		}
	}
	for _, j := range i.Ended {
		if j.EndedAt.Equal(inc.CreatedAt) {
			j.EndedAt = time.Time{}
		}
		all = append(all, j)
	}
	was := NewIdentity(&back, all)
	was.Freeze, was.Authorities, was.Sighted = now.Restore.Freeze, i.Authorities, i.Sighted
	return was, nil
}

func sameLife(a, b *Incarnation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.State == b.State
}
