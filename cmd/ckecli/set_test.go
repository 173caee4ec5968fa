package main

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
)

func ready(generation int64) cke.Status {
	return cke.Status{Generation: generation, ObservedGeneration: generation, Health: cke.HealthReady, Summary: "3 of 3 members serve, can lose 1 more member",
		Declared: 3, Ready: 3, Tolerance: 1, Reason: "nothing to do"}
}

// Requirement C1: the file decides.
func TestSet_TellsEveryStepAndReturnsWhenTheClusterIsReady(t *testing.T) {
	h := newHouse(t)
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "stored as revision 1")
	l := h.lead("prod")
	l.status(cke.Status{Generation: 1, Health: cke.HealthForming, Tolerance: -1, Declared: 3, Reason: "bootstrap waits for cp3",
		Problems: []cke.Problem{{Code: cke.CodeUnreachable, Node: "cp3", Message: "dial: connection refused", Remedy: "Check power, network and sshd of the node."}}})
	set.stderr.await(t, "waiting: bootstrap waits for cp3")
	set.stderr.await(t, "cp3: dial: connection refused [CKE201]\n    → Check power")

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

func TestSet_LeavesNoStepUntoldWhenTheStatusIsFaster(t *testing.T) {
	h := newHouse(t)
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "stored as revision 1")
	l := h.lead("prod")
	r := l.end(l.begin(cke.Record{Operation: "bootstrap", Reason: "no member has data", Generation: 1, Steps: []cke.StepRecord{{Name: "image"}}}))
	s := ready(1)
	s.LastOperation = &cke.OperationStatus{ID: r.ID, Type: "bootstrap", State: cke.RecordCompleted}
	l.status(s)
	set.must(exitDone)
	contains(t, set.stderr.String(), "#1 bootstrap: no member has data\n", "  image  ", "#1 completed after 0.9s\n")

	stdout, stderr := h.run(exitDone, "cluster", "set", filepath.Join(h.dir, "cluster.yml"))
	contains(t, stderr, "revision 1 says the same already")
	contains(t, stdout, "prod is ready")
	if strings.Contains(stderr, "#1") {
		t.Errorf("what was long over is told: %s", stderr)
	}
}

func TestSet_GoesOnWhenTheStoreWasAway(t *testing.T) {
	h := newHouse(t)
	h.patience, h.silence = 10*time.Millisecond, 300*time.Millisecond
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "waiting: no daemon leads prod")
	h.embedded.Close()
	set.stderr.await(t, "does not answer")
	c, err := clusterfile.LoadConfig(h.config, true)
	if err != nil {
		t.Fatal(err)
	}
	h.startStore(c)
	h.lead("prod").status(ready(1))
	set.must(exitDone)
}

func TestSet_SaysWhatOthersDoMeanwhile(t *testing.T) {
	h := newHouse(t)
	first := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	first.stderr.await(t, "stored as revision 1")
	second := h.start("cluster", "set", h.write("second.yml", clusterFile+"options: {etcd: {version: 3.6.15}}\n"))
	first.stderr.await(t, "set revision 2 meanwhile; cke works on that one\n")
	h.run(exitDone, "cluster", "delete", "prod", "--confirm", "prod", "--no-wait")
	for _, c := range []*command{first, second} {
		c.must(exitRefused)
		contains(t, c.stderr.String(), "error[CKE103]: ", "asked meanwhile for cluster prod to be deleted\n")
	}
}

func TestSet_KeepsRevisionsAndRefusesAStaleOne(t *testing.T) {
	h := declared(t)
	file := h.write("cluster.yml", clusterFile+"options: {etcd: {version: 3.6.15}}\n")
	stdout, _ := h.run(exitDone, "cluster", "set", "--dry-run", file)
	contains(t, stdout, "-    version: 3.6.16\n", "+    version: 3.6.15\n", "prod: would be stored as revision 2; nothing was stored\n")
	_, stderr := h.run(exitRefused, "cluster", "set", "--no-wait", "--if-revision", "7", file)
	contains(t, stderr, "error[CKE103]: cluster prod has revision 1, not 7\n", "Nothing was changed.\nTry: ckecli cluster get\n")
	stdout, stderr = h.run(exitDone, "cluster", "set", "--no-wait", "--if-revision", "1", file)
	contains(t, stderr, "prod: stored as revision 2\n")
	if stdout != "2\n" {
		t.Errorf("stdout is %q", stdout)
	}
	if stdout, _ = h.run(exitDone, "cluster", "get"); stdout != clusterFile+"options: {etcd: {version: 3.6.15}}\n" {
		t.Errorf("the file came back as %q", stdout)
	}
	if stdout, _ = h.run(exitDone, "cluster", "get", "--revision", "1", "-o", "yaml"); stdout != clusterFile {
		t.Errorf("the file came back as %q", stdout)
	}
	stdout, _ = h.run(exitDone, "cluster", "get", "-o", "json")
	var spec cke.Spec
	if err := json.Unmarshal([]byte(stdout), &spec); err != nil || spec.Generation != 2 || !strings.Contains(spec.SetBy, "@") {
		t.Errorf("%v %s", err, stdout)
	}
	stdout, _ = h.run(exitDone, "cluster", "log", "-o", "name")
	if stdout != "2\n1\n" {
		t.Errorf("the log is %q", stdout)
	}
	_, stderr = h.run(exitFailed, "cluster", "get", "--revision", "9")
	contains(t, stderr, "cluster prod has no revision 9")
	stdout, _ = h.run(exitDone, "cluster", "list")
	contains(t, stdout, "CLUSTER  HEALTH   MEMBERS  CAN LOSE  REVISION          SEEN\n", "prod     UNKNOWN  0/3      -         2 (not done yet)  never\n")
}

func TestSet_SaysThatNobodyLeadsAndGoesOnWaiting(t *testing.T) {
	h := newHouse(t)
	h.patience, h.silence = 10*time.Millisecond, 300*time.Millisecond
	set := h.start("cluster", "set", h.write("cluster.yml", clusterFile))
	set.stderr.await(t, "waiting: no daemon leads prod [CKE108]\n")
	h.lead("prod").status(ready(1))
	set.must(exitDone)
}

func TestSet_TakesNoOldStatusForThePresent(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	old := ready(1)
	old.ObservedAt = time.Now().Add(-time.Hour)
	l.status(old)
	set := h.start("cluster", "set", filepath.Join(h.dir, "cluster.yml"))
	set.stderr.await(t, "revision 1 says the same already")
	select {
	case <-set.ended:
		t.Fatalf("it took a status of an hour ago for the present: %s", set.stdout)
	case <-time.After(300 * time.Millisecond):
	}
	l.status(old) // the leader tells it again: its clock is wrong, and it is alive
	set.must(exitDone)
}

func TestSet_DetachesAtCtrlCAndAtTheTimeout(t *testing.T) {
	h := newHouse(t)
	file := h.write("cluster.yml", clusterFile)
	set := h.start("cluster", "set", file)
	set.stderr.await(t, "stored as revision 1")
	set.cancel()
	set.must(exitInterrupted)
	contains(t, set.stderr.String(), "Detached: revision 1 of prod is stored, and cke continues to work on it\nTry: ckecli history -f\n")
	h.expired = make(chan struct{})
	again := h.start("cluster", "set", "--timeout", "1s", file)
	again.stderr.await(t, "revision 1 says the same already")
	close(h.expired)
	contains(t, again.must(exitTimedOut).stderr.String(), "error: waiting timed out: revision 1 of prod is stored, and cke continues to work on it\nTry: ckecli history -f\n")
}

// Time that runs out before the file is stored leaves everything as it was, and the answer says so.
func TestSet_SaysThatNothingWasStoredWhenTimeRunsOutBefore(t *testing.T) {
	h := newHouse(t)
	h.expired = make(chan struct{})
	close(h.expired)
	_, stderr := h.run(exitTimedOut, "cluster", "set", "--timeout", "1s", h.write("cluster.yml", clusterFile))
	if want := "error: no answer within the time that --timeout allows\nNothing was changed.\n"; stderr != want {
		t.Errorf("got %q, want %q", stderr, want)
	}
	if _, err := h.store.Spec(h.ctx(), "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("stored: %v", err)
	}
}

// A file that gives the hostname of a member's machine to another one is refused: a command by that name could stop the wrong
// machine.
func TestSet_RefusesHostnamesOfOtherMachines(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	swapped := strings.NewReplacer("cp1", "cp2", "cp2", "cp1").Replace(clusterFile)
	for _, args := range [][]string{{"--no-wait"}, {"--dry-run"}} {
		_, stderr := h.run(exitRefused, append([]string{"cluster", "set", h.write("swapped.yml", swapped)}, args...)...)
		contains(t, stderr, "error[CKE220]: the file gives hostnames of members to other machines", "gives the hostname cp2 to", "Nothing was changed.")
	}
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile))
}
