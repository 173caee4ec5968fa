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

// heard is what the container of a membership that a deletion stops reports of its cluster: a member list, or why there is none. Neither: it does not
// run, or nothing can be asked of it.
type heard struct {
	list cke.MemberList
	err  error
}

// noneLeft refuses to stop the members of a cluster while foreign ones could be a quorum without them: by the lists that members have right now, which
// may be newer than those that the decision was made by, and by those that were known, unless a quorum confirms who is in that cluster. A member that
// runs and does not answer may have another one.
func (d DeleteCluster) noneLeft(ctx context.Context, e Env) error {
	if d.Sealed {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	var now []cke.MemberList
	confirmed, unread := map[string]bool{}, map[string]error{}
	joins := cke.Chosen(d.Joins)
	for i, h := range d.ask(ctx, e, joins) {
		life := joins[i].Incarnation
		if h.list.ClusterID != "" {
			now = append(now, h.list)
			confirmed[life] = confirmed[life] || byQuorum(h.list)
		}
		unread[life] = cmp.Or(unread[life], h.err)
	}
	if id.Incarnation != nil { // a quorum may be that of one of two histories, and who is excused may answer
		foreign := askForeign(ctx, e, id, cke.MembersIn(slices.Concat(d.Listed, now)))
		now = append(now, foreign.lists...)
		d.Excused = slices.DeleteFunc(slices.Clone(d.Excused), func(m string) bool { // the others are asked before the deletion is sealed
			known := slices.ContainsFunc(d.Foreign, func(f cke.Former) bool { return f.ID == m })
			return !known && slices.Contains(slices.Concat(foreign.answered, foreign.led), m)
		})
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	left := cke.MembersIn(d.unconfirmed(now))
	slices.SortStableFunc(left, func(a, b cke.Member) int { return cmp.Compare(a.ID, b.ID) })
	left = slices.CompactFunc(left, func(a, b cke.Member) bool { return a.ID == b.ID })
	for _, l := range append(slices.DeleteFunc(slices.Clone(now), notByQuorum), cke.MemberList{Members: left}) { // two histories may have one cluster id
		if err := d.outnumbered(e.Cluster, id, l); err != nil {
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

// unconfirmed are the member lists of clusters of which no quorum confirms one: those that were known, and the newest that a member has now.
func (d DeleteCluster) unconfirmed(now []cke.MemberList) []cke.MemberList {
	var newest []cke.MemberList
	for _, l := range now {
		newest = cke.Gathered(newest, l)
	}
	return slices.DeleteFunc(slices.Concat(d.Listed, newest), func(l cke.MemberList) bool { return byQuorum(cke.OfCluster(newest, l.ClusterID)) })
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
	list.ClusterID = s.ClusterID
	return heard{list: list}
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
