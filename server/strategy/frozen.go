package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

// finding is something that only a person can judge.
type finding struct {
	kind    cke.FreezeKind
	text    string
	problem cke.Problem
	// unrecorded is set where that was found.
	unrecorded []cke.Unrecorded
}

// findings are those that are seen now. Unequal data is found by comparing, not by looking; a comparison that was made
// while something else froze the cluster still counts.
func findings(in *Input) []finding {
	inc := in.Identity.Incarnation
	var all []finding
	if f := olderStore(in); f != nil {
		all = append(all, *f)
	}
	if !in.Formed() {
		return all
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		j, ours := in.Identity.Join(e.Join)
		if !ours || e.ClusterID == "" || e.ClusterID == inc.ClusterID {
			continue
		}
		all = append(all, finding{kind: cke.FreezeClusterID, text: op.OtherID(j, e.ClusterID), problem: cke.Problem{Code: cke.CodeSplitBrain, Node: j.Node.Name(),
			Message: fmt.Sprintf("the member at %s answers with cluster id %s, on record is %s", e.URL, e.ClusterID, inc.ClusterID),
			Remedy:  "find out which data is right and keep both data directories; `ckecli cluster evidence` shows what was seen"}})
	}
	switch one, other, apart := in.Seen.Etcd.Apart(inc.ClusterID); {
	case apart && in.wereApart():
		j, _ := in.Identity.Join(other.Join)
		all = append(all, finding{kind: cke.FreezeTwoQuorums, text: fmt.Sprintf("%s %s", cke.FreezeTwoQuorums, inc.ClusterID), problem: cke.Problem{Code: cke.CodeSplitBrain, Node: j.Node.Name(),
			Message: fmt.Sprintf("the members at %s and %s serve without each other: two clusters have the id %s", one.URL, other.URL, inc.ClusterID),
			Remedy:  "find out which data is right, with `ckecli cluster evidence`; stop the members with the wrong data, keep their volumes, `ckecli cluster unfreeze` while the right ones serve, then `ckecli replace` the nodes of the others"}})
	case !apart: // who serves less than another cluster of that id has not gone back for that
		if f := wentBack(in); f != nil {
			all = append(all, *f)
		}
	}
	for _, a := range in.Seen.Etcd.Alarms {
		if a.Kind == "CORRUPT" && !a.StopsWrites() {
			all = append(all, finding{kind: cke.FreezeCorrupt, text: fmt.Sprintf("%s %s", cke.FreezeCorrupt, a.MemberID), problem: cke.Problem{Code: cke.CodeUnequalData,
				Message: fmt.Sprintf("etcd raised the alarm CORRUPT for member %s", a.MemberID),
				Remedy:  "compare the members' data before anything is changed: `ckecli etcd compare`"}})
		}
	}
	if c := in.Identity.Compared; c != nil && !c.Equal() && in.allLast(*c) {
		all = append(all, finding{kind: cke.FreezeUnequalData, text: op.Finding(*c), problem: op.Unequal(*c)})
	}
	return all
}

// wereApart reports whether the look before, too, found members that serve without each other.
func (in *Input) wereApart() bool {
	_, _, is := in.Before.Etcd.Apart(in.Identity.Incarnation.ClusterID)
	return is && in.Identity.Incarnation.Life(in.Before.Incarnation)
}

// wentBack: a member serves less than members of the same cluster were seen to serve before. Only what stands beside a
// linearizable read is compared: the applied index, and all that a member says by itself, is lower after every restart
// until it has read its log again.
func wentBack(in *Input) *finding {
	before := in.Before.Reached
	if in.choseSince() {
		return nil
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		j, ours := in.Identity.Join(e.Join)
		if !ours || j.Apart || e.ClusterID != in.Identity.Incarnation.ClusterID || !before.Behind(e) {
			continue
		}
		return &finding{kind: cke.FreezeWentBack, text: fmt.Sprintf("%s %s", cke.FreezeWentBack, e.ClusterID), problem: cke.Problem{Code: cke.CodeWentBack, Node: j.Node.Name(),
			Message: fmt.Sprintf("the member at %s serves revision %d in raft term %d, and members had served revision %d in term %d", e.URL, e.Revision, e.RaftTerm, before.Revision, before.RaftTerm),
			Remedy:  "keep all data directories; a member that is down may have what is missing; `ckecli cluster evidence` shows what was seen; if it alone is wrong: stop it, `ckecli cluster unfreeze` while the others serve, then `ckecli replace` its node"}}
	}
	return nil
}

// reached is the furthest that members of the cluster were seen to serve. That of the life before is kept while a restore has not ended: it
// may be called off. What a second cluster of that id served is no measure once a person has lifted the freeze.
func reached(in *Input, before *cke.Reached) *cke.Reached {
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		return before
	}
	if !in.Formed() {
		return nil
	}
	r := cke.Reached{ClusterID: in.Identity.Incarnation.ClusterID}
	if before != nil && before.ClusterID == r.ClusterID && !in.choseSince() {
		r = *before
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		if j, _ := in.Identity.Join(e.Join); !j.Apart {
			r = r.With(e)
		}
	}
	return &r
}

// choseSince reports whether a person chose one of two clusters of one id since the look before.
func (in *Input) choseSince() bool {
	f := in.Identity.Freeze
	return f != nil && !f.Active() && f.Kind == cke.FreezeTwoQuorums && in.Before.ObservedAt.Before(f.LiftedAt)
}

// allLast reports whether every member that was compared is one still.
func (in *Input) allLast(c cke.Comparison) bool {
	return !slices.ContainsFunc(c.Hashes, func(h cke.MemberHash) bool {
		_, lasts := in.Identity.Join(h.Join)
		return !lasts
	})
}

// frozen: two clusters under one name, data that etcd itself calls corrupt, members that were found to differ, or a store
// that is older than the cluster. What is found is recorded first, and from then on the cluster stays frozen until a person
// lifts it. That the store is older is recorded also while something else freezes the cluster: what it asks for may be outdated, and
// what froze it may be over.
func frozen(in *Input) (Decision, bool) {
	if f := in.Identity.Freeze.Returns(); f != nil {
		d := freeze(f.Problem)
		d.Operation = op.Freeze{Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, Returns: f}
		return d, true
	}
	if f := in.Identity.Freeze; f.Active() && !(f.MakesWay(cke.FreezeOlderStore) && newlyOlder(in)) {
		d := freeze(f.Problem)
		if f.Former != nil {
			d.Blockers = append(d.Blockers, f.Former.Problem)
		}
		if o, t := whileFrozen(in, f); o != nil {
			d.Operation, d.Task, d.Reason = o, t.ID, askedFor(t, "frozen: "+f.Problem.Message)
		} else if o, stopped := writesStopped(in); stopped {
			d.Operation = o
		}
		return d, true
	}
	for _, f := range findings(in) {
		if !in.Identity.Freeze.Tolerates(f.text) {
			d := freeze(f.problem)
			o := op.Freeze{Kind: f.kind, Finding: f.text, Problem: f.problem, Seen: in.Seen.Etcd, Unrecorded: f.unrecorded}
			if f.kind == cke.FreezeOlderStore {
				o.Held = cke.HoldRequests(in.DeletionAt, in.Requests)
			}
			d.Operation = o
			return d, true
		}
		if f.kind == cke.FreezeOlderStore {
			if d, asked := reclaimAnswer(in); asked {
				return d, true // after the freeze was lifted it is the only way on where nobody is on record where it serves
			}
		}
	}
	return Decision{}, false
}

func freeze(p cke.Problem) Decision {
	return Decision{Frozen: &p, Blockers: []cke.Problem{p}, Reason: "frozen: " + p.Message}
}

// whileFrozen is what is done for persons meanwhile: lifting the freeze, putting on record what the store lost, comparing,
// backing up. All else is refused.
func whileFrozen(in *Input, f *cke.Freeze) (op.Operation, cke.Task) {
	for _, t := range in.Requests.Tasks {
		if t.Kind == cke.TaskUnfreeze {
			return op.Unfreeze{ID: t.Subject, Reason: t.Reason, By: t.By}, t
		}
	}
	if len(in.Requests.Tasks) == 0 {
		return nil, cke.Task{}
	}
	t := in.Requests.Tasks[0]
	if t.Kind == cke.TaskCompare || t.Kind == cke.TaskBackup || t.Kind == cke.TaskReclaim && f.Kind == cke.FreezeOlderStore {
		return ask(in, t).Operation, t
	}
	return refuse(t, &cke.Error{Code: cke.CodeFrozen, What: fmt.Sprintf("cluster %s is frozen", in.Spec.Name), Facts: []string{f.Problem.Message}, Unchanged: true,
		Try: "ckecli cluster evidence"}).Operation, t
}

// unfreezeAsked answers a person who lifts a freeze of a cluster that is not frozen.
func unfreezeAsked(in *Input, t cke.Task) Decision {
	if f := in.Identity.Freeze; f != nil && f.ID == t.Subject {
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, "the freeze was lifted already")}
	}
	return refuse(t, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s is not frozen", in.Spec.Name), Unchanged: true})
}

// findingOver: what a person lifted is no longer seen although everything that could show it answers. Found again it is
// to freeze the cluster again.
func findingOver(in *Input) (Decision, bool) {
	f := in.Identity.Freeze
	if f == nil || f.Active() || !oursServe(in) {
		return Decision{}, false
	}
	var texts []string
	for _, s := range findings(in) {
		texts = append(texts, s.text)
	}
	c := in.Identity.Compared
	compared := c != nil && c.At.After(f.LiftedAt)
	if c != nil {
		texts = append(texts, op.Finding(*c))
	}
	seen := func(lifted string) bool {
		return slices.ContainsFunc(texts, func(finding string) bool { return cke.Covers(lifted, finding) })
	}
	var over []string
	for _, t := range f.Tolerated() {
		if !seen(t) && (compared || !isUnequal(t)) {
			over = append(over, t)
		}
	}
	if over == nil {
		return Decision{}, false
	}
	return Decision{Operation: op.EndFinding{Findings: over}, Reason: "what a person lifted is no longer seen", Converged: true, Upkeep: true}, true
}

func isUnequal(finding string) bool { return strings.HasPrefix(finding, string(cke.FreezeUnequalData)) }

// oursServe reports whether every declared node carries a member that serves, and so does every other member of ours.
func oursServe(in *Input) bool {
	if !in.Seen.Etcd.Quorate {
		return false
	}
	for _, j := range in.Identity.Joins {
		if m, there := in.listed(j); !there || m.Learner || memberProblem(in, j) != nil {
			return false
		}
	}
	for _, n := range in.Spec.ControlPlane() {
		if _, carries := in.Identity.On(n); !carries {
			return false
		}
	}
	return true
}

// everyoneServes reports whether strangers serve, too, and no change of the member list is under way.
func everyoneServes(in *Input) bool { return oursServe(in) && allWell(tallyOf(in)) == pass }
