package main

import "testing"

func TestRollback_StoresAnEarlierRevisionAsANewOne(t *testing.T) {
	h := declared(t)
	h.stopClock()
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+older))
	stdout, _ := h.run(exitDone, "__complete", "cluster", "rollback", "")
	contains(t, stdout, "2\tset 0s ago by ", "1\tset 0s ago by ")

	stdout, _ = h.run(exitDone, "cluster", "rollback", "1", "--dry-run")
	contains(t, stdout, "-    version: 3.6.15\n", "+    version: 3.6.16\n", "prod: would be stored as revision 3; nothing was stored\n")
	_, stderr := h.run(exitRefused, "cluster", "rollback", "1", "--no-wait", "--if-revision", "1")
	contains(t, stderr, "error[CKE103]: cluster prod has revision 2, not 1\n")
	if h.stored().Generation != 2 {
		t.Error("it was stored")
	}

	roll := h.start("cluster", "rollback", "1")
	roll.stderr.await(t, "prod: stored as revision 3\n")
	h.lead("prod").status(ready(3))
	roll.must(exitDone)
	contains(t, roll.stdout.String(), "prod is ready: ")
	if got := h.stored(); got.Source != clusterFile || got.Generation != 3 {
		t.Errorf("stored is %d, %q", got.Generation, got.Source)
	}
	_, stderr = h.run(exitDone, "cluster", "rollback", "3", "--no-wait")
	contains(t, stderr, "prod: revision 3 says the same already\n")
}

func TestRollback_RefusesARevisionThatIsNotThere(t *testing.T) {
	h := declared(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+older))
	_, stderr := h.run(exitRefused, "cluster", "rollback", "7")
	contains(t, stderr, "error[CKE106]: cluster prod has no revision 7\n  there are 2, 1\nNothing was changed.\nTry: ckecli cluster log prod\n")
	h.run(exitUsage, "cluster", "rollback", "0")
	h.run(exitUsage, "cluster", "rollback", "prod")
}

func TestRollback_IsConfirmedWhereMembersGo(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", "name: prod\nnodes:\n  - {address: 10.0.0.11, hostname: cp1, user: cke, control_plane: true}\n"))
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	h.form(h.lead("prod"))
	_, stderr := h.run(exitRefused, "cluster", "rollback", "1")
	contains(t, stderr, "error[CKE107]: removing members of prod was not confirmed\n", "Try: ckecli cluster rollback 1 --yes\n")
	_, stderr = h.run(exitDone, "cluster", "rollback", "1", "--yes", "--no-wait")
	contains(t, stderr, "prod: stored as revision 3\n")
}

// A plan that somebody has seen is the only one that is carried out.
func TestRollback_HoldsToThePlanThatWasSeen(t *testing.T) {
	h := declared(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+older))
	h.lead("prod").status(ready(2))
	_, stderr := h.run(exitRefused, "cluster", "rollback", "1", "--plan", "0123456789abcdef")
	contains(t, stderr, "error[CKE103]: the plan of revision 1 of prod is ", " now, not 0123456789abcdef\n", "Try: ckecli cluster rollback 1 --dry-run\n")
}
