package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A lease of an operator keeps its node out of the queue, with a member or without, and a node under way gets none.
func TestReboots_BesideALeaseOfTheNodeItself(t *testing.T) {
	leased := func(i int) func(*scene) {
		return func(s *scene) {
			n := s.Spec.Nodes[i-1]
			s.Requests.Drains = []cke.Drain{{Node: n.Name(), Address: n.Address, By: "ann@boot-1", Until: noon.Add(time.Hour)}}
		}
	}
	checkReboots(t, []rebootRow{
		{"without a member", rebootable(3, 4).queued(4).with(leased(4)), "", "n4 is drained by ann@boot-1"},
		{"another one goes", rebootable(3, 5).queued(4, 5).with(leased(4)), "drain n5", ""},
		{"with a member, others without go", rebootable(3, 4).queued(2, 4).with(leased(2)), "drain n4", ""},
	})
	s := rebootable(3, 4).in(4, cke.EntryRebooting, time.Minute).knowing(4, func(k *cke.EntrySeen) { k.Running = true })
	d := strategy.Decide(s.asked(cke.TaskDrain, "n4", "").Input)
	if o, refused := d.Operation.(op.Refuse); !refused || !strings.Contains(o.Why.Error(), "n4 cannot be drained: n4 is rebooting") {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}

// A node without a member gets none while its command runs, however long that takes, and the status names no time.
func TestReboots_NoMemberWhileACommandRuns(t *testing.T) {
	s := rebootable(3, 4).in(4, cke.EntryRebooting, 30*24*time.Hour).knowing(4, func(k *cke.EntrySeen) { k.Running = true })
	s.Spec.Nodes[3].ControlPlane, s.Seen.Nodes[3].Node.ControlPlane = true, true
	s.Seen.Nodes[3].ClientPort, s.Seen.Nodes[3].PeerPort = cke.PortClosed, cke.PortClosed
	if d := strategy.Decide(s.Input); d.Operation != nil || !strings.Contains(d.Reason, "n4 is drained by the reboot queue (reboot)") || strings.Contains(d.Reason, "until") {
		t.Errorf("%T %s", d.Operation, d.Reason)
	}
}

// What is under way in a queue that cannot be decoded is not known: the leases of its entries remain. Without their queue they are over.
func TestReboots_LeasesOfAQueueThatCannotBeDecodedRemain(t *testing.T) {
	for unread, want := range map[bool]string{true: "", false: "note-reboot"} {
		s := rebootable(3, 3)
		n := s.Spec.Nodes[1]
		s.Requests.Drains = []cke.Drain{{Node: n.Name(), Address: n.Address, Entry: "r1", Queue: cke.RebootQueue, Until: noon.Add(time.Hour)}}
		s.Requests.Reboots = cke.Queue{Disabled: true, Unread: unread}
		got := ""
		if d := strategy.Decide(s.Input); d.Operation != nil {
			got = d.Operation.Name()
		}
		if got != want {
			t.Errorf("unread %v: %q", unread, got)
		}
	}
}

// A lease without an end, which cannot be decoded, keeps its member stopped, and is in the status without a time.
func TestDecide_ALeaseThatCannotBeDecodedHasNoEnd(t *testing.T) {
	s := formed(3).stopped(2)
	s.Requests.Drains = []cke.Drain{{Node: "n2"}}
	d := strategy.Decide(s.Input)
	st := strategy.Report(s.Input, d, cke.Status{})
	if d.Operation != nil || d.Again < 0 || len(st.Drains) != 1 || strings.Contains(st.Drains[0].Text(), "until") {
		t.Errorf("%T %s, again %s: %+v", d.Operation, d.Reason, d.Again, st.Drains)
	}
}
