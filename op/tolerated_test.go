package op_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// turned is an etcd of which one member, at url, was founded anew by hand: it answers with its old member id and another
// cluster id.
type turned struct {
	cke.Etcd
	url string
}

func (e turned) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	s := e.Etcd.Endpoint(ctx, url)
	if url == e.url {
		s.ClusterID = "c2"
	}
	return s
}

func (e turned) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	if url == e.url {
		return "c2", nil, nil
	}
	return e.Etcd.Members(ctx, url)
}

// Requirement A4: once a person has lifted the freeze, a member of another cluster neither speaks for this one nor counts.
func TestRemoveMember_BesideAMemberOfAnotherCluster(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		joins, list := w.joins(), w.members()
		w.lead(joins[2].MemberID)
		run := func(o op.Operation) error {
			e := op.Env{Cluster: "demo", Machines: w.daemon.Machines(), Etcd: turned{w.daemon.Etcd(), joins[0].ClientURL()}, Authority: w.daemon.Authority(), Ledger: w.daemon.Term(),
				Now: time.Now, Pause: pause, Log: slog.New(slog.DiscardHandler)}
			_, err := op.Run(w.daemon.Context(), e, w.daemon.Term(), cke.Record{Reason: "a test"}, o)
			return err
		}
		wrong := op.RemoveMember{Member: list[0], Join: &joins[0]}
		if err := run(wrong); cke.CodeOf(err) != cke.CodeSplitBrain {
			t.Fatal(err)
		}
		finding := cke.OtherID(joins[0], "c2")
		w.mustRun(op.Freeze{Kind: cke.FreezeClusterID, Finding: finding, Problem: cke.Problem{Code: cke.CodeSplitBrain}})
		w.mustRun(op.Unfreeze{ID: w.Store().Identity().Freeze.ID, Reason: "it is known"})
		if err := run(op.RemoveMember{Member: list[1], Join: &joins[1]}); cke.CodeOf(err) != cke.CodeQuorum {
			t.Errorf("the wrong member counts: %v", err)
		}
		if err := run(wrong); err != nil {
			t.Errorf("it cannot be removed: %v", err)
		}
	})
}
