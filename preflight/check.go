// Package preflight checks whether nodes are fit to carry a cluster: it observes them from outside and from inside, and judges
// what it saw. It changes nothing on them permanently.
package preflight

import (
	"time"

	"cke"
)

// Verdict is the result of a check.
type Verdict string

// Verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Check is one thing that was checked on one node.
type Check struct {
	Node   string  `json:"node"`
	Check  string  `json:"check"`
	Result Verdict `json:"result"`
	Detail string  `json:"detail"`
	// Code and Remedy are those of the problem, where it has one.
	Code   cke.Code `json:"code,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
	// Because is the check, as NODE/CHECK, that is the reason for this result: why this one was not made, or failed.
	Because string `json:"because,omitempty"`

	// address is that of the node, and port the one that was checked; 0: none.
	address string
	port    int
	// off is how far the clock is off.
	off time.Duration
	// ways are those on which the port was not reached.
	ways []way
}

// Names of the checks, in the order in which they are shown.
const (
	checkSSH     = "ssh"
	checkHostKey = "host-key"
	checkEngine  = "engine"
	checkClock   = "clock"
	checkClient  = "client-port"
	checkPeer    = "peer-port"
	checkReach   = "reach"
	checkDisk    = "disk"
)
