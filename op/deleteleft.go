package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"cke"
	"cke/quorum"
)

// heard is what the container of a membership that a deletion stops reports of its cluster, whose id is of: a member list, or why there is none.
// Neither: it does not run, or nothing can be asked of it.
type heard struct {
	of   string
	list cke.MemberList
	err  error
}

// noneLeft refuses to stop the members of a cluster while foreign ones could be a quorum without them: by the lists that the members have right now,
// which may be newer than those that the decision was made by, or by one that a member may have which runs and does not answer, unless a quorum confirms
// another one.
func (d DeleteCluster) noneLeft(ctx context.Context, e Env) error {
	if d.Sealed {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	lists, confirmed, unread := map[string]cke.MemberList{}, map[string]bool{}, map[string]error{}
	joins := cke.Chosen(d.Joins)
	for i, h := range d.ask(ctx, e, joins) {
		life := joins[i].Incarnation
		if h.of != "" { // two histories may have one incarnation
			lists[life+h.of] = lists[life+h.of].Takes(h.list)
			confirmed[life] = confirmed[life] || byQuorum(h.list)
		}
		unread[life] = cmp.Or(unread[life], h.err)
	}
	if inc := id.Incarnation; inc != nil && !confirmed[inc.ID] {
		foreign, _ := foreignLists(ctx, e, id, d.Listed)
		for of, l := range foreign {
			lists[inc.ID+of] = lists[inc.ID+of].Takes(l)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(lists) == 0 {
		if err := d.outnumbered(e.Cluster, id, cke.MemberList{Members: d.Listed}); err != nil {
			return err
		}
	}
	for _, history := range slices.Sorted(maps.Keys(lists)) {
		if err := d.outnumbered(e.Cluster, id, lists[history]); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(slices.Concat(id.Joins, id.Ended), func(j cke.Join) bool { return !j.StartedAt.IsZero() }) {
		return nil
	}
	for _, life := range slices.Sorted(maps.Keys(unread)) {
		if err := unread[life]; err != nil && !confirmed[life] {
			return err
		}
	}
	return nil
}

// ask asks the members of memberships for their lists, all at the same time.
func (d DeleteCluster) ask(ctx context.Context, e Env, joins []cke.Join) []heard {
	all := make([]heard, len(joins))
	var wg sync.WaitGroup
	for i, j := range joins {
		wg.Go(func() { all[i] = hear(ctx, e, j) })
	}
	wg.Wait()
	return all
}

// hear asks the member of a membership if its container runs. A learner has no list that counts.
func hear(ctx context.Context, e Env, j cke.Join) heard {
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	switch {
	case errors.Is(err, cke.ErrNotFound), err == nil && !c.Running():
		return heard{}
	case err != nil:
		return heard{err: err}
	}
	url := cmp.Or(c.ClientURL(), j.ClientURL())
	s := e.Etcd.Endpoint(ctx, url)
	switch {
	case s.ClusterID == "":
		return heard{err: listless(j, c, cmp.Or(s.Problem, "no answer"))}
	case s.Learner || j.MemberID != "" && s.MemberID != j.MemberID:
		return heard{}
	}
	list, err := listThrough(ctx, e, url, s)
	if err != nil {
		return heard{err: listless(j, c, err.Error())}
	}
	return heard{of: s.ClusterID, list: list}
}

// listless is the error that the member in a container may know of others, which could not be asked of it.
func listless(j cke.Join, c cke.Container, why string) error {
	return &cke.Error{Code: cke.CodeFence, Try: "docker stop " + c.Name, Err: cke.ErrConflict,
		What: "a member that the deletion stops runs and does not report its member list, which may have foreign members",
		Facts: []string{
			fmt.Sprintf("container %s on %s: %s", c.Name, j.Node.Name(), why),
			"foreign members that are a quorum without those that the deletion stops would continue to serve",
			"stop it only if no member was added outside cke: cke cannot ask it then, and would not count that member",
			"nothing was stopped; the deletion continues once the member answers or is stopped",
		}}
}

// outnumbered is the error that foreign members could serve by a list once those of the deletion are stopped, apart from those that the operator
// called destroyed, which are asked before the deletion is sealed; nil: none could. If no quorum confirms the list, others may have joined since, and any
// foreign member in it may serve with them.
func (d DeleteCluster) outnumbered(cluster string, id cke.Identity, list cke.MemberList) error {
	confirmed := byQuorum(list)
	var voters, learners, left int
	var foreign, flags []string
	first := ""
	for _, m := range list.Members {
		if !m.Learner {
			voters++
		}
		if slices.Contains(d.Down, m.ID) || slices.ContainsFunc(d.Joins, func(j cke.Join) bool { return id.Certainly(m, j) }) {
			continue
		}
		if left++; m.Learner {
			learners++
		}
		if m.Learner && confirmed {
			continue
		}
		ours := slices.ContainsFunc(slices.Concat(id.Joins, id.Ended), func(j cke.Join) bool { return id.Certainly(m, j) })
		if !ours && !slices.Contains(d.Excused, m.ID) {
			flags = append(flags, "--destroyed "+m.ID)
			foreign, first = append(foreign, fmt.Sprintf("%s (%s)", cmp.Or(m.Name, "not started"), m.ID)), cmp.Or(first, m.ID)
		}
	}
	of := quorum.Could(voters, left-learners, learners, !confirmed)
	if confirmed && of == 0 || foreign == nil {
		return nil
	}
	why, facts := fmt.Sprintf("with others that are not stopped they could be %d of %d voters", min(left, of), of), []string(nil)
	if !confirmed {
		why = "no quorum confirms which members the cluster has now: others may have joined since they were listed"
		facts = []string{fmt.Sprintf("etcd removes no member without a quorum: if the deletion stopped members before, ckecli cluster delete %s --cancel starts them again, and once they run the others can be removed and the deletion requested again", cluster)}
	}
	return &cke.Error{Code: cke.CodeStranger, Try: "etcdctl member remove " + first, Err: cke.ErrConflict,
		What: "foreign members could serve without those that the deletion stops",
		Facts: append([]string{
			fmt.Sprintf("%s: %s", strings.Join(foreign, ", "), why),
			"no further member is stopped; the deletion continues once they are removed; if they are gone for good: ckecli cluster delete " + cluster + " " + strings.Join(flags, " "),
		}, facts...)}
}
