package main

import (
	"encoding/json"
	"testing"
	"time"

	"cke"
)

// awaitTask returns the task that was asked for.
func (h *house) awaitTask() cke.Task {
	h.t.Helper()
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if all := state.Asked().Tasks; len(all) > 0 {
			return all[0]
		}
	}
	h.t.Fatal("nobody asked for a task")
	return cke.Task{}
}

// refuse ends a record of a task as one that was refused.
func (l *leader) refuse(task cke.Task, why *cke.Error) {
	l.t.Helper()
	r := l.begin(cke.Record{Operation: string(task.Kind), Targets: []string{task.Node}, Reason: "refused", Task: task.ID})
	r.State, r.EndedAt, r.Error, r.Code, r.Refusal = cke.RecordFailed, r.StartedAt, why.Error(), why.Code, cke.RefusalOf(why)
	l.put(r)
	l.finish(task)
}

func (l *leader) finish(t cke.Task) {
	l.t.Helper()
	if err := l.term.FinishTask(l.t.Context(), t.ID); err != nil {
		l.t.Fatal(err)
	}
}

func TestTask_IsFollowedUntilItsRecordEnds(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	move := h.start("etcd", "move-leader", "cp2")
	task := h.awaitTask()
	if task.Kind != cke.TaskMoveLeader || task.Node != "cp2" || task.By == "" {
		t.Errorf("%+v", task)
	}
	r := l.begin(cke.Record{Operation: "move-leader", Targets: []string{"cp2"}, Reason: "asked for", Task: task.ID, Steps: []cke.StepRecord{{Name: "move-leader", Node: "cp2"}}})
	move.stderr.await(t, "#1 move-leader cp2: asked for\n")
	l.end(r)
	l.finish(task)
	move.must(exitDone)
	contains(t, move.stdout.String(), "cp2 leads prod (took ")
}

func TestTask_ThatIsRefusedTellsTheArithmetic(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	move := h.start("etcd", "move-leader", "cp2")
	l.refuse(h.awaitTask(), &cke.Error{Code: cke.CodeQuorum, What: "cp2 cannot lead", Facts: []string{"now 3 voters, 1 healthy"}, Unchanged: true, Try: "ckecli status"})
	move.must(exitRefused)
	contains(t, move.stderr.String(), "error[CKE104]: cp2 cannot lead\n  now 3 voters, 1 healthy\nNothing was changed.\nTry: ckecli status\n")
}

// A damaged backup has an exit code of its own, also where the leader found it and changed nothing.
func TestTask_ThatFoundADamagedBackupTellsItByTheExitCode(t *testing.T) {
	for code, exit := range map[cke.Code]int{
		cke.CodeBackupDamaged: exitDamaged, cke.CodeBackupEmpty: exitDamaged, cke.CodeNotCovered: exitRefused, cke.CodeBackupKey: exitRefused,
	} {
		err := taskFailure(cke.Record{Code: code, Refusal: &cke.Refusal{What: "cannot restore from the backups of prod", Unchanged: true}})
		if f := failureOf(t.Context(), err); f.exit != exit {
			t.Errorf("%s: exit code %d, want %d", code, f.exit, exit)
		}
	}
}

func TestTask_ThatIsInterruptedIsFollowedInTheNextTerm(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(ready(1))
	move := h.start("etcd", "move-leader", "cp2")
	task := h.awaitTask()
	r := l.begin(cke.Record{Operation: "move-leader", Reason: "asked for", Task: task.ID})
	r.State, r.EndedAt = cke.RecordInterrupted, r.StartedAt
	l.put(r)
	move.stderr.await(t, "interrupted")
	l.end(l.begin(cke.Record{Operation: "move-leader", Reason: "asked for again", Task: task.ID}))
	l.finish(task)
	move.must(exitDone)
}

func TestTask_IsNotAskedForWhileNobodyLeads(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitNoStatus, "etcd", "move-leader", "cp2")
	contains(t, stderr, "error[CKE108]: no daemon leads prod, so the task would not be done\n", "Nothing was changed.\n")
	if r, err := h.store.RequestsOf(h.ctx(), "prod"); err != nil || len(r.Tasks) > 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestTask_IsTakenBackWhenTheLeaderGoesBeforeItBegins(t *testing.T) {
	h := declared(t)
	h.patience, h.silence = 300*time.Millisecond, 300*time.Millisecond
	l := h.lead("prod")
	l.status(ready(1))
	move := h.start("etcd", "move-leader", "cp2")
	h.awaitTask()
	if err := l.term.Resign(h.ctx()); err != nil {
		t.Fatal(err)
	}
	move.must(exitNoStatus)
	if r, err := h.store.RequestsOf(h.ctx(), "prod"); err != nil || len(r.Tasks) > 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestTask_WaitsInAPausedClusterAndSaysSo(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	h.run(exitDone, "pause", "--reason", "new switch")
	held := ready(1)
	held.Reason = "paused by ann@boot-1: new switch"
	held.Conditions = []cke.Condition{{Type: cke.CondPaused, Status: cke.True, Reason: "Asked"}}
	l.status(held)
	move := h.start("etcd", "move-leader", "cp2")
	move.stderr.await(t, "waiting: paused by ann@boot-1: new switch\n")
	move.cancel()
	move.must(exitInterrupted)
	contains(t, move.stderr.String(), "Detached: the leader of prod was asked, and continues with it\nTry: ckecli history -f\n")
	h.awaitTask()
}

func TestTask_ReturnsItsIDWithoutWaiting(t *testing.T) {
	h := declared(t)
	h.lead("prod").status(ready(1))
	stdout, _ := h.run(exitDone, "etcd", "move-leader", "cp2", "--no-wait", "-o", "json")
	var d struct{ Cluster, Task string }
	if err := json.Unmarshal([]byte(stdout), &d); err != nil || d.Cluster != "prod" || d.Task != h.awaitTask().ID {
		t.Errorf("%v in %s", err, stdout)
	}
}
