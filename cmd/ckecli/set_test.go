package main

import (
	"strings"
	"testing"

	"cke"
)

func ready(generation int64) cke.Status {
	return cke.Status{Generation: generation, ObservedGeneration: generation, Health: cke.HealthReady, Summary: "3 of 3 members serve, can lose 1 more member",
		Declared: 3, Ready: 3, Tolerance: 1, Reason: "nothing to do"}
}

func TestSet_TellsEveryStepAndReturnsWhenTheClusterIsReady(t *testing.T) {
	h := newHouse(t)
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "stored as revision 1")
	l := h.lead("prod")
	l.status(cke.Status{Generation: 1, Health: cke.HealthForming, Tolerance: -1, Declared: 3, Reason: "bootstrap waits for cp3",
		Problems: []cke.Problem{{Code: cke.CodeUnreachable, Node: "cp3", Message: "dial: connection refused", Remedy: "Check power, network and sshd of the node."}}})
	set.stderr.await(t, "waiting: bootstrap waits for cp3")
	set.stderr.await(t, "cp3: dial: connection refused [CKE201]\n    Check power")

	r := l.begin(cke.Record{Operation: "bootstrap", Targets: []string{"cp1", "cp2", "cp3"}, Reason: "no member has data", Generation: 1,
		Steps: []cke.StepRecord{{Name: "image", Node: "cp1"}, {Name: "image", Node: "cp2"}, {Name: "certificate-authorities"}}})
	set.stderr.await(t, "#1 bootstrap cp1, cp2, cp3: no member has data\n")
	l.end(r)
	set.stderr.await(t, "  image                     cp2  0.3s\n")
	set.stderr.await(t, "#1 completed after 0.9s\n")
	l.status(ready(1))
	set.must(exitDone)
	if got := set.stdout.String(); !strings.HasPrefix(got, "prod is ready: 3 members serve, can lose 1 (took ") {
		t.Errorf("stdout is %q", got)
	}
	if got := strings.Count(set.stderr.String(), "waiting:"); got != 1 {
		t.Errorf("the reason was told %d times:\n%s", got, set.stderr.String())
	}
}

func TestSet_TellsStepsThatArriveAfterTheStatus(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
	l := h.lead("prod")
	r := l.end(l.begin(cke.Record{Operation: "bootstrap", Reason: "no member has data", Generation: 1, Steps: []cke.StepRecord{{Name: "image"}}}))
	s := ready(1)
	s.LastOperation = &cke.OperationStatus{ID: r.ID, Type: "bootstrap", State: cke.RecordCompleted}
	l.status(s)
	_, stderr := h.run(exitDone, "history", "-f", "1")
	_ = stderr
	stdout, stderr := h.run(exitDone, "cluster", "set", h.write("cluster.yml", clusterFile))
	if !strings.Contains(stderr, "revision 1 says the same already") || !strings.HasPrefix(stdout, "prod is ready") {
		t.Errorf("%s%s", stdout, stderr)
	}
}
