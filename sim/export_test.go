package sim

import (
	"strconv"
	"time"

	"cke"
)

// Situations are those that schedules have to reach.
func Situations() []Situation {
	return []Situation{LandedLate, Elected, NoQuorum, HostsApart, DeposedWithin, DeclaredAgain, BeforeDeletion, TwoHistories, FormerStarted, BesideKept, BesideGivenUp, BesideLost, BesideDamaged, ReturnSeen, ReturnRecorded,
		AgentGranted, AgentWaits, AgentRefused, AgentBack, AgentLost, AgentSilent, AgentBeside, AgentOutlives, SuccessorDeclared}
}

// CertificatesOf are files that a member starts with, as they are issued at a time.
func CertificatesOf(now time.Time) []cke.File { return filesOf(now, cke.Authorities{}) }

// At is the machine that has an address; nil: none.
func (w *World) At(address string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at(address)
}

// MachineOf is where the container of a membership is: the machine with its address, since one may be declared under another name, or
// be succeeded by another machine, which gets its name in the file; or the machine with its name, if that has got another address.
func (w *World) MachineOf(j cke.Join) *Node {
	if n := w.At(j.Node.Address); n != nil {
		return n
	}
	return w.Node(j.Node.Name())
}

// ListedID is the id of the last member that was added by hand on a node, in hex.
func (n *Node) ListedID(name string) (id string) {
	n.changeList("looks at", name, func(l process, hand cke.Join, _ func(entry) bool) bool {
		for _, m := range l.member.present() {
			if m.peer == hand.PeerURL() {
				id = strconv.FormatUint(m.id, 16)
			}
		}
		return true
	})
	return id
}
