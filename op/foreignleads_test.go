package op_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// inForeignLed runs a test where a member that an operator added leads, n4 carries a learner, and etcd's authentication is on.
func inForeignLed(t *testing.T, f func(w *world, learner cke.Join, foreign cke.Member)) {
	t.Helper()
	inGrowing(t, 3, func(w *world, last cke.Node) {
		if !w.AddNode("n5", "10.0.0.5").Join("hand", true) {
			t.Fatal("etcd does not take it")
		}
		time.Sleep(time.Minute) // etcd wants its members to have been connected for a while
		w.mustRun(w.add(last))
		foreign := w.members()[3]
		w.lead(foreign.ID)
		w.SetAuth(true, true)
		f(w, w.joinOn(last), foreign)
	})
}

// deaf is an etcd of which the member at one URL does not answer cke.
type deaf struct {
	cke.Etcd
	url string
}

// Endpoint implements cke.Etcd.
func (d deaf) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == d.url {
		return cke.EndpointStatus{URL: url, Problem: "tls: bad certificate"}
	}
	return d.Etcd.Endpoint(ctx, url)
}

// With authentication on, a follower that is asked for it cannot have a learner promoted: the foreign member that leads is asked itself.
func TestPromoteMember_AsksAForeignMemberThatLeads(t *testing.T) {
	inForeignLed(t, func(w *world, learner cke.Join, _ cke.Member) {
		w.mustRun(op.PromoteMember{Join: learner})
		if m := w.members(); m[4].Learner {
			t.Errorf("%+v", m)
		}
	})
	inForeignLed(t, func(w *world, learner cke.Join, foreign cke.Member) {
		r, err := w.runIn(func(e op.Env) op.Env { e.Etcd = deaf{e.Etcd, foreign.ClientURLs[0]}; return e }, op.PromoteMember{Join: learner})
		if cke.CodeOf(err) != cke.CodeCannot || !strings.Contains(err.Error(), "member "+foreign.ID+" leads and does not answer cke") || !strings.Contains(r.Refusal.Try, "move-leader") {
			t.Errorf("%v %+v", err, r.Refusal)
		}
	})
}

func TestMoveLeader_TakesLeadershipFromAForeignMember(t *testing.T) {
	inForeignLed(t, func(w *world, _ cke.Join, _ cke.Member) {
		w.mustRun(op.MoveLeader{Join: w.joins()[1]})
		if l := w.leaderNode(); l != "n2" {
			t.Error(l)
		}
	})
}
