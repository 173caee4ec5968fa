package cke

import (
	"context"
	"crypto/tls"
	"io"
	"slices"
	"time"
)

// StartMode is how a member's container is to be described.
type StartMode string

const (
	// StartJoin joins a member that was just added: existing, with the fresh member list.
	StartJoin StartMode = "join"
	// StartOwnData starts a member that has its data. Its initial cluster is the member alone with state "existing":
	// etcd ignores both once a WAL exists and refuses to start without one, so an empty volume cannot be started
	// even by the engine's own restart.
	StartOwnData StartMode = "own-data"
	// StartPrepared starts a member for the first time on data that was made for it, by a bootstrap or a restore: described
	// as with StartOwnData, and the engine does not yet start it by itself.
	StartPrepared StartMode = "prepared"
)

// MemberSpec describes one member's container in full; etcdnode turns it into Docker's terms.
type MemberSpec struct {
	Cluster string
	// Join says which member on which node, and with Join.Etcd how it runs.
	Join  Join
	Mode  StartMode
	Token string
	// Peers are the members to start with, this one included, sorted by URL; ignored with StartOwnData.
	Peers []Peer
}

// Peer is one entry of --initial-cluster.
type Peer struct{ Name, URL string }

// File is put into a member's volume. Mode is 0600 for keys.
type File struct {
	Path string // relative to the volume, with forward slashes
	Mode int64
	Data []byte
}

// Machines gives access to nodes.
type Machines interface {
	// Machine never fails and never dials: trouble comes from the calls on it.
	Machine(n Node) Machine
}

// Machine is one node as operations change it. Every call needs a context with a deadline; an error that
// wraps context.DeadlineExceeded means unknown, look again. Every call may be repeated: what is already so
// is no error. A join's container is found by its labels too, if it was renamed; a volume of the join's name that has none of
// cke's labels is the join's.
type Machine interface {
	// EnsureImage makes the image present: already there, loaded from an archive that the management host
	// holds, or pulled. progress may be nil.
	EnsureImage(ctx context.Context, ref string, progress func(string)) error
	// EnsureVolume creates the join's volume with its labels. ErrConflict: one of that name has other labels.
	EnsureVolume(ctx context.Context, s MemberSpec) error
	// EnsureContainer creates the join's container, not started, and replaces one that is not running and was made
	// from another description. It never creates a volume: ErrDataMissing when the join's volume is not there. CodePortTaken, with
	// nothing changed: the container, which is not there or was made for other ports, would share a port with one of another
	// cluster on the node. CodeOlderStore, ErrConflict: the join's container was started, and the join's start is not on record.
	EnsureContainer(ctx context.Context, s MemberSpec) error
	// TryOptions tries whether a container of the join could start, with another description than it may run with now: the
	// image runs, what is to be mounted is there, and etcd takes the values of its arguments. It has neither the join's
	// volume nor a network, and leaves nothing. CodeOptions or CodeImage: it could not. What it cannot tell is no error.
	TryOptions(ctx context.Context, s MemberSpec) error
	// PutFiles writes files into the volume of the join's container, which need not run. Each file is replaced as a whole, also
	// when the call is cut off: it is as it was, is missing for a moment, or is complete.
	PutFiles(ctx context.Context, j Join, files []File) error
	// PutFounder writes files and a founder's first log, which lists the founders and nothing else, into the volume of its
	// container. ErrConflict: the container was started before.
	PutFounder(ctx context.Context, s MemberSpec, files []File) error
	// Certificates reads the files in the CertificateDir of the volume of the join's container, which need not run, and tells
	// what they are worth.
	Certificates(ctx context.Context, j Join) ([]File, CertificateFiles, error)
	// Data looks for a write-ahead log in the volume of the join's container, without starting anything.
	Data(ctx context.Context, j Join) (DataState, error)
	// StartContainer starts the join's container.
	StartContainer(ctx context.Context, j Join) error
	// KeepRunning lets the engine itself restart the container after a crash and after a reboot of the node. ErrConflict: the
	// container's arguments could start a member on an empty volume.
	KeepRunning(ctx context.Context, j Join) error
	// StopContainer sends SIGTERM, waits for grace, kills; ends the engine's own restarts first.
	StopContainer(ctx context.Context, j Join, grace time.Duration) error
	// RemoveContainer removes the join's container, which must not run. The volume stays.
	RemoveContainer(ctx context.Context, j Join) error
	// MarkOver leaves a mark on the node, which every look at it shows, that incarnations of a cluster are over: a store that is
	// brought back from an older copy may have one of them as the present one. What was marked before stays so; see Marked.
	MarkOver(ctx context.Context, cluster string, incarnations []string) error
	// RemoveVolume removes the join's volume and all data in it.
	RemoveVolume(ctx context.Context, j Join) error
	// DataSize is the size in bytes of the database in the volume of the join's container; 0 while there is none.
	DataSize(ctx context.Context, j Join) (int64, error)
	// Clock is the node's own time, to the second.
	Clock(ctx context.Context) (time.Time, error)
	// Container looks at the join's container now. ErrNotFound when there is none.
	Container(ctx context.Context, j Join) (Container, error)
	// Foreign looks at a container that cke did not make, by the engine's id of it. ErrNotFound: there is none.
	Foreign(ctx context.Context, id string) (Container, error)
	// StopForeign switches off the restarts by the engine of a container that cke did not make and whose settings give
	// its etcd one of these peer URLs, and stops it as StopContainer does. It and its volumes are kept. ErrConflict, with
	// nothing done: it is another one, or would not be kept. One that is not there is stopped.
	StopForeign(ctx context.Context, id string, peerURLs []string, grace time.Duration) error
	// RestoreData makes the member's data out of a snapshot, with the tool of the member's own etcd image, in place of all
	// data in the volume of the join's container, which must never have been started. Data that was made from the same
	// snapshot before is kept. open is called when the snapshot has to be sent; it is streamed.
	RestoreData(ctx context.Context, s RestoreSpec, open func(context.Context) (io.ReadCloser, error), progress func(string)) error
	// SaveData writes the database in the volume of the join's container, which must not run, to w, as a snapshot with its
	// digest. What only stands in the write-ahead log is not in it. ErrDataMissing: there is none.
	SaveData(ctx context.Context, j Join, w io.Writer) error
}

// Etcd speaks with the members of one cluster, each by its own URL.
type Etcd interface {
	// Endpoint asks one member about itself; it never fails, trouble is in the result.
	Endpoint(ctx context.Context, url string) EndpointStatus
	// Members returns a linearizable member list and the cluster id in hex, through one endpoint.
	Members(ctx context.Context, url string) (clusterID string, members []Member, err error)
	// AddLearner adds a learner with this peer URL and returns its id in hex. ErrConflict: a member has that URL.
	// ErrNotReady: etcd refuses for now, as it does while its members are not connected for a few seconds.
	// A time-out means unknown, here and below: read the list again before anything else.
	AddLearner(ctx context.Context, url, peerURL string) (id string, err error)
	// Promote makes a learner a voter. ErrNotReady: etcd says that it has not caught up.
	Promote(ctx context.Context, url, id string) error
	// RemoveMember removes a member from the list. ErrNotFound: it is not in it.
	RemoveMember(ctx context.Context, url, id string) error
	// MoveLeader moves leadership to a voter; url is the present leader's.
	MoveLeader(ctx context.Context, url, id string) error
	// UpdateMember changes the peer URL of a member. ErrNotFound: it is not in the list. ErrConflict: another member has
	// that URL.
	UpdateMember(ctx context.Context, url, id, peerURL string) error
	// HashKV hashes the member's data up to a revision; 0: its newest. ErrNotReady: the member has not reached it.
	// ErrCompacted: it no longer has it.
	HashKV(ctx context.Context, url string, revision int64) (HashKV, error)
	// Compact lets all members drop what was overwritten or deleted before a revision, and waits until the member asked
	// has done so. A revision that is compacted already is no error.
	Compact(ctx context.Context, url string, revision int64) error
	// Defragment gives the member's free database pages back to the disk. The member answers nobody meanwhile.
	Defragment(ctx context.Context, url string) error
	// Arm raises one alarm, and returns once the member asked has applied it. One that is active already is no error.
	Arm(ctx context.Context, url string, a Alarm) error
	// Disarm takes one alarm back.
	Disarm(ctx context.Context, url string, a Alarm) error
	// Auth returns how etcd's authentication is, asked over a connection of its own.
	Auth(ctx context.Context, url string) (AuthState, error)
	// AdmitSelf makes EtcdUser and the user root, which etcd wants, without passwords, and grants both the role root. What is
	// there already is left as it is.
	AdmitSelf(ctx context.Context, url string) error
	// SetAuth turns etcd's authentication on or off. That it is so already is no error. It is refused while there is no user
	// root: nobody could turn it off.
	SetAuth(ctx context.Context, url string, on bool) error
	// ProveWrite takes one proposal through raft by way of this endpoint, leaving no key and no revision behind.
	ProveWrite(ctx context.Context, url string) error
}

// Authority issues the certificates of one cluster. Which generation of each CA signs, and which are trusted, is as on
// record, in Authorities.
type Authority interface {
	// Ensure makes the cluster's CAs on first need and returns once they are stored.
	Ensure(ctx context.Context, a Authorities) error
	// MemberFiles issues fresh peer and server certificates for a join and returns all that its volume needs.
	MemberFiles(ctx context.Context, j Join, a Authorities) ([]File, error)
	// RenewMember issues certificates for the keys that a member has, and returns what differs from the files that it has.
	// Only for a key that cannot be used there is another one, with the certificate for it.
	RenewMember(ctx context.Context, j Join, a Authorities, have []File) ([]File, error)
	// Bundles are the files that tell a member whom to trust.
	Bundles(ctx context.Context, a Authorities) ([]File, error)
	// CA tells of a generation of an authority. ErrNotFound: there is none.
	CA(ctx context.Context, name AuthorityName, generation int) (CA, error)
	// CreateCA makes a generation of an authority and returns once it is stored; one that is there is kept.
	CreateCA(ctx context.Context, name AuthorityName, generation int) (CA, error)
	// ClientTLS is what cke itself shows to members.
	ClientTLS(ctx context.Context, a Authorities) (*tls.Config, error)
}

// Secrets holds sealed values of one cluster.
type Secrets interface {
	// Secret returns ErrNotFound if there is none of that name.
	Secret(ctx context.Context, name string) ([]byte, error)
	// CreateSecret returns ErrConflict if there is one already; it never overwrites.
	CreateSecret(ctx context.Context, name string, value []byte) error
}

// Identity is what cannot be observed about a cluster: who it is.
type Identity struct {
	// Revision is that of the store when a Ledger read it: what is written on the strength of it is refused if it has
	// changed since. 0: it was not read to be changed.
	Revision int64 `json:"-"`

	Incarnation *Incarnation `json:"incarnation,omitempty"` // nil: never bootstrapped
	// Joins are all memberships of the incarnation that have not ended, founders included.
	Joins []Join `json:"joins,omitempty"`
	// Ended are the memberships of the incarnation that have.
	Ended []Join `json:"ended,omitempty"`
	// Freeze is the last finding that stopped every change; it may have been lifted. nil: there never was one.
	Freeze *Freeze `json:"freeze,omitempty"`
	// Compared is the last comparison of the members' data; nil: there was none.
	Compared *Comparison `json:"compared,omitempty"`
	// Authorities are the cluster's certificate authorities. They outlast its incarnations.
	Authorities Authorities `json:"authorities,omitzero"`
}

// NewIdentity sorts memberships into those that last and those that ended, each in the given order.
func NewIdentity(inc *Incarnation, joins []Join) Identity {
	id := Identity{Incarnation: inc}
	for _, j := range joins {
		if j.EndedAt.IsZero() {
			id.Joins = append(id.Joins, j)
		} else {
			id.Ended = append(id.Ended, j)
		}
	}
	return id
}

// Join returns the membership with this id.
func (i Identity) Join(id JoinID) (Join, bool) {
	for _, j := range i.Joins {
		if j.ID == id {
			return j, true
		}
	}
	return Join{}, false
}

// Has reports whether a membership with this id is on record, whether it lasts or has ended.
func (i Identity) Has(id JoinID) bool {
	is := func(j Join) bool { return j.ID == id }
	return slices.ContainsFunc(i.Joins, is) || slices.ContainsFunc(i.Ended, is)
}

// On returns the membership of a node.
func (i Identity) On(n Node) (Join, bool) {
	for _, j := range i.Joins {
		if j.Node.Address == n.Address {
			return j, true
		}
	}
	return Join{}, false
}

// Started reports whether a start of any membership that lasts is on record.
func (i Identity) Started() bool {
	for _, j := range i.Joins {
		if !j.StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// Expired returns the ended memberships whose volumes are to be removed now. Their nodes may have left the cluster file.
func (i Identity) Expired(now time.Time) []Join {
	var all []Join
	for _, j := range i.Ended {
		if j.Expired(now) {
			all = append(all, j)
		}
	}
	return all
}

// leavingFor is how long the node of a membership that ended is still looked at: its container is being stopped.
const leavingFor = time.Minute

// Leaving returns the ended memberships whose nodes are still to be looked at, though they may have left the cluster
// file: the membership has only just ended, or its volume is to be removed now.
func (i Identity) Leaving(now time.Time) []Join {
	var all []Join
	for _, j := range i.Ended {
		if j.Expired(now) || j.RemovedAt.IsZero() && now.Sub(j.EndedAt) < leavingFor {
			all = append(all, j)
		}
	}
	return all
}

// Ledger keeps a cluster's identity. Every write is one transaction guarded by the leader key:
// ErrDeposed, with nothing written, once the term has ended. One that was given up, and whose outcome is therefore unknown,
// changes nothing any more once another one was made.
type Ledger interface {
	Identity(ctx context.Context) (Identity, error)
	// CreateIncarnation stores a first or, after an abandoned one, a new life with its founders' joins.
	// ErrConflict when the cluster has an incarnation already.
	CreateIncarnation(ctx context.Context, inc Incarnation) error
	// BeginRestore stores an incarnation that is restoring, with its founders' joins, in place of the one that it names as
	// the one before, whose memberships end at the new one's CreatedAt and are kept. ErrConflict: that is not the present
	// one any more.
	BeginRestore(ctx context.Context, inc Incarnation) error
	// CancelRestore puts the life before a restore back, with its memberships, and takes the restored one for abandoned.
	// ErrConflict: inc is not the present one, it is not restoring, or a member of it may have been started.
	CancelRestore(ctx context.Context, inc Incarnation) error
	// UpdateIncarnation stores a changed State, ClusterID or FormedAt of the present incarnation, and how far the life before
	// its restore is known to be stored.
	UpdateIncarnation(ctx context.Context, inc Incarnation) error
	// PutJoins stores joins of the present incarnation, all or none, as they follow from the identity that was read.
	// ErrConflict: one of them, or the incarnation, was written since, or, where one is new, any join was. So a write that
	// was given up and lands late changes nothing that was written after it.
	PutJoins(ctx context.Context, read Identity, joins ...Join) error
	// PutFreeze stores a finding, or that it was lifted. ErrConflict: another one is active, what is lifted is not the
	// present one, or what is found was lifted.
	PutFreeze(ctx context.Context, f Freeze) error
	// PutComparison stores the last comparison of the members' data.
	PutComparison(ctx context.Context, c Comparison) error
	// PutAuthorities stores the authorities in place of those before, and removes the keys that no record names any more.
	// ErrConflict: others are on record.
	PutAuthorities(ctx context.Context, before, after Authorities) error
	// PutDrain stores a maintenance lease in place of the one that the node has. ErrConflict: another node has one that
	// lasts at d.Since.
	PutDrain(ctx context.Context, d Drain) error
	// EndDrain removes the node's lease. None is no error.
	EndDrain(ctx context.Context, node string) error
	// Deleting reports whether the cluster is to be deleted.
	Deleting(ctx context.Context) (bool, error)
	// Asked returns what people ask of the leader now.
	Asked(ctx context.Context) (Requests, error)
	// SealDelete records that the deletion is not canceled any more. ErrConflict: nobody asks for it.
	SealDelete(ctx context.Context) error
	// FinishDelete moves all that the store holds of the cluster to the archive of deleted clusters; the term ends.
	// ErrConflict: nobody asked for the deletion.
	FinishDelete(ctx context.Context) error
}
