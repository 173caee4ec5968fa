package main

import (
	"encoding/json"
	"strings"
	"testing"

	"cke"
)

// rebootable is a house with a cluster whose file says how nodes are rebooted.
func rebootable(t *testing.T) *house {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+"reboot: {command: power-cycle}\n"))
	h.stopClock()
	return h
}

// reboots is the queue as it is stored.
func (h *house) reboots() cke.Queue {
	h.t.Helper()
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	return asked.Reboots
}

// move changes the entry of a node as a leader does.
func (l *leader) move(h *house, node string, to cke.EntryState, result cke.EntryResult) {
	h.t.Helper()
	err := l.term.EditQueue(h.ctx(), cke.RebootQueue, func(q cke.Queue) (cke.Queue, error) {
		for _, r := range q.Entries {
			if r.Node == node && result != "" {
				return q.Ended(r, result, "no power", h.now())
			} else if r.Node == node {
				return q.Moved(r, func(r *cke.Entry) { r.To(to, h.now()); r.Error = "no power" })
			}
		}
		return q, cke.ErrNotFound
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestRebootQueue_AddIsAllOrNothing(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitRefused, "reboot-queue", "add", "cp1")
	contains(t, stderr, "error[CKE111]: the cluster file of prod does not say how nodes are rebooted\nNothing was changed.\nTry: add to the file: reboot: {command: NAME}")

	h = rebootable(t)
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"cp1", "cp9"}, "error[CKE111]: cluster prod declares no node cp9"},
		{[]string{"cp1", "10.0.0.11"}, "error[CKE103]: cp1 is in the reboot queue already"},
		{[]string{"-"}, "error[CKE111]: standard input names no node"},
	} {
		_, stderr := h.run(exitRefused, append([]string{"reboot-queue", "add"}, row.args...)...)
		contains(t, stderr, row.says)
	}
	if q := h.reboots(); len(q.Entries) > 0 {
		t.Fatalf("%+v", q)
	}
	h.run(exitUsage, "reboot-queue", "add")
	stdout, _ := h.run(exitDone, "rq", "add", "cp1", "10.0.0.12", "--reason", "new kernel")
	contains(t, stdout, "prod: 2 nodes added; 2 in the reboot queue\n")
	h.startWith("cp3\n", "rq", "add", "-").must(exitDone)
	q := h.reboots()
	if len(q.Entries) != 3 || q.Entries[1].Node != "cp2" || q.Entries[1].Reason != "new kernel" || q.Entries[1].By == "" || q.Entries[2].Node != "cp3" {
		t.Errorf("%+v", q)
	}
	_, stderr = h.run(exitRefused, "rq", "add", "cp2")
	contains(t, stderr, "cp2 is in the reboot queue already (queued)\n", "Try: ckecli reboot-queue list\n")
}

func TestRebootQueue_ListTellsWhatEachNodeWaitsFor(t *testing.T) {
	h := rebootable(t)
	_, stderr := h.run(exitDone, "rq", "list")
	contains(t, stderr, "No node of prod is in the reboot queue.\n")
	h.run(exitDone, "rq", "add", "cp1", "cp2", "cp3")
	contains(t, must1(h.run(exitDone, "rq", "list")), "no daemon leads the cluster")
	l := h.lead("prod")
	l.move(h, "cp2", cke.EntryFailed, "")
	l.move(h, "cp3", "", cke.EntryDone)
	s := ready(1)
	s.Reboots = &cke.QueueStatus{}
	for _, r := range h.reboots().Entries {
		s.Reboots.Entries = append(s.Reboots.Entries, cke.EntryStatus{Entry: r, Waits: "the reboot of cp2 failed"})
	}
	l.status(s)
	lines := strings.Split(must1(h.run(exitDone, "rq", "ls")), "\n")
	for i, want := range []string{"NODE STATE SINCE ATTEMPT WAITS FOR", "cp1 queued 0s ago 0 the reboot of cp2 failed", "cp2 failed 0s ago 0 no power"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	contains(t, must1(h.run(exitDone, "rq", "list", "--history")), "cp3", "done")
	var listed listedQueue
	if err := json.Unmarshal([]byte(must1(h.run(exitDone, "rq", "list", "-o", "json"))), &listed); err != nil || len(listed.Entries) != 2 || listed.Entries[0].Waits == "" || len(listed.History) != 1 {
		t.Errorf("%v %+v", err, listed)
	}
	if stdout, _ := h.run(exitDone, "rq", "list", "-o", "name"); stdout != "cp1\ncp2\n" {
		t.Errorf("%q", stdout)
	}
}

func TestRebootQueue_CancelRetryAndSkip(t *testing.T) {
	h := rebootable(t)
	h.run(exitDone, "rq", "add", "cp1", "cp2", "cp3")
	l := h.lead("prod")
	for _, use := range []string{"retry", "skip"} {
		_, stderr := h.run(exitRefused, "rq", use, "cp1")
		contains(t, stderr, "error[CKE111]: the reboot of cp1 cannot be ", "it is queued, not failed")
		h.run(exitUsage, "rq", use)
		h.run(exitUsage, "rq", use, "cp1", "--all")
	}
	_, stderr := h.run(exitRefused, "rq", "cancel", "cp1", "cp9")
	contains(t, stderr, "error[CKE111]: cp9 is not in the reboot queue\n")
	l.move(h, "cp1", cke.EntryFailed, "")
	l.move(h, "cp2", cke.EntryRebooting, "")
	contains(t, must1(h.run(exitDone, "rq", "skip", "cp1")), "prod: cp1: no longer waited for\n")
	if r := h.reboots().Entries[0]; !r.Skipped || r.State != cke.EntryFailed {
		t.Errorf("%+v", r)
	}
	contains(t, must1(h.run(exitDone, "rq", "retry", "--all")), "prod: cp1: queued again\n")
	if r := h.reboots().Entries[0]; r.Skipped || r.State != cke.EntryQueued {
		t.Errorf("%+v", r)
	}
	contains(t, must1(h.run(exitDone, "rq", "cancel", "--all")), "prod: cp1, cp2, cp3: canceled\n")
	q := h.reboots()
	if len(q.Entries) != 1 || q.Entries[0].Node != "cp2" || !q.Entries[0].Canceled || len(q.History) != 2 || q.History[0].Result != cke.EntryCanceled {
		t.Errorf("%+v", q)
	}
}

func TestRebootQueue_IsSwitchedOffAndOn(t *testing.T) {
	h := rebootable(t)
	is := func(want string) {
		t.Helper()
		if stdout, _ := h.run(exitDone, "rq", "is-enabled"); stdout != want+"\n" {
			t.Errorf("%q", stdout)
		}
	}
	is("true")
	contains(t, must1(h.run(exitDone, "rq", "disable")), "prod: the reboot queue is disabled\n")
	is("false")
	_, stderr := h.run(exitDone, "rq", "add", "cp1")
	contains(t, stderr, "The reboot queue is disabled: `ckecli reboot-queue enable` lets reboots start.\n")
	contains(t, must1(h.run(exitDone, "rq", "enable")), "prod: the reboot queue is enabled\n")
	is("true")
}

func TestRebootQueue_WaitEndsWithTheReboots(t *testing.T) {
	h := rebootable(t)
	h.run(exitDone, "rq", "wait")
	_, stderr := h.run(exitRefused, "rq", "wait", "cp1")
	contains(t, stderr, "cp1 is not in the reboot queue")
	h.run(exitDone, "rq", "add", "cp1", "cp2", "cp3")
	l := h.lead("prod")
	l.status(ready(1))
	one, all := h.start("rq", "wait", "cp1"), h.start("rq", "wait", "cp1", "cp2", "cp3")
	l.move(h, "cp1", "", cke.EntryDone)
	one.must(exitDone)
	contains(t, one.stdout.String(), "prod: 1 node was rebooted\n")
	l.move(h, "cp2", "", cke.EntryDone)
	l.move(h, "cp3", cke.EntryFailed, "")
	contains(t, must1(h.run(exitFailed, "rq", "wait")), "prod: cp3 failed: no power\n")
	all.must(exitFailed)
	contains(t, all.stdout.String(), "prod: cp3 failed: no power\n")
}

// What the history has no room for counts as not known, and a failed node keeps nobody waiting for those behind it.
func TestRebootQueue_WaitEndsWithWhatIsNotKnownAndWhatFailed(t *testing.T) {
	h := rebootable(t)
	h.run(exitDone, "rq", "add", "cp1", "cp2", "cp3")
	l := h.lead("prod")
	l.status(ready(1))
	all := h.start("rq", "wait")
	l.move(h, "cp1", "", cke.EntryDone)
	l.move(h, "cp2", cke.EntryFailed, "")
	all.must(exitFailed)
	contains(t, all.stdout.String(), "prod: cp2 failed: no power; cp3 is still queued\n")

	q, w := h.reboots(), waitedQueue{}
	ended := q.History[0].ID
	if !w.over(q, []string{ended}) || len(w.Ended) != 1 || w.Lost != nil {
		t.Errorf("%+v", w)
	}
	q.History = nil
	if !w.over(q, []string{ended, "gone"}) || len(w.Ended) != 1 || len(w.Lost) != 1 {
		t.Errorf("%+v", w)
	}
}
