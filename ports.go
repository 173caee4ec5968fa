package cke

import (
	"context"
	"crypto/tls"
	"io"
	"slices"
	"time"
)

// StartMode is how a member's container is described.
type StartMode string

const (
	// StartJoin joins a member that was just added: existing, with the fresh member list.
	StartJoin StartMode = "join"
	// StartOwnData starts a member that has its data. Its initial cluster is the member alone with state "existing":
	// etcd ignores both once a WAL exists and refuses to start without one, so that even a restart by the engine cannot
	// start it on an empty volume.
	StartOwnData StartMode = "own-data"
	// StartPrepared starts a member for the first time on data that a bootstrap or a restore made for it: described as
	// with StartOwnData, but the engine does not start it by itself yet.
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
	// Machine never fails and never dials: errors come from the calls on it.
	Machine(n Node) Machine
}

// Machine is one node as operations change it. Every call needs a context with a deadline; an error that wraps
// context.DeadlineExceeded means that the outcome is unknown: observe again. Every call may be repeated.
// A renamed container of a membership is found by its labels; a volume of the membership's name without labels of cke
// belongs to the membership.
type Machine interface {
	// EnsureImage makes the image present: already there, loaded from an archive on the management host, or pulled.
	// progress may be nil.
	EnsureImage(ctx context.Context, ref string, progress func(string)) error
	// EnsureVolume creates the membership's volume with its labels. ErrConflict: one of that name has other labels.
	EnsureVolume(ctx context.Context, s MemberSpec) error
	// EnsureContainer creates the membership's container, not started, and replaces one that does not run and was made
	// from another description. It never creates a volume: ErrDataMissing if the membership's volume is missing.
	// CodePortTaken, nothing changed: the container, missing or made for other ports, would share a port with one of
	// another cluster on the node. CodeOlderStore, ErrConflict: the container was started, but no start is on record.
	EnsureContainer(ctx context.Context, s MemberSpec) error
	// TryOptions checks that a container of the membership could start with another description than the current one:
	// the image runs, what must be mounted is there, and etcd accepts its arguments. The trial has neither the
	// membership's volume nor a network, and leaves nothing. CodeOptions or CodeImage: it could not start. What cannot
	// be checked is no error.
	TryOptions(ctx context.Context, s MemberSpec) error
	// PutFiles writes files into the volume of the membership's container, which need not run. Each file is replaced as
	// a whole, even if the call is cut off: it is the old one, missing for a moment, or complete.
	PutFiles(ctx context.Context, j Join, files []File) error
	// PutFounder writes files and the first log of a member of a bootstrap, which lists only its first members, into the
	// volume of its container. ErrConflict: the container was started before.
	PutFounder(ctx context.Context, s MemberSpec, files []File) error
	// Certificates reads the files in the CertificateDir of the volume of the membership's container, which need not
	// run, and checks them.
	Certificates(ctx context.Context, j Join) ([]File, CertificateFiles, error)
	// Data checks for a write-ahead log in the volume of the membership's container, without starting anything.
	Data(ctx context.Context, j Join) (DataState, error)
	// StartContainer starts the membership's container. CodeOlderStore, ErrConflict, here and for KeepRunning: a mark on the
	// node names the membership.
	StartContainer(ctx context.Context, j Join) error
	// KeepRunning lets the engine restart the container by itself after a crash and after a reboot of the node.
	// ErrConflict: the container's arguments could start a member on an empty volume.
	KeepRunning(ctx context.Context, j Join) error
	// StopContainer switches off the engine's own restarts, sends SIGTERM, waits for grace, and kills.
	StopContainer(ctx context.Context, j Join, grace time.Duration) error
	// RemoveContainer removes the membership's container, which must not run. The volume stays.
	RemoveContainer(ctx context.Context, j Join) error
	// MarkOver leaves a mark on the node, which every observation of it shows, that incarnations or memberships of a
	// cluster are over: a store restored from an older copy may have one of them as a current one. Earlier marks remain;
	// see Marked.
	MarkOver(ctx context.Context, cluster string, ids []string) error
	// RemoveVolume removes the membership's volume and all data in it. It may need the membership's image, and gets it.
	RemoveVolume(ctx context.Context, j Join) error
	// DataSize returns the size in bytes of the database in the volume of the membership's container; 0: there is none.
	DataSize(ctx context.Context, j Join) (int64, error)
	// Clock returns the node's own time, to the second.
	Clock(ctx context.Context) (time.Time, error)
	// Boot returns the evidence of which boot of the node runs, read by a helper in this image, which must be on the node.
	// CodeImage: it is not.
	Boot(ctx context.Context, image string) (Boot, error)
	// Container observes the membership's container now. ErrNotFound: there is none.
	Container(ctx context.Context, j Join) (Container, error)
	// Foreign observes a foreign container, by its id in the engine. ErrNotFound: there is none.
	Foreign(ctx context.Context, id string) (Container, error)
	// StopForeign switches off the engine's restarts of a foreign container whose settings give its etcd one of these
	// peer URLs, and stops it as StopContainer does. It and its volumes are kept. One that does not exist counts as
	// stopped. ErrConflict, nothing done: it is another one, or would not be kept.
	StopForeign(ctx context.Context, id string, peerURLs []string, grace time.Duration) error
	// RestoreData makes the member's data from a snapshot, with the tool in the member's own etcd image, and replaces
	// all data in the volume of the membership's container, which must never have been started. Data made from the same
	// snapshot before is kept. open is called when the snapshot has to be sent; it is streamed.
	RestoreData(ctx context.Context, s RestoreSpec, open func(context.Context) (io.ReadCloser, error), progress func(string)) error
	// SaveData writes the database in the volume of the membership's container, which must not run, to w, as a snapshot
	// with its digest. Changes only in the write-ahead log are not included. ErrDataMissing: there is none.
	SaveData(ctx context.Context, j Join, w io.Writer) error
}

// Etcd is the access to the members of one cluster, each by its own URL.
type Etcd interface {
	// Endpoint probes one member; it never fails, errors are in the result. A learner that is cut off from its leader still
	// names it, and reports no error.
	Endpoint(ctx context.Context, url string) EndpointStatus
	// Members returns a linearizable member list and the cluster id in hex, through one endpoint.
	Members(ctx context.Context, url string) (clusterID string, members []Member, err error)
	// Listed returns the member list as far as one member has applied it, which needs no quorum, and the cluster id in hex. A
	// learner returns none.
	Listed(ctx context.Context, url string) (clusterID string, list MemberList, err error)
	// AddLearner adds a learner with this peer URL and returns its id in hex. ErrConflict: a member has that URL.
	// ErrNotReady: etcd refuses for now, as it does until its members have been connected for a few seconds. A time-out
	// means that the outcome is unknown, here and below: read the list again first.
	AddLearner(ctx context.Context, url, peerURL string) (id string, err error)
	// Promote makes a learner a voter. ErrNotReady: etcd says that it has not caught up.
	Promote(ctx context.Context, url, id string) error
	// RemoveMember removes a member from the list. ErrNotFound: it is not in it.
	RemoveMember(ctx context.Context, url, id string) error
	// MoveLeader moves leadership to a voter; url is the current leader's.
	MoveLeader(ctx context.Context, url, id string) error
	// UpdateMember changes the peer URL of a member. ErrNotFound: it is not in the list. ErrConflict: another member has
	// that URL.
	UpdateMember(ctx context.Context, url, id, peerURL string) error
	// HashKV hashes the member's data up to a revision; 0: its newest. ErrNotReady: the member has not reached it.
	// ErrCompacted: it no longer has it.
	HashKV(ctx context.Context, url string, revision int64) (HashKV, error)
	// Compact lets all members drop what was overwritten or deleted before a revision, and waits until the probed member
	// has done so. An already compacted revision is no error.
	Compact(ctx context.Context, url string, revision int64) error
	// Defragment gives the member's free database pages back to the disk. The member does not answer meanwhile.
	Defragment(ctx context.Context, url string) error
	// Arm raises one alarm, and returns once the probed member has applied it. An active one is no error.
	Arm(ctx context.Context, url string, a Alarm) error
	// Disarm clears one alarm.
	Disarm(ctx context.Context, url string, a Alarm) error
	// Auth returns the state of etcd's authentication, read over a separate connection.
	Auth(ctx context.Context, url string) (AuthState, error)
	// AdmitSelf creates EtcdUser and the user root, which etcd requires, without passwords, and grants both the role
	// root. What already exists is left as it is.
	AdmitSelf(ctx context.Context, url string) error
	// SetAuth turns etcd's authentication on or off. No change is no error. It is refused while there is no user root,
	// because then no user could turn it off.
	SetAuth(ctx context.Context, url string, on bool) error
	// Users returns etcd's users and roles. CodeAuth: authentication is on and refuses cke.
	Users(ctx context.Context, url string) (EtcdUsers, error)
	// Permit lets a tenant do this with a range. Role and user, without a password, are made if they are missing, the role
	// first. Other rights to the same range are replaced.
	Permit(ctx context.Context, url, name string, g Grant) error
	// Forbid withdraws all rights to a range that a tenant's role has; a role or range that is missing is no error.
	Forbid(ctx context.Context, url, name string, r KeyRange) error
	// RemoveUser removes a tenant's user, and then its role. What is missing is no error.
	RemoveUser(ctx context.Context, url, name string) error
	// ProveWrite takes one entry through raft via this endpoint, which changes nothing. After it the endpoint's RaftIndex
	// includes the entry.
	ProveWrite(ctx context.Context, url string) error
}

// Commands runs programs of the daemon's configuration beside the loop, in the term's name.
type Commands interface {
	// StartCommand starts a command, unless it was started in this term for the same attempt, and does not wait for its end.
	// ErrNotFound: the configuration has none of that name.
	StartCommand(ctx context.Context, run CommandRun) error
}

// Authority issues the certificates of one cluster. Authorities records which generation of each CA signs, and which
// ones are trusted.
type Authority interface {
	// Ensure creates the cluster's CAs at first use and returns once they are stored.
	Ensure(ctx context.Context, a Authorities) error
	// MemberFiles issues new peer and server certificates for a membership and returns all files that its volume needs.
	MemberFiles(ctx context.Context, j Join, a Authorities) ([]File, error)
	// RenewMember issues certificates for the keys that a member has, and returns the files that change. Only a key that
	// cannot be used is replaced, with its certificate.
	RenewMember(ctx context.Context, j Join, a Authorities, have []File) ([]File, error)
	// Bundles returns the files with the authorities that a member trusts.
	Bundles(ctx context.Context, a Authorities) ([]File, error)
	// CA returns a generation of an authority. ErrNotFound: there is none.
	CA(ctx context.Context, name AuthorityName, generation int) (CA, error)
	// CreateCA creates a generation of an authority and returns once it is stored; an existing one is kept.
	CreateCA(ctx context.Context, name AuthorityName, generation int) (CA, error)
	// ClientTLS returns what cke itself presents to members.
	ClientTLS(ctx context.Context, a Authorities) (*tls.Config, error)
}

// Secrets holds sealed values of one cluster.
type Secrets interface {
	// Secret returns a value. ErrNotFound: there is none of that name.
	Secret(ctx context.Context, name string) ([]byte, error)
	// CreateSecret stores a value, and never overwrites one. ErrConflict: there is one already.
	CreateSecret(ctx context.Context, name string, value []byte) error
}

// Identity is what cannot be observed about a cluster: which one it is.
type Identity struct {
	// Revision is that of the store when a Ledger read it: a write based on it is refused if it has changed since. 0: it
	// was not read for a write.
	Revision int64 `json:"-"`

	Incarnation *Incarnation `json:"incarnation,omitempty"` // nil: never bootstrapped
	// Joins are all current memberships of the incarnation, including the first ones.
	Joins []Join `json:"joins,omitempty"`
	// Ended are the ended memberships of the incarnation.
	Ended []Join `json:"ended,omitempty"`
	// Freeze is the last finding that stopped every change; it may have been lifted. nil: there was none.
	Freeze *Freeze `json:"freeze,omitempty"`
	// Compared is the last comparison of the members' data; nil: there was none.
	Compared *Comparison `json:"compared,omitempty"`
	// Sighted is what was seen that contradicts orders since they were given. It survives incarnations as the orders do.
	Sighted []Sighting `json:"-"`
	// Authorities are the cluster's certificate authorities. They survive its incarnations.
	Authorities Authorities `json:"authorities,omitzero"`
	// Deleted are the ids of incarnations and memberships of deleted clusters of this name, as far as the store has them.
	// Only where no incarnation was formed.
	Deleted []string `json:"-"`
	// GaveUp are incarnations that clusters of this name which were only declared, and deleted, gave up. Only where no
	// incarnation was formed.
	GaveUp []string `json:"-"`
}

// NewIdentity separates current from ended memberships, each in the given order.
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

// Has reports whether a membership with this id is on record, current or ended.
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

// Started reports whether a start of any current membership is on record.
func (i Identity) Started() bool {
	for _, j := range i.Joins {
		if !j.StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// Expired returns the ended memberships whose volumes must be removed now. Their nodes may have left the cluster
// file.
func (i Identity) Expired(now time.Time) []Join {
	var all []Join
	for _, j := range i.Ended {
		if j.Expired(now) {
			all = append(all, j)
		}
	}
	return all
}

// leavingFor is how long the node of a membership that ended is still observed: its container is being stopped.
const leavingFor = time.Minute

// Leaving returns the ended memberships whose nodes must still be observed, though they may have left the cluster
// file: the membership has only just ended, or its volume must be removed now.
func (i Identity) Leaving(now time.Time) []Join {
	var all []Join
	for _, j := range i.Ended {
		if j.Expired(now) || j.RemovedAt.IsZero() && now.Sub(j.EndedAt) < leavingFor {
			all = append(all, j)
		}
	}
	return all
}

// Ledger keeps a cluster's identity. Every write is one transaction guarded by the leader key: ErrDeposed, nothing
// written, once the term is over. A write that was given up, so that its outcome is unknown, changes nothing once
// another one was made.
type Ledger interface {
	Identity(ctx context.Context) (Identity, error)
	// CreateIncarnation stores a first incarnation or the one after an abandoned one, with its first memberships.
	// ErrConflict: the cluster already has an incarnation.
	CreateIncarnation(ctx context.Context, inc Incarnation) error
	// BeginRestore stores a restoring incarnation with its first memberships, in place of the one that it names as the
	// one before, whose memberships end at the new one's CreatedAt and are kept. ErrConflict: that one is no longer
	// current.
	BeginRestore(ctx context.Context, inc Incarnation) error
	// CancelRestore brings the incarnation before a restore back, with its memberships, and treats the restored one as
	// abandoned. ErrConflict: inc is not current, it is not restoring, or a member of it may have been started.
	CancelRestore(ctx context.Context, inc Incarnation) error
	// UpdateIncarnation stores a changed State, ClusterID or FormedAt of the current incarnation, how far the one before its
	// restore is known to be stored, that the restore is being canceled, what was seen of nodes that its order calls destroyed, by which member
	// lists it stopped no member, with which containers its members are about to start, and that its import is being reverted or is over.
	UpdateIncarnation(ctx context.Context, inc Incarnation) error
	// PutJoins stores memberships of the current incarnation, all or none, based on the identity that was read.
	// CodeSchema: a member is put aside, see Join.Apart, and a daemon may lead that does not know of it.
	// ErrConflict: one of them or the incarnation was written since or, if one is new, any membership was. So a write
	// that was given up and takes effect late changes nothing that was written after it.
	PutJoins(ctx context.Context, read Identity, joins ...Join) error
	// PutSightings stores what was seen of nodes that orders call destroyed.
	PutSightings(ctx context.Context, seen ...Sighting) error
	// DropSighting removes one whose order is over. ErrConflict: its request is still there.
	DropSighting(ctx context.Context, over Sighting) error
	// PutFreeze stores a finding, or that it was lifted. ErrConflict: another one is active, what is lifted is not the
	// current one, or the finding was lifted already.
	PutFreeze(ctx context.Context, f Freeze) error
	// PutComparison stores the last comparison of the members' data.
	PutComparison(ctx context.Context, c Comparison) error
	// PutAuthorities replaces the authorities before, and removes the keys that no record names any more. ErrConflict:
	// others are on record.
	PutAuthorities(ctx context.Context, before, after Authorities) error
	// PutDrain stores a maintenance lease in place of the node's current one. ErrConflict: another node has one that is
	// active at d.Since.
	PutDrain(ctx context.Context, d Drain) error
	// EndDrain removes the node's lease. A missing one is no error.
	EndDrain(ctx context.Context, node string) error
	// EditQueue stores what edit makes of a queue as it is; edit is called again if the queue was written in
	// between. An error of edit is returned, and nothing is stored.
	EditQueue(ctx context.Context, kind QueueKind, edit func(Queue) (Queue, error)) error
	// Deleting reports whether the cluster must be deleted.
	Deleting(ctx context.Context) (bool, error)
	// Asked returns the current requests to the leader daemon.
	Asked(ctx context.Context) (Requests, error)
	// SealDelete records that the deletion can no longer be canceled. ErrConflict: no deletion is requested.
	SealDelete(ctx context.Context) error
	// FinishDelete moves all that the store holds of the cluster to the archive of deleted clusters; the term is over
	// then. ErrConflict: no deletion is requested.
	FinishDelete(ctx context.Context) error
}
