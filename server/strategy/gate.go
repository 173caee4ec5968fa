package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

// tally counts voters as the quorum gate needs them, on a linearizable member list.
type tally struct {
	quorum.Tally
	// hollow are those of the healthy ones that serve from files that were removed.
	hollow int
	// apart: members serve without each other, so that not all that are healthy are of one quorum.
	apart bool
	// stopping are the voters whose engines were asked to stop them and have not answered since.
	stopping []cke.Join
}

func tallyOf(in *Input) tally {
	var t tally
	if inc := in.Identity.Incarnation; inc != nil {
		_, _, t.apart = in.Identity.Ours(in.Seen.Etcd).Apart(inc.ClusterID, inc.Importing())
	}
	for _, m := range in.Seen.Etcd.Members {
		if m.Learner || m.Name == "" {
			t.Pending++
		}
		if m.Learner {
			continue
		}
		t.Voters++
		if j := in.joinOf(m); j != nil && j.Stopping {
			t.stopping = append(t.stopping, *j)
		}
		if healthyMember(in, m) {
			t.Healthy++
		}
		if hollow(in, m) {
			t.hollow++
		}
	}
	return t
}

// besides is t where it matters only whether other voters were asked to stop.
func (t tally) besides(in *Input, m cke.Member) tally {
	if j := in.joinOf(m); j != nil {
		t.stopping = slices.DeleteFunc(slices.Clone(t.stopping), func(o cke.Join) bool { return o.ID == j.ID })
	}
	return t
}

// replies are the answers that say something about this cluster. One of another cluster, or of a member put aside, is as good as none.
func (in *Input) replies() []cke.EndpointStatus { return in.Identity.Ours(in.Seen.Etcd).Endpoints }

// reply is that of a membership; the zero value: it was not asked.
func (in *Input) reply(j cke.Join) cke.EndpointStatus {
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	return in.Identity.OursOf(e)
}

// hollow reports whether a member serves from files that were removed: it votes, and would not come back.
func hollow(in *Input, m cke.Member) bool {
	j := in.joinOf(m)
	return j != nil && lostData(in, *j) != "" && healthyMember(in, m)
}

// healthyMember: the member answers local reads, a voter also linearizable ones, and reports no error.
func healthyMember(in *Input, m cke.Member) bool {
	return slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool {
		return e.MemberID == m.ID && e.Healthy() && (m.Learner || e.Linearizable)
	})
}

// gate is the answer of the quorum gate: pass, or the arithmetic of the refusal.
type gate string

const open gate = ""

// mayRemove asks whether the member may leave the list: the healthy voters left must be at least the quorum of the list
// after it. A healthy voter also waits until everything else is well.
func mayRemove(in *Input, m cke.Member) gate {
	if m.Learner {
		return open
	}
	t := tallyOf(in)
	if g := letGo(in, t, m); g != open {
		return g
	}
	return gate(t.Remove(healthyMember(in, m)))
}

// letGo asks whether a member may be taken away from the others: one that serves is let go only while everything else is well and no
// lease lasts.
func letGo(in *Input, t tally, m cke.Member) gate {
	if !servesAnywhere(in, m) {
		return open
	}
	if !healthyMember(in, m) {
		t.Healthy++ // it serves where it is not on record
	}
	if g := leaseGate(in, m); g != open {
		return g
	}
	if hollow(in, m) {
		t.hollow = 0 // what is to be fixed is no obstacle
	}
	return allWell(t.besides(in, m))
}

// mayRestart asks whether a voter may stop for a moment. One or two voters cannot be restarted without a gap, which is
// allowed while all are healthy.
func mayRestart(in *Input, m cke.Member) gate {
	t := tallyOf(in)
	if g := leaseGate(in, m); g != open {
		return g
	}
	if j := in.joinOf(m); j != nil && in.heldBySnapshots(*j) {
		return gate(t.Pause(0))
	}
	if g := allWell(t.besides(in, m)); g != open {
		return g
	}
	if in.fewVoters() || m.Learner {
		return open
	}
	return gate(t.Pause(1))
}

// mayInterrupt asks whether a voter may be restarted for what nobody asked for now: mayRestart, and if nobody would be served
// meanwhile although more voters are declared, an operator's consent. With another voter it goes without a gap.
func mayInterrupt(in *Input, m cke.Member) gate {
	if g := mayRestart(in, m); g != open || m.Learner || !in.lacksVoters() || in.Requests.Interrupt >= in.Generation && in.Generation > 0 {
		return g
	}
	return gate(fmt.Sprintf("%s, %d declared: no client is served while one restarts; it waits for another voter, or for `ckecli cluster apply`",
		cke.Count(tallyOf(in).Voters, "voter"), len(in.Spec.ControlPlane())))
}

// codeOfGate is the code of what mayInterrupt refuses.
func codeOfGate(in *Input, m cke.Member) cke.Code {
	if mayRestart(in, m) == open {
		return cke.CodeInterrupt
	}
	return cke.CodeQuorum
}

// lacksVoters reports whether no voter can be away without a gap, and more are declared.
func (in *Input) lacksVoters() bool {
	return in.fewVoters() && tallyOf(in).Voters < len(in.Spec.ControlPlane())
}

// fewVoters reports whether no voter can be away without a gap.
func (in *Input) fewVoters() bool { return tallyOf(in).Voters <= 2 }

// mayAdd asks whether a learner may be added. etcd itself wants so many healthy voters as the list with one more needs.
// pending is how many changes in flight are the caller's own.
func mayAdd(in *Input, pending int) gate {
	t := tallyOf(in)
	if t.apart {
		return "members serve separately: it would be added to one of two clusters"
	}
	return gate(t.Add(pending, wantsAllVoters(in)))
}

// wantsAllVoters is the version of a member that refuses every addition while a voter is not connected; empty: none does. What has not reported
// its version is taken for a newer one.
func wantsAllVoters(in *Input) string {
	for _, e := range in.replies() {
		v, told := parseVersion(e.Version)
		if told && !v.AddsByQuorum() {
			return e.Version
		}
	}
	return ""
}

func allWell(t tally) gate {
	if t.Pending == 0 && t.apart {
		return "members serve separately: they are not of one quorum, so none is taken away, since the others may not be a quorum without it"
	}
	if g := t.Whole(); g != "" {
		return gate(g)
	}
	switch {
	case len(t.stopping) > 0:
		return gate(fmt.Sprintf("%s may stop at any time: an engine has not answered a stop request; no other voter is taken away before it has", namesOf(t.stopping)))
	case t.hollow > 0:
		return gate(fmt.Sprintf("%s from files that were removed; no healthy voter is taken away before that is fixed", cke.Plural(t.hollow, "voter serves", "voters serve")))
	}
	return open
}

// noneLags asks whether every voter is level with the leader: while one restarts, the others are to commit without a gap.
func noneLags(in *Input) gate {
	for _, j := range in.Identity.Joins {
		m, there := in.listed(j)
		if behind := lag(in, in.reply(j)); there && !m.Learner && behind >= op.MaxLag && !in.heldBySnapshots(j) {
			return gate(fmt.Sprintf("%s is %s behind the leader", j.Node.Name(), cke.Plural(behind, "entry", "entries")))
		}
	}
	return open
}

// listed returns the entry of a membership in the member list.
func (in *Input) listed(j cke.Join) (cke.Member, bool) {
	for _, m := range in.Seen.Etcd.Members {
		if in.is(m, j) {
			return m, true
		}
	}
	return cke.Member{}, false
}

// is reports whether an entry of a member list is that of a membership. An addition lists a learner, records its id and makes its volume,
// in this order: where that id is not on record and the node has nothing of the membership, a voter there is somebody else's, or has lost
// all that it had. Of an incarnation that was never formed the bootstrap members alone are listed, and their ids are not on record yet.
func (in *Input) is(m cke.Member, j cke.Join) bool {
	if !m.Of(j) || j.MemberID != "" || m.Learner {
		return m.Of(j)
	}
	return in.mayHold(j) || in.founds(j)
}

// founds reports whether a membership is that of a bootstrap member of an incarnation that was never formed.
func (in *Input) founds(j cke.Join) bool {
	for i := in.Identity.Incarnation; i != nil; i = i.Restore.Before {
		if i.Life(j.Incarnation) {
			return i.State != cke.Formed
		}
		if i.Restore == nil {
			break
		}
	}
	return false
}

// mayHold reports whether the node of a membership does not answer, or has a container or volume of it.
func (in *Input) mayHold(j cke.Join) bool {
	n := in.node(j.Node)
	_, container := n.Of(j.ID)
	_, volume := n.VolumeOf(j)
	return !n.Answered() || container || volume
}

// joinOf returns the membership of an entry; nil for a foreign member.
func (in *Input) joinOf(m cke.Member) *cke.Join {
	for i := range in.Identity.Joins {
		if j := &in.Identity.Joins[i]; in.is(m, *j) {
			return j
		}
	}
	return nil
}

// declared returns the control-plane node that a membership is on, as it is declared now.
func (in *Input) declared(j cke.Join) (cke.Node, bool) {
	for _, n := range in.Spec.ControlPlane() {
		if n.Address == j.Node.Address {
			return n, true
		}
	}
	return cke.Node{}, false
}
