package op_test

import (
	"context"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// double is an etcd of which a member goes on answering at a URL, whatever became of its machine.
type double struct {
	cke.Etcd
	cke.EndpointStatus
}

func (e double) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == e.URL {
		return e.EndpointStatus
	}
	return e.Etcd.Endpoint(ctx, url)
}

// seen are machines that show a container as running, with a start that Started returns.
type seen struct {
	cke.Machines
	started func() time.Time
}

func (m seen) Machine(n cke.Node) cke.Machine { return seenMachine{m.Machines.Machine(n), m} }

type seenMachine struct {
	cke.Machine
	by seen
}

func (m seenMachine) Container(ctx context.Context, j cke.Join) (cke.Container, error) {
	c, err := m.Machine.Container(ctx, j)
	c.State, c.StartedAt = cke.ContainerRunning, m.by.started()
	return c, err
}

// A copy of a member's disk on a machine of the same name is not started beside the member, nor taken for it while its engine starts it again
// and again. A machine that has both addresses continues to run it.
func TestChangeAddress_RefusesACopyOfTheDisk(t *testing.T) {
	for name, c := range map[string]struct {
		harm    func(w *world, j cke.Join, e *op.Env)
		refused bool
	}{
		"it is stopped": {func(w *world, j cke.Join, _ *op.Env) {
			if err := w.daemon.Machines().Machine(w.Node("n3").Declared()).StopContainer(w.daemon.Context(), j, time.Second); err != nil {
				t.Fatal(err)
			}
		}, true},
		"its engine starts it again and again": {func(_ *world, _ cke.Join, e *op.Env) { e.Machines = seen{e.Machines, time.Now} }, true},
		"it runs, and the machine has both addresses": {func(_ *world, _ cke.Join, e *op.Env) {
			since := time.Now()
			e.Machines = seen{e.Machines, func() time.Time { return since }}
		}, false},
	} {
		inWorld(t, 3, func(w *world) {
			w.mustRun(w.bootstrap(false))
			j := w.joins()[2]
			before := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL())
			w.Node("n3").PowerOff()
			w.Node("n3").Readdress("10.0.1.3")
			w.Node("n3").PowerOn()
			move := op.ChangeAddress{Join: j, Node: w.Node("n3").Declared(), ClientPort: j.ClientPort, PeerPort: j.PeerPort}
			_, err := w.runIn(func(e op.Env) op.Env {
				e.Etcd = double{e.Etcd, before}
				c.harm(w, j, &e)
				return e
			}, move)
			if (cke.CodeOf(err) == cke.CodeConflict) != c.refused {
				t.Errorf("%s: %v", name, err)
			}
			if moved := w.joins()[2].Node.Address != j.Node.Address; moved == c.refused {
				t.Errorf("%s: on record as moved: %v", name, moved)
			}
			if c.refused {
				w.mustRun(move)
			}
		})
	}
}
