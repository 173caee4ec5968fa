package cke

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cke/quorum"
)

// Observation is what was seen of one cluster at one time. It has only facts: a failure is a value in it, never an
// error that hides the rest.
type Observation struct {
	ObservedAt time.Time `json:"observedAt"`
	// Nodes holds every declared node in the order of the file, then the nodes of known memberships that are no longer
	// declared.
	Nodes []NodeStatus `json:"nodes"`
	Etcd  EtcdStatus   `json:"etcd"`
	// Partial: a member's container has just stopped, and members that did not answer at once were not waited for. It
	// proves nothing about silent members: it may be used to start stopped ones, and must not be reported.
	Partial bool `json:"partial,omitempty"`
}

// Reached reports whether any node or member answered.
func (o Observation) Reached() bool {
	return slices.ContainsFunc(o.Nodes, func(n NodeStatus) bool { return n.Problem == nil || n.Problem.Code != CodeUnreachable }) ||
		slices.ContainsFunc(o.Etcd.Endpoints, func(e EndpointStatus) bool { return e.Problem == "" })
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

// NodeStatus is what was seen of one node.
type NodeStatus struct {
	Node Node `json:"node"`
	// Problem is why the node did not answer in full; nil: it did. If the problem makes the node unreachable, Containers
	// and Volumes are from SeenAt: never a proof of anything now.
	Problem *Problem `json:"problem,omitempty"`
	// SeenAt is when the node last answered in full; zero: never in this term.
	SeenAt time.Time `json:"seenAt,omitzero"`
	// Clock is the node's own time at SeenAt, to the second; zero: not reported.
	Clock time.Time `json:"clock,omitzero"`
	// EngineVersion is that of the Docker engine, as "20.10.24".
	EngineVersion string `json:"engineVersion,omitempty"`
	// Containers are those that run etcd: with the cluster's labels, or without labels and with an etcd image or a name
	// as cke gives.
	Containers []Container `json:"containers,omitempty"`
	// Neighbors are the other clusters of cke that have containers on the node.
	Neighbors []Neighbor `json:"neighbors,omitempty"`
	// Volumes are those with the cluster's labels, or without labels and with a name that starts with its volume_name.
	Volumes []Volume `json:"volumes,omitempty"`
	// Over are incarnations and memberships of the cluster that are over, by marks on the node; see Machine.MarkOver.
	Over []string `json:"over,omitempty"`
	// ClientPort and PeerPort report whether something listens on the cluster's etcd ports of the node's address, seen
	// from the management host. Probed only on nodes where no container of the cluster that was made for them runs.
	ClientPort PortState `json:"clientPort,omitempty"`
	PeerPort   PortState `json:"peerPort,omitempty"`
}

// Answered reports whether the node answered in full within this observation.
func (s NodeStatus) Answered() bool { return s.Problem == nil }

// Of returns the container of a membership on this node.
func (s NodeStatus) Of(join JoinID) (Container, bool) {
	for _, c := range s.Containers {
		if c.Join == join {
			return c, true
		}
	}
	return Container{}, false
}

// VolumeOf returns the volume of a membership on this node.
func (s NodeStatus) VolumeOf(j Join) (Volume, bool) {
	for _, v := range s.Volumes {
		if v.Of(j) {
			return v, true
		}
	}
	return Volume{}, false
}

// PortState is the result of a TCP connect to a port.
type PortState string

// Port states. Unknown (no answer in time, or not asked) never counts as closed.
const (
	PortUnknown PortState = ""
	PortClosed  PortState = "closed"
	PortOpen    PortState = "open"
)

// ContainerState is the state as the Docker engine names it.
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

// DataState is whether a membership's volume contains a write-ahead log.
type DataState string

// Data states. Unknown never counts as missing.
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
	// Cluster, Incarnation and Join are cke's labels; empty on a foreign container.
	Cluster     string `json:"cluster,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	Join        JoinID `json:"join,omitempty"`
	// ImageID is the content address of its image, as "sha256:…"; only for containers of this cluster.
	ImageID string `json:"imageID,omitempty"`
	// CPUs and Memory are its limits, in CPUs and bytes; 0: none, or unknown.
	CPUs   float64 `json:"cpus,omitempty"`
	Memory int64   `json:"memory,omitempty"`
	// Description is the label with the digest of the MemberSpec that the container was made from.
	Description string `json:"description,omitempty"`
	// Options is the label with the digest of the EtcdOptions that it was made with; empty: unknown.
	Options string `json:"options,omitempty"`
	// Place is the label with the Place of the membership when the container was made; empty: unknown.
	Place      string    `json:"place,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ExitCode   int       `json:"exitCode,omitempty"`
	// LastWords is the last error in the log of a container that exited, in one line.
	LastWords string `json:"lastWords,omitempty"`
	// Data is checked for containers of this cluster, in any state. If one runs, missing data was removed under it: etcd
	// continues with the files that it has open, and could not start again.
	Data DataState `json:"data,omitempty"`
	// Certificates is what was found in the member's certificate files, only for this cluster; nil: unknown.
	Certificates *CertificateFiles `json:"certificates,omitempty"`
	// The rest is read from foreign containers only. PeerURLs are those that its settings give its etcd as its own,
	// Mounts the names of its volumes and the directories of the node that it uses.
	PeerURLs []string `json:"peerURLs,omitempty"`
	Mounts   []string `json:"mounts,omitempty"`
	// StartsEmpty: its arguments could start a member on an empty volume. Those of a learner's first container can, and
	// those that earlier versions of cke used for a bootstrap.
	StartsEmpty bool `json:"startsEmpty,omitempty"`
	// KeptDown: its engine does not start it by itself, neither after a crash nor after a reboot.
	KeptDown bool `json:"keptDown,omitempty"`
	// AutoRemove: its engine removes it and its anonymous volumes once it stops.
	AutoRemove bool `json:"autoRemove,omitempty"`
}

// StandsAt reports whether the container was made for the recorded place of a membership, or has no label of its
// place.
func (c Container) StandsAt(j Join) bool {
	return c.Place == "" || c.Place == j.Place()
}

// Running reports whether the container has a process; a paused one has.
func (c Container) Running() bool {
	return c.State == ContainerRunning || c.State == ContainerPaused
}

// EverRan reports whether the container was ever started.
func (c Container) EverRan() bool { return !c.StartedAt.IsZero() || c.active() }

// NothingWritten reports whether no client can have written a key to a cluster: by these answers, a quorum of the first
// members serves linearizable reads at the first revision. Users, roles and leases have no revision: see MayHoldWrites,
// by which each of these members is judged, too.
func NothingWritten(founders int, answers []EndpointStatus) bool {
	first := 0
	for _, e := range answers {
		if e.Problem == "" && e.Linearizable && e.Revision == FirstRevision && !e.Denied {
			first++
		}
	}
	return first >= quorum.Of(founders)
}

// stoppedCodes are the exit codes of a container that was stopped: etcd that was asked to end, and etcd that was killed when
// its grace was over. An engine whose daemon.json has "init" runs etcd as a child: then the signal ends it (SIGINT,
// SIGTERM), where etcd as the first process exits with 0. What loses power, or crashes, ends with others.
// Source: etcd, pkg/osutil HandleInterrupts.
var stoppedCodes = []int{0, 130, 137, 143}

// entriesOfBootstrap is how many entries the log has after a bootstrap: for each first member that it was added, its name,
// and cke's proof that it takes a write; and one each for the election and the version of the cluster. Measured with etcd
// 3.5.35, 3.6.16 and 3.7.3. Only where all went smoothly: another election, start or version adds to it, as a user does.
func entriesOfBootstrap(founders int) uint64 { return uint64(3*founders + 2) }

// MayHoldWrites returns why a first member may hold writes of clients although its cluster was never recorded as
// formed; "": it holds none. c is its container, e its answer, of the number of first members; 0: unknown, its bootstrap
// was given up. stops: it may have been stopped before it served, since its bootstrap was given up or the other members
// prove that nothing was written.
// Engines restart first members by themselves only after all have served: from then on users, roles and leases, which
// have no revision, are found by the length of the log. Before, no length is too much: each time that a bootstrap is
// resumed it proves writes again. A member that never started, or that answers and has no data, holds nothing.
func (j Join) MayHoldWrites(c Container, e EndpointStatus, of int, stops bool) string {
	switch answers := e.Problem == "" && e.MemberID != ""; {
	case answers && e.Revision > FirstRevision:
		return fmt.Sprintf("the member at %s holds revision %d", e.URL, e.Revision)
	case answers && e.Denied:
		return fmt.Sprintf("the member at %s has users: etcd's authentication is on", e.URL)
	case answers && !c.KeptDown && of > 0 && e.RaftApplied > entriesOfBootstrap(of):
		return fmt.Sprintf("the member at %s may hold users, roles or leases: it has applied %d entries, and a bootstrap leaves %d", e.URL, e.RaftApplied, entriesOfBootstrap(of))
	case answers || !c.EverRan():
		return ""
	case j.StartedAt.IsZero():
		return fmt.Sprintf("container %s was started, but no start is on record", c.Name)
	case !c.KeptDown:
		return fmt.Sprintf("container %s is started by its engine, as in a cluster that has served", c.Name)
	case !stops && c.State == ContainerExited && slices.Contains(stoppedCodes, c.ExitCode):
		return fmt.Sprintf("container %s was stopped, as in a hibernated cluster", c.Name)
	}
	return ""
}

// Volume is a volume on a node that may hold etcd data.
type Volume struct {
	Name string `json:"name"`
	// Cluster, Incarnation and Join are cke's labels; empty on a foreign volume.
	Cluster     string    `json:"cluster,omitempty"`
	Incarnation string    `json:"incarnation,omitempty"`
	Join        JoinID    `json:"join,omitempty"`
	CreatedAt   time.Time `json:"createdAt,omitzero"`
}

// Of reports whether a volume belongs to a membership: by its labels or, if the engine lost all of them, by its name,
// which contains the id. Data shows whether it contains the data.
func (v Volume) Of(j Join) bool {
	if v.Cluster == "" && v.Incarnation == "" && v.Join == "" {
		return v.Name == j.Volume
	}
	return v.Join == j.ID && v.Incarnation == j.Incarnation
}

// EtcdStatus is what etcd itself answered. Every endpoint is probed on its own, with its own deadline.
type EtcdStatus struct {
	// Endpoints are those of known memberships, one each.
	Endpoints []EndpointStatus `json:"endpoints,omitempty"`
	// Members is the member list; MembersSource is how far it can be trusted.
	Members       []Member      `json:"members,omitempty"`
	MembersSource MembersSource `json:"membersSource,omitempty"`
	// MembersAt is the index of raft that the member had applied at least that reported Members.
	MembersAt uint64 `json:"membersAt,omitempty"`
	// Quorate: a linearizable read succeeded through at least one endpoint.
	Quorate bool    `json:"quorate"`
	Alarms  []Alarm `json:"alarms,omitempty"`
	// Elsewhere are those that answer where they are not on record.
	Elsewhere []Elsewhere `json:"elsewhere,omitempty"`
	// Superseded are those of the members that a restore under way replaces, see AskedBeside, and of those of AskedUnlisted without a quorum.
	Superseded []EndpointStatus `json:"superseded,omitempty"`
	// Former is the member list of the cluster that a restore under way replaces, as its members report it.
	Former MemberList `json:"former,omitzero"`
	// Copied are those of the clusters that a restore replaces of which only a copy of the record is known, one each, with their ids.
	Copied []MemberList `json:"copied,omitempty"`
}

// Endpoint returns the answer of a membership's member.
func (s EtcdStatus) Endpoint(join JoinID) (EndpointStatus, bool) {
	for _, e := range s.Endpoints {
		if e.Join == join {
			return e, true
		}
	}
	return EndpointStatus{}, false
}

// WordsOfRemoved is the error that etcd exits with, and starts with again, once its member was removed from the list.
// Source: etcd, membership.ErrMemberRemoved and rafthttp.
const WordsOfRemoved = "the member has been permanently removed from the cluster"

// WordsOfMissing is the panic of an etcd that is asked for its status after it has applied its own removal, and before it
// exits. Source: etcd, membership.RaftCluster.IsLocalMemberLearner.
const WordsOfMissing = "failed to find local ID in cluster members"

// SaysRemoved reports whether an etcd's last words show that its member was removed from the list.
func (c Container) SaysRemoved() bool {
	return !c.Running() && (strings.Contains(c.LastWords, WordsOfRemoved) || strings.Contains(c.LastWords, WordsOfMissing))
}

// MembersSource is where a member list came from.
type MembersSource string

// Sources of a member list. Only a linearizable one is a fact about the cluster.
const (
	MembersUnknown      MembersSource = ""
	MembersLinearizable MembersSource = "linearizable"
	MembersLocal        MembersSource = "local"
	// MembersRemembered: no member returns the list now; it is the one that was read last.
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

// At reports whether the member's peers or its clients reach it at an address, however an IP address is spelled.
func (m Member) At(address string) bool {
	at, err := netip.ParseAddr(address)
	return slices.ContainsFunc(slices.Concat(m.PeerURLs, m.ClientURLs), func(url string) bool {
		host, _ := HostPort(url)
		ip, none := netip.ParseAddr(host)
		return host == address || err == nil && none == nil && ip.Unmap() == at.Unmap()
	})
}

// Of reports whether the member is that of a membership: by its id, or by its peer URL while the id is unknown.
func (m Member) Of(j Join) bool {
	if j.MemberID != "" {
		return m.ID == j.MemberID
	}
	return slices.Contains(m.PeerURLs, j.PeerURL())
}

// CountVoters counts the members that vote.
func CountVoters(members []Member) (n int) {
	for _, m := range members {
		if !m.Learner {
			n++
		}
	}
	return n
}

// Alarm is an active etcd alarm: NOSPACE or CORRUPT. MemberID "0" means that etcd does not know which member.
type Alarm struct {
	MemberID string `json:"memberID"`
	Kind     string `json:"kind"`
}

// EndpointStatus is what one etcd member answered about itself.
type EndpointStatus struct {
	Join JoinID `json:"join,omitempty"`
	URL  string `json:"url"`
	// Problem is why it did not answer local reads; empty if it did.
	Problem string `json:"problem,omitempty"`
	// Denied: etcd's authentication is on and refuses cke. The refusal proves the reads; changes, hashes and snapshots
	// fail.
	Denied bool `json:"denied,omitempty"`
	// Serializable and Linearizable report which reads succeeded through this endpoint.
	Serializable   bool   `json:"serializable"`
	Linearizable   bool   `json:"linearizable"`
	ClusterID      string `json:"clusterID,omitempty"` // hex
	MemberID       string `json:"memberID,omitempty"`  // hex
	LeaderID       string `json:"leaderID,omitempty"`  // hex; empty: it knows no leader
	Learner        bool   `json:"learner,omitempty"`
	Version        string `json:"version,omitempty"`
	StorageVersion string `json:"storageVersion,omitempty"`
	Revision       int64  `json:"revision,omitempty"`
	DBSize         int64  `json:"dbSize,omitempty"`      // bytes
	DBSizeInUse    int64  `json:"dbSizeInUse,omitempty"` // bytes
	RaftTerm       uint64 `json:"raftTerm,omitempty"`
	RaftIndex      uint64 `json:"raftIndex,omitempty"`
	RaftApplied    uint64 `json:"raftApplied,omitempty"`
	// NoSpace: etcd raised the alarm NOSPACE in the cluster.
	NoSpace bool `json:"noSpace,omitempty"`
	// Corrupt: etcd raised the alarm CORRUPT in the cluster, and no cke did, to stop writes.
	Corrupt bool     `json:"corrupt,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	// CertNotBefore and CertNotAfter bound the validity of the certificate that the member presented.
	CertNotBefore time.Time `json:"certNotBefore,omitzero"`
	CertNotAfter  time.Time `json:"certNotAfter,omitzero"`
}

// Serves reports whether a voter of the cluster with this id answered a linearizable read: it is part of a quorum.
func (e EndpointStatus) Serves(clusterID string) bool {
	return e.Problem == "" && e.Linearizable && !e.Learner && e.MemberID != "" && e.ClusterID == clusterID
}

// Apart returns two members of a cluster id that serve without each other: their leaders differ, or one is not in the
// other's member list. An election or a removal between two answers appears the same for a moment. false: there are
// none. Members of an old cluster count as those of cke do; any other one that cke does not know is for the operator to judge.
func (s EtcdStatus) Apart(clusterID string, old *Import) (one, other EndpointStatus, is bool) {
	serves := func(e EndpointStatus) bool {
		_, known := old.Of(e)
		return (known || e.Join != "") && e.Serves(clusterID)
	}
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

// FollowsAnother reports whether two members name different leaders.
func (e EndpointStatus) FollowsAnother(o EndpointStatus) bool {
	return e.LeaderID != "" && o.LeaderID != "" && e.LeaderID != o.LeaderID
}

// Follows reports whether two members serve in one quorum: they name one leader in one term.
func (e EndpointStatus) Follows(o EndpointStatus, clusterID string) bool {
	return e.Serves(clusterID) && o.Serves(clusterID) && e.LeaderID != "" && e.LeaderID == o.LeaderID && e.RaftTerm == o.RaftTerm
}

// Voted reports whether a member followed another leader, or the same one in another term, in its previous answer: it
// took part in an election, or heard of one, in between.
func (e EndpointStatus) Voted(before EndpointStatus) bool {
	return e.Join != before.Join || e.LeaderID != before.LeaderID || e.RaftTerm != before.RaftTerm
}

// Healthy reports whether it answers local reads and reports no error of its own. Source: etcd-operator #468.
func (e EndpointStatus) Healthy() bool {
	return e.Problem == "" && e.Serializable && len(e.Errors) == 0
}
