package op

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/quorum"
)

// StopApart stops a member that the operator put aside, see cke.Join.Apart, and switches off its engine's own
// restarts, whichever members it serves with: raft takes data of two histories for one where their terms coincide. A mark on
// its node says so to a copy of the store from before. Its membership and its volume stay until it is replaced.
type StopApart struct{ Join cke.Join }

var _ Operation = StopApart{}

// Name implements Operation.
func (StopApart) Name() string { return "stop-apart" }

// Targets implements Operation.
func (s StopApart) Targets() []string { return []string{s.Join.Node.Name()} }

// Stages implements Operation.
func (s StopApart) Stages() []Stage {
	stop := unless(stopStep(s.Join), func(_ context.Context, _ Env, id cke.Identity) error {
		if !id.PutAside(s.Join.ID) {
			return fmt.Errorf("%s is not put aside: %w", s.Join.Node.Name(), cke.ErrConflict)
		}
		return nil
	})
	return []Stage{{stop}, {{Name: "mark-ended", Node: s.Join.Node.Name(), Run: MarkEnded(s).try}}}
}

// answersOf asks each member where it is on record, in the order of the memberships, then those of an old cluster.
func answersOf(ctx context.Context, e Env, id cke.Identity) (all []cke.EndpointStatus) {
	for _, j := range id.Joins {
		s := e.Etcd.Endpoint(ctx, j.ClientURL())
		s.Join = j.ID
		all = append(all, s)
	}
	for _, url := range id.Incarnation.Importing().URLs() {
		all = append(all, e.Etcd.Endpoint(ctx, url))
	}
	return all
}

// putAside puts the members aside that the operator named as wrong when he lifts a freeze: they are stopped, and not started again. Whose
// data to keep is not concluded from what is seen: it is only made sure that nothing contradicts it.
func putAside(ctx context.Context, e Env, id cke.Identity, wrong []string) error {
	f := id.Freeze
	if id.Incarnation == nil || !f.Kind.NamesWrong() {
		if wrong != nil {
			return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("no member is put aside after a finding of kind %s", f.Kind), Unchanged: true, Try: "ckecli cluster evidence"}
		}
		return nil
	}
	named, err := id.Carriers(wrong)
	if err != nil {
		return err
	}
	l := lift{Freeze: f, cluster: id.Incarnation.ClusterID, members: len(id.Joins), wrong: named, old: id.Incarnation.Importing()}
	for _, j := range id.Joins {
		if !j.Apart && !slices.Contains(wrong, j.Node.Name()) {
			l.kept = append(l.kept, j)
		}
	}
	for look := range apartLooks { // one answer may be lost, or an election be under way
		if look > 0 && e.Pause(ctx, apartPause) != nil {
			return ctx.Err()
		}
		l.now.Endpoints = answersOf(ctx, e, id)
		if err = l.refusal(); err == nil {
			break
		}
	}
	if err != nil || named == nil {
		return err
	}
	for i := range named {
		named[i].Apart = true
	}
	return e.Ledger.PutJoins(ctx, id, named...)
}

// lift is what the operator says about a cluster that is frozen, and what its members answer.
type lift struct {
	*cke.Freeze
	cluster string         // its id
	members int            // how many are on record
	now     cke.EtcdStatus // what each member answers
	wrong   []cke.Join     // those that the operator named
	old     *cke.Import    // nil: no import is under way
	kept    []cke.Join     // the others, but for those that were put aside before
}

// refusal is what contradicts the operator; nil: nothing.
func (l lift) refusal() error {
	refuse := func(what string, facts ...string) error {
		return &cke.Error{Code: cke.CodeSplitBrain, What: "the freeze is not lifted: " + what, Facts: facts, Unchanged: true, Try: "ckecli cluster evidence"}
	}
	oldStay := l.old != nil && l.wrong == nil
	if !oldStay && !slices.ContainsFunc(l.kept, func(j cke.Join) bool { return !j.StartedAt.IsZero() }) {
		return refuse("no member would be left", "to continue from one that was put aside: stop the members that serve on their nodes (docker stop), then: ckecli recover --from NODE", "if no member has the right data: ckecli restore")
	}
	serve := slices.DeleteFunc(slices.Clone(l.kept), func(j cke.Join) bool { return !l.serves(j) })
	for i, a := range serve {
		for _, b := range serve[:i] {
			if apart(l.now, a, b, l.cluster) {
				return refuse(fmt.Sprintf("%s and %s serve separately", b.Node.Name(), a.Node.Name()), "name the nodes whose data is wrong with --wrong")
			}
		}
	}
	right := l.now // which of them an old member serves with
	right.Endpoints = slices.DeleteFunc(slices.Clone(right.Endpoints), func(s cke.EndpointStatus) bool { return s.Join != "" && indexOf(l.kept, s.Join) < 0 })
	if one, other, is := right.Apart(l.cluster, l.old); is {
		return refuse(fmt.Sprintf("the members at %s and %s serve separately", one.URL, other.URL), "stop the one of the old cluster on its machine if its data is wrong, else name the nodes with --wrong")
	}
	for _, w := range l.wrong {
		s, _ := l.now.Endpoint(w.ID)
		for _, j := range serve {
			if o, _ := l.now.Endpoint(j.ID); s.Follows(o, l.cluster) || o.LeaderID != "" && o.LeaderID == w.MemberID {
				return refuse(fmt.Sprintf("%s was named as wrong, and serves with %s, which was not", w.Node.Name(), j.Node.Name()),
					"name all members that serve with a wrong one", "to replace one that serves with the right ones, lift the freeze without naming it, then: ckecli replace "+w.Node.Name())
			}
		}
		if len(serve) == 0 && s.Problem == "" && s.Linearizable {
			way := "let the right members serve, or stop the wrong ones first"
			if l.Kind == cke.FreezeWentBack { // a right one that joins them could be overwritten
				way = "stop the wrong ones first, and start no right one before"
			}
			return refuse(fmt.Sprintf("%s was named as wrong, and serves, and no other member does", w.Node.Name()), way)
		}
	}
	for _, j := range l.kept {
		if doubt := l.doubt(j, serve); doubt != "" {
			facts := []string{l.unless(j, serve)}
			if slices.ContainsFunc(l.wrong, func(w cke.Join) bool { return !l.serves(w) && together(l.Etcd, j, w, l.cluster) }) {
				facts = append(facts, "a member whose data is lost and not wrong needs no name: do not name it, and replace it later")
			}
			return refuse(doubt, append(facts, fmt.Sprintf("if its data is right and theirs is wrong, name the others; or stop the members that serve on their nodes (docker stop), and continue from it: ckecli recover --from %s", j.Node.Name()))...)
		}
	}
	return nil
}

// unless is what to do about a member in doubt unless the others are wrong. Where those that serve are a quorum, they have all writes that
// were acknowledged in their history: its data need not be known, and cannot be while its certificates are not valid.
func (l lift) unless(j cke.Join, serve []cke.Join) string {
	name := j.Node.Name()
	switch have := strings.Join(names(nodesOf(serve)), ", "); {
	case l.Kind.TwoClusters() && len(serve) >= quorum.Of(max(l.members, len(l.Etcd.Members))):
		return fmt.Sprintf("if the data of %s is right, name it as well, whatever its data: --wrong %s. They are a quorum without it, and its volume is kept", have, name)
	case l.Kind.TwoClusters() && len(serve) > 0:
		return fmt.Sprintf("if its data is wrong, name it: --wrong %s. If it may be right, let it serve first: those that serve (%s) may be no quorum without it", name, have)
	}
	return "if its data is wrong, name it: --wrong " + name
}

// doubt is why a member that was not named may be wrong as well; serve are those of them that serve.
func (l lift) doubt(j cke.Join, serve []cke.Join) string {
	name := j.Node.Name()
	now, _ := l.now.Endpoint(j.ID)
	then, _ := l.Etcd.Endpoint(j.ID)
	switch {
	case l.Kind == cke.FreezeClusterID:
		if id := cmp.Or(now.ClusterID, then.ClusterID); id != "" && id != l.cluster {
			return fmt.Sprintf("the member of %s answered with cluster id %s, on record is %s", name, id, l.cluster)
		}
		return ""
	case l.serves(j) || j.StartedAt.IsZero():
		return ""
	}
	for _, w := range l.wrong {
		if together(l.Etcd, j, w, l.cluster) {
			return fmt.Sprintf("the member of %s served with %s, which was named as wrong, and does not serve now", name, w.Node.Name())
		}
	}
	if l.Kind == cke.FreezeWentBack {
		if l.Problem.Node == name {
			return fmt.Sprintf("the member of %s served less than the cluster had served, and does not serve now", name)
		}
		return ""
	}
	others := serve
	if len(serve) == 0 {
		others = slices.DeleteFunc(slices.Clone(l.kept), func(o cke.Join) bool { return o.ID == j.ID })
	}
	for _, o := range others {
		if apart(l.Etcd, j, o, l.cluster) {
			return fmt.Sprintf("the member of %s served without %s, and does not serve with it now", name, o.Node.Name())
		}
	}
	if len(others) > 0 && !slices.ContainsFunc(others, func(o cke.Join) bool { return together(l.Etcd, j, o, l.cluster) || together(l.now, j, o, l.cluster) }) {
		return fmt.Sprintf("the member of %s was not seen to serve with the others", name)
	}
	return ""
}

// serves reports whether a member serves now, as the one that is on record.
func (l lift) serves(j cke.Join) bool {
	s, _ := l.now.Endpoint(j.ID)
	return s.MemberID == j.MemberID && s.Serves(l.cluster)
}

// apart reports whether two members served without each other, as they answered.
func apart(seen cke.EtcdStatus, a, b cke.Join, cluster string) bool {
	one, _ := seen.Endpoint(a.ID)
	other, _ := seen.Endpoint(b.ID)
	seen.Endpoints = []cke.EndpointStatus{one, other}
	_, _, is := seen.Apart(cluster, nil)
	return is
}

// together reports whether two members had one leader, as they answered. A learner takes part in no quorum, but has its leader's data.
func together(seen cke.EtcdStatus, a, b cke.Join, cluster string) bool {
	var both [2]cke.EndpointStatus
	for i, j := range []cke.Join{a, b} {
		s, _ := seen.Endpoint(j.ID)
		if s.Learner {
			s.Learner, s.Linearizable = false, s.Serializable
		}
		both[i] = s
	}
	return both[0].Follows(both[1], cluster)
}
