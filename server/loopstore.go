package server

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// closeRecords closes what earlier terms left running: once, and again as long as a request cannot be decoded, which is reported with that.
func (l *Loop) closeRecords(ctx context.Context, asked cke.Requests) {
	if l.closed && asked.Undecoded == nil {
		return
	}
	err := l.Term.InterruptRunning(ctx)
	if l.closed, l.unclosed = err == nil, nil; l.closed {
		return
	}
	var e *cke.Error
	if !errors.As(err, &e) || e.Code != cke.CodeRecord {
		l.Log.Warn("records of earlier terms are not closed yet", "error", err)
		return
	}
	what, try := "no task is carried out: ", e.Try
	if i := slices.IndexFunc(asked.Tasks, func(t cke.Task) bool { return t.Kind == cke.TaskRestore }); i >= 0 {
		what = "an order to restore waits, and nothing else is done until it is canceled, or refused since it waited for more than an hour; " + what
		if cancel := "ckecli task cancel " + asked.Tasks[i].ID; !strings.Contains(try, cancel) {
			try = cancel + "; and " + try
		}
	}
	l.unclosed = &cke.Problem{Code: e.Code, Message: what + strings.Join(append([]string{e.What}, e.Facts...), "; "), Remedy: try}
}

// needsNoRecords reports whether an operation for a task may be started although that may be on record as carried out: it cancels a restore,
// which returns to what was, or answers an order. Whether an order was carried out is part of the identity.
func needsNoRecords(o op.Operation) bool {
	switch o := o.(type) {
	case op.CancelRestore, op.WithdrawStart:
		return true
	case op.Refuse:
		return o.Task.Restore != nil
	case op.Settled:
		return o.Task.Restore != nil
	}
	return false
}

// save stores how operations ended that the store did not take note of when they did.
func (l *Loop) save(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastWordLimit)
	defer cancel()
	for len(l.unsaved) > 0 {
		if err := l.Term.PutRecord(ctx, l.unsaved[0]); err != nil {
			l.Log.Warn("the end of an operation is not on record yet", "record", l.unsaved[0].ID, "error", err)
			return
		}
		l.unsaved = l.unsaved[1:]
	}
}

// requests is what operators ask for, without tasks that are over: the store may not know yet.
func (l *Loop) requests() cke.Requests {
	r := l.Term.Requests()
	r.Tasks = slices.DeleteFunc(slices.Clone(r.Tasks), func(t cke.Task) bool { return slices.Contains(l.over, t.ID) })
	return r
}

// finishTasks removes tasks that are over from the store. They are remembered until the store reports that they are gone.
func (l *Loop) finishTasks(ctx context.Context) {
	if len(l.over) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastWordLimit)
	defer cancel()
	there := l.Term.Requests().Tasks
	l.over = slices.DeleteFunc(l.over, func(id string) bool {
		return !slices.ContainsFunc(there, func(t cke.Task) bool { return t.ID == id })
	})
	for _, id := range l.over {
		if err := l.Term.FinishTask(ctx, id); err != nil {
			l.Log.Warn("a task that is over is not removed from the store yet", "task", id, "error", err)
			return
		}
	}
}

// publish stores the status when it reports something new, or when the stored one grows old.
func (l *Loop) publish(ctx context.Context, in strategy.Input, d strategy.Decision) {
	s := strategy.Report(in, d, l.status)
	s.Leader = l.Term.Leader()
	s.Operation = nil
	if l.running != nil {
		r := l.running.journal.record()
		if r.State != cke.RecordRunning {
			l.keepLists(ctx, s)
			return // it has just ended; the next look is told
		}
		s.Operation = operationStatus(r)
	}
	l.status = s
	if l.Inventory != nil { // chosen by what this daemon observed: the status in the store may be of another one
		l.wanted.Status = s
		l.Inventory.Update(l.wanted)
	}
	l.Metrics.status(&in, s)
	l.Samples.add(s, l.took)
	l.problems.update(l.Log, s.Problems, l.Now())
	if !l.unread {
		l.store(ctx, s)
	}
}

// keepLists keeps the member lists of a status that is not told: the next look may not read them again.
func (l *Loop) keepLists(ctx context.Context, s cke.Status) {
	l.status.Incarnation, l.status.ClusterID, l.status.Etcd = s.Incarnation, s.ClusterID, s.Etcd
	if !l.unread {
		l.store(ctx, l.status)
	}
}

// store stores a status that reports something new, or if the stored one grows old.
func (l *Loop) store(ctx context.Context, s cke.Status) {
	if sameNews(s, l.stored) && l.Now().Sub(l.storedAt) < statusEvery {
		return
	}
	if err := l.Term.PutStatus(ctx, s); err != nil {
		l.Log.Warn("status not stored", "error", err)
		return
	}
	l.stored, l.storedAt = s, l.Now()
}

func operationStatus(r cke.Record) *cke.OperationStatus {
	if r.Operation == "" {
		return nil
	}
	s := &cke.OperationStatus{ID: r.ID, Type: r.Operation, Targets: r.Targets, State: r.State, Description: r.Reason, Time: r.StartedAt, Task: r.Task, Code: r.Code, Refused: r.Refused}
	if !r.EndedAt.IsZero() {
		s.Time = r.EndedAt
	}
	switch {
	case r.Refused && r.Refusal != nil:
		s.Description = r.Refusal.Text()
	case r.Error != "":
		s.Description = r.Error
	}
	return s
}

// publishUndecoded reports that the cluster file or the identity cannot be decoded, beside what was last known; another error is only logged.
func (l *Loop) publishUndecoded(ctx context.Context, err error) {
	var e *cke.Error
	if l.unread || !errors.As(err, &e) || e.Code != cke.CodeStored {
		return
	}
	s := l.status // which stays as it is: the next status follows from what was observed
	s.Cluster, s.Leader, s.Operation = l.Env.Cluster, l.Term.Leader(), nil
	s.Health, s.Summary, s.Reason = cke.HealthUnknown, e.What, e.What
	p := cke.Problem{Code: e.Code, Message: strings.Join(append([]string{e.What}, e.Facts...), "; "), Remedy: e.Try, Since: l.Now()}
	if i := slices.IndexFunc(l.stored.Problems, func(p cke.Problem) bool { return p.Code == e.Code }); i >= 0 {
		p.Since = l.stored.Problems[i].Since
	}
	s.Problems = []cke.Problem{p}
	l.problems.update(l.Log, s.Problems, l.Now())
	l.store(ctx, s)
}
