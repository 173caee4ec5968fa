package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// noteStarts takes members for started that were, though no start is on record: the store was brought back from a copy that
// was made while they were added. They may vote since, and hold data that counts.
func (in *Input) noteStarts() {
	if !in.Formed() {
		return
	}
	for i, j := range in.Identity.Joins {
		if !j.StartedAt.IsZero() || !in.wasStarted(j) {
			continue
		}
		if in.unrecordedStarts == nil {
			in.Identity.Joins = slices.Clone(in.Identity.Joins)
		}
		in.unrecordedStarts = append(in.unrecordedStarts, j.ID)
		at := in.Seen.ObservedAt
		n := in.node(j.Node)
		if c, _ := n.Of(j.ID); !c.StartedAt.IsZero() {
			at = c.StartedAt
		}
		in.Identity.Joins[i].StartedAt = at
	}
}

// Noted returns the identity with the starts that the store does not have.
func (in Input) Noted() cke.Identity {
	in.noteStarts()
	return in.Identity
}

// wasStarted reports whether the container of a membership ever ran, or etcd lists its member as one that was started. An
// addition lists the member, records its id, makes its volume, records its start and starts its container, in this order.
func (in *Input) wasStarted(j cke.Join) bool {
	n := in.node(j.Node)
	c, _ := n.Of(j.ID)
	_, volume := n.VolumeOf(j)
	switch {
	case c.EverRan():
		return true
	case j.MemberID == "" && n.Answered():
		return volume // without one it is another member that is at its peer URL
	}
	return slices.ContainsFunc(in.lastList(), func(m cke.Member) bool {
		return m.Of(j) && (!m.Learner || m.Name != "") && !slices.ContainsFunc(in.Identity.Ended, func(e cke.Join) bool { return e.MemberID == m.ID })
	})
}

// recordStart: a member was started, and its record does not have that, or has it for one that never voted, or for one that is being
// replaced, as where a daemon ended right before the removal. Where its member id is not on record either, it has to answer first. That
// a container ran is recorded also without a quorum: once it is gone nothing shows any more that the member must not start empty.
func recordStart(in *Input) verdict {
	quorum := in.Seen.Etcd.MembersSource == cke.MembersLinearizable
	for _, j := range in.Identity.Joins {
		m, listed := in.listed(j)
		if !listed {
			m, listed = in.answering(j)
		}
		started := slices.Contains(in.unrecordedStarts, j.ID)
		serves := !m.Learner && j.Repair && healthyMember(in, m)
		lacks := started || serves || j.MemberID == "" && !j.StartedAt.IsZero() || !m.Learner && j.NeverVoted
		if !lacks || quorum && !listed {
			continue
		}
		n := in.node(j.Node)
		c, _ := n.Of(j.ID)
		switch {
		case !quorum && !(started && j.MemberID != "" && c.EverRan()),
			j.MemberID == "" && (!c.Running() || in.reply(j).MemberID != m.ID):
			continue
		}
		why := fmt.Sprintf("the member of %s was started, and that is not on record", j.Node.Name())
		if serves {
			why = fmt.Sprintf("the member of %s serves, and is on record as one that is being replaced", j.Node.Name())
		}
		return act(op.RecordStart{Join: in.reached(j)}, why)
	}
	return pass()
}

// answering is the entry of the member that answers for a membership whose id is not on record: it has other peer URLs than the record,
// where it was moved since the store was copied.
func (in *Input) answering(j cke.Join) (cke.Member, bool) {
	i := slices.IndexFunc(in.Seen.Etcd.Members, func(m cke.Member) bool { return m.ID == in.reply(j).MemberID })
	if j.MemberID != "" || i < 0 || in.joinOf(in.Seen.Etcd.Members[i]) != nil {
		return cke.Member{}, false
	}
	return in.Seen.Etcd.Members[i], true
}
