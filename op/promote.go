package op

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cke"
)

// MaxLag is how many raft entries a learner may be behind to be promoted. etcd itself accepts a learner that has nine
// tenths of the absolute index. Source: etcd, isLearnerReady.
const MaxLag = 1000

// steadyLooks is how often in a row the lag must be small.
const (
	steadyLooks = 3
	steadyEvery = 30 * time.Millisecond
)

// PromoteMember makes a learner that has caught up a voter.
type PromoteMember struct{ Join cke.Join }

var _ Operation = PromoteMember{}

// Name implements Operation.
func (PromoteMember) Name() string { return "promote-member" }

// Targets implements Operation.
func (p PromoteMember) Targets() []string { return []string{p.Join.Node.Name()} }

// Stages implements Operation.
func (p PromoteMember) Stages() []Stage {
	n := p.Join.Node.Name()
	return []Stage{
		{{Name: "own-data", Node: n, Limit: stopLimit, Run: p.ownData}},
		{{Name: "caught-up", Node: n, Run: p.caughtUp}},
		{{Name: "promote", Node: n, Limit: changeLimit, Run: func(ctx context.Context, e Env) error {
			return whenReady(ctx, e, func() error { return p.promote(ctx, e) })
		}}},
		{{Name: "serve", Node: n, Limit: serveLimit, Run: func(ctx context.Context, e Env) error {
			return awaitServing(ctx, e, p.Join)
		}}},
	}
}

// ownData lets nobody become a voter in the container of its first start, where a daemon that died left it: its engine
// would not start it again. A learner may stop for it.
func (p PromoteMember) ownData(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	j, lasts := id.Join(p.Join.ID)
	m, there := list.of(p.Join)
	if !lasts || id.Incarnation == nil || !there || !m.Learner {
		return nil // promote says why, or has been done
	}
	j.Node = p.Join.Node
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	if errors.Is(err, cke.ErrNotFound) || err == nil && !c.Running() {
		return nil // it is not ours that answers; caughtUp finds out
	}
	if err != nil {
		return err
	}
	return runOnOwnData(ctx, e, j, id.Incarnation.Token)
}

// Lag returns how many entries a member is behind the leader, by their own reports.
func Lag(member, leader cke.EndpointStatus) int64 {
	return max(0, int64(leader.RaftIndex)-int64(member.RaftApplied))
}

func (p PromoteMember) caughtUp(ctx context.Context, e Env) error {
	for good := 0; ; {
		list, id, err := readList(ctx, e)
		if err != nil {
			return err
		}
		m, there := list.of(p.Join)
		if !there {
			return fmt.Errorf("%s is not in the member list: %w", p.Join.Node.Name(), cke.ErrConflict)
		}
		if !m.Learner {
			return nil
		}
		leader, err := leaderOr(ctx, e, id, list)
		if err != nil {
			return err
		}
		if s := e.Etcd.Endpoint(ctx, p.Join.ClientURL()); p.is(m, s, id) && Lag(s, leader) < MaxLag {
			if good++; good == steadyLooks {
				return whenReady(ctx, e, func() error { return p.follows(ctx, e, id, m, leader) })
			}
		} else {
			good = 0
		}
		if err := e.Pause(ctx, steadyEvery); err != nil {
			return fmt.Errorf("the learner does not keep up: %w", err)
		}
	}
}

// is reports whether an answer is that of the learner itself: another member may answer at its address.
func (PromoteMember) is(learner cke.Member, s cke.EndpointStatus, id cke.Identity) bool {
	return s.Healthy() && !id.OfAnother(s) && s.MemberID == learner.ID
}

// followLooks is how often in a row a learner may lack an entry that its leader has.
const followLooks = 20

// follows reports whether a learner receives what its leader commits now: ErrNotReady if it does not. A learner never
// campaigns, and answers from its own data. So one that is cut off from its leader goes on naming it without an error,
// and lags little while little is written. It would be a vote that is missing. Source: etcd, raft.promotable.
func (p PromoteMember) follows(ctx context.Context, e Env, id cke.Identity, learner cke.Member, leader cke.EndpointStatus) error {
	if err := e.Etcd.ProveWrite(ctx, leader.URL); err != nil {
		return err
	}
	if leader = e.Etcd.Endpoint(ctx, leader.URL); !leader.Healthy() {
		return fmt.Errorf("the member at %s does not answer any more: %w", leader.URL, cke.ErrNotReady)
	}
	for range followLooks {
		if s := e.Etcd.Endpoint(ctx, p.Join.ClientURL()); p.is(learner, s, id) && s.RaftApplied >= leader.RaftIndex {
			return nil
		}
		if err := e.Pause(ctx, steadyEvery); err != nil {
			return err
		}
	}
	return fmt.Errorf("the learner on %s does not receive what its leader commits: %w", p.Join.Node.Name(), cke.ErrNotReady)
}

// leaderOf asks the members who leads, and returns what the leader says of itself. One that is not on record is asked where the list has it.
func leaderOf(ctx context.Context, e Env, id cke.Identity) (cke.EndpointStatus, error) {
	for _, j := range id.Joins {
		if s := e.Etcd.Endpoint(ctx, j.ClientURL()); s.Healthy() && !id.OfAnother(s) && s.LeaderID != "" && s.LeaderID == s.MemberID {
			return s, nil
		}
	}
	if list, _, err := readList(ctx, e); err == nil {
		if m, listed := list.byID(e.Etcd.Endpoint(ctx, list.via).LeaderID); listed {
			if s, is := serves(ctx, e, id, m); is && s.LeaderID == m.ID {
				return s, nil
			}
		}
	}
	return cke.EndpointStatus{}, fmt.Errorf("no member reports that it leads: %w", cke.ErrNotReady)
}

// leaderOr is leaderOf, or, since a foreign member may lead that does not answer, what the member says that the list was read through.
func leaderOr(ctx context.Context, e Env, id cke.Identity, list memberList) (cke.EndpointStatus, error) {
	leader, err := leaderOf(ctx, e, id)
	if err == nil {
		return leader, nil
	}
	if other := e.Etcd.Endpoint(ctx, list.via); other.Linearizable {
		return other, nil
	}
	return leader, err
}

func (p PromoteMember) promote(ctx context.Context, e Env) error {
	list, id, err := readList(ctx, e)
	if err != nil {
		return err
	}
	m, there := list.of(p.Join)
	switch {
	case !there:
		return fmt.Errorf("%s is not in the member list: %w", p.Join.Node.Name(), cke.ErrConflict)
	case !m.Learner:
		return nil
	}
	// Its log may have been removed while it runs: what it would acknowledge as a voter is lost with its process.
	if err := needData(ctx, e.Machines.Machine(p.Join.Node), p.Join); err != nil {
		return err
	}
	// From now on its data counts: also where another client has started it, or its removal as a learner failed.
	if j, _ := id.Join(p.Join.ID); j.StartedAt.IsZero() || j.NeverVoted || j.Repair || !j.MayVote {
		if err := putJoin(ctx, e, p.Join.ID, func(j *cke.Join) { noteVote(j, e.Now()) }); err != nil {
			return err
		}
	}
	// A follower forwards this without saying who asked: with etcd's authentication on the leader refuses it.
	// Source: etcd, EtcdServer.PromoteMember and promoteMemberHTTP.
	leader, err := leaderOr(ctx, e, id, list)
	if err != nil {
		return err
	}
	// etcd judges a learner by what it had before it fell silent. One that died, or was cut off, since it was observed would be a vote
	// that is missing.
	if err := p.follows(ctx, e, id, m, leader); err != nil {
		return err
	}
	err = e.Etcd.Promote(ctx, leader.URL, m.ID)
	if l, listed := list.byID(leader.LeaderID); err != nil && listed && l.ID != leader.MemberID && !errors.Is(err, cke.ErrNotReady) {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("member %s leads and does not answer cke, and the learner on %s could not be promoted through another one", l.ID, p.Join.Node.Name()),
			Facts: []string{"with etcd's authentication on, only the leader promotes a learner, and it must trust cke's client certificate"}, Try: moveManually(l), Err: err}
	}
	return err
}
