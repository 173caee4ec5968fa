package op_test

import (
	"context"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// copies notes on which machine the data of a survivor is read.
type copies struct {
	shown
	at *cke.Node
}

func (c copies) Fetch(_ context.Context, _ string, _ cke.RestoreOrder, survivor *cke.Join, _ func(string)) (cke.Snapshot, error) {
	*c.at = survivor.Node
	return c.state, nil
}

// The machine of the survivor has the address of another one: its data is read where its member was stopped, and that this one ran after
// the recovery was requested keeps nothing waiting.
func TestBeginRestore_ReadsTheSurvivorWhereItWasStopped(t *testing.T) {
	recorded := cke.Join{ID: "s", Node: cke.Node{Hostname: "n1", Address: "10.0.0.1"}}
	carrier := recorded
	carrier.Node = cke.Node{Hostname: "spare", Address: "10.0.0.4"}
	for name, row := range map[string]struct {
		fence cke.Join
		want  cke.Node
	}{"on record": {recorded, recorded.Node}, "elsewhere": {carrier, carrier.Node}} {
		b := op.BeginRestore{Task: cke.Task{At: time.Now().Add(-time.Hour), Restore: &cke.RestoreOrder{Survivor: "n1"}}, Fence: []cke.Join{row.fence}}
		var at cke.Node
		e := op.Env{Snapshots: copies{at: &at}, Ledger: &ran{id: cke.Identity{Joins: []cke.Join{recorded}}}, Machines: nodes{at: time.Now()}, Now: time.Now, Progress: func(string) {}}
		for _, stage := range b.Stages() {
			if stage[0].Name != "fetch" {
				continue
			}
			if err := stage[0].Run(t.Context(), e); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if at.Address != row.want.Address {
			t.Errorf("%s: read at %+v", name, at)
		}
	}
}

// answering is an etcd whose members answer this, by their URLs.
type answering struct {
	cke.Etcd
	applied map[string]uint64
}

func (a answering) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	index, answers := a.applied[url]
	s := cke.EndpointStatus{URL: url, Serializable: true, RaftApplied: index}
	if !answers {
		s.Problem = "no route to host"
	}
	return s
}

// Members may have served without the survivor since the status from which it was chosen: what they acknowledged is not given up unasked.
func TestBeginRestore_StopsNobodyWhoHasAppliedMoreThanTheSurvivor(t *testing.T) {
	n1, n2 := cke.Join{ID: "a", Node: cke.Node{Hostname: "n1", Address: "10.0.0.1"}, ClientPort: 2379}, cke.Join{ID: "b", Node: cke.Node{Hostname: "n2", Address: "10.0.0.2"}, ClientPort: 2379}
	apart := n2
	apart.Apart = true
	for name, row := range map[string]struct {
		order   cke.RestoreOrder
		other   cke.Join
		one     uint64 // what n1 has applied; 0: it does not answer
		refused bool
	}{
		"as it was chosen":                       {cke.RestoreOrder{ShownApplied: 1000}, n2, 1000, true},
		"it has applied more since":              {cke.RestoreOrder{ShownApplied: 1000}, n2, 50_000, false},
		"it stopped, and had applied most":       {cke.RestoreOrder{ShownApplied: 50_000}, n2, 0, false},
		"it stopped, and had applied less":       {cke.RestoreOrder{ShownApplied: 1000}, n2, 0, true},
		"an operator named it":                   {cke.RestoreOrder{ShownApplied: 1000, Named: true}, n2, 1000, false},
		"the other one is put aside":             {cke.RestoreOrder{ShownApplied: 1000}, apart, 1000, false},
		"ordered by an earlier ckecli, as it is": {cke.RestoreOrder{}, n2, 50_000, false},
	} {
		row.order.Survivor = "n1"
		b := op.BeginRestore{Task: cke.Task{Restore: &row.order}, Fence: []cke.Join{n1, row.other}}
		etcd := answering{applied: map[string]uint64{row.other.ClientURL(): 50_000}}
		if row.one > 0 {
			etcd.applied[n1.ClientURL()] = row.one
		}
		stage := b.Stages()[1]
		if stage[0].Name != "check-quorum" {
			t.Fatal(stage[0].Name)
		}
		err := stage[0].Run(t.Context(), op.Env{Etcd: etcd, Ledger: &ran{id: cke.Identity{Joins: []cke.Join{n1, row.other}}}, Now: time.Now})
		if refused := cke.CodeOf(err) == cke.CodeCannot; refused != row.refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
