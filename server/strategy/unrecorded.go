package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// unrecorded is what nodes carry of this cluster's name and not of its record. No rule acts on it.
func (in *Input) unrecorded() []cke.Unrecorded {
	return in.Identity.Unrecorded(in.Spec.Name, in.Seen.Nodes)
}

// olderStore is the finding that the store was brought back from a copy that is older than the cluster; nil: nothing says so.
func olderStore(in *Input) *finding {
	if in.awaitsRestore() { // what it has on record is known to be a copy; a restore stops whatever is found
		return nil
	}
	lost := slices.DeleteFunc(in.unrecorded(), func(u cke.Unrecorded) bool { return !in.Identity.StoreIsOlder(u, in.Seen.Nodes) })
	var names, ids, moved []string
	node := ""
	for _, u := range lost {
		names, ids, node = append(names, u.Name+" on "+u.Node.Name()), append(ids, string(u.Join)), cmp.Or(node, u.Node.Name())
	}
	for _, e := range in.Seen.Etcd.Elsewhere {
		if in.Identity.Votes(e) && !slices.Contains(ids, string(e.Join)) {
			moved, ids = append(moved, fmt.Sprintf("member %s at %s", e.MemberID, e.URL)), append(ids, string(e.Join))
		}
	}
	var lacks []string
	remedy := "bring back a newer copy of the store, or put the memberships on record again: ckecli cluster reclaim " + in.Spec.Name
	on, why, try := lifeIsOver(in)
	if why != "" {
		lacks, ids, node, remedy = []string{why}, append(ids, in.Identity.Incarnation.ID), cmp.Or(node, on), try
	}
	ended := in.endedByMarks()
	for _, j := range ended {
		ids, node = append(ids, string(j.ID)), cmp.Or(node, j.Node.Name())
	}
	beside := slices.DeleteFunc(in.lacks(), func(l cke.Lacking) bool { return slices.Contains(ids, l.ID) })
	var has []string
	for _, l := range beside {
		ids, has = append(ids, l.ID), append(has, l.What)
	}
	if ids == nil {
		return nil
	}
	unseen := slices.ContainsFunc(beside, func(l cke.Lacking) bool { return !l.Ended })
	newest := "bring back a newer copy of the store; or store the newest cluster file, then: ckecli cluster reclaim " + in.Spec.Name
	if inc := in.Identity.Incarnation; slices.ContainsFunc(beside, func(l cke.Lacking) bool { return l.Restored }) {
		newest = "bring back a copy of the store from after that restore" // nothing can be reclaimed
	} else if inc != nil && inc.State == cke.Restoring && !in.Identity.Started() {
		newest = "bring back a newer copy of the store; or cancel the restore: ckecli restore --cancel; then store the newest cluster file, and: ckecli cluster reclaim " + in.Spec.Name
	}
	gone := fmt.Sprintf("; if all members that were added since and are not on record are gone for good: ckecli cluster unfreeze %s --reason TEXT", in.Spec.Name)
	if has != nil {
		lacks = append(lacks, "the identity beside the backups has "+and(has)+", which it does not have")
		switch {
		case on != "":
		case unseen:
			remedy = newest + gone
		case !in.Seen.Etcd.Quorate: // a reclaim needs a member list
			remedy = newest + "; if stopped members must be started first: ckecli cluster unfreeze " + in.Spec.Name + " --reason TEXT"
		default:
			remedy = newest
		}
	}
	if ended != nil {
		lacks = append(lacks, fmt.Sprintf("the membership of %s ended, according to marks on nodes", namesOf(ended)))
		if on == "" && in.unseenMembers() {
			remedy = newest + gone
		}
	}
	if names != nil {
		lacks = append(lacks, "it has no record of "+and(names))
	}
	if moved != nil {
		lacks = append(lacks, "it does not have "+and(moved))
	}
	return &finding{kind: cke.FreezeOlderStore, text: cke.OlderStore(ids), unrecorded: lost, ended: ended, beside: unseen, problem: cke.Problem{Code: cke.CodeOlderStore, Node: node,
		Message: "the store is older than the cluster: " + strings.Join(lacks, ", and "), Remedy: remedy}}
}

// lacks is what the identity beside the backups has and the store does not. A sealed deletion ends all of it. While a restore is
// prepared, ends are not found: it stops those members, too. Nor is what an operator had accepted when it started.
func (in *Input) lacks() []cke.Lacking {
	if in.Sealed {
		return nil
	}
	lacks := in.Identity.StillLacking(in.Backup)
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring {
		lacks = slices.DeleteFunc(lacks, func(l cke.Lacking) bool {
			return l.Ended || inc.Restore != nil && inc.Restore.Order.Accepts(l.ID)
		})
	}
	var ids []string
	for _, l := range lacks {
		ids = append(ids, l.ID)
	}
	if in.Identity.Incarnation != nil && in.Identity.Incarnation.State == cke.Restoring && in.Identity.BackedUp().Freeze.Tolerates(cke.OlderStore(ids)) {
		return nil
	}
	return lacks
}

// knowsLacks reports whether it is known what lacks returns, or there are no backups.
func (in *Input) knowsLacks() bool {
	return in.Spec.Backup.Target == "" || in.Backup != nil && in.Backup.Compared
}

// awaitsComparison reports whether what lacks has to become known first, for a while after a request and after the daemon began to lead.
// It is not awaited of a target that cannot be read. A restore also compares what lies in the target that it reads.
func (in *Input) awaitsComparison(asked time.Time) bool {
	inc, b := in.Identity.BackedUp().Incarnation, in.Backup
	if b != nil && b.Problem != nil && !b.Known || in.knowsLacks() || in.Sealed || inc == nil || inc.State != cke.Formed {
		return false
	}
	since := in.Seen.ObservedAt.Sub(asked) // by the clock of the host that noted it, which may be another one
	leads := in.Seen.ObservedAt.Sub(in.LeadsSince)
	soon := func(d time.Duration) bool { return !wasSetBack(d) && d < fencePatience }
	return soon(since) || soon(leads)
}

// endedByMarks are the memberships on record that ended according to marks. A sealed deletion ends all of them.
func (in *Input) endedByMarks() []cke.Join {
	if in.Sealed {
		return nil
	}
	return in.Identity.EndedByMarks(in.Seen.Nodes)
}

// keptOut reports whether a member is never started again: it was put aside, or its membership ended according to a mark.
func (in *Input) keptOut(j cke.Join) bool {
	return in.Identity.PutAside(j.ID) || hasJoin(in.endedByMarks(), j.ID)
}

// unseenMembers reports whether more memberships on record ended, according to marks, than others are seen that may have taken their place.
func (in *Input) unseenMembers() bool {
	seen := slices.DeleteFunc(in.unrecorded(), func(u cke.Unrecorded) bool {
		ended := slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Marks(u.Join) })
		return ended || !in.Identity.Incarnation.Life(u.Incarnation)
	})
	return len(in.endedByMarks()) > len(seen)
}

// replacedUnseen reports that unless an operator has judged it: what serves cannot be stopped, so there is no restore, and no deletion, beside it.
func replacedUnseen(in *Input) bool {
	f := olderStore(in)
	return f != nil && (f.ended != nil && in.unseenMembers() || f.beside) && !in.Identity.Freeze.Tolerates(f.text)
}

// removedByEtcd are voters by the newest member list that is known here, which may be the store's, whose etcd says that they were removed: the store may be
// older than the cluster, or cke was away, and others may serve. Nothing is frozen for it, since the list may be late. While a restore is under way, they
// are those of what it replaces.
func (in *Input) removedByEtcd() (joins []cke.Join) {
	seen, voters := in.Seen.Etcd.List(), in.voters
	if inc := in.Identity.Incarnation; inc != nil && inc.State == cke.Restoring && !in.Identity.Started() && !inc.OnlyCopied() {
		seen, voters = in.Seen.Etcd.Former, in.votersBefore
	} else if !in.Formed() {
		return nil
	}
	if seen.Source == cke.MembersLinearizable {
		return nil
	}
	for _, j := range voters() {
		if c, there := in.node(j.Node).Of(j.ID); there && c.SaysRemoved() {
			joins = append(joins, j)
		}
	}
	return joins
}

// votersBefore are the members that a restore under way replaces and that vote by their newest lists.
func (in *Input) votersBefore() []cke.Join {
	list := cke.MembersIn(in.formerLists())
	return slices.DeleteFunc(in.Identity.Superseded(), func(j cke.Join) bool { return !in.hasVoter(list, j) })
}

// removedUnnamed is removedByEtcd without those that an operator calls destroyed, by their nodes or, where these carry others, by their ids.
func (in *Input) removedUnnamed(named []string) []cke.Join {
	return slices.DeleteFunc(in.removedByEtcd(), func(j cke.Join) bool {
		return slices.Contains(named, j.Node.Name()) || slices.Contains(named, j.MemberID)
	})
}

// removedUnless is the problem of removedUnnamed, which a command ends that names them; nil: there are none.
func (in *Input) removedUnless(named []string, command string) *cke.Problem {
	joins := in.removedUnnamed(named)
	if len(joins) == 0 {
		return nil
	}
	return &cke.Problem{Code: cke.CodeOlderStore, Node: joins[0].Node.Name(),
		Message: fmt.Sprintf("etcd says that the member of %s was removed from the cluster, and the newest member list that is known here has it: other members may serve", namesOf(joins)),
		Remedy:  fmt.Sprintf("if no other member serves: %s %s", command, flagsByID(joins))}
}

// flagsByID names members as destroyed whose nodes may carry others.
func flagsByID(joins []cke.Join) string {
	ids := make([]string, len(joins))
	for i, j := range joins {
		ids[i] = cmp.Or(j.MemberID, j.Node.Name())
	}
	return flags(ids)
}

// removedProblem reports, where no list is read through a member on record, members that vote and are not, or removedByEtcd; nil: there are none.
func removedProblem(in *Input) *cke.Problem {
	serves := func(e cke.Elsewhere) bool { return e.Source == cke.MembersLinearizable && in.Identity.Votes(e) }
	if in.Formed() && in.Seen.Etcd.MembersSource != cke.MembersLinearizable && slices.ContainsFunc(in.Seen.Etcd.Elsewhere, serves) {
		return &cke.Problem{Code: cke.CodeOlderStore, Message: "no member on record serves, and members that are not on record vote: the store is older than the cluster",
			Remedy: "bring back a newer copy of the store, or put the memberships on record again: ckecli cluster reclaim " + in.Spec.Name}
	}
	joins := in.removedByEtcd()
	if joins == nil {
		return nil
	}
	return &cke.Problem{Code: cke.CodeOlderStore, Node: joins[0].Node.Name(),
		Message: fmt.Sprintf("etcd says that the member of %s was removed from the cluster, and the newest member list that is known here has it: the store may be older than the cluster, and other members may serve", namesOf(joins)),
		Remedy:  fmt.Sprintf("bring back a newer copy of the store; or store the newest cluster file, then: ckecli cluster reclaim %s; if no other member serves: ckecli restore with %s", in.Spec.Name, flagsByID(joins))}
}

// lifeIsOver is how it is known that the incarnation on record is over, on which node, and what to do; "": nothing says so.
func lifeIsOver(in *Input) (on, why, try string) {
	marked := in.Identity.IsOver(in.Seen.Nodes)
	if marked == nil || in.Sealed {
		return "", "", ""
	}
	inc, names := in.Identity.Incarnation, make([]string, len(marked))
	for i, n := range marked {
		names[i] = n.Name()
	}
	if inc.State == cke.Restoring && !in.Identity.Started() {
		return names[0], fmt.Sprintf("restore %s was canceled, or another one replaced it, according to marks on %s", inc.ID, and(names)), "bring back a newer copy of the store; if there is none: ckecli restore --cancel"
	}
	return names[0], fmt.Sprintf("a restore replaced incarnation %s, or the cluster was deleted, according to marks on %s", inc.ID, and(names)), "bring back a copy of the store from after that; if what came after it is gone for good: ckecli cluster unfreeze " + in.Spec.Name + " --reason TEXT"
}

// unrecordedProblems report containers and volumes of this cluster's name that are not on record: of another store's cluster of the same
// name, or of a cluster that was deleted. Those that show that the store is older than the cluster are reported with that, and once an
// operator has accepted it, here: they may have the data.
func unrecordedProblems(in *Input) []cke.Problem {
	var all []cke.Problem
	f := olderStore(in)
	accepted := f != nil && !in.Identity.Freeze.Active() && in.Identity.Freeze.Tolerates(f.text)
	for _, u := range in.unrecorded() {
		p := unrecordedProblem(u)
		if in.Identity.StoreIsOlder(u, in.Seen.Nodes) {
			if !accepted {
				continue
			}
			p.Remedy = "to put its membership on record again: ckecli cluster reclaim " + in.Spec.Name + "; " + p.Remedy
		}
		all = append(all, p)
	}
	return append(all, strayVolumes(in)...)
}

// strayVolumes report volumes of incarnations that a restore replaced, of memberships that the store never had, since it was older than them then:
// they are kept as those on record are, and no time is set for them.
func strayVolumes(in *Input) (all []cke.Problem) {
	for _, n := range in.Seen.Nodes {
		for _, v := range n.Volumes {
			used := slices.ContainsFunc(n.Containers, func(c cke.Container) bool { return c.Name == v.Name && isStray(in, c) }) // until that is stopped
			if n.Answered() && v.Cluster == in.Spec.Name && !used && !in.Identity.Has(v.Join) && in.Identity.Incarnation.WasReplaced(v.Incarnation) {
				all = append(all, unrecordedProblem(cke.Unrecorded{Node: n.Node, Name: v.Name, Volume: true}))
			}
		}
	}
	return all
}

func unrecordedProblem(u cke.Unrecorded) cke.Problem {
	p := cke.Problem{Code: cke.CodeNotOnRecord, Node: u.Node.Name()}
	if u.Container == nil {
		p.Message = fmt.Sprintf("volume %s carries this cluster's name and is not on record", u.Name)
		p.Remedy = "if its data is not needed: ckecli volume purge " + u.Name
		return p
	}
	p.Message = fmt.Sprintf("container %s (%s) carries this cluster's name and is not on record: a cluster of the same name in another store may own it", u.Name, u.Container.State)
	p.Remedy = fmt.Sprintf("remove the node from the cluster file; or, if the container is not needed, on %s: docker update --restart=no %s && docker stop %s && docker rm %s", u.Node.Address, u.Name, u.Name, u.Name)
	return p
}

// unrecordedOn are the containers on a node that are not on record. No member is added beside them.
func unrecordedOn(in *Input, n cke.Node) []cke.Problem {
	var found []cke.Problem
	for _, u := range in.unrecorded() {
		if u.Container != nil && u.Node.Address == n.Address {
			found = append(found, unrecordedProblem(u))
		}
	}
	return found
}

// mayServe are containers that are not on record and run, or may be started by their engines.
func (in *Input) mayServe() []cke.Unrecorded {
	return slices.DeleteFunc(in.unrecorded(), func(u cke.Unrecorded) bool { return u.Container == nil || u.Container.Down() })
}

// elsewhere are containers of memberships on record whose members vote where they are not on record.
func (in *Input) elsewhere() (all []cke.Unrecorded) {
	for _, e := range in.Seen.Etcd.Elsewhere {
		for _, n := range in.Seen.Nodes {
			if c, there := n.Of(e.Join); there && c.Place == e.Place && in.Identity.Has(e.Join) && in.Identity.Votes(e) {
				all = append(all, cke.Unrecorded{Node: n.Node, Name: c.Name, Incarnation: c.Incarnation, Join: e.Join, Container: &c})
			}
		}
	}
	return all
}

// newlyOlder reports whether the store is found to be older than the cluster, and that, or a part of what shows it, is not on record
// yet: requests wait until it is, since what the store has of them may be older, too.
func newlyOlder(in *Input) bool {
	f, was := olderStore(in), in.Identity.Freeze
	return f != nil && !was.Tolerates(f.text) && (!was.Active() || was.MakesWay(f.kind, f.text))
}

// hold takes the requests out that were in a store when it was found to be older than the cluster, and reports them. A reboot or a repair
// that is under way stays: what its command does has a lease until it is canceled, and at its end.
func (in *Input) hold() {
	f, name := in.Identity.Freeze, in.Spec.Name
	var what, remedies []string
	if f.HoldsDeletion(in.DeletionAt) {
		in.Deleting = false
		what, remedies = append(what, "a deletion"), append(remedies, fmt.Sprintf("ckecli cluster delete %s --cancel", name))
	}
	if f.HoldsHibernation(in.Requests.Hibernation) {
		in.Requests.Hibernation = nil
		what, remedies = append(what, "a hibernation"), append(remedies, "ckecli cluster resume "+name)
	}
	if what != nil {
		in.outdated = []cke.Problem{{Code: cke.CodeOlderStore, Message: and(what) + " was requested in the store when it was found to be older than the cluster: that may have been withdrawn since, and is not carried out",
			Remedy: strings.Join(remedies, "; ") + "; then request again what is still needed"}}
	}
	for _, k := range cke.QueueKinds() {
		q, held := in.Requests.Queue(k), 0
		q.Entries = slices.DeleteFunc(slices.Clone(q.Entries), func(r cke.Entry) bool {
			if f.HoldsQueued(r) && !r.Canceled {
				held++
			}
			return f.HoldsQueued(r) && !r.Active()
		})
		if held > 0 {
			in.heldQueued = append(in.heldQueued, cke.Problem{Code: cke.CodeOlderStore, Message: fmt.Sprintf("%s in the store when it was found to be older than the cluster: that may be done, and is not carried out", cke.Plural(held, string(k)+" was", string(k)+"s were")),
				Remedy: k.Command() + " cancel --all; then add again the nodes that still need it"})
		}
	}
}

// reclaimAnswer answers an order to reclaim, if there is one, where no other task is answered.
func reclaimAnswer(in *Input) verdict {
	for _, t := range in.Requests.Tasks {
		if t.Kind == cke.TaskReclaim {
			d := ask(in, t)
			d.Task = t.ID
			return decides(d)
		}
	}
	return pass()
}

// reclaimAsked: an operator wants memberships on record again that the store lost. Nothing but what was shown is; what was shown to end
// may have ended meanwhile.
func reclaimAsked(in *Input, t cke.Task) Decision {
	r, why := cke.PlanReclaim(in.Spec, in.Identity, in.Seen, in.Backup)
	if why != nil {
		return refuse(t, why)
	}
	o := op.Reclaim{Task: t, Reclaim: r}
	if f := in.Identity.Freeze; f.Active() && f.Kind == cke.FreezeOlderStore {
		o.Freeze = f.ID
	}
	ids := r.IDs()
	if f := olderStore(in); f != nil && len(ids)+len(r.Ends)+len(r.Apart) == 0 {
		way := "if the member that is named was removed on purpose, stop its container on its node first"
		if f.beside {
			way = f.problem.Remedy
		}
		return refuse(t, &cke.Error{Code: cke.CodeOlderStore, What: "there is nothing to put on record, and " + f.problem.Message, Unchanged: true,
			Facts: []string{way}, Try: "ckecli cluster evidence " + in.Spec.Name})
	}
	switch shown := slices.Sorted(slices.Values(t.Reclaim)); {
	case len(ids) == 0 && o.Freeze == "":
		return Decision{Operation: op.Settled{Task: t}, Reason: askedFor(t, "every membership is on record")}
	case len(ids) > 0 && !slices.Equal(ids, shown), t.ReclaimChanges != nil && slices.ContainsFunc(r.Changes(), notIn(t.ReclaimChanges)):
		return refuse(t, &cke.Error{Code: cke.CodeConflict, What: "the memberships to put on record are no longer those that were shown", Unchanged: true, Try: "ckecli cluster reclaim " + in.Spec.Name})
	}
	return Decision{Operation: o, Reason: askedFor(t, fmt.Sprintf("%s put on record again", cke.Plural(len(ids), "membership is", "memberships are")))}
}

func notIn(shown []cke.JoinID) func(cke.JoinID) bool {
	return func(id cke.JoinID) bool { return !slices.Contains(shown, id) }
}
