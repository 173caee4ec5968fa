package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"cke"
)

// damage puts what cannot be decoded at a key.
func damage(t *testing.T, s *Store, key string) {
	t.Helper()
	if _, err := s.client.Put(testContext(t), key, "{"); err != nil {
		t.Fatal(err)
	}
}

// A request that cannot be decoded is known by its key: a task can be listed and canceled, and a pause holds.
func TestRequestsOf_KnowsByTheirKeysThoseThatCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	task, other := askFor(t, s, cke.TaskDefragment), askFor(t, s, cke.TaskCompare)
	damage(t, s, s.keys.request("prod", taskOf(task.ID)))
	damage(t, s, s.keys.request("prod", requestHold))
	damage(t, s, s.keys.request("prod", requestHibernate))
	damage(t, s, s.keys.request("prod", requestReboots))
	damage(t, s, s.keys.request("prod", drainOf("cp1")))
	asked, err := s.RequestsOf(ctx, "prod")
	seen := (<-s.WatchCluster(ctx, "prod")).Asked()
	for _, asked := range []cke.Requests{asked, seen} {
		if err != nil || !slices.Equal(asked.Unread, []string{task.ID}) || len(asked.Tasks) != 1 || asked.Tasks[0].ID != other.ID {
			t.Errorf("%+v, %v", asked, err)
		}
		if !asked.Hold.Active(time.Now()) || asked.Hibernation == nil || !asked.Reboots.Disabled {
			t.Errorf("what an operator has to end has ended: %+v", asked)
		}
	}
	if err := s.WithdrawTask(ctx, "prod", task.ID); err != nil {
		t.Fatal(err)
	}
	if asked, err := s.RequestsOf(ctx, "prod"); err != nil || asked.Unread != nil {
		t.Errorf("%+v, %v", asked, err)
	}
}

// An operator did ask: what restricts, and cannot be decoded, restricts as strongly as it can, also for steps of an operation, until the
// operator ends it by its key. It is reported with its key and with the command that ends it.
func TestRequests_AreInForceAlsoIfTheyCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	later := time.Now().AddDate(10, 0, 0)
	for _, row := range []struct {
		kind, try string
		has       func(cke.Requests) bool
		end       func() error
	}{
		{requestHold, "ckecli resume --cluster prod", func(r cke.Requests) bool { return r.Hold.Active(later) && r.EndsRestore(later) != "" }, func() error { return s.EndHold(ctx, "prod") }},
		{requestHibernate, "ckecli cluster resume prod", func(r cke.Requests) bool { return r.Hibernation != nil }, func() error { return s.EndHibernation(ctx, "prod") }},
		{drainOf("n1"), "ckecli node undrain n1", func(r cke.Requests) bool { return r.Drained("n1", later) != nil }, func() error { return s.EndDrain(ctx, "prod", "n1") }},
		{requestReboots, "etcdctl del", func(r cke.Requests) bool { return r.Reboots.Disabled && r.Reboots.Unread }, nil},
		{taskOf("t1"), "ckecli task cancel t1", func(r cke.Requests) bool { return slices.Equal(r.Unread, []string{"t1"}) && r.EndsRestore(later) != "" },
			func() error { return s.WithdrawTask(ctx, "prod", "t1") }},
	} {
		key := s.keys.request("prod", row.kind)
		values := map[string]string{"all of it": `{"kind`, "its time": `{"kind":"` + row.kind + `","at":7}`, "its kind": `{"kind":"x","args":{}}`, "its arguments": `{"kind":"` + row.kind + `","args":"x"}`}
		if row.kind == drainOf("n1") {
			values["its node"] = `{"kind":"` + row.kind + `","args":{"node":"n2","until":"2100-01-01T00:00:00Z"}}`
			values["its end"] = `{"kind":"` + row.kind + `","args":{"node":"n1"}}`
		}
		for what, value := range values {
			if _, err := s.client.Put(ctx, key, value); err != nil {
				t.Fatal(err)
			}
			term := campaign(t, s, "prod", "h")
			stored, err := s.RequestsOf(ctx, "prod")
			fresh, err2 := term.Asked(ctx)
			seen := (<-s.WatchCluster(ctx, "prod")).Asked()
			for by, asked := range map[string]cke.Requests{"the store": stored, "the term": fresh, "the watch": seen} {
				if err != nil || err2 != nil || !row.has(asked) || !slices.Equal(asked.Undecoded, []string{row.kind}) {
					t.Errorf("%s of %s cannot be decoded: %s: %+v, %v, %v", what, row.kind, by, asked, err, err2)
				}
			}
			var e *cke.Error
			if err := term.InterruptRunning(ctx); !errors.As(err, &e) || e.Code != cke.CodeRecord || !strings.Contains(e.What, key) || !strings.Contains(e.Try, row.try) {
				t.Errorf("%s of %s cannot be decoded: %v", what, row.kind, err)
			}
			if _, err := s.HoldOf(ctx, "prod"); err != nil {
				t.Error(err)
			}
			term.Resign(ctx)
		}
		if row.end == nil {
			row.end = func() error { _, err := s.client.Delete(ctx, key); return err }
		}
		if err := row.end(); err != nil {
			t.Errorf("%s: %v", row.kind, err)
		}
	}
	if asked, err := s.RequestsOf(ctx, "prod"); err != nil || asked.Undecoded != nil || asked.EndsRestore(later) != "" {
		t.Errorf("%+v, %v", asked, err)
	}
}

// A lease that cannot be decoded may be of any entry, or of an operator: no other one is given, also not for its node.
func TestPutDrain_NotBesideALeaseThatCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	damage(t, s, s.keys.request("prod", drainOf("cp1")))
	for _, node := range []string{"cp1", "cp2"} {
		var e *cke.Error
		err := term.PutDrain(ctx, cke.Drain{Node: node, Since: time.Now(), Until: time.Now().Add(time.Hour)})
		if !errors.As(err, &e) || e.Code != cke.CodeDrain || e.Try != "ckecli node undrain cp1" {
			t.Errorf("%s: %v", node, err)
		}
	}
	if err := term.EndDrain(ctx, "cp1"); err != nil {
		t.Fatal(err)
	}
	if err := term.PutDrain(ctx, cke.Drain{Node: "cp2", Since: time.Now(), Until: time.Now().Add(time.Hour)}); err != nil {
		t.Error(err)
	}
}

// A record says that the task is over: that another one cannot be decoded changes nothing about it.
func TestWithdrawTask_NotWhatHasJustEnded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	task := askFor(t, s, cke.TaskDefragment)
	if _, err := term.AppendRecord(ctx, cke.Record{Operation: "defragment", Task: task.ID, State: cke.RecordCompleted}); err != nil {
		t.Fatal(err)
	}
	damage(t, s, s.keys.record("prod", 2))
	if err := s.WithdrawTask(ctx, "prod", task.ID); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("it was canceled after it was carried out: %v", err)
	}
}

// The record of the operation cannot be decoded, and the leader daemon reports that it runs.
func TestWithdrawTask_NotWhatTheLeaderCarriesOut(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	task := askFor(t, s, cke.TaskDefragment)
	if _, err := term.AppendRecord(ctx, cke.Record{Operation: "defragment", Task: task.ID, State: cke.RecordRunning}); err != nil {
		t.Fatal(err)
	}
	st := cke.Status{Cluster: "prod", Leader: term.is, Operation: &cke.OperationStatus{ID: 1, Task: task.ID, State: cke.RecordRunning}}
	if err := term.PutStatus(ctx, st); err != nil {
		t.Fatal(err)
	}
	damage(t, s, s.keys.record("prod", 1))
	if err := s.WithdrawTask(ctx, "prod", task.ID); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("it was canceled while it was carried out: %v", err)
	}
	term.Resign(ctx) // what its status says is no longer so, and the operator decides
	if err := s.WithdrawTask(ctx, "prod", task.ID); err != nil {
		t.Error(err)
	}
}

// An order is withdrawn once it has failed. Until then, and if it is on record after all, what its restore needs stays.
func TestWithdrawRestore_KeepsWhatARestoreUnderWayNeeds(t *testing.T) {
	l := newLender(t)
	l.formed()
	running := l.order("ONE")
	r, err := l.term.AppendRecord(l.ctx(), cke.Record{Operation: "begin-restore", Task: running.ID, State: cke.RecordRunning})
	l.must(err)
	if err := l.s.WithdrawRestore(l.ctx(), "prod", running.ID); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("it was withdrawn while its operation ran: %v", err)
	}
	l.holds(running, "ONE")
	r.State = cke.RecordFailed
	l.must(l.term.PutRecord(l.ctx(), r))
	l.begin(running)
	l.must(l.s.WithdrawRestore(l.ctx(), "prod", running.ID))
	l.holds(running, "ONE")
}

// Whatever cannot be decoded is reported at once, and always in the same order: requests by their keys, records by their numbers, tasks by
// their ids.
func TestInterruptRunning_ReportsInAStableOrder(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	first := campaign(t, s, "prod", "boot-1")
	var tasks, keys []string
	for range 4 {
		tasks = append(tasks, askFor(t, s, cke.TaskDefragment).ID)
	}
	for range 3 {
		if _, err := first.AppendRecord(ctx, cke.Record{Operation: "compare", State: cke.RecordCompleted}); err != nil {
			t.Fatal(err)
		}
	}
	first.Resign(ctx)
	damage(t, s, s.keys.record("prod", 3))
	damage(t, s, s.keys.record("prod", 1))
	for _, kind := range []string{taskOf("t2"), taskOf("t1"), drainOf("cp1")} {
		keys = append(keys, s.keys.request("prod", kind))
		damage(t, s, s.keys.request("prod", kind))
	}
	slices.Sort(keys)
	slices.Sort(tasks)
	second := campaign(t, s, "prod", "boot-2")
	var texts []string
	for range 3 {
		var e *cke.Error
		if err := second.InterruptRunning(ctx); !errors.As(err, &e) || e.Code != cke.CodeRecord {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(e.What, e.Facts, e.Try))
	}
	if d := gocmp.Diff(slices.Repeat(texts[:1], 3), texts); d != "" {
		t.Error(d)
	}
	at := 0
	for _, want := range slices.Concat(keys, []string{"records 1, 3"}, tasks, []string{"node undrain cp1", "task cancel t1", "task cancel t2", "task cancel " + tasks[0]}) {
		i := strings.Index(texts[0][at:], want)
		if i < 0 {
			t.Fatalf("%q is not after %q", want, texts[0][:at])
		}
		at += i
	}
}

// What says who the cluster is has a code of its own if it cannot be decoded, with its key.
func TestStore_NamesTheKeyOfAClusterThatCannotBeDecoded(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(testCluster("prod"), nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	named := func(what, key string, err error) {
		t.Helper()
		var e *cke.Error
		if !errors.As(err, &e) || e.Code != cke.CodeStored || !errors.Is(err, cke.ErrMalformed) || !strings.Contains(e.What, key) || e.Try == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	damage(t, s, s.keys.incarnation("prod"))
	_, err := term.Identity(ctx)
	named("the leader daemon's identity", s.keys.incarnation("prod"), err)
	_, err = s.Identity(ctx, "prod")
	named("the identity", s.keys.incarnation("prod"), err)
	damage(t, s, s.keys.spec("prod"))
	_, err = term.Spec(ctx)
	named("the leader daemon's cluster file", s.keys.spec("prod"), err)
	_, err = s.Spec(ctx, "prod")
	named("the cluster file", s.keys.spec("prod"), err)
}

// A queue that cannot be decoded is not changed, neither by an operator nor by the leader: the error says what to do.
func TestEditQueue_OneThatCannotBeDecodedSaysSo(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "a")
	key := s.keys.request("prod", requestReboots)
	for _, text := range []string{"{", `{"kind":"reboots","args":"x"}`} {
		if _, err := s.client.Put(ctx, key, text); err != nil {
			t.Fatal(err)
		}
		edit := func(q cke.Queue) (cke.Queue, error) { return q, errors.New("edited") }
		for who, err := range map[string]error{"ckecli": s.EditQueue(ctx, "prod", cke.RebootQueue, "me@here", edit), "the leader": term.EditQueue(ctx, cke.RebootQueue, edit)} {
			var e *cke.Error
			if !errors.As(err, &e) || e.Code != cke.CodeRecord || e.Try != "etcdctl del "+key {
				t.Errorf("%s, %s: %v", text, who, err)
			}
		}
	}
}
