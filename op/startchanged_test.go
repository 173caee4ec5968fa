package op_test

import (
	"testing"

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
			if _, err := w.run(op.RestartMember{Join: j, Etcd: wrong}); err == nil {
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

// looked0 is what is seen of the first join's container; nothing where there is none.
func (w *world) looked0() cke.Container {
	j := w.joins()[0]
	c, _ := w.daemon.Machines().Machine(j.Node).Container(w.daemon.Context(), j)
	return c
}
