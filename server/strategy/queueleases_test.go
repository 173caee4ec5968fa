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
