package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/storage"
)

func TestTaskCancel_TakesBackWhatNobodyHasBegun(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	held := pausedStatus()
	held.Conditions = []cke.Condition{{Type: cke.CondPaused, Status: cke.True, Reason: "Asked"}}
	l.status(held)
	move := h.start("etcd", "move-leader", "cp2")
	move.stderr.await(t, "waiting: paused by ann@boot-2: new switch\n")
	stdout, _ := h.run(exitDone, "task", "cancel", "10.0.0.12")
	contains(t, stdout, "move-leader cp2 is canceled; it was asked for by ")
	move.must(exitRefused)
	contains(t, move.stderr.String(), "error[CKE103]: the task was canceled meanwhile\nNothing was changed.\n")
	if r, err := h.store.RequestsOf(h.ctx(), "prod"); err != nil || len(r.Tasks) > 0 {
		t.Errorf("%v, %v", r, err)
	}

	// By its id, and without a daemon.
	if err := l.term.Resign(h.ctx()); err != nil {
		t.Fatal(err)
	}
	task := h.ask(cke.TaskCompare, "", 5*time.Minute)
	stdout, _ = h.run(exitDone, "task", "cancel", task.ID, "-o", "json")
	var done cancelledTask
	if err := json.Unmarshal([]byte(stdout), &done); err != nil || done.Cluster != "prod" || done.Task.ID != task.ID {
		t.Errorf("%v in %s", err, stdout)
	}
	_, stderr := h.run(exitRefused, "task", "cancel", task.ID)
	contains(t, stderr, "error[CKE111]: "+task.ID+" is neither a task that waits in prod, nor the node of one\nNothing was changed.\nTry: ckecli task list\n")
}

func TestTaskCancel_RefusesWhatWasBegunAndSaysWhatIsLeftToDo(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	for _, c := range []struct {
		kind cke.TaskKind
		node string
		left []string
	}{
		{cke.TaskReplace, "cp3", []string{"error[CKE111]: replace cp3 has started, and continues\n", " work cp3 running\n", "the former member may have left the member list: cke continues until cp3 has a member of its own\n", "Nothing was changed.\nTry: ckecli history "}},
		{cke.TaskDrain, "cp2", []string{"error[CKE111]: drain cp2 has started, and continues\n", "Try: ckecli node undrain cp2\n"}},
		{cke.TaskRestore, "", []string{"error[CKE111]: restore has started, and continues\n", "Try: ckecli restore --cancel\n"}},
		{cke.TaskBackup, "", []string{"error[CKE111]: backup has started, and continues\n", "what was interrupted is started again\n", " -f\n"}},
	} {
		task := h.ask(c.kind, c.node, 5*time.Minute)
		var targets []string
		if c.node != "" {
			targets = []string{c.node}
		}
		r := l.begin(cke.Record{Operation: "work", Targets: targets, Task: task.ID})
		which := task.ID
		if c.node != "" {
			which = c.node
		}
		_, stderr := h.run(exitRefused, "task", "cancel", which)
		contains(t, stderr, c.left...)
		r.State, r.EndedAt, r.Error = cke.RecordFailed, time.Now().UTC(), "no way"
		l.put(r)
		_, stderr = h.run(exitRefused, "task", "cancel", which) // the daemon has not removed it yet
		contains(t, stderr, " is over\n", " failed: no way\n")
		l.finish(task)
		_, stderr = h.run(exitRefused, "task", "cancel", task.ID)
		contains(t, stderr, "error[CKE111]: task "+task.ID+" is over\n", " failed: no way\n")
	}
}

func TestTaskCancel_WantsOneTask(t *testing.T) {
	h := declared(t)
	h.stopClock()
	one, two := h.ask(cke.TaskReplace, "cp2", 5*time.Minute+2*time.Second), h.ask(cke.TaskMoveLeader, "cp2", 5*time.Minute+time.Second)
	other := h.ask(cke.TaskDrain, "cp1", 5*time.Minute)
	_, stderr := h.run(exitRefused, "task", "cancel", "cp2")
	contains(t, stderr, "error[CKE111]: 2 tasks of prod are about cp2: name one by its id\n", one.ID+": replace, asked for 5m ago\n", two.ID+": move-leader, asked for 5m ago\n")
	_, stderr = h.run(exitRefused, "task", "cancel", "cp3")
	contains(t, stderr, "error[CKE111]: cp3 is neither a task that waits in prod, nor the node of one\n")
	stdout, _ := h.run(exitDone, "__complete", "task", "cancel", "")
	contains(t, stdout, one.ID+"\treplace cp2, asked for 5m ago\n", other.ID+"\tdrain cp1, asked for 5m ago\n", "cp1\tdrain\n")
	h.run(exitDone, "task", "cancel", one.ID)
	h.run(exitDone, "task", "cancel", "cp2")
	h.run(exitUsage, "task", "cancel")
}

// A cluster that was declared to be restored is still there when nothing is to be restored into it any more.
func TestTaskCancel_SaysWhatARestoreLeavesBehind(t *testing.T) {
	h := newHouse(t)
	task := cke.NewTask(cke.TaskRestore, "", "", "ann@boot-2", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(clusterFile))
	if err != nil {
		t.Fatal(err)
	}
	asked := storage.RestoreAsked{Key: []byte("AGE"), Declare: &storage.Declared{Cluster: c, Source: []byte(clusterFile)}}
	if err := h.store.AskRestore(h.ctx(), "prod", task, asked); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := h.run(exitDone, "task", "cancel", task.ID)
	contains(t, stdout, "restore the backups of prod is canceled; it was asked for by ann@boot-2 ")
	contains(t, stderr, "prod stays declared, and waits to be restored: ckecli restore, or ckecli cluster delete prod\n")
	if _, err := h.store.RestoreKey(h.ctx(), "prod", task.ID); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("the key that was lent is still there: %v", err)
	}
}

// A task that cannot be read is listed and canceled by its id.
func TestTaskCancel_CancelsWhatCannotBeRead(t *testing.T) {
	h := declared(t)
	if err := h.store.PutRequest(h.ctx(), "prod", "task t7", "ann@boot-2", 7); err != nil {
		t.Fatal(err)
	}
	stdout, _ := h.run(exitDone, "task", "list")
	contains(t, stdout, "t7  ", "unreadable", "ckecli task cancel t7")
	stdout, _ = h.run(exitDone, "task", "cancel", "t7")
	contains(t, stdout, "task t7, which cannot be read, is canceled\n")
	stdout, _ = h.run(exitDone, "task", "list", "-o", "name")
	if stdout != "" {
		t.Errorf("still listed: %s", stdout)
	}
}
