package op

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cke"
	"cke/quorum"
)

// RemoveMember removes a member from the list, ends its membership, and removes its container if the node answers.
// Its volume is kept. It also works when the member's machine is gone.
type RemoveMember struct {
	// Member is the entry to remove.
	Member cke.Member
	// Join is its membership; nil for a foreign member or one whose membership was forgotten.
	Join *cke.Join
	// Silent: the node does not answer, so its container is not stopped. etcd there exits once it hears of its removal.
	Silent bool
	// Repair is recorded with the end of the membership; see cke.Join.
	Repair bool
	// Declared are the nodes that must not lack a member when one that serves is removed, see Lacking; nil: it goes first.
	Declared []cke.Node
	// Volumes determines how long the volume is kept.
	Volumes cke.VolumePolicies
}

var _ Operation = RemoveMember{}

// Name implements Operation.
func (RemoveMember) Name() string { return "remove-member" }

// Targets implements Operation.
func (r RemoveMember) Targets() []string {
	switch {
	case r.Join != nil:
		return []string{r.Join.Node.Name()}
	case r.Member.Name != "":
		return []string{r.Member.Name}
	}
	return []string{r.Member.ID}
}

// Stages implements Operation.
func (r RemoveMember) Stages() []Stage {
	n := r.Targets()[0]
	stages := []Stage{
		{{Name: "move-leader", Node: n, Run: r.moveLeader}},
		{{Name: "remove", Node: n, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return r.remove(ctx, e) })
		}}},
	}
	if r.Join == nil {
		return stages
	}
	return append(stages, EndMembership{Join: *r.Join, Silent: r.Silent, Volumes: r.Volumes, Agreed: []cke.JoinID{r.Join.ID}}.Stages()...)
}

// moveLeader moves leadership away from the member if it leads.
func (r RemoveMember) moveLeader(ctx context.Context, e Env) error {
	if r.Join == nil {
		return moveLeaderFromStranger(ctx, e, r.Member.ID)
	}
	if r.Silent {
		return moveLeaderOf(ctx, e, *r.Join, e.Etcd.Endpoint(ctx, r.Join.ClientURL()))
	}
	return moveLeaderFrom(ctx, e, *r.Join)
}

// moveLeaderFrom makes another healthy voter lead if the join's member does.
func moveLeaderFrom(ctx context.Context, e Env, j cke.Join) error {
	s := e.Etcd.Endpoint(ctx, j.ClientURL())
	if s.Problem != "" && e.Pause(ctx, lookEvery) == nil {
		s = e.Etcd.Endpoint(ctx, j.ClientURL()) // one answer that is lost does not make a leader stop with its leadership
	}
	if s.Problem != "" {
		return moveSilent(ctx, e, j)
	}
	return moveLeaderOf(ctx, e, j, s)
}

// moveSilent is moveLeaderFrom for a member that does not answer: others know whether it leads. It may not take the order to hand over
// either, and then is not waited for.
func moveSilent(ctx context.Context, e Env, j cke.Join) error {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if j.MemberID == "" || !leads(ctx, e, id, j.MemberID) {
		return nil
	}
	if best := successor(ctx, e, id, j.ID); best != "" {
		if err := e.Etcd.MoveLeader(ctx, servesAt(ctx, e, id, j), best); err != nil {
			e.Note(fmt.Sprintf("%s leads, does not answer, and does not hand over: %v", j.Node.Name(), err))
		}
	}
	return nil
}

// servesAt is where a member that does not answer where it is on record may answer: the store may be older than its last move.
func servesAt(ctx context.Context, e Env, id cke.Identity, j cke.Join) string {
	if list, _, err := readList(ctx, e); err == nil {
		if m, there := list.byID(j.MemberID); there {
			if url, elsewhere := id.StrangerURL(m); elsewhere {
				return url
			}
		}
	}
	return j.ClientURL()
}

// moveLeaderOf is moveLeaderFrom for a member that has said how it stands. One that reports errors leads all the same: an
// alarm is told by every member.
func moveLeaderOf(ctx context.Context, e Env, j cke.Join, s cke.EndpointStatus) error {
	if s.Problem != "" || s.LeaderID == "" || s.LeaderID != s.MemberID {
		return nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	if s.Join = j.ID; id.OfAnother(s) {
		return nil // it leads no member of this cluster
	}
	best := successor(ctx, e, id, j.ID)
	switch {
	case s.Healthy() && best == "":
		return nobodyElse(ctx, e, id, j)
	case s.Healthy():
		return e.Etcd.MoveLeader(ctx, j.ClientURL(), best)
	case best == "":
		best = follower(ctx, e, id, j, s.MemberID)
	}
	if best != "" { // whether it can hand over or not, it is not worth waiting for
		if err := e.Etcd.MoveLeader(ctx, j.ClientURL(), best); err != nil {
			e.Note(fmt.Sprintf("%s leads, reports errors, and does not hand over: %v", j.Node.Name(), err))
		}
	}
	return nil
}

// nobodyElse fails unless every other member says that it cannot lead. A leader of several voters has some that follow
// it: where none answers, answers were lost, and without its move its stop would cost an election.
func nobodyElse(ctx context.Context, e Env, id cke.Identity, leader cke.Join) error {
	for _, j := range id.Joins {
		if j.ID == leader.ID || j.StartedAt.IsZero() {
			continue
		}
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Problem != "" || !id.OfAnother(s) && s.Linearizable && !s.Learner {
			return &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("%s leads, and no member answers that could lead instead", leader.Node.Name()),
				Facts: []string{j.Node.Name() + ": " + s.Problem}, Unchanged: true, Err: cke.ErrNotReady}
		}
	}
	return nil
}

// successor is the member id of the healthy voter that has come furthest, of all memberships but one; empty: none.
func successor(ctx context.Context, e Env, id cke.Identity, except cke.JoinID) string {
	return furthest(ctx, e, id, except, func(s cke.EndpointStatus) bool { return s.Healthy() && s.Linearizable })
}

// follower is successor for a leader that reports errors, as every member may: it is enough to follow that one.
func follower(ctx context.Context, e Env, id cke.Identity, leader cke.Join, leads string) string {
	return furthest(ctx, e, id, leader.ID, func(s cke.EndpointStatus) bool { return s.Problem == "" && s.LeaderID == leads && s.MemberID != leads })
}

// furthest is the member id of the voter that has applied most, of those that fit; empty: none does. Old members lead only where those of
// cke leave, or none of these fits.
func furthest(ctx context.Context, e Env, id cke.Identity, except cke.JoinID, fits func(cke.EndpointStatus) bool) string {
	for _, urls := range successors(id, except) {
		var best cke.EndpointStatus
		for _, url := range urls {
			if s := e.Etcd.Endpoint(ctx, url); !id.OfAnother(s) && fits(s) && !s.Learner && s.RaftApplied >= best.RaftApplied {
				best = s
			}
		}
		if best.MemberID != "" {
			return best.MemberID
		}
	}
	return ""
}

// remove asks for the arithmetic once more and removes the entry, unless it is gone already. Nothing comes between the
// last look and the removal.
func (r RemoveMember) remove(ctx context.Context, e Env) error {
	via, learner, err := r.allowed(ctx, e)
	if err != nil || via == "" {
		return err
	}
	recorded, err := r.recordWhy(ctx, e, learner)
	if err != nil {
		return err
	}
	if recorded {
		was := learner
		if via, learner, err = r.allowed(ctx, e); err != nil && r.Repair { // it stays, and may serve again
			return errors.Join(err, putJoin(ctx, e, r.Join.ID, func(j *cke.Join) { j.Repair = false }))
		}
		if err != nil || via == "" {
			return err
		}
		if was != learner {
			return fmt.Errorf("%s was promoted meanwhile: %w", r.Targets()[0], cke.ErrConflict)
		}
	}
	if err := e.Etcd.RemoveMember(ctx, via, r.Member.ID); err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	return nil
}

// allowed asks for the arithmetic, and returns the client URL of the member that is to remove the entry, empty if that is
// gone, and whether the entry is a learner.
func (r RemoveMember) allowed(ctx context.Context, e Env) (via string, learner bool, err error) {
	list, id, err := readList(ctx, e)
	if err != nil {
		return "", false, err
	}
	i := slices.IndexFunc(list.members, func(m cke.Member) bool { return m.ID == r.Member.ID })
	if i < 0 {
		return "", false, nil
	}
	if r.Join != nil {
		after := slices.Delete(slices.Clone(list.members), i, i+1)
		if missing := Unproved(after, id, []cke.JoinID{r.Join.ID}); missing != nil {
			return "", false, fmt.Errorf("the member list lacks %s: its membership must end first: %w", missing[0].Node.Name(), cke.ErrConflict)
		}
		if err := list.lastVoter(id, *r.Join); err != nil {
			return "", false, err
		}
	}
	via = list.via
	if r.Join != nil && via == r.Join.ClientURL() {
		// A member that is removed may not live to answer.
		for _, url := range id.Asked() {
			if s := e.Etcd.Endpoint(ctx, url); url != r.Join.ClientURL() && s.Healthy() && !id.OfAnother(s) && s.Linearizable {
				via = url
			}
		}
	}
	if m := list.members[i]; !m.Learner {
		if err = list.takeGate(ctx, e, id, m, list.voters()-1); err == nil {
			err = r.tooEarly(ctx, e, list, id, m)
		}
	}
	return via, list.members[i].Learner, err
}

// recordWhy records what the member is removed for, before it is: whoever continues after a crash sees only that it is gone.
// It reports whether that was new. Of a voter its start is on record then, too: without one it would count as one that never voted.
func (r RemoveMember) recordWhy(ctx context.Context, e Env, learner bool) (recorded bool, err error) {
	if r.Join == nil {
		return false, nil
	}
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return false, err
	}
	if j, lasts := id.Join(r.Join.ID); !lasts || j.Repair == r.Repair && j.NeverVoted == learner && (learner || !j.StartedAt.IsZero()) {
		return false, nil
	}
	return true, putJoin(ctx, e, r.Join.ID, func(j *cke.Join) {
		if !learner {
			noteStart(j, e.Now())
		}
		j.Repair, j.NeverVoted = r.Repair, learner
	})
}

// EndMembership ends a membership whose member is no longer in the list, and removes its container. The volume is
// kept.
type EndMembership struct {
	Join cke.Join
	// Silent and Volumes are as in RemoveMember.
	Silent  bool
	Volumes cke.VolumePolicies
	// Agreed are those of which more is known than what the list says: cke removed them, or the file or the operator
	// wants them gone. One of these may still serve for a moment, or as the wrong one of two clusters.
	Agreed []cke.JoinID
	// Leaderless are those that the list lacks and that had the time to elect a leader; see MayElect.
	Leaderless []cke.JoinID
}

var _ Operation = EndMembership{}

// Name implements Operation.
func (EndMembership) Name() string { return "end-membership" }

// Targets implements Operation.
func (m EndMembership) Targets() []string { return []string{m.Join.Node.Name()} }

// Stages implements Operation.
func (m EndMembership) Stages() []Stage {
	record := Stage{{Name: "record-end", Node: m.Join.Node.Name(), Run: m.record}}
	if m.Silent {
		return []Stage{record}
	}
	return []Stage{record, {{Name: "mark-ended", Node: m.Join.Node.Name(), Run: MarkEnded{Join: m.Join}.try}}, {retireStep(m.Join)}}
}

// Missing returns the memberships that voted, as far as recorded, and that a member list lacks; nil: none.
func Missing(list []cke.Member, joins []cke.Join) (missing []cke.Join) {
	for _, j := range joins {
		listed := slices.ContainsFunc(list, func(m cke.Member) bool { return m.Of(j) })
		if !listed && j.MemberID != "" && !j.StartedAt.IsZero() && !j.NeverVoted {
			missing = append(missing, j)
		}
	}
	return missing
}

// Unproved returns what is missing in a member list that does not prove a removal, though it was read through a
// quorum: it has no quorum of those that voted and were not put aside. It may be that of a second cluster, as of a
// disk that was restored to when its member was alone. Those agreed on do not count. During an import the old members on record
// voted, too. nil: the list is proof.
func Unproved(list []cke.Member, id cke.Identity, agreed []cke.JoinID) (missing []cke.Join) {
	for _, j := range Missing(list, id.Joins) {
		if !slices.Contains(agreed, j.ID) {
			missing = append(missing, j)
		}
	}
	listed := 0
	for _, m := range id.Incarnation.Importing().In(list) {
		if !m.Learner {
			listed++
		}
	}
	for _, j := range id.Joins {
		if !j.Apart && slices.ContainsFunc(list, func(m cke.Member) bool { return !m.Learner && m.Of(j) }) {
			listed++
		}
	}
	if listed >= quorum.Of(listed+len(missing)) {
		return nil
	}
	return missing
}

// lastVoter refuses to end a membership beside which none on record votes: cke asks members for the member list where memberships are.
func (l memberList) lastVoter(id cke.Identity, j cke.Join) error {
	if id.OthersVote(l.members, j.ID) {
		return nil
	}
	return &cke.Error{Code: cke.CodeStranger, What: fmt.Sprintf("no other membership on record than that of %s votes: it is not ended, since cke could reach no other member", j.Node.Name()),
		Unchanged: true, Try: "ckecli status", Err: cke.ErrConflict}
}

// MayElect returns the memberships that a member list lacks and whose members answer, or else run, and could be a quorum of those that
// vote and were not put aside: they may elect a leader at any moment. nil: they could not.
func MayElect(list []cke.Member, id cke.Identity, reply func(cke.Join) cke.EndpointStatus, runs func(cke.Join) bool) (able []cke.Join) {
	voters := 0
	for _, j := range id.Joins {
		at := slices.IndexFunc(list, func(m cke.Member) bool { return m.Of(j) })
		e := reply(j)
		answers := e.Problem == "" && e.MemberID != "" && e.MemberID == j.MemberID
		voted := j.MemberID != "" && !j.StartedAt.IsZero() && !j.NeverVoted
		switch {
		case id.PutAside(j.ID):
		case at >= 0: // an older store may lack its start
			if !list[at].Learner {
				voters++
			}
		case answers && !e.Learner, !answers && voted:
			voters++
			if answers || runs(j) {
				able = append(able, j)
			}
		}
	}
	if len(able) < quorum.Of(voters) {
		return nil
	}
	return able
}

func (m EndMembership) record(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	j, lasts := id.Join(m.Join.ID)
	if !lasts {
		return nil
	}
	noteStart(&j, m.Join.StartedAt) // this and NeverVoted are seen by Decide, where the store is from before its start
	for _, member := range list.members {
		others := slices.ContainsFunc(id.Joins, func(o cke.Join) bool { return o.ID != j.ID && member.Of(o) })
		if member.Of(j) || !j.StartedAt.IsZero() && !others && MayBe(member, j) {
			return fmt.Errorf("%s is member %s: %w", j.Node.Name(), member.ID, cke.ErrConflict)
		}
	}
	if Unproved(list.members, id, m.Agreed) != nil {
		return list.unproved("no membership is ended because of it")
	}
	if err := list.lastVoter(id, j); err != nil {
		return err
	}
	replies := map[cke.JoinID]cke.EndpointStatus{}
	for _, o := range id.Joins {
		if _, there := list.of(o); there || o.MemberID == "" || id.PutAside(o.ID) {
			continue
		}
		s := e.Etcd.Endpoint(ctx, o.ClientURL())
		replies[o.ID] = id.OursOf(s)
		if o.ID == j.ID && slices.Contains(m.Agreed, j.ID) {
			continue
		}
		if s.MemberID == o.MemberID && s.Serves(id.Incarnation.ClusterID) {
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("the member of %s serves, but is not in the member list of another one", o.Node.Name()),
				Facts: []string{fmt.Sprintf("member %s at %s", o.MemberID, s.URL)}, Unchanged: true, Err: cke.ErrConflict}
		}
	}
	reply := func(o cke.Join) cke.EndpointStatus { return replies[o.ID] }
	for _, o := range MayElect(list.members, id, reply, func(cke.Join) bool { return false }) {
		if !slices.Contains(m.Leaderless, o.ID) { // it has just started
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("the member of %s answers, is not in the member list of another one, and may elect a leader", o.Node.Name()), Unchanged: true, Err: cke.ErrConflict}
		}
	}
	j.EndedAt = e.Now().UTC()
	j.KeepUntil = m.Volumes.KeepUntil(j.EndedAt)
	if j.NeverVoted = j.NeverVoted || m.Join.NeverVoted && j.StartedAt.IsZero(); j.Copied() {
		j.KeepUntil = j.EndedAt
	}
	return e.Ledger.PutJoins(ctx, id, j)
}

// StopStray stops a container of this cluster that is no member, and removes it, unless it belongs to another
// incarnation and holds data. Its volume is kept.
type StopStray struct{ Join cke.Join }

var _ Operation = StopStray{}

// Name implements Operation.
func (StopStray) Name() string { return "stop-stray" }

// Targets implements Operation.
func (s StopStray) Targets() []string { return []string{s.Join.Node.Name()} }

// Stages implements Operation.
func (s StopStray) Stages() []Stage {
	return []Stage{{unless(retireStep(s.Join), func(_ context.Context, _ Env, id cke.Identity) error {
		if slices.ContainsFunc(id.MayRun(), func(j cke.Join) bool { return j.ID == s.Join.ID }) { // a restore that is canceled continues from it
			return fmt.Errorf("%s is a membership: %w", s.Join.ID, cke.ErrConflict)
		}
		return nil
	})}}
}
