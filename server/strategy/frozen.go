package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

const nameWrong = "keep all data directories, and find out which data is right with `ckecli cluster evidence`; name the nodes with the wrong data: `ckecli cluster unfreeze --wrong NODE`; then `ckecli replace` them"

// finding is something that only an operator can judge.
type finding struct {
	kind    cke.FreezeKind
	text    string
	problem cke.Problem
	// unrecorded is set where that was found.
	unrecorded []cke.Unrecorded
	// ended are memberships on record that ended.
	ended []cke.Join
	// beside: the identity beside the backups has members or authorities that neither the store nor a node has.
	beside bool
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
		j, known := in.onRecord(e)
		if !known || e.ClusterID == "" || e.ClusterID == inc.ClusterID || in.oldLeft(e) || in.answersForReplaced(j) {
			continue
		}
		all = append(all, finding{kind: cke.FreezeClusterID, text: cke.OtherID(j, e.ClusterID), problem: cke.Problem{Code: cke.CodeSplitBrain, Node: j.Node.Name(),
			Message: fmt.Sprintf("the member at %s answers with cluster id %s, on record is %s", e.URL, e.ClusterID, inc.ClusterID),
			Remedy:  in.judge(nameWrong)}})
	}
	switch one, other, apart := in.Identity.Ours(in.Seen.Etcd).Apart(inc.ClusterID, inc.Importing()); {
	case apart && in.wereApart():
		j, _ := in.onRecord(other)
		all = append(all, finding{kind: cke.FreezeTwoQuorums, text: twoQuorums(in), problem: cke.Problem{Code: cke.CodeSplitBrain, Node: j.Node.Name(),
			Message: fmt.Sprintf("the members at %s and %s serve separately: two clusters have the id %s", one.URL, other.URL, inc.ClusterID),
			Remedy:  in.judge(nameWrong)}})
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

// onRecord returns the membership that an answer is from; that of an old member has its id and its name alone. One that has left counts,
// too: its URL is known to clients.
func (in *Input) onRecord(e cke.EndpointStatus) (j cke.Join, known bool) {
	if o, is := in.importing().Of(e); is {
		return cke.Join{ID: cke.JoinID(o.ID), Node: cke.Node{Hostname: o.Name}}, true
	}
	return in.Identity.Join(e.Join)
}

// oldLeft reports whether an old member left the list: another cluster may be on its machine.
func (in *Input) oldLeft(e cke.EndpointStatus) bool {
	o, is := in.importing().Of(e)
	list := in.lastList()
	return is && list != nil && !o.In(list)
}

// judge is a remedy that lets the operator name who is wrong. Members of an old cluster cannot be put aside.
func (in *Input) judge(remedy string) string {
	if in.importing() != nil {
		remedy += "; a member of the old cluster that is wrong is stopped on its machine before that, and stays stopped"
	}
	return remedy
}

// wereApart reports whether the observation before, too, found members that serve without each other.
func (in *Input) wereApart() bool {
	_, _, is := in.Identity.Ours(in.Before.Etcd).Apart(in.Identity.Incarnation.ClusterID, in.importing())
	return is && in.Identity.Incarnation.Life(in.Before.Incarnation)
}

// twoQuorums names the finding that members serve without each other. The lift of a freeze puts the wrong ones aside: if others are found
// after that, they are another finding.
func twoQuorums(in *Input) string {
	text := fmt.Sprintf("%s %s", cke.FreezeTwoQuorums, in.Identity.Incarnation.ClusterID)
	if f := in.Identity.Freeze; f != nil && !f.Active() {
		text += " " + f.ID
	}
	return text
}

// wentBack: a member serves less than members of the same cluster were seen to serve before. Only what stands beside a
// linearizable read is compared: the applied index, and all that a member says by itself, is lower after every restart
// until it has read its log again.
func wentBack(in *Input) *finding {
	before := in.Before.Reached
	if in.chose(before) != "" {
		return nil
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		j, known := in.onRecord(e)
		if !known || j.Apart || e.ClusterID != in.Identity.Incarnation.ClusterID || !before.Behind(e) {
			continue
		}
		text := fmt.Sprintf("%s %s", cke.FreezeWentBack, e.ClusterID)
		if f := in.Identity.Freeze; f != nil && !f.Active() && f.Wrong != nil { // the wrong ones are put aside: these are others
			text += " " + f.ID
		}
		return &finding{kind: cke.FreezeWentBack, text: text, problem: cke.Problem{Code: cke.CodeWentBack, Node: j.Node.Name(),
			Message: fmt.Sprintf("the member at %s serves revision %d in raft term %d, and members had served revision %d in term %d", e.URL, e.Revision, e.RaftTerm, before.Revision, before.RaftTerm),
			Remedy:  in.judge("keep all data directories; a member that is down may have what is missing; `ckecli cluster evidence` shows what was seen; if it alone is wrong: `ckecli cluster unfreeze --wrong` its node, then `ckecli replace` it")}}
	}
	return nil
}

// reached is the furthest that members of the cluster were seen to serve. That of the incarnation before is kept while a restore has not ended: it
// may be called off. What a second cluster of that id served is no measure once an operator has lifted the freeze.
func reached(in *Input, before *cke.Reached) *cke.Reached {
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		return before
	}
	if !in.Formed() {
		return nil
	}
	r := cke.Reached{ClusterID: in.Identity.Incarnation.ClusterID}
	if since := in.chose(before); since != "" {
		r.Freeze = since
	} else if before != nil && before.ClusterID == r.ClusterID {
		r = *before
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		if j, _ := in.Identity.Join(e.Join); !j.Apart {
			r = r.With(e)
		}
	}
	return &r
}

// chose returns the freeze for two clusters that was lifted last, where what was reached is from before that; empty: it is not.
func (in *Input) chose(before *cke.Reached) string {
	f := in.Identity.Freeze
	if f == nil || f.Active() || f.Kind != cke.FreezeTwoQuorums || before != nil && before.Freeze == f.ID {
		return ""
	}
	return f.ID
}

// allLast reports whether every member that was compared is one still.
func (in *Input) allLast(c cke.Comparison) bool {
	return !slices.ContainsFunc(c.Hashes, func(h cke.MemberHash) bool {
		_, lasts := in.Identity.Join(h.Join)
		return !lasts
	})
}

// frozen: two clusters under one name, data that etcd itself calls corrupt, members that were found to differ, or a store
// that is older than the cluster. What is found is recorded first, and from then on the cluster stays frozen until an operator
// lifts it. That the store is older is recorded also while something else freezes the cluster: what it asks for may be outdated, and
// what froze it may be over. What shows it later is recorded, too: the operator judges all of it.
func frozen(in *Input) verdict {
	if f := in.Identity.Freeze.Returns(); f != nil {
		d := freeze(f.Problem)
		d.Operation = op.Freeze{Kind: f.Kind, Finding: f.Finding, Problem: f.Problem, Returns: f}
		return decides(d)
	}
	if f := in.Identity.Freeze; f.Active() && !newlyOlder(in) {
		d := freeze(f.Problem)
		if f.Former != nil {
			d.Blockers = append(d.Blockers, f.Former.Problem)
		}
		if o, t := whileFrozen(in, f); o != nil {
			d.Operation, d.Task, d.Reason = o, t.ID, askedFor(t, "frozen: "+f.Problem.Message)
		} else if o, stopped := writesStopped(in); stopped {
			d.Operation = o
		}
		return decides(d)
	}
	for _, f := range findings(in) {
		if !in.Identity.Freeze.Tolerates(f.text) {
			d := freeze(f.problem)
			o := op.Freeze{Kind: f.kind, Finding: f.text, Problem: f.problem, Seen: in.Seen.Etcd, Unrecorded: f.unrecorded, Ended: f.ended}
			if f.kind == cke.FreezeOlderStore {
				o.Held, o.Lacks = cke.HoldRequests(in.DeletionAt, in.Requests), in.lacks()
			}
			d.Operation = o
			return decides(d)
		}
		if f.kind == cke.FreezeOlderStore {
			if v := reclaimAnswer(in); v.given() {
				return v // after the freeze was lifted it is the only way on where nobody is on record where it serves
			}
		}
	}
	return pass()
}

func freeze(p cke.Problem) Decision {
	return Decision{Frozen: &p, Blockers: []cke.Problem{p}, Reason: "frozen: " + p.Message}
}

// whileFrozen is what is done for operators meanwhile: lifting the freeze, putting on record what the store lost, comparing,
// backing up. All else is refused.
func whileFrozen(in *Input, f *cke.Freeze) (op.Operation, cke.Task) {
	for _, t := range in.Requests.Tasks {
		if t.Kind == cke.TaskUnfreeze {
			for _, name := range t.Wrong {
				if p := in.misnamed(name); p != nil {
					return refuse(t, notCertain(name, p)).Operation, t
				}
			}
			return op.Unfreeze{ID: t.Subject, Reason: t.Reason, By: t.By, Wrong: t.Wrong}, t
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

// unfreezeAsked answers an operator who lifts a freeze of a cluster that is not frozen.
func unfreezeAsked(in *Input, t cke.Task) Decision {
	if f := in.Identity.Freeze; f != nil && f.ID == t.Subject {
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, "the freeze was lifted already")}
	}
	return refuse(t, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s is not frozen", in.Spec.Name), Unchanged: true})
}

// findingOver: a finding that the operator lifted is no longer seen although everything that could show it answers. Found again it is
// to freeze the cluster again.
func findingOver(in *Input) verdict {
	f := in.Identity.Freeze
	if f == nil || f.Active() || !oursServe(in) {
		return pass()
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
		if !seen(t) && (compared || !isUnequal(t)) && (in.knowsLacks() || !strings.HasPrefix(t, string(cke.FreezeOlderStore))) {
			over = append(over, t)
		}
	}
	if over == nil {
		return pass()
	}
	return act(op.EndFinding{Findings: over}, "a finding that the operator lifted is no longer seen").upkeep()
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

// everyoneServes reports whether foreign members serve, too, and no change of the member list is under way.
func everyoneServes(in *Input) bool { return oursServe(in) && allWell(tallyOf(in)) == open }
