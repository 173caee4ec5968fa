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
