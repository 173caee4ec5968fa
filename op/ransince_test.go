package op_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// ran is the ledger of a recovery that is under way.
type ran struct {
	unasked
	id       cke.Identity
	canceled bool
	started  bool
}

func (r *ran) Identity(context.Context) (cke.Identity, error) { return r.id, nil }

func (r *ran) CancelRestore(context.Context, cke.Incarnation) error {
	r.canceled = true
	return nil
}

func (r *ran) PutJoins(context.Context, cke.Identity, ...cke.Join) error {
	r.started = true
	return nil
}

// nodes have a container each that was started at this time.
type nodes struct {
	at    time.Time
	ahead time.Duration // their clocks
	// removed is set once a container is removed.
	removed *bool
}

func (n nodes) Machine(cke.Node) cke.Machine { return startedAt{nodes: n} }

type startedAt struct {
	cke.Machine
	nodes
}

func (s startedAt) Clock(context.Context) (time.Time, error) { return time.Now().Add(s.ahead), nil }

func (s startedAt) Container(context.Context, cke.Join) (cke.Container, error) {
	return cke.Container{State: cke.ContainerExited, StartedAt: s.at}, nil
}

func (s startedAt) RemoveContainer(context.Context, cke.Join) error {
	*s.removed = true
	return nil
}

func (startedAt) MarkOver(context.Context, string, []string) error { return nil }

// hashed are snapshots with a hash.
type hashed struct{ shown }

func (hashed) Forget(context.Context, string) error { return nil }

func (hashed) Hash(context.Context, string, int64) (cke.HashKV, error) { return cke.HashKV{}, nil }

// A member may be started between any two steps of a recovery that waits or runs: each step after which something is lost calls it off.
func TestRestore_CallsARecoveryOffOnceAMemberRanSince(t *testing.T) {
	copied := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	survivor := cke.Join{ID: "s", Node: cke.Node{Hostname: "n1", Address: "127.0.0.101"}}
	for name, row := range map[string]struct {
		order cke.RestoreOrder
		at    time.Time
		off   bool
	}{
		"as it was copied":                {cke.RestoreOrder{Survivor: "n1"}, copied, false},
		"started since":                   {cke.RestoreOrder{Survivor: "n1"}, copied.Add(time.Nanosecond), true},
		"started since, by another clock": {cke.RestoreOrder{Survivor: "n1"}, copied.Add(-time.Hour), true},
		"a node that is left out":         {cke.RestoreOrder{Survivor: "n2", Without: []string{"n1"}}, copied.Add(time.Hour), false},
		"a node called destroyed":         {cke.RestoreOrder{Survivor: "n2", Destroyed: []string{"n1"}}, copied.Add(time.Hour), true},
		"from backups":                    {cke.RestoreOrder{}, copied.Add(time.Hour), false},
	} {
		for _, step := range []string{"fetch", "store-last", "record-start"} {
			if step == "store-last" && row.order.Survivor == "" {
				continue // what it does there is another matter
			}
			rest := &cke.Restoration{Order: row.order, Fence: []cke.JoinID{"s"}, Ran: map[cke.JoinID]time.Time{"s": copied}, Before: &cke.Incarnation{ID: "before", State: cke.Formed}}
			r := &ran{id: cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Restoring, Restore: rest}}}
			e := op.Env{Ledger: r, Machines: nodes{at: row.at}, Snapshots: hashed{}, Now: time.Now, Note: func(string) {}}
			stages := op.Restore{Incarnation: "life", Fence: []cke.Join{survivor}}.Stages()
			all := slices.Concat(stages...)
			at := slices.IndexFunc(all, func(s op.Step) bool { return s.Name == step })
			err := all[at].Run(t.Context(), e)
			if r.canceled != row.off || row.off && (cke.CodeOf(err) != cke.CodeFence || r.started) || !row.off && err != nil {
				t.Errorf("%s, %s: canceled: %v, %v", name, step, r.canceled, err)
			}
		}
	}
}

// Once the start of the restored members is on record nothing of what they replace is left that people could start: it is removed
// before, and one that was started since all was stored is not.
func TestRestore_RemovesWhatItReplacesBeforeItsStartIsOnRecord(t *testing.T) {
	before := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	former := cke.Join{ID: "s", Node: cke.Node{Hostname: "n1", Address: "127.0.0.101"}}
	rest := &cke.Restoration{Fence: []cke.JoinID{"s"}}
	r := &ran{id: cke.Identity{Incarnation: &cke.Incarnation{ID: "life", State: cke.Restoring, Restore: rest}}}
	stages := op.Restore{Incarnation: "life", Fence: []cke.Join{former}}.Stages()
	all := slices.Concat(stages...)
	at := func(name string) int { return slices.IndexFunc(all, func(s op.Step) bool { return s.Name == name }) }
	if !slices.IsSorted([]int{at("store-last"), at("fence"), at("check-fence"), at("remove-replaced"), at("record-start"), at("mark-over")}) {
		t.Errorf("%v", all)
	}
	for _, again := range []bool{false, true} {
		n := nodes{at: before, removed: new(bool)}
		e := op.Env{Ledger: r, Machines: n, Now: time.Now, Note: func(string) {}}
		if err := all[at("store-last")].Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if again {
			n.at = before.Add(-time.Hour) // by the clock of its node
			e.Machines = n
		}
		if err := all[at("remove-replaced")].Run(t.Context(), e); *n.removed == again || again != errors.Is(err, cke.ErrConflict) {
			t.Errorf("started since: %v, removed: %v, %v", again, *n.removed, err)
		}
	}
}

// A recovery was interrupted before it was on record. What others acknowledged without the survivor until it continues may be
// missing in its data.
func TestBeginRestore_RefusesARecoveryThatOthersRanAfter(t *testing.T) {
	now := time.Now()
	for name, row := range map[string]struct {
		order   cke.RestoreOrder
		at      time.Time
		ahead   time.Duration
		refuses bool
	}{
		"started before":             {cke.RestoreOrder{Survivor: "n2"}, now.Add(-3 * time.Hour), 0, false},
		"started since":              {cke.RestoreOrder{Survivor: "n2"}, now.Add(-time.Hour), 0, true},
		"started at about that time": {cke.RestoreOrder{Survivor: "n2"}, now.Add(-2*time.Hour + op.ClockLimit/2), 0, false},
		"its clock is ahead":         {cke.RestoreOrder{Survivor: "n2"}, now, 3 * time.Hour, false},
		"its survivor was started":   {cke.RestoreOrder{Survivor: "n1"}, now.Add(-time.Hour), 0, false},
		"a node that is left out":    {cke.RestoreOrder{Survivor: "n2", Without: []string{"n1"}}, now.Add(-time.Hour), 0, false},
		"a node called destroyed":    {cke.RestoreOrder{Survivor: "n2", Destroyed: []string{"n1"}}, now.Add(-time.Hour), 0, true},
		"never started":              {cke.RestoreOrder{Survivor: "n2"}, time.Time{}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			member := cke.Join{ID: "a", Node: cke.Node{Hostname: "n1", Address: "127.0.0.101"}}
			survivor := cke.Join{ID: "b", Node: cke.Node{Hostname: row.order.Survivor, Address: "127.0.0.102"}}
			if row.order.Survivor == member.Node.Name() {
				survivor = member
			}
			r := &ran{id: cke.Identity{Joins: []cke.Join{survivor}}}
			e := op.Env{Ledger: r, Machines: nodes{at: row.at, ahead: row.ahead}, Snapshots: hashed{}, Now: time.Now, Note: func(string) {}}
			b := op.BeginRestore{Task: cke.Task{ID: "t1", At: now.Add(-2 * time.Hour), Restore: &row.order}, Fence: []cke.Join{member}}
			all := slices.Concat(b.Stages()...)
			at := slices.IndexFunc(all, func(s op.Step) bool { return s.Name == "fetch" })
			err := all[at].Run(t.Context(), e)
			if refused := cke.CodeOf(err) == cke.CodeFence; refused != row.refuses || !refused && err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}
