package cke

import "time"

// Health is a cluster's state in a word.
type Health string

// Healths, from best to worst.
const (
	HealthReady    Health = "READY"    // every declared member serves
	HealthForming  Health = "FORMING"  // bootstrap is waiting or under way
	HealthDegraded Health = "DEGRADED" // quorum held, something declared is not as it should be
	HealthLost     Health = "LOST"     // known to have no quorum
	HealthUnknown  Health = "UNKNOWN"  // members that could form a quorum cannot be seen; they may serve
	HealthFrozen   Health = "FROZEN"   // two clusters, or unequal data: nothing is changed until a person decides
	HealthDeleting Health = "DELETING"

	// HealthUpdating: every member serves, or all except the one that cke is restarting or moving. The file's revision
	// is being applied; nothing is wrong.
	HealthUpdating Health = "UPDATING"
	// HealthHibernated: no member runs, as requested; all data is kept.
	HealthHibernated Health = "HIBERNATED"
	// HealthRestoring: the cluster is being restored to an earlier state; it serves again once that is done.
	HealthRestoring Health = "RESTORING"
)

// Healths returns all of them.
func Healths() []Health {
	return []Health{HealthReady, HealthUpdating, HealthForming, HealthDegraded, HealthLost, HealthUnknown, HealthFrozen, HealthDeleting, HealthHibernated, HealthRestoring}
}

// Status is what the leader daemon reports about a cluster; stored as one document.
type Status struct {
	Cluster string `json:"cluster"`
	// Generation is the revision of the cluster file for this status.
	Generation int64 `json:"generation"`
	// ObservedGeneration is the last revision that is fully applied; written last.
	ObservedGeneration int64     `json:"observedGeneration"`
	ObservedAt         time.Time `json:"observedAt"`
	Health             Health    `json:"health"`
	// Summary is one sentence, as "quorum held, can lose 0 more members".
	Summary string `json:"summary"`
	// Declared is the number of declared members; Ready those of them that serve. Unknown never counts as ready.
	Declared int `json:"declared"`
	Ready    int `json:"ready"`
	// Tolerance is how many more voters may fail before quorum is lost; -1: quorum is lost or unknown, or there is none
	// yet.
	Tolerance int `json:"tolerance"`
	// Spread is how the voters are spread over zones; nil: no declared node has a zone, or no member list is known.
	Spread      *Spread          `json:"spread,omitempty"`
	Incarnation string           `json:"incarnation,omitempty"`
	ClusterID   string           `json:"clusterID,omitempty"`
	Conditions  []Condition      `json:"conditions"`
	Members     []MemberStatus   `json:"members"`
	Nodes       []NodeStatus     `json:"nodes,omitempty"`
	Etcd        EtcdStatus       `json:"etcd,omitzero"`
	Problems    []Problem        `json:"problems,omitempty"`
	Operation   *OperationStatus `json:"operation,omitempty"`
	// Reason says why there is no operation, or why the current one was chosen. Never empty.
	Reason        string           `json:"reason"`
	LastOperation *OperationStatus `json:"lastOperation,omitempty"`
	LastErrors    []LastError      `json:"lastErrors,omitempty"`
	// TouchedAt is when the last operation ended that started members or let one take data from others, so that the
	// members must be compared; zero: they were compared since.
	TouchedAt time.Time `json:"touchedAt,omitzero"`
	// RestoreWorkedAt is when an operation of a restore on record ended last; zero: none has.
	RestoreWorkedAt time.Time `json:"restoreWorkedAt,omitzero"`
	// UnreachedSince is since when no leader daemon has reached a node or a member of the cluster; zero: the last observation did.
	UnreachedSince time.Time `json:"unreachedSince,omitzero"`
	// InterruptedOrder is the last order to restore that was interrupted before it was on record; nil: none was.
	InterruptedOrder *OperationStatus `json:"interruptedOrder,omitempty"`
	// Electing are members that may elect a leader beside the member list that was read; nil: there are none.
	Electing *Electing `json:"electing,omitempty"`
	// Drains are the active maintenance leases.
	Drains []Drain `json:"drains,omitempty"`
	// Hibernation is the request that no member runs; nil: there is none.
	Hibernation *Hibernation `json:"hibernation,omitempty"`
	// Compared is the last comparison of the members' data; nil: there was none.
	Compared *Comparison `json:"compared,omitempty"`
	// Reached is the furthest state that members were seen to serve; nil: none was.
	Reached *Reached `json:"reached,omitempty"`
	// Authorities are the certificate authorities that are being replaced.
	Authorities []AuthorityStatus `json:"authorities,omitempty"`
	Leader      Leader            `json:"leader"`
	// Reboots is the reboot queue; nil: it is empty and was never used.
	Reboots *QueueStatus `json:"reboots,omitempty"`
	// Repairs is the repair queue; nil: it is empty and was never used.
	Repairs *QueueStatus `json:"repairs,omitempty"`
	// Backup is the status of the backups; nil: the cluster file declares no target, or nothing is known yet.
	Backup *BackupStatus `json:"backup,omitempty"`
	// Inventory is the status of the inventory; nil: the cluster has none, or nothing is known yet.
	Inventory *InventoryStatus `json:"inventory,omitempty"`
	// Targets are the backup targets that were used, the last one last.
	Targets []BackupTarget `json:"targets,omitempty"`
}

// Condition returns the condition of this type.
func (s Status) Condition(t ConditionType) (Condition, bool) {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c, true
		}
	}
	return Condition{}, false
}

// Reached is the newest revision and the highest raft term at which members of a cluster answered linearizable reads. A cluster
// that answers with lower ones later has lost committed writes.
type Reached struct {
	ClusterID string `json:"clusterID"`
	Revision  int64  `json:"revision"`
	RaftTerm  uint64 `json:"raftTerm"`
	// Freeze is the freeze after whose lift this was started again: what a second cluster served does not count.
	Freeze string `json:"freeze,omitempty"`
}

// Behind reports whether an answer is from before what was reached. Zero is unknown.
func (r *Reached) Behind(e EndpointStatus) bool {
	return r != nil && e.Linearizable && !e.Learner && e.ClusterID == r.ClusterID &&
		(e.Revision > 0 && e.Revision < r.Revision || e.RaftTerm > 0 && e.RaftTerm < r.RaftTerm)
}

// With returns what was reached, including this answer.
func (r Reached) With(e EndpointStatus) Reached {
	if e.Linearizable && !e.Learner && e.ClusterID == r.ClusterID {
		r.Revision, r.RaftTerm = max(r.Revision, e.Revision), max(r.RaftTerm, e.RaftTerm)
	}
	return r
}

// AuthorityStatus is the status of an authority that is being replaced.
type AuthorityStatus struct {
	Name  AuthorityName  `json:"name"`
	Phase AuthorityPhase `json:"phase"`
	// Since is when the phase started.
	Since time.Time `json:"since"`
	By    string    `json:"by,omitempty"`
	// Waits are what the phase waits for, as "cp3 does not answer".
	Waits []string `json:"waits,omitempty"`
	// Person: it waits only for the operator's confirmation.
	Person bool `json:"person,omitempty"`
}

// ConditionType names a condition.
type ConditionType string

// Condition types.
const (
	CondReady             ConditionType = "Ready"
	CondAllMembersReady   ConditionType = "AllMembersReady"
	CondQuorate           ConditionType = "Quorate"
	CondClusterIDMismatch ConditionType = "ClusterIDMismatch"
	CondCertificatesValid ConditionType = "CertificatesValid"
	CondDataVolumesReady  ConditionType = "DataVolumesReady"
	CondProgressing       ConditionType = "Progressing"
	CondPaused            ConditionType = "Paused"
	CondBackupReady       ConditionType = "BackupReady"
	CondHibernated        ConditionType = "Hibernated"
	CondDrained           ConditionType = "Drained"
	CondDataConsistent    ConditionType = "DataConsistent"
	CondClocksAgree       ConditionType = "ClocksAgree"
)

// ReasonNodeOff is that of ClocksAgree where the daemon's clock and those of most nodes agree, and that of a node does not.
const ReasonNodeOff = "NodeOff"

// Truth is a condition's value; Unknown never counts as good.
type Truth string

// Truths.
const (
	True    Truth = "True"
	False   Truth = "False"
	Unknown Truth = "Unknown"
)

// Condition is one statement about the cluster, a pure function of cluster file, identity and observation.
type Condition struct {
	Type   ConditionType `json:"type"`
	Status Truth         `json:"status"`
	Reason string        `json:"reason"` // one CamelCase word
	// Message is a sentence for the operator.
	Message string `json:"message"`
	// Since is when Status last changed.
	Since time.Time `json:"since"`
}

// MemberStatus is one declared or known member as reported to the operator.
type MemberStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// ClientURL and PeerURL are where clients and the other members reach it; empty: there is no member yet.
	ClientURL string `json:"clientURL"`
	PeerURL   string `json:"peerURL"`
	ID        string `json:"id,omitempty"`
	Join      JoinID `json:"join,omitempty"`
	// Role is leader, follower, learner or "-".
	Role string `json:"role"`
	// State is healthy, unhealthy, unreachable, starting, stopped, drained, hibernated, missing, waiting or unknown;
	// Reason says why.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Ready  bool      `json:"ready"`
	// Lag is how many raft entries its applied index is behind the leader's; -1: unknown.
	Lag         int64  `json:"lag"`
	DBSize      int64  `json:"dbSize"`                // bytes
	DBSizeInUse int64  `json:"dbSizeInUse,omitempty"` // bytes
	Revision    int64  `json:"revision,omitempty"`    // the newest that it holds
	Version     string `json:"version,omitempty"`
	// StorageVersion is that of its database as last reported, from 3.6 on: no older etcd starts on it.
	StorageVersion string    `json:"storageVersion,omitempty"`
	CertNotAfter   time.Time `json:"certNotAfter,omitzero"`
	// Applied is how many raft entries a learner has applied, ProgressAt when that last grew.
	Applied    uint64    `json:"applied,omitempty"`
	ProgressAt time.Time `json:"progressAt,omitzero"`
	// Watched is for how long observations have been the same: the state, and the progress of a learner. Time without
	// observations does not count.
	Watched Duration `json:"watched,omitempty"`
	// Drift is how it runs otherwise than declared, or was changed manually: "version: 3.6.15, declared 3.6.16".
	Drift []string `json:"drift,omitempty"`
	// CanStop reports whether the node may go down now and the cluster still serves; CannotStopBecause is the arithmetic
	// if it may not.
	CanStop           bool   `json:"canStop"`
	CannotStopBecause string `json:"cannotStopBecause,omitempty"`
	// Container is what runs it, as last seen; nil: none was seen.
	Container *MemberContainer `json:"container,omitempty"`
}

// MemberContainer is the container of a member.
type MemberContainer struct {
	Name  string         `json:"name"`
	State ContainerState `json:"state"`
	Image string         `json:"image"`
	// ImageID is the image's content address.
	ImageID string `json:"imageID,omitempty"`
	// Description is the digest of all that it was made from: image, arguments, environment, mounts and limits.
	Description string  `json:"description,omitempty"`
	CPUs        float64 `json:"cpus"`   // its limit; 0: none
	Memory      int64   `json:"memory"` // its limit in bytes; 0: none
}

// Problem is one thing that is wrong and what to do about it.
type Problem struct {
	Code    Code      `json:"code"`
	Node    string    `json:"node,omitempty"`
	Message string    `json:"message"`
	Remedy  string    `json:"remedy,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// OperationStatus points to a record.
type OperationStatus struct {
	ID          int64       `json:"runID"`
	Type        string      `json:"type"`
	Targets     []string    `json:"targets,omitempty"` // node names
	State       RecordState `json:"state"`
	Description string      `json:"description"`
	Time        time.Time   `json:"time"` // of its last change
	// Task is the id of the requested task; empty: none was requested.
	Task string `json:"task,omitempty"`
	// Code is that of the error it failed with; Refused as in Record.
	Code    Code `json:"code,omitempty"`
	Refused bool `json:"refused,omitempty"`
}

// Outcome returns the outcome as in Record.
func (o OperationStatus) Outcome() string { return outcome(o.State, o.Refused) }

// LastError is an error of the latest failed operations.
type LastError struct {
	Code        Code      `json:"code"`
	Description string    `json:"description"`
	ObservedAt  time.Time `json:"observedAt"`
}

// Leader is the daemon that leads a cluster.
type Leader struct {
	Host  string    `json:"host"`
	Term  int64     `json:"term"`
	Since time.Time `json:"since"`
}

// Electing are members that a member list lacks, and that could be a quorum: they may elect a leader at any moment.
type Electing struct {
	Members []JoinID `json:"members"`
	// Since is when they were first observed so; they have been in each observation since.
	Since time.Time `json:"since"`
}
