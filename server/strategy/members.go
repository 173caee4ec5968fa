package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
	"cke/quorum"
)

// startStopped: a member's container is stopped or missing while its node answers and its volume is there. Starting
// members on their own data is right with a quorum and without one, so nothing is waited for; all are started at once,
// since after the loss of a quorum they would wait for each other.
func startStopped(in *Input) verdict {
	stopped := startable(in)
	if !in.Formed() || len(stopped) == 0 {
		return pass()
	}
	running, need := RunningMembers(in), quorum.Of(len(in.Identity.Joins))
	reason := namesOf(stopped) + " stopped; " + whatIsLeft(in, stopped)
	if running < need && !in.quorumUnknown() {
		reason = fmt.Sprintf("quorum is lost, %d of %d members run and %s: %s", running, len(in.Identity.Joins), needed(need), reason)
	}
	return act(op.StartMembers{Joins: stopped, AwaitServing: running+len(stopped) >= need}, reason)
}

// whatIsLeft says what was seen of the data of members that are stopped.
func whatIsLeft(in *Input, stopped []cke.Join) string {
	for _, j := range stopped {
		if c, _ := in.node(j.Node).Of(j.ID); c.Data != cke.DataPresent {
			return "the volume is there"
		}
	}
	return "the data is there"
}

// putAside: a member that was put aside runs, or its engine would start it: as after a reboot of its node. It is stopped whichever members it
// serves with, and whether they can do without it or not: see op.StopApart.
func putAside(in *Input) verdict {
	for _, j := range in.Identity.Joins {
		if !in.Formed() || !in.Identity.PutAside(j.ID) {
			continue
		}
		c, there := in.node(j.Node).Of(j.ID)
		if !in.node(j.Node).Answered() || !there || !c.Running() && c.KeptDown {
			continue
		}
		return act(op.StopApart{Join: in.reached(j)}, fmt.Sprintf("the member of %s has the wrong data, and was put aside", j.Node.Name()))
	}
	for _, j := range in.Identity.Unmarked(in.Seen.Nodes) { // a mark needs no quorum, and no member list
		if in.Identity.PutAside(j.ID) {
			return markIt(in, j)
		}
	}
	return pass()
}

// keptDown: a voter runs, and its engine would not start it after a crash or a reboot. A stop of cke that was not
// finished leaves it so, and nobody would notice before the power fails. An engine that does what it is asked now has done, or
// never had, what it was asked for before.
func keptDown(in *Input) verdict {
	if !in.Formed() {
		return pass()
	}
	var joins []cke.Join
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		c, there := n.Of(j.ID)
		m, listed := in.listed(j)
		if n.Answered() && there && c.Running() && (c.KeptDown && !c.StartsEmpty || j.Stopping) && listed && !m.Learner && !in.keptOut(j) && in.drained(j.Node) == nil {
			joins = append(joins, in.reached(j))
		}
	}
	if joins == nil {
		return pass()
	}
	return act(op.KeepRunning{Joins: joins}, namesOf(joins)+" would stay down after a crash: a stop was started, or the engine's own restarts are off")
}

func namesOf(joins []cke.Join) string {
	var names []string
	for _, j := range joins {
		names = append(names, j.Node.Name())
	}
	return and(names)
}

// RunningMembers counts members whose container is seen running.
func RunningMembers(in *Input) int { return running(in, in.Identity.Joins) }

// voters are the memberships that voted when a member told last.
func (in *Input) voters() []cke.Join {
	list := in.lastList()
	return slices.DeleteFunc(slices.Clone(in.Identity.Joins), func(j cke.Join) bool { return !in.votesBy(list, j) })
}

func running(in *Input, joins []cke.Join) int {
	running := 0
	for _, j := range joins {
		n := in.node(j.Node)
		if c, there := n.Of(j.ID); there && n.Answered() && c.Running() {
			running++
		}
	}
	return running
}

// withoutQuorum: the cluster was formed, no linearizable read succeeds, and no member can be started. Nothing is
// changed: a second cluster would be the worst outcome.
func withoutQuorum(in *Input) verdict {
	if !in.Formed() || in.Seen.Etcd.Quorate {
		return pass()
	}
	if p := allBlank(in); p != nil {
		return wait(p.Message, *p)
	}
	var blockers []cke.Problem
	for _, j := range in.Identity.Joins {
		if p := memberProblem(in, j); p != nil {
			blockers = append(blockers, *p)
		}
	}
	if blockers == nil {
		return wait("members are electing a leader")
	}
	n := in.votes()
	reason := fmt.Sprintf("no quorum: %d of %d members run, %s; waiting for %s", running(in, in.voters()), n, needed(quorum.Of(n)), nodesOf(blockers))
	if in.quorumUnknown() {
		reason = unseenSentence(in)
	}
	if unknown := unknownVoters(in); unknown != nil {
		reason += ", and etcd lists foreign members: " + strings.Join(unknown, ", ")
	}
	if p := quorumProblem(in); p != nil {
		reason += "; " + p.Remedy
	}
	return wait(reason, blockers...)
}

func needed(n int) string { return cke.Plural(n, "is needed", "are needed") }

// allBlank: every member's node answers and no node holds anything of the cluster, on record or not.
func allBlank(in *Input) *cke.Problem {
	lost := slices.ContainsFunc(in.unrecorded(), func(u cke.Unrecorded) bool { return in.Identity.Incarnation.Life(u.Incarnation) })
	somewhere := func(j cke.Join) bool { return in.mayHold(j) || in.volumeElsewhere(j) }
	if lost || slices.ContainsFunc(in.Identity.Joins, somewhere) {
		return nil
	}
	return &cke.Problem{Code: cke.CodeBlankNodes,
		Message: "the cluster was formed, but no node holds any of its data; a second cluster is never bootstrapped under its name",
		Remedy:  fmt.Sprintf("bring the disks back, or restore from a backup: ckecli restore; if there is neither, and an empty cluster is acceptable: ckecli cluster delete %s, then ckecli cluster set FILE", in.Spec.Name)}
}

// startable returns the members whose node answers, whose container does not run, and whose volume is there and not
// known to be empty.
func startable(in *Input) []cke.Join {
	var joins []cke.Join
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		if !n.Answered() {
			continue
		}
		_, volume := n.VolumeOf(j)
		c, there := n.Of(j.ID)
		_, listed := in.listed(j)
		switch {
		case j.StartedAt.IsZero(): // adding it continues
		case in.drained(j.Node) != nil, in.keptOut(j):
		case in.Seen.Etcd.MembersSource == cke.MembersLinearizable && !listed: // no member any more
		case !volume, c.Data == cke.DataMissing:
		case there && (c.Running() || c.State == cke.ContainerRestarting): // the engine's own restart is not raced
		default:
			joins = append(joins, in.reached(j))
		}
	}
	return joins
}

// dataProblem is set when the node answers and the member's volume is missing or holds no log.
func dataProblem(in *Input, j cke.Join) *cke.Problem {
	message := lostData(in, j)
	if message == "" {
		return nil
	}
	left := len(in.mayHoldData())
	p := &cke.Problem{Code: cke.CodeDataMissing, Node: j.Node.Name(), Message: message, Remedy: "bring the volume back"}
	enough := in.Seen.Etcd.Quorate && left >= quorum.Of(len(in.Identity.Joins)) // silent ones may be gone
	c, _ := in.node(j.Node).Of(j.ID)
	switch runs := c.Running(); { // one that its engine starts again and again has nothing open
	case runs && in.lastHolds(j):
		p.Remedy = "do not stop it: this learner may hold the only copy of the data, and etcd sends no snapshot of a learner; copy its database from the open files of the etcd process on its node (/proc/PID/fd) first"
	case runs && enough:
		p.Remedy = fmt.Sprintf("`ckecli replace %s`: the other members hold the data", j.Node.Name())
	case runs:
		p.Remedy = "do not stop it, it may hold what the other members lack; save its data at once: `ckecli backup now`, or `etcdctl snapshot save`"
	case left == 0:
		p.Remedy += ", or `ckecli restore`"
	case enough:
		p.Remedy += fmt.Sprintf(", or `ckecli replace %s`: the other members hold the data", j.Node.Name())
	}
	return p
}

// mayHoldData returns the members that may hold data of the cluster: none that is put aside, that ended according to a
// mark, whose data is gone, or of which there is nothing yet.
func (in *Input) mayHoldData() []cke.Join {
	return slices.DeleteFunc(slices.Clone(in.Identity.Joins), func(j cke.Join) bool {
		return in.keptOut(j) || lostData(in, j) != "" || j.StartedAt.IsZero() && !in.mayHold(j)
	})
}

// lostData says what is gone of a member's data; "": nothing that could be seen.
func lostData(in *Input, j cke.Join) string {
	n := in.node(j.Node)
	if !n.Answered() || j.StartedAt.IsZero() {
		return ""
	}
	c, there := n.Of(j.ID)
	if there && c.Running() {
		if c.Data == cke.DataMissing && (in.isVoter(j) || in.lastHolds(j)) {
			return fmt.Sprintf("the write-ahead log was removed from volume %s while etcd runs: it serves from the files that it has open, and cannot start again", j.Volume)
		}
		return ""
	}
	if _, volume := n.VolumeOf(j); !volume {
		if in.volumeElsewhere(j) {
			return ""
		}
		return fmt.Sprintf("volume %s is gone", j.Volume)
	}
	if c.Data == cke.DataMissing {
		return fmt.Sprintf("volume %s holds no write-ahead log", j.Volume)
	}
	return ""
}

// isVoter reports whether the member is known to be a voter, which has a log. One that is just being started may have none yet.
func (in *Input) isVoter(j cke.Join) bool {
	return in.hasVoter(in.lastList(), j)
}

// lastHolds reports whether a learner answers while there is no quorum: voters may have lost the data that it holds.
func (in *Input) lastHolds(j cke.Join) bool {
	e := in.reply(j)
	return in.Formed() && !in.Seen.Etcd.Quorate && e.Problem == "" && e.Learner && e.MemberID != "" && e.MemberID == j.MemberID && e.Revision > cke.FirstRevision
}

// memberProblem is why a member does not serve, or nil when it does.
func memberProblem(in *Input, j cke.Join) *cke.Problem {
	n := in.node(j.Node)
	name := j.Node.Name()
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	switch c, there := n.Of(j.ID); {
	case hasJoin(in.endedByMarks(), j.ID):
		return &cke.Problem{Code: cke.CodeOlderStore, Node: name, Message: "its membership ended, according to a mark on a node", Remedy: "ckecli replace " + name}
	case drainProblem(in, j) != nil:
		return drainProblem(in, j)
	case !n.Answered():
		if e := in.reply(j); e.Healthy() && e.Linearizable {
			return nil // etcd serves; the node's own problem is told apart
		}
		return n.Problem
	case dataProblem(in, j) != nil:
		return dataProblem(in, j)
	case !there:
		return &cke.Problem{Code: cke.CodeEtcdExited, Node: name, Message: "its container is missing"}
	case c.State == cke.ContainerPaused:
		return &cke.Problem{Code: cke.CodeMemberSilent, Node: name, Message: "its container was paused outside cke", Remedy: fmt.Sprintf("on %s: docker unpause %s", j.Node.Address, c.Name)}
	case certificateProblem(in, j) != nil && (!c.Running() || e.Problem != ""):
		return certificateProblem(in, j)
	case in.Formed() && in.Identity.PutAside(j.ID):
		return &cke.Problem{Code: cke.CodeSplitBrain, Node: name, Message: "its member has the wrong data, and is put aside",
			Remedy: fmt.Sprintf("ckecli replace %s; its volume is kept", name)}
	case !c.Running():
		err := op.Exited(name, c)
		how, why := op.Ending(c)
		if c.State != cke.ContainerExited {
			how = "is " + string(c.State)
		}
		if why != "" {
			how += ": " + why
		}
		return &cke.Problem{Code: err.Code, Node: name, Message: "etcd " + how, Remedy: laterMinor(in, j)}
	case e.Problem != "" && in.votesElsewhere(c):
		return &cke.Problem{Code: cke.CodeOlderStore, Node: name, Message: "its member serves, but not at " + j.ClientURL() + ", which is on record", Remedy: "ckecli cluster reclaim " + in.Spec.Name}
	case e.Problem != "":
		return &cke.Problem{Code: cke.CodeMemberSilent, Node: name, Message: "etcd runs and does not answer: " + e.Problem}
	case in.Formed() && e.ClusterID != "" && e.ClusterID != in.Identity.Incarnation.ClusterID:
		return &cke.Problem{Code: cke.CodeSplitBrain, Node: name, Message: fmt.Sprintf("it answers with cluster id %s, on record is %s", e.ClusterID, in.Identity.Incarnation.ClusterID)}
	case len(e.Errors) > 0:
		return &cke.Problem{Code: cke.CodeMemberSilent, Node: name, Message: "etcd reports " + e.Errors[0]}
	case !e.Serializable || !e.Linearizable && !e.Learner:
		return &cke.Problem{Code: cke.CodeMemberSilent, Node: name, Message: "etcd answers, but reads through it fail"}
	}
	return nil
}

// waitForMembers: nothing can be done about it, but not everything is well.
func waitForMembers(in *Input) verdict {
	var blockers []cke.Problem
	for _, j := range in.Identity.Joins {
		if p := memberProblem(in, j); p != nil {
			blockers = append(blockers, *p)
		} else if n := in.node(j.Node); !n.Answered() {
			blockers = append(blockers, *n.Problem)
		}
	}
	if blockers != nil {
		return wait("waiting for "+nodesOf(blockers)+": "+mayBeIntact(blockers), blockers...)
	}
	for _, n := range in.Spec.ControlPlane() {
		_, carries := in.Identity.On(n)
		if s := in.node(n); !carries && !s.Answered() {
			blockers = append(blockers, *s.Problem)
		}
	}
	if blockers != nil {
		return wait("waiting for "+nodesOf(blockers)+", which is to carry a member", blockers...)
	}
	return pass()
}

// mayBeIntact says what is known of the data of those that are waited for.
func mayBeIntact(blockers []cke.Problem) string {
	its := "its"
	if slices.ContainsFunc(blockers, func(p cke.Problem) bool { return p.Node != blockers[0].Node }) {
		its = "their"
	}
	gone := slices.DeleteFunc(slices.Clone(blockers), func(p cke.Problem) bool { return p.Code != cke.CodeDataMissing })
	switch len(gone) {
	case 0:
		return its + " data may be intact"
	case len(blockers):
		return its + " data is gone"
	}
	return "the data of " + nodesOf(gone) + " is gone"
}

func and(names []string) string {
	switch n := len(names); n {
	case 0:
		return "none"
	case 1:
		return names[0]
	default:
		all := names[0]
		for _, name := range names[1 : n-1] {
			all += ", " + name
		}
		return all + " and " + names[n-1]
	}
}
