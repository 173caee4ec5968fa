package cke

import (
	"context"
	"crypto/tls"
	"time"
)

// StartMode is how a member's container is to be described.
type StartMode string

const (
	// StartNew founds a cluster: --initial-cluster-state=new with all founders. Only while the incarnation is forming.
	StartNew StartMode = "new"
	// StartJoin joins a member that was just added: existing, with the fresh member list.
	StartJoin StartMode = "join"
	// StartOwnData starts a member that has its data. Its initial cluster is the member alone with state "existing":
	// etcd ignores both once a WAL exists and refuses to start without one, so an empty volume cannot be started
	// even by the engine's own restart.
	StartOwnData StartMode = "own-data"
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
// is no error.
type Machine interface {
	// EnsureImage makes the image present: already there, loaded from an archive that the management host
	// holds, or pulled. progress may be nil.
	EnsureImage(ctx context.Context, ref string, progress func(string)) error
	// EnsureVolume creates the join's volume with its labels. ErrConflict: one of that name has other labels.
	EnsureVolume(ctx context.Context, s MemberSpec) error
	// EnsureContainer creates the join's container, not started, and replaces one that is not running and was made
	// from another description. It never creates a volume: ErrDataMissing when the join's volume is not there.
	EnsureContainer(ctx context.Context, s MemberSpec) error
	// PutFiles writes files into the volume of the join's container, which need not run.
	PutFiles(ctx context.Context, j Join, files []File) error
	// Data looks for a write-ahead log in the volume of the join's container, without starting anything.
	Data(ctx context.Context, j Join) (DataState, error)
	// StartContainer starts the join's container.
	StartContainer(ctx context.Context, j Join) error
	// KeepRunning lets the engine itself restart the container after a crash and after a reboot of the node.
	KeepRunning(ctx context.Context, j Join) error
	// StopContainer sends SIGTERM, waits for grace, kills; ends the engine's own restarts first.
	StopContainer(ctx context.Context, j Join, grace time.Duration) error
	// RemoveContainer removes the join's container, which must not run. The volume stays.
	RemoveContainer(ctx context.Context, j Join) error
	// RemoveVolume removes the join's volume and all data in it.
	RemoveVolume(ctx context.Context, j Join) error
	// DataSize is the size in bytes of the database in the volume of the join's container; 0 while there is none.
	DataSize(ctx context.Context, j Join) (int64, error)
	// Container looks at the join's container now. ErrNotFound when there is none.
	Container(ctx context.Context, j Join) (Container, error)
}

// Etcd speaks with the members of one cluster, each by its own URL.
type Etcd interface {
	// Endpoint asks one member about itself; it never fails, trouble is in the result.
	Endpoint(ctx context.Context, url string) EndpointStatus
	// Members returns a linearizable member list and the cluster id in hex, through one endpoint.
	Members(ctx context.Context, url string) (clusterID string, members []Member, err error)
	// AddLearner adds a learner with this peer URL and returns its id in hex. ErrConflict: a member has that URL.
	// A time-out means unknown, here and below: read the list again before anything else.
	AddLearner(ctx context.Context, url, peerURL string) (id string, err error)
	// Promote makes a learner a voter. ErrNotReady: etcd says that it has not caught up.
	Promote(ctx context.Context, url, id string) error
	// RemoveMember removes a member from the list. ErrNotFound: it is not in it.
	RemoveMember(ctx context.Context, url, id string) error
	// MoveLeader moves leadership to a voter; url is the present leader's.
	MoveLeader(ctx context.Context, url, id string) error
	// ProveWrite takes one proposal through raft by way of this endpoint, leaving no key and no revision behind.
	ProveWrite(ctx context.Context, url string) error
}

// Authority issues the certificates of one cluster.
type Authority interface {
	// Ensure makes the cluster's CAs on first need and returns once they are stored.
	Ensure(ctx context.Context) error
	// MemberFiles issues fresh peer and server certificates for a join and returns all that its volume needs.
	MemberFiles(ctx context.Context, j Join) ([]File, error)
	// ClientTLS is what cke itself shows to members.
	ClientTLS(ctx context.Context) (*tls.Config, error)
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
	Incarnation *Incarnation `json:"incarnation,omitempty"` // nil: never bootstrapped
	// Joins are all memberships of the incarnation that have not ended, founders included.
	Joins []Join `json:"joins,omitempty"`
	// Ended are the memberships of the incarnation that have.
	Ended []Join `json:"ended,omitempty"`
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

// Ledger keeps a cluster's identity. Every write is one transaction guarded by the leader key:
// ErrDeposed, with nothing written, once the term has ended.
type Ledger interface {
	Identity(ctx context.Context) (Identity, error)
	// CreateIncarnation stores a first or, after an abandoned one, a new life with its founders' joins.
	// ErrConflict when the cluster has an incarnation already.
	CreateIncarnation(ctx context.Context, inc Incarnation) error
	// UpdateIncarnation stores a changed State, ClusterID or FormedAt of the present incarnation.
	UpdateIncarnation(ctx context.Context, inc Incarnation) error
	// PutJoins stores joins of the present incarnation, all or none.
	PutJoins(ctx context.Context, joins ...Join) error
	// FinishDelete moves all that the store holds of the cluster to the archive of deleted clusters; the term ends.
	FinishDelete(ctx context.Context) error
}
