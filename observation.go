package cke

import (
	"fmt"
	"slices"
	"time"

	"cke/quorum"
)

// Observation is what was seen of one cluster in one look. It is facts only: trouble is a value in it,
// never an error that blanks the rest.
type Observation struct {
	ObservedAt time.Time `json:"observedAt"`
	// Nodes holds every declared node in the order of the file, then the nodes of known joins that are
	// declared no more.
	Nodes []NodeStatus `json:"nodes"`
	Etcd  EtcdStatus   `json:"etcd"`
	// Partial: a member's container has just stopped, and members that did not answer at once were not waited for. What
	// it says of silent members is no proof: it is good for starting stopped ones, and must not be told.
	Partial bool `json:"partial,omitempty"`
}

// Node returns what was seen of the node with this name.
func (o Observation) Node(name string) (NodeStatus, bool) {
	for _, n := range o.Nodes {
		if n.Node.Name() == name {
			return n, true
		}
	}
	return NodeStatus{}, false
}

// NodeStatus is what was seen of one machine.
type NodeStatus struct {
	Node Node `json:"node"`
	// Problem is why the node did not answer in full; nil when it did. With a problem that makes the node
	// unreachable, Containers and Volumes are what was last seen, at SeenAt: never a proof of anything now.
	Problem *Problem `json:"problem,omitempty"`
	// SeenAt is when the node last answered in full; zero: never in this term.
	SeenAt time.Time `json:"seenAt,omitzero"`
	// Clock is the node's own time at SeenAt, to the second; zero: it was not told.
	Clock time.Time `json:"clock,omitzero"`
	// EngineVersion is the Docker engine's, as "20.10.24".
	EngineVersion string `json:"engineVersion,omitempty"`
	// Containers are those that carry etcd: with the cluster's labels, or without labels and of an etcd image or named as ours
	// would be.
	Containers []Container `json:"containers,omitempty"`
	// Neighbors are the other clusters of cke's that have containers on the node.
	Neighbors []Neighbor `json:"neighbors,omitempty"`
	// Volumes are those with the cluster's labels, or without labels and with a name that starts with its volume_name.
	Volumes []Volume `json:"volumes,omitempty"`
	// Over are incarnations of the cluster that are over, by marks that were left on the node; see Machine.MarkOver.
	Over []string `json:"over,omitempty"`
	// ClientPort and PeerPort tell whether something listens on the cluster's etcd ports of the node's address,
	// seen from the management host. Asked only of nodes on which no container of the cluster runs that was made for them.
	ClientPort PortState `json:"clientPort,omitempty"`
	PeerPort   PortState `json:"peerPort,omitempty"`
}

// Answered reports whether the node answered in full within this observation.
func (s NodeStatus) Answered() bool { return s.Problem == nil }

// Of returns the container of a join on this node.
func (s NodeStatus) Of(join JoinID) (Container, bool) {
	for _, c := range s.Containers {
		if c.Join == join {
			return c, true
		}
	}
	return Container{}, false
}

// VolumeOf returns the volume of a join on this node.
func (s NodeStatus) VolumeOf(j Join) (Volume, bool) {
	for _, v := range s.Volumes {
		if v.Of(j) {
			return v, true
		}
	}
	return Volume{}, false
}

// PortState is what a TCP connect to a port said.
type PortState string

// Port states. Unknown (no answer in time, or not asked) never counts as closed.
const (
	PortUnknown PortState = ""
	PortClosed  PortState = "closed"
	PortOpen    PortState = "open"
)

// ContainerState is the Docker engine's word for it.
type ContainerState string

// Container states, as the Docker API names them.
const (
	ContainerCreated    ContainerState = "created"
	ContainerRunning    ContainerState = "running"
	ContainerPaused     ContainerState = "paused"
	ContainerRestarting ContainerState = "restarting"
	ContainerExited     ContainerState = "exited"
	ContainerDead       ContainerState = "dead"
)

// DataState tells whether a join's volume holds a write-ahead log.
type DataState string

// Data states. Unknown is never taken for missing.
const (
	DataUnknown DataState = ""
	DataPresent DataState = "present"
	DataMissing DataState = "missing"
)

// Container is an etcd container on a node.
type Container struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Image string         `json:"image"`
	State ContainerState `json:"state"`
	// Cluster, Incarnation and Join are our labels; empty on a foreign container.
	Cluster     string `json:"cluster,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	Join        JoinID `json:"join,omitempty"`
	// ImageID is the content address of the image that it was made from, as "sha256:…"; asked of this cluster's only.
	ImageID string `json:"imageID,omitempty"`
	// CPUs and Memory are its limits, in CPUs and bytes; 0: none, or not asked.
	CPUs   float64 `json:"cpus,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// Description is the label with the digest of the MemberSpec that the container was made from.
	Description string `json:"description,omitempty"`
	// Options is the label with the digest of the EtcdOptions that it was made with; empty: not known.
	Options string `json:"options,omitempty"`
	// Place is the label with the Place of the membership when the container was made; empty: not known.
	Place      string    `json:"place,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ExitCode   int       `json:"exitCode,omitempty"`
	// LastWords is the last error in the log of a container that exited, in one line.
	LastWords string `json:"lastWords,omitempty"`
	// Data is asked of containers of this cluster, in whatever state. Of one that runs, missing data was removed under it: etcd goes
	// on with the files that it has open, and would not start again.
	Data DataState `json:"data,omitempty"`
	// Certificates is what the member's certificate files are worth, of this cluster's only; nil: not known.
	Certificates *CertificateFiles `json:"certificates,omitempty"`
	// The rest is asked of foreign containers only. PeerURLs are those that its settings give its etcd as its own, Mounts
	// the names of its volumes and the directories of the node that it uses.
	PeerURLs []string `json:"peerURLs,omitempty"`
	Mounts   []string `json:"mounts,omitempty"`
	// StartsEmpty: its arguments could start a member on an empty volume. Those of a learner's first container can, and those that
	// earlier versions of cke gave founders.
	StartsEmpty bool `json:"startsEmpty,omitempty"`
	// KeptDown: its engine does not start it by itself, neither after a crash nor after a reboot.
	KeptDown bool `json:"keptDown,omitempty"`
	// AutoRemove: its engine removes it, with its volumes that have no name, once it stops.
	AutoRemove bool `json:"autoRemove,omitempty"`
}

// StandsAt reports whether the container was made for where a membership is on record, or does not tell for where.
func (c Container) StandsAt(j Join) bool {
	return c.Place == "" || c.Place == j.Place()
}

// Running reports whether the container's process is there; a paused one is.
func (c Container) Running() bool {
	return c.State == ContainerRunning || c.State == ContainerPaused
}

// EverRan reports whether the container was ever started.
func (c Container) EverRan() bool { return !c.StartedAt.IsZero() || c.active() }

// NothingWritten reports whether no client can have written to a cluster: a quorum of its founders, of whom these are the
// answers, reads through a quorum that it is at its first revision.
func NothingWritten(founders int, answers []EndpointStatus) bool {
	first := 0
	for _, e := range answers {
		if e.Problem == "" && e.Linearizable && e.Revision == FirstRevision {
			first++
		}
	}
	return first >= quorum.Of(founders)
}

// stoppedCodes are the exit codes of a container that was stopped: etcd that was asked to end, and etcd that was killed when
// its grace was over. What loses power, or crashes, ends with others.
var stoppedCodes = []int{0, 137}

// MayHoldWrites says why a founder may hold what clients wrote though its cluster was never formed by the record; "": it does not. c
// is its container, e its answer; stops is whether it may have been stopped without having served: its bootstrap was given up by
// the record, or the other founders prove that nothing was written. Engines are told to restart founders by themselves after all
// of them have served, and what was never started, or answers and has nothing, holds nothing.
func (j Join) MayHoldWrites(c Container, e EndpointStatus, stops bool) string {
	switch answers := e.Problem == "" && e.MemberID != ""; {
	case answers && e.Revision > FirstRevision:
		return fmt.Sprintf("the member at %s holds revision %d", e.URL, e.Revision)
	case answers || !c.EverRan():
		return ""
	case j.StartedAt.IsZero():
		return fmt.Sprintf("container %s was started, and no start is on record", c.Name)
	case !c.KeptDown:
		return fmt.Sprintf("container %s is started by its engine, as those of a cluster that has served are", c.Name)
	case !stops && c.State == ContainerExited && slices.Contains(stoppedCodes, c.ExitCode):
		return fmt.Sprintf("container %s was stopped, as those of a cluster that hibernates are", c.Name)
	}
	return ""
}

// Volume is a volume on a node that may hold etcd data.
type Volume struct {
	Name string `json:"name"`
	// Cluster, Incarnation and Join are our labels; empty on a foreign volume.
	Cluster     string    `json:"cluster,omitempty"`
	Incarnation string    `json:"incarnation,omitempty"`
	Join        JoinID    `json:"join,omitempty"`
	CreatedAt   time.Time `json:"createdAt,omitzero"`
}

// Of reports whether a volume is that of a join: by its labels or, where the engine lost all of them, by its name, which
// contains the id. Whether it holds the data is for Data to say.
func (v Volume) Of(j Join) bool {
	if v.Cluster == "" && v.Incarnation == "" && v.Join == "" {
		return v.Name == j.Volume
	}
	return v.Join == j.ID && v.Incarnation == j.Incarnation
}

// EtcdStatus is what etcd itself answered. Every endpoint is asked on its own, with its own deadline.
type EtcdStatus struct {
	// Endpoints are those of known joins, one each.
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	// Members is the member list; MembersSource tells how far it can be trusted.
	Members       []Member      `json:"members,omitempty"`
	MembersSource MembersSource `json:"membersSource,omitempty"`
	// Quorate: a linearizable read succeeded through at least one endpoint.
	Quorate bool    `json:"quorate"`
	Alarms  []Alarm `json:"alarms,omitempty"`
	// Elsewhere are those that answer where they are not on record.
	Elsewhere []Elsewhere `json:"elsewhere,omitempty"`
}

// Endpoint returns what the member of a join answered.
func (s EtcdStatus) Endpoint(join JoinID) (EndpointStatus, bool) {
	for _, e := range s.Endpoints {
		if e.Join == join {
			return e, true
		}
	}
	return EndpointStatus{}, false
}

// MembersSource tells where a member list came from.
type MembersSource string

// Sources of a member list. Only a linearizable one is a fact about the cluster.
const (
	MembersUnknown      MembersSource = ""
	MembersLinearizable MembersSource = "linearizable"
	MembersLocal        MembersSource = "local"
	// MembersRemembered: no member reports the list now; it is the one that was read last.
	MembersRemembered MembersSource = "remembered"
)

// Member is an entry of etcd's member list.
type Member struct {
	ID string `json:"id"` // hex
	// Name is empty while the member has never started.
	Name       string   `json:"name,omitempty"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs,omitempty"`
	Learner    bool     `json:"learner,omitempty"`
}

// Alarm is an active etcd alarm: NOSPACE or CORRUPT. MemberID "0" means that etcd cannot tell who.
type Alarm struct {
	MemberID string `json:"memberID"`
	Kind     string `json:"kind"`
}

// EndpointStatus is what one etcd member answered about itself.
type EndpointStatus struct {
	Join JoinID `json:"join,omitempty"`
	URL  string `json:"url"`
	// Problem is why it did not answer the local questions; empty when it did.
	Problem string `json:"problem,omitempty"`
	// Denied: etcd's authentication is on and refuses cke. The refusal proves the reads; changes, hashes and snapshots fail.
	Denied bool `json:"denied,omitempty"`
	// Serializable and Linearizable tell which reads succeeded through this endpoint.
	Serializable   bool     `json:"serializable"`
	Linearizable   bool     `json:"linearizable"`
	ClusterID      string   `json:"clusterID,omitempty"` // hex
	MemberID       string   `json:"memberID,omitempty"`  // hex
	LeaderID       string   `json:"leaderID,omitempty"`  // hex; empty: it knows no leader
	Learner        bool     `json:"learner,omitempty"`
	Version        string   `json:"version,omitempty"`
	StorageVersion string   `json:"storageVersion,omitempty"`
	Revision       int64    `json:"revision,omitempty"`
	DBSize         int64    `json:"dbSize,omitempty"`      // bytes
	DBSizeInUse    int64    `json:"dbSizeInUse,omitempty"` // bytes
	RaftTerm       uint64   `json:"raftTerm,omitempty"`
	RaftIndex      uint64   `json:"raftIndex,omitempty"`
	RaftApplied    uint64   `json:"raftApplied,omitempty"`
	Errors         []string `json:"errors,omitempty"`
	// CertNotBefore and CertNotAfter bound the life of the certificate that the member showed.
	CertNotBefore time.Time `json:"certNotBefore,omitzero"`
	CertNotAfter  time.Time `json:"certNotAfter,omitzero"`
}

// Serves reports whether a voter of the cluster of an id answered a linearizable read: it is one of a quorum.
func (e EndpointStatus) Serves(clusterID string) bool {
	return e.Problem == "" && e.Linearizable && !e.Learner && e.MemberID != "" && e.ClusterID == clusterID
}

// Apart returns two members of a cluster id that serve without each other: one is led by another member than the other, or is not in
// the member list that the other one gave. An election or a removal between two answers looks alike for a moment. false: none do.
func (s EtcdStatus) Apart(clusterID string) (one, other EndpointStatus, is bool) {
	serves := func(e EndpointStatus) bool { return e.Join != "" && e.Serves(clusterID) } // a member that cke does not know is for a person to judge
	listed := func(e EndpointStatus) bool {
		return s.MembersSource != MembersLinearizable || slices.ContainsFunc(s.Members, func(m Member) bool { return m.ID == e.MemberID })
	}
	for i, e := range s.Endpoints {
		if !serves(e) {
			continue
		}
		for _, o := range s.Endpoints[:i] {
			if serves(o) && (e.FollowsAnother(o) || listed(e) != listed(o)) {
				return o, e, true
			}
		}
	}
	return EndpointStatus{}, EndpointStatus{}, false
}

// FollowsAnother reports whether two members say that different ones lead.
func (e EndpointStatus) FollowsAnother(o EndpointStatus) bool {
	return e.LeaderID != "" && o.LeaderID != "" && e.LeaderID != o.LeaderID
}

// Voted reports whether a member followed another leader, or the same one in another term, when it answered before: it took part in an
// election, or heard of one, between the two.
func (e EndpointStatus) Voted(before EndpointStatus) bool {
	return e.Join != before.Join || e.LeaderID != before.LeaderID || e.RaftTerm != before.RaftTerm
}

// Healthy: it answers local reads and reports no error of its own. Source: etcd-operator #468.
func (e EndpointStatus) Healthy() bool {
	return e.Problem == "" && e.Serializable && len(e.Errors) == 0
}
