package cketest

import (
	"testing"
	"time"

	"cke"
)

// Store is a store with one declared cluster, which a term has just started to lead.
type Store struct {
	cke.Ledger
	Cluster cke.Cluster
	// Ask is what an operator asks for once.
	Ask func(cke.Task)
	// AskDelete is an operator's request to delete the cluster.
	AskDelete func()
	// CancelDelete withdraws it.
	CancelDelete func()
	// Hibernate is an operator's request that no member run, or its end.
	Hibernate func(on bool)
	// Older lets daemons lead that know only an earlier schema of the store, or none of them.
	Older func(may bool)
	// Depose lets another daemon lead.
	Depose func()
}

// Ledger runs every case with a store of its own.
func Ledger(t *testing.T, play func(t *testing.T, scene func(*testing.T, Store))) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"a cluster has one incarnation until that is abandoned", oneIncarnation},
		{"an incarnation goes forward", incarnationGoesForward},
		{"an import turns around and ends", importTurns},
		{"a bootstrap that was given up never forms", givenUpNeverForms},
		{"a membership is written as it was read", joinsAsRead},
		{"members are put aside where no older daemon leads", putAsideForAll},
		{"a finding is active until it is lifted itself", findingLasts},
		{"a comparison takes the place of the one before", comparisonIsReplaced},
		{"authorities are written as they were read", authoritiesAsRead},
		{"one node has a lease at a time", oneLease},
		{"the reboot queue is edited as it is", rebootsAsTheyAre},
		{"a restore is requested, and replaces one incarnation", restoreIsAsked},
		{"a restore is canceled before a member was started", restoreIsCalledOff},
		{"what was seen remains until its order is over", sightingsLast},
		{"a cluster is archived when it is to be deleted", deletedWhenAsked},
		{"a hibernation is active until it is ended", hibernatesWhileAsked},
		{"nothing is written once the term is over", deposedWritesNothing},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.run) })
	}
}

func identity(t *testing.T, s Store) cke.Identity {
	t.Helper()
	id, err := s.Identity(bounded(t))
	must(t, "Identity", err)
	return id
}

func founded(t *testing.T, s Store) cke.Incarnation {
	t.Helper()
	inc := cke.NewIncarnation(s.Cluster, nil, time.Now())
	must(t, "CreateIncarnation", s.CreateIncarnation(bounded(t), inc))
	return inc
}

func formed(t *testing.T, s Store) cke.Incarnation {
	t.Helper()
	inc := founded(t, s)
	inc.State, inc.ClusterID, inc.FormedAt = cke.Formed, "c1", time.Now().UTC()
	must(t, "UpdateIncarnation", s.UpdateIncarnation(bounded(t), inc))
	return inc
}

func oneIncarnation(t *testing.T, s Store) {
	ctx := bounded(t)
	inc := founded(t, s)
	is(t, "CreateIncarnation again", s.CreateIncarnation(ctx, inc), nil)
	is(t, "CreateIncarnation of another one", s.CreateIncarnation(ctx, cke.NewIncarnation(s.Cluster, nil, time.Now())), cke.ErrConflict)
	inc.State = cke.Abandoned
	must(t, "UpdateIncarnation", s.UpdateIncarnation(ctx, inc))
	next := cke.NewIncarnation(s.Cluster, &inc, time.Now())
	is(t, "CreateIncarnation after an abandoned one", s.CreateIncarnation(ctx, next), nil)
	if id := identity(t, s); !id.Incarnation.Life(next.ID) || len(id.Joins) != len(next.Founders) || id.Incarnation.Previous[0] != inc.ID {
		t.Errorf("%+v", id)
	}
}

func givenUpNeverForms(t *testing.T, s Store) {
	ctx := bounded(t)
	inc := founded(t, s)
	inc.AbandonedAt = time.Now().UTC()
	must(t, "UpdateIncarnation", s.UpdateIncarnation(ctx, inc))
	forms := inc
	forms.State, forms.ClusterID, forms.AbandonedAt = cke.Formed, "c1", time.Time{}
	is(t, "UpdateIncarnation to formed", s.UpdateIncarnation(ctx, forms), cke.ErrConflict)
	if id := identity(t, s); id.Incarnation.State != cke.Forming || !id.Incarnation.GaveUp(inc.ID) {
		t.Errorf("%+v", id.Incarnation)
	}
	inc.State = cke.Abandoned
	is(t, "UpdateIncarnation to abandoned", s.UpdateIncarnation(ctx, inc), nil)
}

func incarnationGoesForward(t *testing.T, s Store) {
	ctx := bounded(t)
	inc := formed(t, s)
	is(t, "UpdateIncarnation again", s.UpdateIncarnation(ctx, inc), nil)
	if id := identity(t, s); id.Incarnation.State != cke.Formed || id.Incarnation.ClusterID != "c1" {
		t.Errorf("%+v", id.Incarnation)
	}
	for _, state := range []cke.IncarnationState{cke.Forming, cke.Abandoned} {
		back := inc
		back.State = state
		is(t, "UpdateIncarnation to "+string(state), s.UpdateIncarnation(ctx, back), cke.ErrConflict)
	}
	is(t, "UpdateIncarnation of another one", s.UpdateIncarnation(ctx, cke.NewIncarnation(s.Cluster, nil, time.Now())), cke.ErrConflict)
}

func importTurns(t *testing.T, s Store) {
	ctx := bounded(t)
	old := []cke.OldMember{{ID: "o1", Name: "old1", URL: "http://10.0.9.1:2379"}}
	inc := cke.NewImport(s.Cluster, "c1", cke.Import{Members: old, PlainPeers: true}, time.Now())
	must(t, "CreateIncarnation", s.CreateIncarnation(ctx, inc))
	for _, end := range []time.Time{{}, time.Now().UTC()} {
		next := inc
		next.Import = &cke.Import{Reverting: true, EndedAt: end} // who the old members are never changes
		must(t, "UpdateIncarnation", s.UpdateIncarnation(ctx, next))
		got := identity(t, s).Incarnation
		if got.State != cke.Formed || got.ClusterID != "c1" || len(got.Import.Members) != 1 || !got.Import.PlainPeers || !got.Import.Reverting || !got.Import.EndedAt.Equal(end) {
			t.Errorf("%+v", got.Import)
		}
	}
}

func putAsideForAll(t *testing.T, s Store) {
	ctx := bounded(t)
	founded(t, s)
	put := func(n int, apart bool) error {
		read := identity(t, s)
		j := read.Joins[n]
		j.Apart = apart
		return s.PutJoins(ctx, read, j)
	}
	s.Older(true)
	has(t, "PutJoins of one that is put aside", put(0, true), cke.CodeSchema)
	is(t, "PutJoins of one that is not", put(0, false), nil)
	s.Older(false)
	is(t, "PutJoins of one that is put aside where no older daemon leads", put(0, true), nil)
	s.Older(true)
	is(t, "PutJoins of one that was put aside before", put(0, true), nil)
	has(t, "PutJoins of another one that is put aside", put(1, true), cke.CodeSchema)
	s.Older(false)
}

func joinsAsRead(t *testing.T, s Store) {
	ctx := bounded(t)
	inc := formed(t, s)
	read := identity(t, s)
	changed := read.Joins[0]
	changed.StartedAt = time.Now().UTC()
	is(t, "PutJoins", s.PutJoins(ctx, read, changed), nil)
	is(t, "PutJoins as it was read before", s.PutJoins(ctx, read, read.Joins[0]), cke.ErrConflict)
	fresh := cke.NewJoin(s.Cluster, s.Cluster.Nodes[0], inc.ID)
	is(t, "PutJoins of a new one as others were read before", s.PutJoins(ctx, read, fresh), cke.ErrConflict)
	is(t, "PutJoins of one that was not written since", s.PutJoins(ctx, read, read.Joins[1]), nil)
	read = identity(t, s)
	stranger := fresh
	stranger.Incarnation = "another-life"
	is(t, "PutJoins of another incarnation", s.PutJoins(ctx, read, fresh, stranger), cke.ErrConflict)
	if id := identity(t, s); len(id.Joins) != len(inc.Founders) {
		t.Error("a part of what was refused is stored")
	}
	is(t, "PutJoins of a new one", s.PutJoins(ctx, read, fresh), nil)
	ended := changed
	ended.EndedAt = time.Now().UTC()
	is(t, "PutJoins of an ended one", s.PutJoins(ctx, identity(t, s), ended), nil)
	if id := identity(t, s); len(id.Ended) != 1 || id.Ended[0].ID != changed.ID {
		t.Errorf("%+v", id)
	}
}

func findingLasts(t *testing.T, s Store) {
	ctx := bounded(t)
	formed(t, s)
	one := cke.NewFreeze(cke.FreezeCorrupt, "one", cke.Problem{}, cke.EtcdStatus{})
	two := cke.NewFreeze(cke.FreezeCorrupt, "two", cke.Problem{}, cke.EtcdStatus{})
	lift := func(f cke.Freeze) cke.Freeze { f.LiftedAt = time.Now().UTC(); return f }
	is(t, "a lift of nothing", s.PutFreeze(ctx, lift(one)), cke.ErrConflict)
	for range 2 {
		is(t, "PutFreeze", s.PutFreeze(ctx, one), nil)
	}
	is(t, "another one beside it", s.PutFreeze(ctx, two), cke.ErrConflict)
	is(t, "a lift of another one", s.PutFreeze(ctx, lift(two)), cke.ErrConflict)
	for range 2 {
		is(t, "a lift", s.PutFreeze(ctx, lift(one)), nil)
	}
	is(t, "what was lifted", s.PutFreeze(ctx, one), cke.ErrConflict)
	is(t, "another one after it", s.PutFreeze(ctx, two), nil)
	is(t, "a lift of the one before", s.PutFreeze(ctx, lift(one)), cke.ErrConflict)
	if f := identity(t, s).Freeze; f == nil || f.ID != two.ID || !f.Active() {
		t.Errorf("%+v", f)
	}
	older := cke.NewFreeze(cke.FreezeOlderStore, cke.OlderStore([]string{"j1"}), cke.Problem{}, cke.EtcdStatus{})
	older.Former = &one
	is(t, "one in the place of one that is lifted", s.PutFreeze(ctx, older), cke.ErrConflict)
	older.Former = &two
	for range 2 {
		is(t, "one in the place of the active one", s.PutFreeze(ctx, older), nil)
	}
	is(t, "the former one beside it", s.PutFreeze(ctx, two), cke.ErrConflict)
	more := cke.NewFreeze(cke.FreezeOlderStore, cke.OlderStore([]string{"j2"}), cke.Problem{}, cke.EtcdStatus{})
	is(t, "one for an older store without what was found", s.PutFreeze(ctx, more), cke.ErrConflict)
	more = more.InPlaceOf(&older)
	for range 2 {
		is(t, "one that has more", s.PutFreeze(ctx, more), nil)
	}
	is(t, "a lift of the one that has less", s.PutFreeze(ctx, lift(older)), cke.ErrConflict)
	is(t, "the one that has less", s.PutFreeze(ctx, older), cke.ErrConflict)
	is(t, "a lift", s.PutFreeze(ctx, lift(more)), nil)
	is(t, "the former one again", s.PutFreeze(ctx, *identity(t, s).Freeze.Returns()), nil)
	if f := identity(t, s).Freeze; f.ID != two.ID || !f.Active() || !f.Tolerates(older.Finding) || !f.Tolerates(more.Finding) {
		t.Errorf("%+v", f)
	}
}

func comparisonIsReplaced(t *testing.T, s Store) {
	formed(t, s)
	for _, revision := range []int64{1, 2} {
		is(t, "PutComparison", s.PutComparison(bounded(t), cke.Comparison{Revision: revision}), nil)
		if c := identity(t, s).Compared; c == nil || c.Revision != revision {
			t.Errorf("%+v", c)
		}
	}
}

func authoritiesAsRead(t *testing.T, s Store) {
	ctx := bounded(t)
	formed(t, s)
	with := func(generation int) cke.Authorities {
		return cke.Authorities{}.With(cke.PeerAuthority, cke.AuthorityRecord{Current: cke.CA{Generation: generation}})
	}
	for range 2 {
		is(t, "PutAuthorities", s.PutAuthorities(ctx, cke.Authorities{}, with(1)), nil)
	}
	is(t, "PutAuthorities in place of others", s.PutAuthorities(ctx, cke.Authorities{}, with(2)), cke.ErrConflict)
	is(t, "PutAuthorities in place of these", s.PutAuthorities(ctx, with(1), with(2)), nil)
}

func oneLease(t *testing.T, s Store) {
	ctx, now := bounded(t), time.Now().UTC()
	formed(t, s)
	lease := func(node string, since time.Time) cke.Drain {
		return cke.Drain{Node: node, Since: since, Until: since.Add(time.Hour)}
	}
	a, b := s.Cluster.Nodes[0].Name(), s.Cluster.Nodes[1].Name()
	is(t, "EndDrain of none", s.EndDrain(ctx, a), nil)
	for range 2 {
		is(t, "PutDrain", s.PutDrain(ctx, lease(a, now)), nil)
	}
	if err := s.PutDrain(ctx, lease(b, now)); err == nil {
		t.Error("two nodes have a lease")
	}
	is(t, "PutDrain once the other one is over", s.PutDrain(ctx, lease(b, now.Add(2*time.Hour))), nil)
	is(t, "EndDrain", s.EndDrain(ctx, b), nil)
	is(t, "PutDrain after the end of the other one", s.PutDrain(ctx, lease(a, now)), nil)
}

func rebootsAsTheyAre(t *testing.T, s Store) {
	ctx := bounded(t)
	formed(t, s)
	queue := func() cke.Queue {
		asked, err := s.Asked(ctx)
		must(t, "Asked", err)
		return asked.Reboots
	}
	add := func(q cke.Queue) (cke.Queue, error) {
		return q.Add(s.Cluster.Nodes[:1], cke.Entry{Reason: "why", By: "me"}, time.Now())
	}
	is(t, "EditQueue", s.EditQueue(ctx, cke.RebootQueue, add), nil)
	is(t, "EditQueue that is refused", s.EditQueue(ctx, cke.RebootQueue, add), cke.ErrConflict)
	repair := func(q cke.Queue) (cke.Queue, error) {
		return q.Add(s.Cluster.Nodes[:1], cke.Entry{On: "dead"}, time.Now())
	}
	is(t, "EditQueue of the other queue", s.EditQueue(ctx, cke.RepairQueue, repair), nil)
	is(t, "EditQueue of the other queue that is refused", s.EditQueue(ctx, cke.RepairQueue, repair), cke.ErrConflict)
	q := queue()
	if len(q.Entries) != 1 || q.Entries[0].Address != s.Cluster.Nodes[0].Address || q.Entries[0].State != cke.EntryQueued {
		t.Fatalf("the queue is %+v", q)
	}
	seen := q.Entries[0]
	move := func(q cke.Queue) (cke.Queue, error) {
		return q.Moved(seen, func(r *cke.Entry) { r.To(cke.EntryLeased, time.Now()) })
	}
	is(t, "EditQueue of an entry", s.EditQueue(ctx, cke.RebootQueue, move), nil)
	is(t, "EditQueue of an entry as it was seen before", s.EditQueue(ctx, cke.RebootQueue, move), cke.ErrConflict)
	if q := queue(); q.Entries[0].State != cke.EntryLeased {
		t.Errorf("the queue is %+v", q)
	}
}

// ordered is the incarnation that a restore starts, which an operator asked for unless silent.
func ordered(t *testing.T, s Store, id string, silent bool) cke.Incarnation {
	t.Helper()
	task := cke.Task{ID: id, Kind: cke.TaskRestore, Restore: &cke.RestoreOrder{}, At: time.Now().UTC()}
	if !silent {
		s.Ask(task)
	}
	return cke.NewRestoration(s.Cluster, identity(t, s), cke.Restoration{ID: id, Snapshot: cke.Snapshot{Revision: 9}, Bump: 10}, time.Now())
}

func restoreIsAsked(t *testing.T, s Store) {
	ctx := bounded(t)
	was := formed(t, s)
	is(t, "BeginRestore that is not requested", s.BeginRestore(ctx, ordered(t, s, "none", true)), cke.ErrConflict)
	s.AskDelete()
	is(t, "BeginRestore of a cluster that is being deleted", s.BeginRestore(ctx, ordered(t, s, "zero", false)), cke.ErrConflict)
	s.CancelDelete()
	one, two := ordered(t, s, "one", false), ordered(t, s, "two", false)
	for range 2 {
		is(t, "BeginRestore", s.BeginRestore(ctx, one), nil)
	}
	is(t, "BeginRestore of another one", s.BeginRestore(ctx, two), cke.ErrConflict)
	id := identity(t, s)
	if !id.Incarnation.Life(one.ID) || len(id.Joins) != len(one.Founders) || len(id.Ended) != len(was.Founders) || !id.Ended[0].EndedAt.Equal(one.CreatedAt) {
		t.Errorf("%+v", id)
	}
	is(t, "CreateIncarnation", s.CreateIncarnation(ctx, cke.NewIncarnation(s.Cluster, nil, time.Now())), cke.ErrConflict)
}

func restoreIsCalledOff(t *testing.T, s Store) {
	ctx := bounded(t)
	was := formed(t, s)
	is(t, "CancelRestore of a cluster that is not restored", s.CancelRestore(ctx, was), cke.ErrConflict)
	one := ordered(t, s, "one", false)
	must(t, "BeginRestore", s.BeginRestore(ctx, one))
	for range 2 {
		is(t, "CancelRestore", s.CancelRestore(ctx, one), nil)
	}
	if id := identity(t, s); !id.Incarnation.Life(was.ID) || len(id.Joins) != len(was.Founders) || !id.Incarnation.WasAbandoned(one.ID) {
		t.Errorf("%+v", id)
	}
	two := ordered(t, s, "two", false)
	must(t, "BeginRestore", s.BeginRestore(ctx, two))
	read := identity(t, s)
	started := read.Joins[0]
	started.StartedAt = time.Now().UTC()
	must(t, "PutJoins", s.PutJoins(ctx, read, started))
	is(t, "CancelRestore after a start", s.CancelRestore(ctx, two), cke.ErrConflict)
}

func deletedWhenAsked(t *testing.T, s Store) {
	ctx := bounded(t)
	formed(t, s)
	is(t, "FinishDelete that is not requested", s.FinishDelete(ctx), cke.ErrConflict)
	deleting := func(want bool) {
		t.Helper()
		now, err := s.Deleting(ctx)
		is(t, "Deleting", err, nil)
		if now != want {
			t.Errorf("Deleting: got %v, want %v", now, want)
		}
	}
	deleting(false)
	s.AskDelete()
	deleting(true)
	s.CancelDelete()
	deleting(false)
	is(t, "FinishDelete that was canceled", s.FinishDelete(ctx), cke.ErrConflict)
	is(t, "SealDelete of a deletion that was canceled", s.SealDelete(ctx), cke.ErrConflict)
	s.AskDelete()
	is(t, "SealDelete", s.SealDelete(ctx), nil)
	is(t, "SealDelete again", s.SealDelete(ctx), nil)
	s.CancelDelete()
	deleting(true)
	is(t, "FinishDelete", s.FinishDelete(ctx), nil)
	if err := s.PutComparison(ctx, cke.Comparison{}); err == nil {
		t.Error("the term continues")
	}
}

func hibernatesWhileAsked(t *testing.T, s Store) {
	formed(t, s)
	is := func(want bool) {
		t.Helper()
		asked, err := s.Asked(bounded(t))
		must(t, "Asked", err)
		if now := asked.Hibernation != nil; now != want {
			t.Errorf("hibernated: got %v, want %v", now, want)
		}
	}
	is(false)
	s.Hibernate(true)
	is(true)
	s.Hibernate(false)
	is(false)
}

func deposedWritesNothing(t *testing.T, s Store) {
	ctx := bounded(t)
	inc := formed(t, s)
	read := identity(t, s)
	s.Depose()
	_, err := s.Identity(ctx)
	is(t, "Identity", err, cke.ErrDeposed)
	_, err = s.Deleting(ctx)
	is(t, "Deleting", err, cke.ErrDeposed)
	_, err = s.Asked(ctx)
	is(t, "Asked", err, cke.ErrDeposed)
	for what, err := range map[string]error{
		"CreateIncarnation": s.CreateIncarnation(ctx, inc), "UpdateIncarnation": s.UpdateIncarnation(ctx, inc), "PutJoins": s.PutJoins(ctx, read, read.Joins[0]),
		"PutFreeze": s.PutFreeze(ctx, cke.Freeze{ID: "f"}), "PutComparison": s.PutComparison(ctx, cke.Comparison{}), "PutAuthorities": s.PutAuthorities(ctx, cke.Authorities{}, cke.Authorities{}),
		"PutDrain": s.PutDrain(ctx, cke.Drain{Node: "n1"}), "EndDrain": s.EndDrain(ctx, "n1"), "EditQueue": s.EditQueue(ctx, cke.RebootQueue, func(q cke.Queue) (cke.Queue, error) { return q, nil }),
		"BeginRestore": s.BeginRestore(ctx, inc), "CancelRestore": s.CancelRestore(ctx, inc),
		"PutSightings": s.PutSightings(ctx, cke.Sighting{Order: "one", Node: "n1"}), "DropSighting": s.DropSighting(ctx, cke.Sighting{Order: "one", Node: "n1"}),
		"SealDelete": s.SealDelete(ctx), "FinishDelete": s.FinishDelete(ctx),
	} {
		if what == "BeginRestore" || what == "CancelRestore" { // may be refused for what they are before
			if err == nil {
				t.Errorf("%s: done", what)
			}
			continue
		}
		is(t, what, err, cke.ErrDeposed)
	}
}
