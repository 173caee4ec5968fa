package etcdnode

import "time"

// Limits of every wait. A caller's context may stop one earlier.
const (
	// DialLimit bounds one attempt to connect: TCP, handshake and login. Waiting for one of Config.Handshakes does not
	// count.
	DialLimit = 3 * time.Second
	// OperatorLimit bounds one login of an operator, whose agent may ask for a confirmation and whose sshd may wait after a
	// wrong password, and each command after it.
	OperatorLimit = 30 * time.Second
	// AgentLimit bounds a request to an ssh-agent for its keys.
	AgentLimit = time.Second
	// KeepAliveEvery is how long a connection may be silent before it is probed, and KeepAliveLimit how long the answer
	// may take: a frozen node is noticed within the sum of both.
	KeepAliveEvery = 2 * time.Second
	KeepAliveLimit = 2 * time.Second
	// ReconnectMax is the longest pause between two attempts to connect.
	ReconnectMax = 5 * time.Second

	// ProbeEvery is how often every node and member is probed without other reasons.
	ProbeEvery = 5 * time.Second
	// AnswerWait is how long an observation waits for nodes and members that answered before.
	AnswerWait = time.Second
	// CallPatience is how long a call to an engine may take before the engine is pinged, repeatedly. An engine that does
	// not answer within HangAfter counts as hanging: calls to it are cut short. A mere shortage of CPU must not look
	// like that.
	CallPatience = 2 * time.Second
	HangAfter    = 3 * time.Second
	// StoppedWait is how long an observation waits for members after it found that a member's container has newly
	// stopped.
	StoppedWait = 30 * time.Millisecond
	// LookLimit bounds one observation of a node's engine, DataLookLimit the part of it that checks for a member's data.
	LookLimit     = 3 * time.Second
	DataLookLimit = 2 * time.Second
	// PortLimit bounds the TCP connect that checks whether something listens.
	PortLimit = 300 * time.Millisecond

	// EngineLimit bounds one ordinary request to an engine, CopyLimit one that moves files or reads a volume.
	EngineLimit = 15 * time.Second
	CopyLimit   = 30 * time.Second
	// ArchiveLimit bounds the search for an image in the archives of the management host, whose mount may hang.
	ArchiveLimit = time.Minute
	// ImageLimit bounds a load or pull of an image over a slow line, like the step that needs it.
	ImageLimit = 10 * time.Minute
	// VisitLimit bounds a visit to a node: sending a program, and all that it does there.
	VisitLimit = 2 * time.Minute
	// StopSlack is what a stop may take beyond etcd's grace period.
	StopSlack = 15 * time.Second

	// EndpointLimit bounds all requests of one probe of a member, QuorumLimit those of them that need a quorum: without
	// one there is still time for the local ones.
	EndpointLimit = time.Second
	QuorumLimit   = 800 * time.Millisecond
	// ProposalLimit bounds requests that go through raft.
	ProposalLimit = 5 * time.Second
	// MembershipLimit bounds a change of the member list. etcd itself gives up after 7 s, or later during an election.
	MembershipLimit = 12 * time.Second
)

// Bounds of the pauses between attempts.
const (
	reconnectMin = 100 * time.Millisecond
	leastPause   = 50 * time.Millisecond // after an attempt that failed, whoever asks for another one
	slotIdle     = 50 * time.Millisecond // a node that is silent for this long in its handshake gives way to others
	redialMin    = 5 * time.Millisecond  // etcd: a member that is starting is reached within this
	redialMax    = 5 * time.Second       // a question makes it try at once
	// endpointIdle is how long a connection to a member that no join names any more is kept.
	endpointIdle = time.Minute
	// endpointAge is when a connection to a member is made again, so that a certificate that was replaced behind our
	// back is seen.
	endpointAge = time.Hour
)

// slowness stretches the limits of answers: tests raise it, so that no machine is too slow for them.
var slowness time.Duration = 1

// allowed is how long an answer may take that has this limit.
func allowed(limit time.Duration) time.Duration { return slowness * limit }
