package sim

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"cke"
)

// Term is one daemon's time as leader. Its methods are those of a real term of the store.
type Term struct {
	d      *Daemon
	number int64
	since  time.Time
	// flushed: all was stored, with a full that leads to it.
	flushed bool
	// changed receives after the spec has changed.
	changed chan struct{}
}

var _ cke.Ledger = (*Term)(nil)

// Context is canceled with the term.
func (t *Term) Context() context.Context { return t.d.ctx }

// Changed receives after the spec has changed.
func (t *Term) Changed() <-chan struct{} { return t.changed }

// Check returns ErrDeposed once the term is over.
func (t *Term) Check() error {
	w := t.d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.d.deposed() {
		return cke.ErrDeposed
	}
	return nil
}

// Requests returns what operators requested.
func (t *Term) Requests() cke.Requests {
	w := t.d.world
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.store.asked()
}

func (s *Store) asked() cke.Requests {
	r := s.requests
	r.Drains, r.Tasks = slices.Clone(r.Drains), slices.Clone(r.Tasks)
	return r
}

// FinishTask removes a task that is over.
func (t *Term) FinishTask(ctx context.Context, id string) error {
	return t.write(ctx, "FinishTask", func(s *Store) error {
		t.d.world.wasAnswered(id)
		s.requests.Tasks = slices.DeleteFunc(slices.Clone(s.requests.Tasks), func(task cke.Task) bool { return task.ID == id })
		return nil
	})
}

// ResignRequested returns false: no operator asks a simulated daemon to resign.
func (t *Term) ResignRequested() bool { return false }

// Resign ends the term.
func (t *Term) Resign(context.Context) error {
	t.d.end(cke.ErrDeposed)
	return nil
}

// Leader returns which daemon leads and since when.
func (t *Term) Leader() cke.Leader {
	return cke.Leader{Host: fmt.Sprintf("host%d", t.number), Term: t.number, Since: t.since}
}

func (t *Term) read(ctx context.Context, name string, do func(s *Store) error) error {
	return t.d.call(ctx, Call{Port: "store", Name: name}, nil, cke.Node{}, func(bool) error {
		s := t.d.world.store
		if s.down {
			return errStoreDown
		}
		return do(s)
	})
}

// next is how many writes the term had made when a call was made: one that was given up is void once another one was made.
func (t *Term) next() int {
	t.d.world.mu.Lock()
	defer t.d.world.mu.Unlock()
	return t.d.writes
}

// write makes one transaction, guarded by the term.
func (t *Term) write(ctx context.Context, name string, do func(s *Store) error) error {
	next := t.next()
	return t.d.call(ctx, Call{Port: "store", Name: name, Writes: true}, nil, cke.Node{}, func(bool) error {
		s := t.d.world.store
		switch {
		case s.down:
			return errStoreDown
		case s.term != t.number && !s.unfenced:
			return cke.ErrDeposed
		case s.deleted:
			return cke.ErrNotFound
		}
		if s.term != t.number {
			t.d.world.violated("daemon %d writes %s after its term", t.number, name)
		}
		if t.d.world.late && t.d.writes != next && !s.unfenced {
			return fmt.Errorf("%s: another write was made since: %w", name, cke.ErrConflict)
		}
		t.d.writes++
		return do(s)
	})
}

// change writes the identity. The transaction is guarded by what it was made from, too: one that arrives late, after
// its caller has given it up and something else was written, changes nothing.
func (t *Term) change(ctx context.Context, name string, do func(id *cke.Identity) error) error {
	t.d.world.mu.Lock()
	read := t.d.world.store.version
	t.d.world.mu.Unlock()
	return t.write(ctx, name, func(s *Store) error {
		next := cloneIdentity(s.identity)
		if err := do(&next); err != nil {
			return err
		}
		if s.version != read && !s.unfenced {
			return fmt.Errorf("%s: %w", name, cke.ErrConflict)
		}
		s.put(next)
		return nil
	})
}

// put stores an identity as the next version.
func (s *Store) put(next cke.Identity) {
	before := s.identity
	s.identity = next
	s.version++
	if !reflect.DeepEqual(before.Incarnation, next.Incarnation) {
		s.lived = s.version
	}
	was := slices.Concat(before.Joins, before.Ended)
	for _, j := range slices.Concat(next.Joins, next.Ended) {
		if !slices.ContainsFunc(was, func(o cke.Join) bool { return reflect.DeepEqual(o, j) }) {
			s.wrote(j.ID)
		}
	}
	s.world.wasStored(before.Incarnation, next.Incarnation)
	s.world.staysBounded(next)
}

func (s *Store) wrote(id cke.JoinID) {
	if s.written == nil {
		s.written = map[cke.JoinID]int{}
	}
	s.written[id] = s.version
}

// unwritten reports whether joins are as they were when the identity was read, and, for one that was not there, all are.
func (s *Store) unwritten(read cke.Identity, joins []cke.Join) bool {
	since := func(version int) bool { return version > int(read.Revision) }
	return !since(s.lived) && !slices.ContainsFunc(joins, func(j cke.Join) bool {
		return since(s.written[j.ID]) || !read.Has(j.ID) && slices.ContainsFunc(slices.Collect(maps.Values(s.written)), since)
	})
}

// Spec returns the stored revision of the cluster file, or ErrNotFound once the cluster is gone.
func (t *Term) Spec(ctx context.Context) (spec cke.Spec, err error) {
	err = t.read(ctx, "Spec", func(s *Store) error {
		s.spec = s.spec.Resolved(s.identity)
		spec = s.spec
		if s.deleted {
			return cke.ErrNotFound
		}
		return nil
	})
	return spec, err
}

// Identity implements cke.Ledger.
func (t *Term) Identity(ctx context.Context) (id cke.Identity, err error) {
	err = t.read(ctx, "Identity", func(s *Store) error {
		if s.term != t.number && !s.unfenced {
			return cke.ErrDeposed
		}
		id = t.d.known(cloneIdentity(s.identity))
		id.Revision = int64(s.version)
		if id.NeedsDeleted() {
			for _, was := range s.archived {
				id.AddArchived(was)
			}
		}
		return nil
	})
	return id, err
}

// CreateIncarnation implements cke.Ledger.
func (t *Term) CreateIncarnation(ctx context.Context, inc cke.Incarnation) error {
	return t.change(ctx, "CreateIncarnation", func(id *cke.Identity) error {
		if id.Incarnation.Life(inc.ID) {
			return nil // a former attempt, whose answer was lost
		}
		if now := id.Incarnation; now != nil && now.State != cke.Abandoned && !t.d.world.store.unguarded {
			return cke.ErrConflict
		}
		*id = cloneIdentity(cke.Identity{Incarnation: &inc, Joins: inc.Founders, Authorities: id.Authorities})
		return nil
	})
}

// UpdateIncarnation implements cke.Ledger.
func (t *Term) UpdateIncarnation(ctx context.Context, inc cke.Incarnation) error {
	return t.change(ctx, "UpdateIncarnation", func(id *cke.Identity) error {
		now := id.Incarnation
		if now == nil || !now.MayBecome(inc) {
			return cke.ErrConflict
		}
		next := now.With(inc)
		id.Incarnation = &next
		return nil
	})
}

// PutJoins implements cke.Ledger.
func (t *Term) PutJoins(ctx context.Context, read cke.Identity, joins ...cke.Join) error {
	return t.write(ctx, "PutJoins", func(s *Store) error {
		id := cloneIdentity(s.identity)
		if !s.unwritten(read, joins) && !s.unfenced {
			return fmt.Errorf("PutJoins: %w", cke.ErrConflict)
		}
		if s.olderLead && read.PutsAside(joins) {
			return &cke.Error{Code: cke.CodeSchema, What: "the store has an older schema", Unchanged: true, Try: "ckecli store schema --raise"}
		}
		all := slices.Concat(id.Joins, id.Ended)
		for _, j := range joins {
			if !id.Incarnation.Keeps(j) {
				return cke.ErrConflict
			}
			j = t.d.carry(all, j)
			if i := slices.IndexFunc(all, func(o cke.Join) bool { return o.ID == j.ID }); i >= 0 {
				all[i] = j
			} else {
				all = append(all, j)
			}
		}
		next := cke.NewIdentity(id.Incarnation, all)
		next.Freeze, next.Compared, next.Authorities, next.Sighted = id.Freeze, id.Compared, id.Authorities, id.Sighted
		next = next.Without(next.Forgettable())
		t.d.world.wereJoined(t.d, actorOf(ctx), id, next)
		s.put(next)
		for _, j := range joins {
			s.wrote(j.ID) // also as it was
		}
		return nil
	})
}

// PutFreeze implements cke.Ledger.
func (t *Term) PutFreeze(ctx context.Context, f cke.Freeze) error {
	return t.change(ctx, "PutFreeze", func(id *cke.Identity) error {
		if err := id.Freeze.Precedes(f); err != nil {
			return err
		}
		id.Freeze = &f
		return nil
	})
}

// PutComparison implements cke.Ledger.
func (t *Term) PutComparison(ctx context.Context, c cke.Comparison) error {
	return t.change(ctx, "PutComparison", func(id *cke.Identity) error { id.Compared = &c; return nil })
}

// PutAuthorities implements cke.Ledger.
func (t *Term) PutAuthorities(ctx context.Context, before, after cke.Authorities) error {
	return t.change(ctx, "PutAuthorities", func(id *cke.Identity) error {
		switch {
		case reflect.DeepEqual(id.Authorities, after):
			return nil
		case !reflect.DeepEqual(id.Authorities, before):
			return cke.ErrConflict
		}
		id.Authorities = after
		for _, name := range cke.AuthorityNames() {
			for _, old := range before.Of(name).Kept() {
				if !slices.ContainsFunc(after.Of(name).Kept(), func(c cke.CA) bool { return c.Generation == old.Generation }) {
					delete(t.d.world.cas, cke.AuthoritySecret(name, old.Generation))
				}
			}
		}
		return nil
	})
}

// PutDrain implements cke.Ledger.
func (t *Term) PutDrain(ctx context.Context, d cke.Drain) error {
	return t.write(ctx, "PutDrain", func(s *Store) error {
		for _, other := range s.requests.Drains {
			if other.Node != d.Node && other.Active(d.Since) {
				return cke.OtherDrain(d.Node, other)
			}
		}
		s.requests.Drains = []cke.Drain{d}
		return nil
	})
}

// EndDrain implements cke.Ledger.
func (t *Term) EndDrain(ctx context.Context, node string) error {
	return t.write(ctx, "EndDrain", func(s *Store) error {
		s.requests.Drains = slices.DeleteFunc(slices.Clone(s.requests.Drains), func(d cke.Drain) bool { return d.Node == node })
		return nil
	})
}

// Deleting implements cke.Ledger.
func (t *Term) Deleting(ctx context.Context) (deleting bool, err error) {
	err = t.read(ctx, "Deleting", func(s *Store) error {
		if s.term != t.number && !s.unfenced {
			return cke.ErrDeposed
		}
		deleting = s.spec.Deleting()
		return nil
	})
	return deleting, err
}

// Asked implements cke.Ledger.
func (t *Term) Asked(ctx context.Context) (asked cke.Requests, err error) {
	err = t.read(ctx, "Asked", func(s *Store) error {
		if s.term != t.number && !s.unfenced {
			return cke.ErrDeposed
		}
		asked = s.asked()
		return nil
	})
	return asked, err
}

// SealDelete implements cke.Ledger.
func (t *Term) SealDelete(ctx context.Context) error {
	return t.write(ctx, "SealDelete", func(s *Store) error {
		if !s.spec.Deleting() {
			return fmt.Errorf("no deletion is requested: %w", cke.ErrConflict)
		}
		s.world.endsBeside("a deletion", cke.RestoreOrder{})
		s.world.believes(t.d, actorOf(ctx), s.wordOfDeletion(), s.identity.MayRun(), nil)
		s.spec.DeleteSealedAt = s.world.now()
		s.version++
		return nil
	})
}

// FinishDelete implements cke.Ledger.
func (t *Term) FinishDelete(ctx context.Context) error {
	err := t.write(ctx, "FinishDelete", func(s *Store) error {
		if !s.spec.Deleting() {
			return fmt.Errorf("no deletion is requested: %w", cke.ErrConflict)
		}
		before := s.identity.Incarnation
		s.archived = append(s.archived, s.identity)
		s.deleted, s.identity = true, cke.Identity{}
		s.version++
		t.d.world.wasStored(before, nil)
		return nil
	})
	if err == nil {
		t.d.end(cke.ErrNotFound)
	}
	return err
}

// AppendRecord implements op.Journal.
func (t *Term) AppendRecord(ctx context.Context, r cke.Record) (cke.Record, error) {
	err := t.write(ctx, "AppendRecord", func(s *Store) error {
		if r.Task != "" && !slices.ContainsFunc(s.requests.Tasks, func(k cke.Task) bool { return k.ID == r.Task }) {
			return cke.ErrConflict // it was withdrawn
		}
		r.ID = int64(len(s.records) + 1)
		s.records = append(s.records, r)
		return nil
	})
	return r, err
}

// PutRecord implements op.Journal.
func (t *Term) PutRecord(ctx context.Context, r cke.Record) error {
	return t.write(ctx, "PutRecord", func(s *Store) error {
		if r.ID < 1 || int(r.ID) > len(s.records) {
			return cke.ErrNotFound
		}
		s.records[r.ID-1] = r
		t.d.world.wasRecorded(t.d, r)
		return nil
	})
}

// Status returns the status that the leader stored last, or ErrNotFound.
func (t *Term) Status(ctx context.Context) (status cke.Status, err error) {
	err = t.read(ctx, "Status", func(s *Store) error {
		if status = s.status; status.Cluster == "" {
			return cke.ErrNotFound
		}
		return nil
	})
	return status, err
}

// PutStatus stores the leader's status.
func (t *Term) PutStatus(ctx context.Context, status cke.Status) error {
	return t.write(ctx, "PutStatus", func(s *Store) error {
		s.world.wasReported(t.d, status)
		s.status = status
		return nil
	})
}

// InterruptRunning marks records that earlier terms left running as interrupted.
func (t *Term) InterruptRunning(ctx context.Context) error {
	return t.write(ctx, "InterruptRunning", func(s *Store) error {
		for i := range s.records {
			if s.records[i].State == cke.RecordRunning {
				s.records[i].State, s.records[i].EndedAt = cke.RecordInterrupted, s.world.now()
			}
		}
		return nil
	})
}
