package op_test

import (
	"context"
	"testing"

	"cke"
	"cke/op"
)

type aloneList struct {
	cke.Etcd
	keep, mute string
}

func (e aloneList) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, all, err := e.Etcd.Members(ctx, url)
	var rest []cke.Member
	for _, m := range all {
		if m.ID == e.keep {
			rest = append(rest, m)
		}
	}
	return id, rest, err
}

func (e aloneList) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	if url == e.mute {
		return cke.EndpointStatus{URL: url, Problem: "no answer within 1s"}
	}
	return e.Etcd.Endpoint(ctx, url)
}

// The list is that of n1 alone. n3 serves, with n2, whose answer to us is lost: n2 is not ended, nor stopped.
func TestEndMembership_NotWhileAnotherUnlistedMemberServes(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		all := w.joins()
		_, err := w.runIn(func(e op.Env) op.Env {
			e.Etcd = aloneList{e.Etcd, all[0].MemberID, all[1].ClientURL()}
			return e
		}, op.EndMembership{Join: all[1]})
		if err == nil || len(w.joins()) != 3 || w.calls("StopContainer") > 0 {
			t.Errorf("%v, %d memberships, %d stops", err, len(w.joins()), w.calls("StopContainer"))
		}
	})
}
