package server

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"cke"
	"cke/op"
)

// lastRecord passes records on and remembers the latest one.
type lastRecord struct {
	op.Journal
	begun chan struct{} // closed once there is a record

	mu     sync.Mutex
	last   cke.Record
	stored cke.RecordState // what the store is known to say
}

// AppendRecord implements op.Journal.
func (j *lastRecord) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	r, err := j.Journal.AppendRecord(ctx, r)
	if err == nil {
		j.remember(r)
		j.store(r)
		close(j.begun)
	}
	return r, err
}

// PutRecord implements op.Journal.
func (j *lastRecord) PutRecord(ctx context.Context, r cke.Record) error {
	j.remember(r)
	err := j.Journal.PutRecord(ctx, r)
	if err == nil {
		j.store(r)
	}
	return err
}

// at calls f with the latest record; no step begins meanwhile.
func (j *lastRecord) at(f func(cke.Record)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(j.last)
}

func (j *lastRecord) remember(r cke.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last = r
}

func (j *lastRecord) store(r cke.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stored = r.State
}

// saved reports whether the record is in the store with this state.
func (j *lastRecord) saved(state cke.RecordState) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stored == state
}

func (j *lastRecord) record() cke.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// problemsOf turns the error of an operation into problems, one for each step that failed.
func problemsOf(err error, at time.Time) []cke.Problem {
	var failed op.StageError
	if !errors.As(err, &failed) {
		return []cke.Problem{{Code: cke.CodeOf(err), Message: err.Error(), Remedy: cke.RemedyOf(err), Since: at}}
	}
	var all []cke.Problem
	for _, s := range failed {
		all = append(all, cke.Problem{Code: cke.CodeOf(s.Err), Node: s.Node, Message: s.Step + ": " + s.Err.Error(), Remedy: cke.RemedyOf(s.Err), Since: at})
	}
	return all
}

// sameNews reports whether a reports nothing that b does not, apart from times and counters that move all the time.
func sameNews(a, b cke.Status) bool { return reflect.DeepEqual(calm(a), calm(b)) }

// calm returns s without what changes from observation to observation.
func calm(s cke.Status) cke.Status {
	s.ObservedAt, s.Reached = time.Time{}, nil
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		s.Nodes[i].SeenAt, s.Nodes[i].Clock = time.Time{}, time.Time{}
	}
	s.Etcd = s.Etcd.WithoutIndexes()
	s.Etcd.Endpoints, s.Etcd.Superseded = slices.Clone(s.Etcd.Endpoints), slices.Clone(s.Etcd.Superseded)
	for _, all := range [][]cke.EndpointStatus{s.Etcd.Endpoints, s.Etcd.Superseded} {
		for i := range all {
			e := &all[i]
			e.Revision, e.DBSize, e.DBSizeInUse, e.RaftIndex, e.RaftApplied = 0, 0, 0, 0, 0
		}
	}
	if s.Backup != nil {
		b := *s.Backup
		b.Busy, b.Revision, b.Time, b.LagRevisions, b.Lag, b.LagMost, b.Buffered = false, 0, time.Time{}, 0, 0, 0, 0
		s.Backup = &b
	}
	if s.Inventory != nil {
		i := *s.Inventory
		i.ReadAt = time.Time{}
		s.Inventory = &i
	}
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		s.Targets[i].Revisions = nil
	}
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		m := &s.Members[i]
		m.DBSize = m.DBSize >> 20 // MiB
		m.DBSizeInUse, m.Revision = 0, 0
		m.Applied, m.ProgressAt, m.Watched = 0, time.Time{}, 0
		if m.Lag >= 0 {
			m.Lag = m.Lag / 1000
		}
	}
	return s
}
