package op_test

import (
	"context"
	"log/slog"
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

// A copy of a member's disk on a machine of the same name is not started beside the member.
func TestChangeAddress_RefusesACopyOfTheDisk(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		j := w.joins()[2]
		before := w.daemon.Etcd().Endpoint(w.daemon.Context(), j.ClientURL())
		w.Node("n3").PowerOff()
		w.Node("n3").Readdress("10.0.1.3")
		w.Node("n3").PowerOn()
		if err := w.daemon.Machines().Machine(w.Node("n3").Declared()).StopContainer(w.daemon.Context(), j, time.Second); err != nil {
			t.Fatal(err)
		}
		move := op.ChangeAddress{Join: j, Node: w.Node("n3").Declared(), ClientPort: j.ClientPort, PeerPort: j.PeerPort}
		e := op.Env{Cluster: "demo", Machines: w.daemon.Machines(), Etcd: double{w.daemon.Etcd(), before}, Authority: w.daemon.Authority(), Ledger: w.daemon.Term(),
			Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
		if _, err := op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, move); cke.CodeOf(err) != cke.CodeConflict {
			t.Errorf("%v", err)
		}
		if w.joins()[2].Node.Address != j.Node.Address {
			t.Error("the record says that it moved")
		}
		w.mustRun(move)
	})
}
