// Package preflight finds out whether nodes are fit to carry a cluster: it looks at them from outside and from inside, and
// judges what it saw. Nothing that lasts is changed on them.
package preflight

import "cke"

// Verdict is how a check went.
type Verdict string

// Verdicts.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Check is one thing that was looked at on one node.
type Check struct {
	Node   string  `json:"node"`
	Check  string  `json:"check"`
	Result Verdict `json:"result"`
	Detail string  `json:"detail"`
	// Code and Remedy are those of the problem, where it has one.
	Code   cke.Code `json:"code,omitempty"`
	Remedy string   `json:"remedy,omitempty"`
	// Because is the check, as NODE/CHECK, that is the reason for this result: without it this one was not made or did not fail.
	Because string `json:"because,omitempty"`
}

// Names of the checks, in the order in which they are told.
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
