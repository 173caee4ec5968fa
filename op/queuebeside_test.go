package op_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// A node without a member reboots, and an operator adds one to it with etcdctl before it goes down; meanwhile the member of another node was
// stopped for its reboot. That one does not go down as well, until the first is back.
func TestReboot_WaitsForANodeUnderWayThatGotAForeignMember(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		c := w.cluster()
		c.Nodes[3].ControlPlane = false
		w.Store().SetSpec(c)
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		w.Node("n4").SetRebootMode(sim.Late)
		image := w.drain("n1", false).Join.Etcd.Image
		w.mustRun(op.LeaseEntry{Entry: w.queuedReboot("n4")})
		w.mustRun(op.RunEntry{Entry: w.reboot("n4"), Node: w.Node("n4").Declared(), Command: sim.RebootCommand, Image: image, Limit: time.Minute})
		w.mustRun(w.drainReboot("n2"))
		if !w.Node("n4").Join("theirs", true) {
			t.Fatal("not added")
		}
		_, err := w.run(w.runReboot("n2"))
		if r := w.reboot("n2"); cke.CodeOf(err) != cke.CodeStranger || !strings.Contains(err.Error(), "n4") || r.Attempt != 0 {
			t.Errorf("%v %+v", err, r)
		}
		w.mustRun(op.NoteEntry{Entry: w.reboot("n4"), Result: cke.EntryDone})
		w.mustRun(w.runReboot("n2"))
	})
}
