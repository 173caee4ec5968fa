package etcdnode

import "time"

// Limits of every wait. A caller's context may stop one earlier.
const (
	// dialLimit bounds one attempt to connect: TCP, handshake and login. Waiting for one of Config.Handshakes does not
	// count.
	dialLimit = 3 * time.Second
	// operatorLimit bounds one login of an operator, whose agent may ask for a confirmation and whose sshd may wait after a
	// wrong password, and each command after it.
	operatorLimit = 30 * time.Second
	// agentLimit bounds a request to an ssh-agent for its keys.
	agentLimit = time.Second
	// keepAliveEvery is how long a connection may be silent before it is probed, and keepAliveLimit how long the answer
	// may take: a frozen node is noticed within the sum of both.
	keepAliveEvery = 2 * time.Second
	keepAliveLimit = 2 * time.Second
	// reconnectMax is the longest pause between two attempts to connect.
	reconnectMax = 5 * time.Second

	// probeEvery is how often every node and member is probed without other reasons.
	probeEvery = 5 * time.Second
	// answerWait is how long an observation waits for nodes and members that answered before.
	answerWait = time.Second
	// callPatience is how long a call to an engine may take before the engine is pinged, repeatedly. An engine that does
	// not answer within hangAfter counts as hanging: calls to it are cut short. A mere shortage of CPU must not look
	// like that.
	callPatience = 2 * time.Second
	hangAfter    = 3 * time.Second
	// stoppedWait is how long an observation waits for members after it found that a member's container has newly
	// stopped.
	stoppedWait = 30 * time.Millisecond
	// lookLimit bounds one observation of a node's engine, dataLookLimit the part of it that checks for a member's data.
	lookLimit     = 3 * time.Second
	dataLookLimit = 2 * time.Second
	// portLimit bounds the TCP connect that checks whether something listens.
	portLimit = 300 * time.Millisecond

	// engineLimit bounds one ordinary request to an engine, copyLimit one that moves files or reads a volume.
	engineLimit = 15 * time.Second
	copyLimit   = 30 * time.Second
	// archiveLimit bounds the search for an image in the archives of the management host, whose mount may hang.
	archiveLimit = time.Minute
	// imageLimit bounds a load or pull of an image over a slow line, like the step that needs it.
	imageLimit = 10 * time.Minute
	// visitLimit bounds a visit to a node: sending a program, and all that it does there.
	visitLimit = 2 * time.Minute
	// stopSlack is what a stop may take beyond etcd's grace period.
	stopSlack = 15 * time.Second

	// endpointLimit bounds all requests of one probe of a member, quorumLimit those of them that need a quorum: without
	// one there is still time for the local ones.
	endpointLimit = time.Second
	quorumLimit   = 800 * time.Millisecond
	// proposalLimit bounds requests that go through raft.
	proposalLimit = 5 * time.Second
	// membershipLimit bounds a change of the member list. etcd itself gives up after 7 s, or later during an election.
	membershipLimit = 12 * time.Second
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
