package storage

import (
	"context"
	"errors"
	"testing"
	"time"

	"cke"
)

// lender is a store in which keys are lent for restores of a cluster.
type lender struct {
	t    *testing.T
	s    *Store
	term *Term
	spec cke.Cluster
}

func newLender(t *testing.T) lender {
	t.Helper()
	c := testConfig(t)
	startEmbeddedStore(t, c)
	l := lender{t: t, s: openStore(t, c)}
	l.must(l.s.OpenSecrets(testContext(t)))
	l.spec = setCluster(t, l.s, "prod").Cluster.WithDefaults()
	l.term = campaign(t, l.s, "prod", "here")
	return l
}

// formed makes it a cluster that serves.
func (l lender) formed() {
	l.t.Helper()
	inc := cke.NewIncarnation(l.spec, nil, time.Now())
	l.must(l.term.CreateIncarnation(l.ctx(), inc))
	inc.State = cke.Formed
	l.must(l.term.UpdateIncarnation(l.ctx(), inc))
}

func (l lender) ctx() context.Context { return l.t.Context() }

func (l lender) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// order asks for a restore with a key; "": an earlier version asks, which lends the one for all orders.
func (l lender) order(key string) cke.Task {
	l.t.Helper()
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	if key == "" {
		l.must(l.s.AddTask(l.ctx(), "prod", task))
		if err := l.s.Secrets("prod").CreateSecret(l.ctx(), secretRestoreKey, []byte("SHARED")); !errors.Is(err, cke.ErrConflict) {
			l.must(err)
		}
		return task
	}
	l.must(l.s.AskRestore(l.ctx(), "prod", task, RestoreAsked{Key: []byte(key)}))
	return task
}

// begin puts a restore on record, as the leader does.
func (l lender) begin(task cke.Task) cke.Incarnation {
	l.t.Helper()
	id, err := l.term.Identity(l.ctx())
	l.must(err)
	inc := cke.NewRestoration(l.spec, id, cke.Restoration{ID: task.ID}, time.Now())
	l.must(l.term.BeginRestore(l.ctx(), inc))
	l.must(l.term.FinishTask(l.ctx(), task.ID))
	return inc
}

// end does the last steps of a restore in the order of the operation: record-start, forget-snapshot, record-formed.
func (l lender) end(inc cke.Incarnation) {
	l.t.Helper()
	id, err := l.term.Identity(l.ctx())
	l.must(err)
	for i := range id.Joins {
		id.Joins[i].StartedAt = time.Now().UTC()
	}
	l.must(l.term.PutJoins(l.ctx(), id, id.Joins...))
	l.must(l.term.FinishRestore(l.ctx(), inc.Restore.ID))
	inc.State = cke.Formed
	l.must(l.term.UpdateIncarnation(l.ctx(), inc))
}

func (l lender) holds(task cke.Task, want string) {
	l.t.Helper()
	key, err := l.s.RestoreKey(l.ctx(), "prod", task.ID)
	if string(key) != want || errors.Is(err, cke.ErrNotFound) != (want == "") {
		l.t.Errorf("the key of an order: %q, %v; want %q", key, err, want)
	}
}

// A key that is lent is that of one order: another one that is asked for, refused, withdrawn or done changes nothing about it.
func TestRestoreKey_EndsWithItsOwnOrder(t *testing.T) {
	l := newLender(t)
	withdrawn, refused := l.order("ONE"), l.order("TWO")
	l.must(l.s.WithdrawTask(l.ctx(), "prod", withdrawn.ID))
	l.holds(withdrawn, "")
	l.holds(refused, "TWO")
	l.must(l.term.FinishTask(l.ctx(), refused.ID))
	l.holds(refused, "")

	l.formed()
	waiting := l.order("THREE")
	l.begin(waiting)
	failed, better := l.order("FOUR"), l.order("FIVE")
	l.must(l.term.FinishTask(l.ctx(), failed.ID))
	l.must(l.s.WithdrawRestore(l.ctx(), "prod", failed.ID))
	l.holds(failed, "")
	l.holds(waiting, "THREE")
	last := l.begin(better)
	l.holds(waiting, "THREE") // it goes on if the one that takes its place is canceled
	l.holds(better, "FIVE")
	next := l.order("SIX")
	l.end(last)
	l.holds(waiting, "")
	l.holds(better, "")
	l.holds(next, "SIX")
}

// A cancellation that is cut off right after it is on record has removed the key of its restore, and of no other.
func TestRestoreKey_EndsWithACancellationThatIsCutOff(t *testing.T) {
	l := newLender(t)
	l.formed()
	waiting, better := l.order("ONE"), l.order("TWO")
	first := l.begin(waiting)
	second := l.begin(better)
	next := l.order("THREE")
	l.must(l.term.CancelRestore(l.ctx(), second))
	l.holds(waiting, "ONE")
	l.holds(better, "")
	l.holds(next, "THREE")
	l.must(l.term.CancelRestore(l.ctx(), first))
	l.holds(waiting, "")
	l.holds(next, "THREE")
}

// What a daemon of an earlier version left in the store goes with whatever ends next.
func TestRestoreKey_LeftByAnEarlierDaemon(t *testing.T) {
	for what, ends := range map[string]func(l lender){
		"the next term":       func(l lender) { l.must(l.term.FinishRestore(l.ctx(), "")) },
		"another task":        func(l lender) { l.must(l.term.FinishTask(l.ctx(), askFor(t, l.s, cke.TaskDefragment).ID)) },
		"one that is refused": func(l lender) { l.must(l.term.FinishTask(l.ctx(), l.order("OTHER").ID)) },
		"one that is withdrawn": func(l lender) {
			l.must(l.s.WithdrawTask(l.ctx(), "prod", askFor(t, l.s, cke.TaskDefragment).ID))
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLender(t)
			l.t = t
			l.formed()
			waiting := l.order("ONE")
			inc := l.begin(waiting)
			for _, name := range []string{lentFor("gone"), "restore-keys"} {
				l.must(l.s.Secrets("prod").CreateSecret(l.ctx(), name, []byte("LEFT")))
			}
			next := l.order("TWO")
			ends(l)
			l.holds(cke.Task{ID: "gone"}, "")
			l.holds(waiting, "ONE")
			l.holds(next, "TWO")
			l.must(l.term.CancelRestore(l.ctx(), inc))
			if _, err := l.s.Secrets("prod").Secret(l.ctx(), "restore-keys"); err != nil {
				t.Error("a secret of another name:", err)
			}
		})
	}
}

// What an earlier version lent for all orders is read, and ends with the last of them, however that ends.
func TestRestoreKey_OfAnEarlierVersion(t *testing.T) {
	for what, ends := range map[string]func(l lender, one cke.Task){
		"refused":   func(l lender, one cke.Task) { l.must(l.term.FinishTask(l.ctx(), one.ID)) },
		"withdrawn": func(l lender, one cke.Task) { l.must(l.s.WithdrawTask(l.ctx(), "prod", one.ID)) },
		"done":      func(l lender, one cke.Task) { l.end(l.begin(one)) },
		"canceled": func(l lender, one cke.Task) {
			inc := l.begin(one)
			cancel := askFor(l.t, l.s, cke.TaskCancelRestore)
			l.must(l.term.CancelRestore(l.ctx(), inc))
			l.must(l.term.FinishTask(l.ctx(), cancel.ID)) // by the next daemon, which finds nothing to cancel
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLender(t)
			l.t = t
			l.formed()
			one, two := l.order(""), l.order("")
			l.must(l.term.FinishTask(l.ctx(), two.ID))
			l.holds(one, "SHARED")
			ends(l, one)
			l.holds(one, "")
		})
	}
}
