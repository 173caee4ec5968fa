package main

import (
	"encoding/json"
	"testing"

	"cke"
)

// manualFile is a cluster file whose revisions wait to be released.
const manualFile = clusterFile + "policies: {reconcile: manual}\n"

// awaitRelease waits until a generation is released.
func (h *house) awaitRelease(generation int64) {
	h.t.Helper()
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.Asked().Applied == generation {
			return
		}
	}
	h.t.Fatalf("revision %d was not released", generation)
}

func TestApply_ReleasesTheRevisionAndReturnsWhenTheClusterIsReady(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	l := h.lead("prod")
	l.status(ready(1))
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", manualFile))
	waits := ready(2)
	waits.ObservedGeneration, waits.Reason = 1, "restart-member waits: reconcile is manual"
	l.status(waits)

	apply := h.start("cluster", "apply")
	apply.stderr.await(t, "prod: revision 2 is released\n")
	h.awaitRelease(2)
	l.end(l.begin(cke.Record{Operation: "restart-member", Targets: []string{"cp1"}, Reason: "its options changed", Generation: 2, Steps: []cke.StepRecord{{Name: "start", Node: "cp1"}}}))
	apply.stderr.await(t, "#1 completed after 0.9s\n")
	l.status(ready(2))
	apply.must(exitDone)
	contains(t, apply.stdout.String(), "prod is ready: 3 members serve, can lose 1 (took ")

	stdout, _ := h.run(exitDone, "cluster", "apply", "prod", "-o", "json")
	var a struct {
		Cluster         string
		Revision, Ready int64
		Health          cke.Health
		Tolerance       *int
	}
	if err := json.Unmarshal([]byte(stdout), &a); err != nil || a.Cluster != "prod" || a.Revision != 2 || a.Ready != 3 || a.Health != cke.HealthReady || a.Tolerance == nil || *a.Tolerance != 1 {
		t.Errorf("%v in %s", err, stdout)
	}
}

func TestApply_ReturnsOnceReleasedWithoutWaiting(t *testing.T) {
	h := declared(t)
	stdout, stderr := h.run(exitDone, "cluster", "apply", "--no-wait")
	if stdout != "1\n" || stderr != "prod: revision 1 is released\n" {
		t.Errorf("%q, %q", stdout, stderr)
	}
	h.awaitRelease(1)
}

func TestApply_DetachesAndTheReleaseStays(t *testing.T) {
	h := declared(t)
	h.lead("prod")
	apply := h.start("cluster", "apply")
	apply.stderr.await(t, "is released")
	apply.cancel()
	apply.must(exitInterrupted)
	contains(t, apply.stderr.String(), "Detached: revision 1 of prod is released, and cke continues to work on it\nTry: ckecli history -f\n")
	h.awaitRelease(1)
}

func TestApply_EndsWhenALaterRevisionHasToBeReleasedItself(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", manualFile))
	apply := h.start("cluster", "apply")
	apply.stderr.await(t, "prod: revision 1 is released\n")
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", manualFile+"options: {etcd: {version: 3.6.15}}\n"))
	apply.must(exitRefused)
	contains(t, apply.stderr.String(), "error[CKE103]: ", " set revision 2 of prod meanwhile; revision 1 was released\nTry: ckecli cluster apply\n")
}

func TestApply_RefusesAClusterThatIsBeingDeleted(t *testing.T) {
	h := declared(t)
	h.run(exitDone, "cluster", "delete", "prod", "--confirm", "prod", "--no-wait")
	_, stderr := h.run(exitRefused, "cluster", "apply")
	contains(t, stderr, "error[CKE103]: cluster prod is being deleted\n", "Nothing was changed.\n")
}
