package strategy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// restoreAsked: an operator wants the cluster put back to another state, or a restore called off. It was confirmed, so it
// goes before all that would keep the cluster as it is, but for a pause. While its refusal is held back,
// the rules below decide: they start members that a canceled restore stopped.
func restoreAsked(in *Input) verdict {
	for _, t := range in.Requests.Tasks {
		// A cancellation stops nothing but what nobody may run, and does not wait for the end of a pause.
		if t.Kind != cke.TaskCancelRestore && (t.Kind != cke.TaskRestore || in.held() && !in.Requests.CallsRestoreOff()) {
			continue
		}
		if newlyOlder(in) {
			return pass()
		}
		var d Decision
		switch {
		case in.Identity.Freeze.HoldsTask(t):
			d = refuse(t, &cke.Error{Code: cke.CodeOlderStore, What: "it was in the store when the store was found to be older than the cluster, and may have been withdrawn since", Unchanged: true, Try: "request it again"})
		case t.Kind == cke.TaskCancelRestore:
			d = cancelRestore(in, t)
		case t.Kind == cke.TaskRestore && t.Restore != nil:
			d = beginRestore(in, t)
		default:
			continue
		}
		if in.Seen.Partial {
			return lookInFull(in) // whether the cluster serves, and at which revision, is known to members only
		}
		if t.Kind == cke.TaskRestore {
			if o, stopped := writesStopped(in); stopped && due(in, o) {
				return act(o, "a restore was interrupted while writes are stopped; clients can write until another one stops writes")
			}
		}
		if _, refused := d.Operation.(op.Refuse); refused && in.Formed() && !due(in, d.Operation) {
			return pass()
		}
		if f := in.Identity.Freeze; f.Active() {
			d.Frozen = &f.Problem // until it begins
		}
		d.Task = t.ID
		return decides(d)
	}
	return pass()
}

// fencePatience is how long an order waits for nodes that do not answer before it is refused: an engine may be busy for a
// moment, and the nodes of a cluster that was just declared have not been observed.
const fencePatience = 30 * time.Second

func beginRestore(in *Input, t cke.Task) Decision {
	in = in.toRestore()
	for i := in.Identity.Incarnation; i != nil && i.Restore != nil; i = i.Restore.Before { // another order may have taken its place since
		if i.Restore.ID == t.ID {
			return Decision{Operation: op.Settled{Task: t}, Reason: "the restore is on record"}
		}
	}
	if in.Requests.CallsRestoreOff() {
		return refuse(t, &cke.Error{Code: cke.CodeCannot, What: "the restore was canceled before it started", Unchanged: true})
	}
	if why := outdatedOrder(in, t); why != nil {
		return refuse(t, why)
	}
	if why := fromLater(in, t); why != nil {
		return refuse(t, why)
	}
	o := *t.Restore
	if o.ShownGeneration > in.Generation { // it was stored after the cluster file was read
		return Decision{Reason: fmt.Sprintf("the %s was confirmed for revision %d of the cluster file, which is read again", o.Kind(), o.ShownGeneration), Again: time.Second}
	}
	founders := restoredTo(in, o)
	since := in.Seen.ObservedAt.Sub(t.At) // by the clock of the host that it was asked on, which may be another one
	if why := unfenceable(in, o); why != nil && !wasSetBack(since) && since < fencePatience {
		return Decision{Reason: fmt.Sprintf("%s; %s", why.What, why.Facts[0]), Again: time.Second}
	}
	if in.awaitsComparison(t.At) {
		return Decision{Reason: "the restore waits until what lies beside the backups was compared with the store", Again: time.Second}
	}
	if why := unread(in); o.Stored && why != "" && !longUnread(in) {
		return Decision{Reason: "the restore waits for its backups: " + why, Again: time.Second}
	}
	if why := refusalOf(in, o, founders); why != nil {
		return refuse(t, why)
	}
	b := op.BeginRestore{Task: t, Spec: in.Spec, Founders: founders, Known: knownRevision(in), Members: in.lastLists()[0], Serving: in.serves()}
	if in.awaitsRestore() && o.Source == in.Spec.Name { // what its former store knew of it since the copy beside the backups is gone
		for _, u := range in.unrecorded() {
			switch life := u.Incarnation; {
			case slices.Contains(slices.Concat(b.Precede, b.Replaces), life):
			case in.precedes(life):
				b.Precede = append(b.Precede, life)
			default:
				b.Replaces = append(b.Replaces, life)
			}
		}
	}
	if o.Survivor != "" {
		b.Fence = toFence(in, nil)
		survives := func(j cke.Join) bool { // what the others acknowledge until then, it may have; it is named as it is on record
			return slices.ContainsFunc(in.Identity.Joins, func(r cke.Join) bool { return r.ID == j.ID && r.Node.Name() == o.Survivor })
		}
		last := slices.DeleteFunc(slices.Clone(b.Fence), func(j cke.Join) bool { return !survives(j) })
		b.Fence = append(slices.DeleteFunc(b.Fence, survives), last...)
	}
	b.Gone = gone(in, o, b.Fence)
	return Decision{Operation: b, Reason: askedFor(t, "the cluster is to continue from "+o.Describe())}
}

// RestoreRefusal returns why an order to restore is refused in the cluster's present state; nil: it is not. The leader uses it,
// and the plan that an operator confirms.
func RestoreRefusal(in Input, o cke.RestoreOrder) *cke.Error {
	in.noteStarts()
	restoring := in.toRestore()
	return refusalOf(restoring, o, restoredTo(restoring, o))
}

func refusalOf(in *Input, o cke.RestoreOrder, founders []cke.Node) *cke.Error {
	for _, why := range []*cke.Error{besideOld(in, o), heldRequests(in), wrongClock(in), laterThan(in, o), endedSince(in, o), wouldServeOn(in, o), removedBefore(in, o), unknownNodes(in, o), ambiguous(in, o), misnamedNodes(in, o), volumesElsewhere(in, o), noFounders(in, founders), stillThere(in, o), unfenceable(in, o), couldServe(in, o), notFree(in, founders), noSurvivor(in, o), notStorable(in, o)} {
		if why != nil {
			why.Unchanged = true
			return why
		}
	}
	return nil
}

// restoredTo are the nodes that get a member.
func restoredTo(in *Input, o cke.RestoreOrder) []cke.Node {
	return slices.DeleteFunc(foundersOf(in.Spec), func(n cke.Node) bool { return o.Excuses(n.Name()) })
}

// NotStorable returns why what clients write until a restore of this order stops the members cannot be stored in the backups;
// "": it can.
func NotStorable(in *Input, o cke.RestoreOrder) string {
	switch b := in.Backup; {
	case in.Spec.Backup.Target == "":
		return "the cluster file declares no backup target"
	case !in.serves():
		return "the cluster has no quorum"
	case b != nil && b.Idle != "":
		return b.Idle
	case b != nil && b.Problem != nil:
		return b.Problem.Message
	}
	if why := cke.NoWriteStop(in.Identity.Joins, o, in.reply); why != "" {
		return why
	}
	return unread(in)
}

// serves reports whether the cluster has its quorum. While a restore prepares its members their endpoints are asked, and the members before
// serve: their backups say so.
func (in *Input) serves() bool {
	inc, b := in.Identity.Incarnation, in.Backup
	prepares := inc != nil && inc.State == cke.Restoring && !in.Identity.Started()
	return in.Seen.Etcd.Quorate || prepares && b != nil && b.Known && b.Connected && b.Problem == nil
}

// unread is what a daemon that has just started to lead does not know of its backups yet; "": it knows how they stand.
func unread(in *Input) string {
	switch b := in.Backup; {
	case in.Spec.Backup.Target == "" || b != nil && (b.Idle != "" || b.Problem != nil):
		return ""
	case b == nil || !b.Known:
		return "the target has not been read yet"
	case !b.Connected:
		return "changes are missing after the newest full backup"
	}
	return ""
}

// longUnread reports whether that has been so for longer than a daemon needs to read a target, and to receive what is missing.
func longUnread(in *Input) bool {
	c, told := in.Before.Condition(cke.CondBackupReady)
	if !told || c.Status == cke.True {
		return false
	}
	since := in.Seen.ObservedAt.Sub(c.Since)
	return since >= fencePatience || wasSetBack(since)
}

// notStorable: the operator was told something else.
func notStorable(in *Input, o cke.RestoreOrder) *cke.Error {
	if why := NotStorable(in, o); o.Stored && why != "" {
		return cke.NotStored(why)
	}
	return nil
}

// heldRequests: a restore ends the freeze, with which requests of an older store are held.
func heldRequests(in *Input) *cke.Error {
	held := slices.Concat(in.outdated, in.heldQueued)
	if held == nil {
		return nil
	}
	e := &cke.Error{Code: cke.CodeOlderStore, What: "cannot restore while requests of an older store are held"}
	var ways []string
	for _, p := range held {
		e.Facts, ways = append(e.Facts, p.Message), append(ways, p.Remedy)
	}
	e.Try = strings.Join(ways, "; ")
	return e
}

// wrongClock: certificates would be issued for another time than they are needed. An order that waited for somebody to set
// a clock would keep everything else waiting.
func wrongClock(in *Input) *cke.Error {
	c := ClocksIn(in.Seen)
	if !c.wrong() {
		return nil
	}
	p := c.problems()[0]
	return &cke.Error{Code: cke.CodeClock, What: "cannot restore: " + c.Why(), Facts: []string{p.Remedy}}
}

// wouldServeOn: members that are not on record are not stopped, and would serve beside the restored ones. A cluster that was
// declared to be restored has no record of its own: an order for its own backups puts the incarnations that are found on
// record as replaced. The data of another cluster does not continue them.
func wouldServeOn(in *Input, o cke.RestoreOrder) *cke.Error {
	if in.awaitsRestore() {
		if o.Source == in.Spec.Name {
			return nil
		}
		return wouldServeBeside(in)
	}
	if _, why, try := lifeIsOver(in); why != "" && !in.Identity.Freeze.Tolerates(olderStore(in).text) {
		return &cke.Error{Code: cke.CodeOlderStore, What: "cannot restore: the store is older than the cluster: " + why, Unchanged: true, Try: try}
	}
	if replacedUnseen(in) {
		p := olderStore(in).problem
		return &cke.Error{Code: cke.CodeOlderStore, What: "cannot restore: " + p.Message, Unchanged: true, Try: p.Remedy}
	}
	if in.Identity.VotesElsewhere(in.Seen.Etcd) {
		return &cke.Error{Code: cke.CodeOlderStore, What: "cannot restore: " + olderStore(in).problem.Message, Unchanged: true, Try: "ckecli cluster reclaim " + in.Spec.Name}
	}
	return wouldServeBeside(in)
}

// wouldServeBeside: containers that are not on record run, or may be started.
func wouldServeBeside(in *Input) *cke.Error {
	on := in.mayServe()
	if len(on) == 0 {
		return nil
	}
	e := &cke.Error{Code: cke.CodeNotOnRecord, What: "cannot restore: containers that are not on record could serve beside the restored members", Try: "ckecli status"}
	for _, u := range on {
		p := unrecordedProblem(u)
		e.Facts = append(e.Facts, p.Node+": "+p.Message, p.Remedy)
	}
	return e
}

// removedBefore: members were removed since the newest list that is known here, and those that took their place may serve.
func removedBefore(in *Input, o cke.RestoreOrder) *cke.Error {
	p := removedProblem(in)
	if p == nil || len(in.removedUnnamed(o.Destroyed)) == 0 {
		return nil
	}
	return &cke.Error{Code: p.Code, What: "cannot restore: " + p.Message, Unchanged: true, Try: p.Remedy}
}

// unknownNodes: an order that names nodes which nobody knows is not understood.
func unknownNodes(in *Input, o cke.RestoreOrder) *cke.Error {
	for _, name := range slices.Concat(o.Without, o.Destroyed) {
		_, declared := in.Spec.Node(name)
		stranger := slices.ContainsFunc(slices.Concat(in.allListed(), cke.MembersIn(in.copiedLists())), func(m cke.Member) bool { return nameOf(m) == name || m.ID == name })
		old := slices.ContainsFunc(in.oldMembers(), func(m cke.OldMember) bool { return m.Name == name || m.ID == name })
		if !declared && !stranger && !old && !slices.ContainsFunc(in.Identity.MayRun(), func(j cke.Join) bool { return j.Node.Name() == name }) {
			return &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("cluster %s has no node %s", in.Spec.Name, name), Try: "ckecli node list"}
		}
	}
	return nil
}

// misnamedNodes: an order that names a node by a name that may mean another machine is not carried out: which one is gone, or has the
// data, is what matters.
func misnamedNodes(in *Input, o cke.RestoreOrder) *cke.Error {
	for _, name := range append(slices.Concat(o.Without, o.Destroyed), o.Survivor) {
		if p := in.misnamed(name); p != nil {
			return notCertain(name, p)
		}
	}
	return nil
}

// volumesElsewhere: without a quorum a restore gives up what backups do not have, and machines that only exchanged their addresses have it.
func volumesElsewhere(in *Input, o cke.RestoreOrder) *cke.Error {
	if !in.Formed() || o.Survivor != "" || in.Seen.Etcd.Quorate || !in.exchanged() {
		return nil
	}
	e := &cke.Error{Code: cke.CodeMisnamed, What: "cannot restore: volumes of members are on other machines than those on record, and nothing shows that their data is lost", Try: "ckecli status"}
	for _, p := range in.allMisnamed() {
		e.Facts = append(e.Facts, p.Node+": "+p.Message, p.Remedy)
	}
	return e
}

func noFounders(in *Input, founders []cke.Node) *cke.Error {
	if len(founders) > 0 {
		return nil
	}
	return &cke.Error{Code: cke.CodeConfig, What: "no control-plane node is left to restore to",
		Facts: []string{cke.Plural(len(in.Spec.ControlPlane()), "is declared", "are declared")}, Try: "declare control-plane nodes that are not left out, and: ckecli cluster set FILE"}
}

// unfenceable: a node that does not answer may continue running the cluster as it was.
func unfenceable(in *Input, o cke.RestoreOrder) *cke.Error {
	var silent []string
	e := &cke.Error{Code: cke.CodeFence}
	look := func(n cke.Node, what string) {
		s := in.node(n)
		if s.Answered() || o.Excuses(n.Name()) || slices.Contains(silent, n.Name()) {
			return
		}
		silent = append(silent, n.Name())
		e.Facts = append(e.Facts, fmt.Sprintf("%s: %s; %s", n.Name(), s.Problem.Message, what))
	}
	for _, j := range in.Identity.MayRun() {
		look(j.Node, "it may run a member of the cluster as it was")
	}
	for _, n := range in.Spec.ControlPlane() {
		look(n, "it is to get a member")
	}
	if in.awaitsRestore() && o.Source != in.Spec.Name { // other data does not continue what may serve, and a bootstrap waits for them, too
		for _, n := range in.Spec.Nodes {
			look(n, "it may carry a member of a cluster of this name")
		}
	}
	if silent == nil {
		return nil
	}
	e.What = "cannot restore: " + and(silent) + " cannot be reached"
	e.Facts = append(e.Facts, "bring it back, or leave it out with --without NODE; --destroyed NODE if the machine is gone for good")
	return e
}

// notFree: a bootstrap member's node carries an etcd that cke did not make, or its ports are taken.
func notFree(in *Input, founders []cke.Node) *cke.Error {
	var found []cke.Problem
	for _, n := range founders {
		s := in.node(n)
		found = append(found, foreign(s, "")...)
		ours := slices.ContainsFunc(s.Containers, func(c cke.Container) bool { return c.Cluster == in.Spec.Name && c.Running() })
		if p := s.PortTaken(in.Spec.Options.Etcd.ClientPort, in.Spec.Options.Etcd.PeerPort); p != nil {
			found = append(found, *p)
		} else if !ours {
			found = append(found, takenPorts(in, s)...)
		}
	}
	if found == nil {
		return nil
	}
	e := &cke.Error{Code: found[0].Code, What: "cannot restore to " + nodesOf(found)}
	for _, p := range found {
		e.Facts = append(e.Facts, p.Node+": "+p.Message, p.Remedy)
	}
	return e
}

// noSurvivor: a recovery continues from the data of a member, and only once the quorum is lost.
func noSurvivor(in *Input, o cke.RestoreOrder) *cke.Error {
	switch {
	case o.Survivor == "" && o.Target == "":
		return &cke.Error{Code: cke.CodeConfig, What: "the order to restore names neither backups nor a survivor"}
	case o.Survivor == "":
		return nil
	case !in.Formed():
		return &cke.Error{Code: cke.CodeUnformed, What: fmt.Sprintf("cluster %s is not formed", in.Spec.Name)}
	case in.Requests.Hibernation != nil:
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s is hibernated, so it is not known whether it has lost its quorum", in.Spec.Name), Try: "ckecli cluster resume " + in.Spec.Name}
	case in.Seen.Etcd.Quorate:
		return NeedsNoRecovery(in.Spec.Name, in.Identity, o)
	}
	for _, j := range in.Identity.Joins {
		if j.Node.Name() != o.Survivor {
			continue
		}
		if p := dataProblem(in, j); p != nil {
			return &cke.Error{Code: p.Code, What: "cannot recover from " + o.Survivor, Facts: []string{p.Message}}
		}
		if _, there := in.node(in.carrier(j).Node).VolumeOf(j); !there && in.volumeElsewhere(j) { // no container shows how to read it
			return &cke.Error{Code: cke.CodeMisnamed, What: "cannot recover from " + o.Survivor, Facts: []string{"its volume is on another machine, without its container"}, Try: "ckecli status"}
		}
		if cke.Ends(in.lacks(), j.ID) && !in.Identity.Freeze.Tolerates(olderStore(in).text) {
			return &cke.Error{Code: cke.CodeOlderStore, What: "cannot recover from " + o.Survivor, Facts: []string{"its membership ended, according to the identity beside the backups: the others continued without it"}, Try: "ckecli cluster evidence"}
		}
		e, _ := in.Seen.Etcd.Endpoint(j.ID)
		if e.Join = j.ID; in.Identity.OfAnother(e) && !o.Named {
			return &cke.Error{Code: cke.CodeSplitBrain, What: "cannot recover from " + o.Survivor + " unless it is named", Facts: []string{in.Identity.NotOurs(e)}, Try: "ckecli recover --from " + o.Survivor}
		}
		return nil
	}
	return &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("no member of %s is on %q", in.Spec.Name, o.Survivor), Try: "ckecli etcd members"}
}

// knownRevision is the highest one that any member told, now or when it was last seen, or was ever seen to serve.
func knownRevision(in *Input) int64 {
	known := int64(0)
	if r := in.Before.Reached; r != nil {
		known = r.Revision
	}
	for _, e := range slices.Concat(in.Seen.Etcd.Endpoints, in.Before.Etcd.Endpoints) {
		known = max(known, e.Revision)
	}
	return known
}
