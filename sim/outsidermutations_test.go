package sim_test

import (
	"context"
	"slices"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// outsiderMutations have operations that do not read of foreign voters which join n1 once they are under way.
var outsiderMutations = []mutation{
	{name: "a restore asks who joined", wrap: onlyRecorded, begin: func(n *nemesis) {
		n.s.TakeBackup()
		n.outnumber("restore", func() { n.s.order(fromBackup) })
	}, wants: []string{"two clusters serve under one name"}},
	{name: "a deletion asks who joined", wrap: onlyRecorded, begin: func(n *nemesis) {
		n.outnumber("delete-cluster", n.s.Store().RequestDelete)
	}, wants: []string{"a deleted cluster serves"}},
}

// outnumber lets n1 have the only member, requests an operation, and lets foreign voters join at one of its calls.
func (n *nemesis) outnumber(operation string, request func()) {
	s := n.s
	s.Store().SetSpec(s.held("n1"))
	if !s.until(convergence, func() bool { return s.settled() && s.Serving() == 1 }) {
		return
	}
	at := n.IntN(40)
	s.Judge = func(int, sim.Call) sim.Verdict {
		if running, _ := s.Store().Running(); running == operation {
			if at--; at == 0 {
				for _, name := range []string{"n2", "n3"} {
					joinsKept(s.Node(name), "hand-"+name)
				}
			}
		}
		return sim.Proceed
	}
	request()
	s.pass(10 * time.Minute)
	s.Write("n3", "to the former")
}

// onlyRecorded has operations that read only of members on record.
func onlyRecorded(s *stage, e op.Env) op.Env {
	e.Etcd = recordedMembers{e.Etcd, s}
	return e
}

type recordedMembers struct {
	cke.Etcd
	s *stage
}

func (r recordedMembers) Members(ctx context.Context, url string) (string, []cke.Member, error) {
	id, members, err := r.Etcd.Members(ctx, url)
	return id, r.recorded(members), err
}

func (r recordedMembers) Listed(ctx context.Context, url string) (string, cke.MemberList, error) {
	id, list, err := r.Etcd.Listed(ctx, url)
	list.Members = r.recorded(list.Members)
	return id, list, err
}

func (r recordedMembers) recorded(members []cke.Member) []cke.Member {
	id := r.s.Store().Identity()
	return slices.DeleteFunc(slices.Clone(members), func(m cke.Member) bool {
		return !slices.ContainsFunc(slices.Concat(id.Joins, id.Ended), func(j cke.Join) bool { return j.MemberID == m.ID })
	})
}
