package strategy_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// manually lets changes of the cluster wait for an operator.
func manually(s *scene) { s.Spec.Policies.Reconcile = cke.ReconcileManual }

// unseenMachine does not answer at its new address, and never has.
func unseenMachine(old cke.NodeStatus) cke.NodeStatus {
	now := silentMachine(otherMachine(old))
	now.SeenAt = time.Time{}
	return now
}

// A machine that was declared with another address carries its member before that has moved, too: it stays up until then.
func TestReboots_OfMachinesWithAnotherAddress(t *testing.T) {
	moved := func(nodes int, to func(cke.NodeStatus) cke.NodeStatus) *scene {
		return rebootable(3, nodes).readdressed(2, to).answers(2).with(manually)
	}
	renamed := func(s *scene) { s.Spec.Nodes[1].Hostname = "n9" }
	serial := func(s *scene) {
		s.Spec.Nodes[1].Annotations = map[string]string{cke.AnnotationSerial: "S2"}
		s.Identity.Joins[1].Node.Annotations = s.Spec.Nodes[1].Annotations
	}
	two := func(s *scene) { s.Spec.Reboot.MaxConcurrent = 2 }
	away := func(i int) *scene {
		return moved(3, sameMachine).in(i, cke.EntryRebooting, time.Minute).commandEnded(i, time.Second, "").with(two)
	}
	at := "its member is on record at 10.0.0.2, and has to move first"
	for name, row := range map[string]struct {
		scene *scene
		waits string // that which the last entry does; empty: it goes
	}{
		"while another one is dead":                          {rebootable(3, 3).readdressed(2, sameMachine).answers(2).silent(3).queued(2), at},
		"changes wait":                                       {moved(3, sameMachine).queued(2), at},
		"it does not answer there":                           {moved(3, unseenMachine).queued(2), at},
		"it does not answer there, and another one is dead":  {moved(3, unseenMachine).silent(3).queued(2), at},
		"with another name, it shows its member":             {moved(3, sameMachine).with(renamed).queued(2), at},
		"with another name, it is silent and has its serial": {moved(3, unseenMachine).with(renamed).with(serial).queued(2), at},
		"another machine of its name":                        {moved(3, otherMachine).queued(2), ""},
		"it keeps no other one waiting":                      {moved(4, sameMachine).queued(2, 4), ""},
		"while it reboots it does":                           {away(2).queued(3), "n2 is rebooting"},
		"a name that means another machine": {rebootable(3, 4).with(func(s *scene) { s.Spec.Nodes[3].Hostname = "n3" }).queued(4),
			"the cluster file gives the hostname n3 to 10.0.0.4, but the member of that name runs on 10.0.0.3"},
	} {
		all := row.scene.report().Reboots.Entries
		if got := all[len(all)-1].Waits; got != row.waits || strings.HasPrefix(done(strategy.Decide(row.scene.Input)), "drain n2") && row.waits == at {
			t.Errorf("%s: %q, %s", name, got, done(strategy.Decide(row.scene.Input)))
		}
	}
	checkReboots(t, []rebootRow{
		{"leased before that was seen", moved(3, sameMachine).in(2, cke.EntryLeased, time.Second), "note n2 queued, released", at},
		{"to be run again", moved(3, sameMachine).in(2, cke.EntryRebooting, time.Minute).showing(2, "1"), "", ""},
		{"returning, and its member does not serve", rebootable(3, 3).readdressed(2, sameMachine).with(manually).in(2, cke.EntryReturning, time.Minute), "", ""},
		{"returning, and its member moves", rebootable(3, 3).readdressed(2, sameMachine).in(2, cke.EntryReturning, time.Minute), "change-address", ""},
	})
}

// Nor is such a machine drained before its member has moved.
func TestDecide_DrainsNoMachineWithAnotherAddress(t *testing.T) {
	asked := func(s *scene) *scene { return s.answers(2).asked(cke.TaskDrain, "n2", "") }
	why := refusal(cke.CodeDrain, "n2 cannot be drained; its member is on record at 10.0.0.2")
	checkAsked(t, []askedRow{
		{"it shows its member", asked(formed(3).readdressed(2, sameMachine)).silent(3), why},
		{"it does not answer there", asked(formed(3).readdressed(2, unseenMachine)), why},
		{"another machine", asked(formed(3).readdressed(2, otherMachine)), does("drain-node", false)},
	})
}
