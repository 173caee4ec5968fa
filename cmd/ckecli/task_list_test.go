package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cke"
)

// ask stores a task as of so long ago by the house's clock.
func (h *house) ask(kind cke.TaskKind, node string, ago time.Duration) cke.Task {
	h.t.Helper()
	t := cke.NewTask(kind, node, "", "ann@boot-2", h.now().Add(-ago))
	if err := h.store.AddTask(h.ctx(), "prod", t); err != nil {
		h.t.Fatal(err)
	}
	return t
}

// pausedStatus is a status that says why nothing is done.
func pausedStatus() cke.Status {
	s := ready(1)
	s.Reason = "paused by ann@boot-2: new switch"
	return s
}

// listedTask returns the only task that `task list -o json` tells of.
func (h *house) listedTask() listedTask {
	h.t.Helper()
	stdout, _ := h.run(exitDone, "task", "list", "-o", "json")
	var all []listedTask
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || len(all) != 1 {
		h.t.Fatalf("%v in %s", err, stdout)
	}
	return all[0]
}

func TestTaskList_TellsWhoAskedSinceWhenAndWhyItWaits(t *testing.T) {
	h := declared(t)
	h.stopClock()
	stdout, stderr := h.run(exitDone, "task", "list")
	if stdout != "" || stderr != "Nothing that was asked of the leader of prod is left to do.\n" {
		t.Errorf("%q %q", stdout, stderr)
	}
	if stdout, _ = h.run(exitDone, "task", "list", "prod", "-o", "json"); stdout != "[]\n" {
		t.Errorf("%q", stdout)
	}
	l := h.lead("prod")
	l.status(pausedStatus())
	younger, older := h.ask(cke.TaskDefragment, "", 10*time.Minute), h.ask(cke.TaskReplace, "cp3", 20*time.Minute)
	stdout, _ = h.run(exitDone, "task", "list")
	lines := strings.Split(stdout, "\n")
	for i, want := range []string{"ID TASK ABOUT STATE ASKED BY WHY",
		older.ID + " replace cp3 waiting 20m ago ann@boot-2 paused by ann@boot-2: new switch",
		younger.ID + " defragment - waiting 10m ago ann@boot-2 paused by ann@boot-2: new switch"} {
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if stdout, _ = h.run(exitDone, "task", "list", "-o", "name"); stdout != older.ID+"\n"+younger.ID+"\n" {
		t.Errorf("%q", stdout)
	}
	stdout, _ = h.run(exitDone, "task", "list", "-o", "yaml")
	stdout = strings.ReplaceAll(stdout, `"`, "") // an id that could be a number is in quotes
	contains(t, stdout, "- id: "+older.ID, "  kind: replace\n  node: cp3\n  by: ann@boot-2\n", "  state: waiting\n", "  because: 'paused by ann@boot-2: new switch'\n")
	contains(t, must1(h.run(exitDone, "task", "list", "-o", "wide")), "AT", "REASON")
	h.run(exitUsage, "task", "list", "prod", "--cluster", "other")
}

// must1 is the first of two.
func must1(stdout, _ string) string { return stdout }

func TestTaskList_TellsHowFarATaskIs(t *testing.T) {
	h := declared(t)
	task := h.ask(cke.TaskReplace, "cp3", time.Minute)
	is := func(state string, record int64, because string) {
		t.Helper()
		got := h.listedTask()
		if got.ID != task.ID || got.State != state || got.Record != record || got.Because != because {
			t.Errorf("%+v", got)
		}
	}
	is(taskWaiting, 0, "no daemon leads the cluster")
	l := h.lead("prod")
	is(taskWaiting, 0, "the leader has reported no status yet")

	early := pausedStatus()
	early.ObservedAt = task.At.Add(-time.Second)
	l.status(early)
	got := h.listedTask() // the status is old, too
	if !strings.HasPrefix(got.Because, "the leader has reported nothing for ") || !strings.HasSuffix(got.Because, "; before that: paused by ann@boot-2: new switch") {
		t.Errorf("%q", got.Because)
	}
	other := l.begin(cke.Record{Operation: "compare", Reason: "an hour has passed"})
	busy := ready(1)
	busy.Operation = &cke.OperationStatus{ID: other.ID, Type: other.Operation, State: cke.RecordRunning}
	l.status(busy)
	is(taskWaiting, 0, "#1 compare is under way")
	l.end(other)

	r := l.begin(cke.Record{Operation: "remove-member", Targets: []string{"cp3"}, Task: task.ID, Part: true})
	is(taskRunning, 2, "#2 remove-member cp3")
	l.end(r)
	l.status(pausedStatus())
	is(taskBegun, 2, "paused by ann@boot-2: new switch")
	l.finish(task)
	if stdout, _ := h.run(exitDone, "task", "ls", "-o", "name"); stdout != "" {
		t.Errorf("%q", stdout)
	}
}

func TestTaskList_HidesPasswordsOfTargets(t *testing.T) {
	task := cke.NewTask(cke.TaskRestore, "", "", "", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "s3://key:secret@bucket/prod", Source: "prod", Revision: 7}
	if shown := shownTask(task); strings.Contains(shown.Restore.Target, "secret") || task.Restore.Target != "s3://key:secret@bucket/prod" {
		t.Errorf("%+v", shown.Restore)
	}
	if about(task) != "the backups of prod at revision 7" {
		t.Error(about(task))
	}
}
