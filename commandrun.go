package cke

import (
	"fmt"
	"strings"
	"time"
)

// MaxCommandOutput is how many bytes of a command's output are kept, of which MaxStoredOutput are stored: the last ones.
const (
	MaxCommandOutput = 64 << 10
	MaxStoredOutput  = 4 << 10
)

// CommandRun is one run of a command of the daemon's configuration for an entry of a queue.
type CommandRun struct {
	// Name is that in the configuration.
	Name string
	// Entry and Attempt say for what it runs.
	Entry   string
	Attempt int
	Cluster string
	Node    Node
	// On is what a repair is for; empty: it is a reboot.
	On string
	// Limit is its deadline.
	Limit time.Duration
}

// Environment returns the variables that the command gets besides those of the daemon.
func (c CommandRun) Environment() []string {
	return []string{"CKE_CLUSTER=" + c.Cluster, "CKE_NODE=" + c.Node.Name(), "CKE_ADDRESS=" + c.Node.Address,
		"CKE_SERIAL=" + c.Node.Annotations[AnnotationSerial], fmt.Sprintf("CKE_ATTEMPT=%d", c.Attempt), "CKE_REPAIR=" + c.On}
}

// CommandEnd is how a command ended.
type CommandEnd struct {
	At time.Time
	// Error is why it failed; empty: it did not.
	Error string
	// Output is what it wrote, at most MaxCommandOutput bytes from the end.
	Output string
}

// StoredOutput is the end of the output, as it is put on record.
func (e CommandEnd) StoredOutput() string {
	out := strings.ToValidUTF8(e.Output[max(0, len(e.Output)-MaxStoredOutput):], "�")
	return strings.TrimSpace(out)
}

// EntrySeen is what is known of an entry under way beside what is on record.
type EntrySeen struct {
	Entry   string
	Attempt int
	// Running: the command runs. Ended is how it ended; nil: it did not, or this daemon did not run it.
	Running bool
	Ended   *CommandEnd
	// Boot is the evidence that the node showed last, at BootAt; unknown: it showed none. BootError is why.
	Boot      Boot
	BootAt    time.Time
	BootError string
	// Checked: the check said that the node is ready. CheckError is why not.
	Checked    bool
	CheckError string
}

// QueuesSeen is what runs beside the loop for entries of queues.
type QueuesSeen struct {
	// Commands are the names of those in the daemon's configuration.
	Commands []string
	Seen     []EntrySeen
}

// Of returns what is known of an attempt.
func (s QueuesSeen) Of(r Entry) EntrySeen {
	for _, seen := range s.Seen {
		if seen.Entry == r.ID && seen.Attempt == r.Attempt {
			return seen
		}
	}
	return EntrySeen{}
}
