package op_test

import (
	"context"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// A member that its engine starts again and again, or whose container is gone, is started with other options; one that
// runs is left alone.
func TestStartChanged_StartsOnlyWhatDoesNotRun(t *testing.T) {
	for _, row := range []struct {
		name  string
		state func(w *world)
		fails bool
	}{
		{"it is started again and again", func(w *world) {
			j := w.joins()[0]
			wrong := j.Etcd
			wrong.ExtraArgs = []string{sim.WrongArgument}
			untried := func(e op.Env) op.Env { e.Machines = gullible{e.Machines}; return e }
			if _, err := w.runIn(untried, op.RestartMember{Join: j, Etcd: wrong}); err == nil {
				w.t.Fatal("it runs with an argument that etcd does not know")
			}
		}, false},
		{"it has stopped", func(w *world) { w.Nodes()[0].StopByHand() }, false},
		{"its container is gone", func(w *world) { w.Nodes()[0].RemoveContainers() }, false},
		{"it runs", func(*world) {}, true},
		{"its data is gone", func(w *world) { w.Nodes()[0].StopByHand(); w.Nodes()[0].EmptyVolumes() }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				row.state(w)
				before := w.looked0()
				other := w.joins()[0].Etcd
				other.ExtraArgs = []string{"--quota-backend-bytes=1"}
				_, err := w.run(op.StartChanged{Join: w.joins()[0], Etcd: other, AwaitServing: true})
				if (err != nil) != row.fails {
					t.Fatal(err)
				}
				if row.fails {
					if after := w.looked0(); after.Running() != before.Running() || after.Running() && after.StartedAt != before.StartedAt {
						t.Errorf("%+v, before %+v", after, before)
					}
					return
				}
				if got := w.joins()[0].Etcd; !got.Equal(other) || !w.looked(0).Running() {
					t.Errorf("%v, %s", got.ExtraArgs, w.looked(0).State)
				}
			})
		})
	}
}

// A member that runs and answers nobody is stopped to run with other options only where the others are a quorum without it.
func TestStartChanged_StopsASilentMemberThatNobodyNeeds(t *testing.T) {
	for name, row := range map[string]struct {
		nodes  int
		others func(w *world)
		stops  bool
		old    *cke.Import
	}{
		"the others serve":                     {nodes: 3, others: func(*world) {}, stops: true},
		"one of them is down":                  {nodes: 3, others: func(w *world) { w.Nodes()[2].PowerOff() }},
		"it is the only one":                   {nodes: 1, others: func(*world) {}, stops: true},
		"it is the only one beside an old one": {nodes: 1, others: func(*world) {}, old: &cke.Import{}},
		"no quorum is seen":                    {nodes: 3, others: func(w *world) { w.Nodes()[1].FilterClientPort(true); w.Nodes()[2].FilterClientPort(true) }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, row.nodes, func(w *world) {
				w.mustRun(w.bootstrap(false))
				w.Nodes()[0].FilterClientPort(true)
				row.others(w)
				before := w.looked0()
				other := w.joins()[0].Etcd
				other.ExtraArgs = []string{"--quota-backend-bytes=1"}
				_, err := w.runIn(func(e op.Env) op.Env { e.Ledger = imports{e.Ledger, row.old}; return e }, op.StartChanged{Join: w.joins()[0], Etcd: other, Silent: true})
				after := w.looked0()
				if stopped := !after.Running() || after.StartedAt != before.StartedAt; stopped != row.stops || row.stops && (err != nil || !after.Running()) {
					t.Errorf("stopped: %v, %s, %v", stopped, after.State, err)
				}
			})
		})
	}
}

// imports is a ledger of a cluster that is imported.
type imports struct {
	cke.Ledger
	old *cke.Import
}

func (l imports) Identity(ctx context.Context) (cke.Identity, error) {
	id, err := l.Ledger.Identity(ctx)
	if inc := id.Incarnation; err == nil {
		of := *inc
		of.Import, id.Incarnation = l.old, &of
	}
	return id, err
}

// looked0 is what is seen of the first join's container; nothing where there is none.
func (w *world) looked0() cke.Container {
	j := w.joins()[0]
	c, _ := w.daemon.Machines().Machine(j.Node).Container(w.daemon.Context(), j)
	return c
}

// gullible are machines on which a try of options finds nothing, as for an argument that etcd judges late.
type gullible struct{ cke.Machines }

// Machine implements cke.Machines.
func (g gullible) Machine(n cke.Node) cke.Machine { return gullibleMachine{g.Machines.Machine(n)} }

type gullibleMachine struct{ cke.Machine }

// TryOptions implements cke.Machine.
func (gullibleMachine) TryOptions(context.Context, cke.MemberSpec) error { return nil }

// A member that serves is not stopped for what its node or etcd refuses.
func TestRestartMember_TriesOptionsBeforeItStopsTheMember(t *testing.T) {
	for name, change := range map[string]func(*cke.EtcdOptions){
		"an argument": func(e *cke.EtcdOptions) { e.ExtraArgs = []string{sim.WrongArgument} },
		"a mount": func(e *cke.EtcdOptions) {
			e.ExtraBinds = []cke.Bind{{Source: sim.MissingDirectory, Destination: "/srv/extra"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				before := w.looked0()
				wrong := w.joins()[0].Etcd
				change(&wrong)
				if _, err := w.run(op.RestartMember{Join: w.joins()[0], Etcd: wrong}); cke.CodeOf(err) != cke.CodeOptions {
					t.Error(err)
				}
				if after := w.looked0(); !after.Running() || after.StartedAt != before.StartedAt || w.Serving() != 3 {
					t.Errorf("%+v, %d serve", after, w.Serving())
				}
			})
		})
	}
}

// A member that votes where it is not on record is not stopped, whatever the record says of it: its store is older than the cluster.
func TestStop_SparesWhoVotesElsewhere(t *testing.T) {
	for name, row := range map[string]struct {
		record func(id *cke.Identity)
		stop   func(j cke.Join) op.Operation
	}{
		"lost":       {func(*cke.Identity) {}, func(j cke.Join) op.Operation { return op.StartChanged{Join: j, Etcd: j.Etcd} }},
		"hibernated": {func(*cke.Identity) {}, func(j cke.Join) op.Operation { return op.Hibernate{Joins: []cke.Join{j}} }},
		"a stray": {func(id *cke.Identity) {
			id.Ended, id.Joins = id.Joins[:1], id.Joins[1:]
			id.Ended[0].EndedAt = time.Now()
		}, func(j cke.Join) op.Operation { return op.StopStray{Join: j} }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				id := w.Store().Identity()
				row.record(&id)
				copied, j := w.Store().Copy().With(id), w.joins()[0]
				for _, j := range w.joins() {
					w.mustRun(op.ChangeAddress{Join: j, Node: j.Node, ClientPort: 3379, PeerPort: 3380})
				}
				w.Nodes()[2].PowerOff()
				w.Store().BringBack(copied)
				w.Store().Hibernate(name == "hibernated")
				if _, err := w.run(row.stop(j)); cke.CodeOf(err) != cke.CodeOlderStore {
					t.Errorf("%v", err)
				}
				if !w.Nodes()[0].World().Write("n1", "afterwards") {
					t.Error("the cluster does not serve any more")
				}
			})
		})
	}
}
