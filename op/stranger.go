package op

import (
	"context"
	"fmt"
	"strings"

	"cke"
)

// listedMember searches for a member in the list.
func listedMember(ctx context.Context, e Env, member string) (m cke.Member, id cke.Identity, there bool, err error) {
	list, id, err := readList(ctx, e)
	for _, m := range list.members {
		if m.ID == member {
			return m, id, true, err
		}
	}
	return m, id, false, err
}

// moveLeaderFromStranger moves leadership away from a member that no membership names, if it leads. etcd takes that from
// the leader alone.
func moveLeaderFromStranger(ctx context.Context, e Env, member string) error {
	m, id, there, err := listedMember(ctx, e, member)
	if err != nil || !there || !leads(ctx, e, id, m.ID) {
		return err
	}
	best := successor(ctx, e, id, "")
	if best == "" {
		return nil // the gate will not let it pass
	}
	url, known := id.StrangerURL(m)
	if !known {
		return LeadsAlone(m, nil)
	}
	if err := e.Etcd.MoveLeader(ctx, url, best); err != nil && leads(ctx, e, id, m.ID) {
		return LeadsAlone(m, err)
	}
	return nil
}

// LeadsAlone returns the refusal to remove a member that leads and does not let cke move its leadership.
func LeadsAlone(m cke.Member, err error) *cke.Error {
	return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("member %s leads, and cke cannot move its leadership away", m.ID), Unchanged: true, Err: err,
		Facts: []string{"etcd accepts this request only on the leader, which must trust cke's client certificate"},
		Try:   moveManually(m)}
}

// moveManually is the command that moves the leadership of a member that takes no order from cke.
func moveManually(m cke.Member) string {
	return "etcdctl --endpoints=" + strings.Join(m.ClientURLs, ",") + " move-leader ID"
}

// leads reports whether the members that cke asks say that this one leads.
func leads(ctx context.Context, e Env, id cke.Identity, member string) bool {
	for _, url := range id.Asked() {
		if s := e.Etcd.Endpoint(ctx, url); s.Healthy() && !id.OfAnother(s) && s.LeaderID != "" {
			return s.LeaderID == member
		}
	}
	return false
}
