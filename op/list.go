package op

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/quorum"
)

// memberList is a linearizable member list with the URL of the member that it was read through.
type memberList struct {
	via     string
	members []cke.Member
}

// readList reads the member list through the first member that answers, and refuses one of another cluster. One that an
// operator knows to be of another cluster, or has put aside, is passed over.
func readList(ctx context.Context, e Env) (memberList, cke.Identity, error) {
	id, err := e.Ledger.Identity(ctx)
	if err != nil {
		return memberList{}, id, err
	}
	if id.Incarnation == nil || id.Incarnation.State != cke.Formed {
		return memberList{}, id, fmt.Errorf("the cluster is not formed: %w", cke.ErrConflict)
	}
	type asked struct {
		join      cke.Join
		name, url string
	}
	var all []asked
	for _, j := range cke.Chosen(id.Joins) {
		if j.MemberID != "" || !j.StartedAt.IsZero() {
			all = append(all, asked{j, j.Node.Name(), j.ClientURL()})
		}
	}
	if old := id.Incarnation.Importing(); old != nil {
		for _, o := range old.Members {
			all = append(all, asked{cke.Join{ID: cke.JoinID(o.ID)}, o.URL, o.URL})
		}
	}
	var failed []error
	for _, a := range all {
		clusterID, members, err := e.Etcd.Members(ctx, a.url)
		switch {
		case err != nil:
			failed = append(failed, err)
		case clusterID == id.Incarnation.ClusterID:
			return memberList{via: a.url, members: members}, id, oneOfTwo(ctx, e, id, a.url, members)
		case slices.Contains(id.Freeze.Tolerated(), cke.OtherID(a.join, clusterID)):
			failed = append(failed, fmt.Errorf("%s answers with cluster id %s", a.name, clusterID))
		default:
			return memberList{}, id, &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("%s answers with cluster id %s, on record is %s", a.name, clusterID, id.Incarnation.ClusterID)}
		}
	}
	return memberList{}, id, fmt.Errorf("no member gives a member list: %w", cmp.Or(errors.Join(failed...), cke.ErrNotReady))
}

// oneOfTwo refuses a list that was read through an old member if another one serves that it lacks: nobody but cke removes them, and none that
// it has removed serves. The larger cluster may be the other one.
func oneOfTwo(ctx context.Context, e Env, id cke.Identity, via string, list []cke.Member) error {
	old := id.Incarnation.Importing()
	if !slices.Contains(old.URLs(), via) {
		return nil
	}
	for _, o := range old.Members {
		if o.In(list) {
			continue
		}
		if s := e.Etcd.Endpoint(ctx, o.URL); s.MemberID == o.ID && s.Serves(id.Incarnation.ClusterID) {
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("member %s of the old cluster serves at %s, and is not in the member list of %s", o.Name, o.URL, via), Unchanged: true, Err: cke.ErrConflict}
		}
	}
	return nil
}

// of returns the entry of a join.
func (l memberList) of(j cke.Join) (cke.Member, bool) {
	i := slices.IndexFunc(l.members, func(m cke.Member) bool { return m.Of(j) })
	if i < 0 {
		return cke.Member{}, false
	}
	return l.members[i], true
}

func (l memberList) byID(id string) (cke.Member, bool) {
	i := slices.IndexFunc(l.members, func(m cke.Member) bool { return m.ID == id })
	if i < 0 {
		return cke.Member{}, false
	}
	return l.members[i], true
}

// MayBe reports whether a member could belong to a membership whose member id is not on record: it is at its node, or
// has its name. It may have moved to other ports since the store was copied.
func MayBe(m cke.Member, j cke.Join) bool {
	return m.Of(j) || j.MemberID == "" && (m.Name == j.Member || slices.ContainsFunc(m.PeerURLs, func(text string) bool {
		host, _ := cke.HostPort(text)
		return host == j.Node.Address
	}))
}

// voters counts the entries that vote.
func (l memberList) voters() int { return cke.CountVoters(l.members) }

// healthy are the answers of the voters apart from one that serve, with fresh looks.
func (l memberList) healthy(ctx context.Context, e Env, id cke.Identity, without string) []cke.EndpointStatus {
	var healthy []cke.EndpointStatus
	for _, m := range l.members {
		if m.Learner || m.ID == without {
			continue
		}
		if s, is := serves(ctx, e, id, m); is {
			healthy = append(healthy, s)
		}
	}
	return healthy
}

// serves asks a voter whether it serves linearizable reads of this cluster, with a fresh look: where it is on record, or, in case that is
// older, where the list has it.
func serves(ctx context.Context, e Env, id cke.Identity, m cke.Member) (s cke.EndpointStatus, is bool) {
	_, url, known := askedAt(id, m, func(j cke.Join) bool { return j.MemberID == m.ID })
	if !known {
		return s, false
	}
	at := func(url string) bool {
		s = e.Etcd.Endpoint(ctx, url)
		return s.Healthy() && s.Linearizable && s.MemberID == m.ID && s.ClusterID == id.Incarnation.ClusterID && !id.OfAnother(s)
	}
	if at(url) {
		return s, true
	}
	listed, elsewhere := id.StrangerURL(m)
	return s, elsewhere && listed != url && at(listed)
}

// askedAt returns where a member may be asked, and what people know it by: as the membership that it is, if one is, or as the list has it.
// false: that is not known.
func askedAt(id cke.Identity, m cke.Member, is func(cke.Join) bool) (name, url string, known bool) {
	if i := slices.IndexFunc(id.Joins, is); i >= 0 {
		return id.Joins[i].Node.Name(), id.Joins[i].ClientURL(), true
	}
	if m.Name == "" {
		return "", "", false
	}
	url, known = id.StrangerURL(m)
	return m.Name, url, known
}

// known waits until all voters that answer have applied the list. A new member asks the voters one after the other who it
// is, and believes the first: one that is behind may list the member that stood at its peer URL before, under whose id it
// would start empty. Source: etcd, GetClusterFromRemotePeers, which takes what a member knows by itself.
func (l memberList) known(ctx context.Context, e Env, id cke.Identity) error {
	type voter struct{ name, url string }
	var asked []voter
	applied := uint64(0)
	for _, m := range l.members {
		name, url, known := askedAt(id, m, m.Of)
		if m.Learner || !known {
			continue
		}
		s := e.Etcd.Endpoint(ctx, url)
		if s.Problem != "" { // an answer may be lost
			s = e.Etcd.Endpoint(ctx, url)
		}
		if s.Problem == "" && cke.IsApart(id.Joins, s) {
			return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("%s is put aside, and its member runs: a new member could ask it for its id", name), Unchanged: true, Try: "ckecli replace " + name, Err: cke.ErrConflict}
		}
		if s.Problem == "" && s.ClusterID == id.Incarnation.ClusterID {
			asked, applied = append(asked, voter{name, url}), max(applied, s.RaftApplied)
		}
	}
	for _, v := range asked {
		for {
			s := e.Etcd.Endpoint(ctx, v.url)
			if s.Problem == "" && s.RaftApplied >= applied {
				break
			}
			if e.Pause(ctx, steadyEvery) != nil {
				return fmt.Errorf("%s has applied %d of %d entries, and could still list a removed member to a new one: %w", v.name, s.RaftApplied, applied, cke.ErrNotReady)
			}
		}
	}
	return nil
}

// gate asks for the arithmetic again, on a fresh list and with fresh health: the healthy voters apart from one must be
// at least the quorum of the voters there will be.
func (l memberList) gate(ctx context.Context, e Env, id cke.Identity, without string, voters int) (healthy int, err error) {
	serve := l.healthy(ctx, e, id, without)
	for i := range serve {
		if serve[i].FollowsAnother(serve[0]) { // an election between two answers looks alike, and is over at the next try
			return 0, &cke.Error{Code: cke.CodeQuorum, What: "the serving members do not all form one quorum", Unchanged: true,
				Facts: []string{fmt.Sprintf("%s follows member %s, %s follows member %s", serve[0].URL, serve[0].LeaderID, serve[i].URL, serve[i].LeaderID)}}
		}
	}
	healthy = len(serve)
	if why := quorum.Enough(voters, healthy); why != "" {
		return healthy, &cke.Error{Code: cke.CodeQuorum, What: "quorum would be lost", Unchanged: true, Facts: []string{why}}
	}
	return healthy, nil
}

// takeGate is gate for a voter that is taken away. One that serves, perhaps again since this was decided, is let go only
// while everything else is well; whether it does is asked only where that matters.
func (l memberList) takeGate(ctx context.Context, e Env, id cke.Identity, m cke.Member, voters int) error {
	healthy, err := l.gate(ctx, e, id, m.ID, voters)
	if err != nil {
		return err
	}
	why := ""
	switch others := l.voters() - 1; {
	case slices.ContainsFunc(l.members, func(o cke.Member) bool { return o.ID != m.ID && (o.Learner || o.Name == "") }):
		why = quorum.InFlight
	case healthy < others:
		why = fmt.Sprintf("%d of the %d other voters are healthy", healthy, others)
	default:
		for _, j := range id.Joins {
			if o, there := l.of(j); there && !o.Learner && o.ID != m.ID && j.Stopping {
				why = j.Node.Name() + " was asked to stop, and its engine has not answered since"
			}
		}
	}
	if why == "" {
		return nil
	}
	if _, is := serves(ctx, e, id, m); !is {
		return nil
	}
	return &cke.Error{Code: cke.CodeQuorum, What: "a serving member is not taken away while another change is under way or another member is down", Facts: []string{why}, Unchanged: true}
}

// pauseGate is takeGate for a member that is to answer nobody for a while. gap: of one or two voters any may, since that
// cannot be done without one.
func (l memberList) pauseGate(ctx context.Context, e Env, id cke.Identity, m cke.Member, gap bool) error {
	if m.Learner || gap && l.voters() <= 2 {
		return nil
	}
	return l.takeGate(ctx, e, id, m, l.voters())
}

// readyEvery is the pause between two tries of a change that etcd does not accept yet: its members must have been
// connected for five seconds, and have started.
const readyEvery = 100 * time.Millisecond

// whenReady tries again while etcd says that it is not ready, until ctx ends. try reads what it depends on again.
func whenReady(ctx context.Context, e Env, try func() error) error {
	for {
		err := try()
		if !errors.Is(err, cke.ErrNotReady) || e.Pause(ctx, readyEvery) != nil {
			return err
		}
	}
}

// putJoin stores a changed join.
func putJoin(ctx context.Context, e Env, id cke.JoinID, change func(*cke.Join)) error {
	identity, err := e.Ledger.Identity(ctx)
	if err != nil {
		return err
	}
	j, ok := identity.Join(id)
	if !ok {
		return fmt.Errorf("membership %s has ended: %w", id, cke.ErrConflict)
	}
	change(&j)
	return e.Ledger.PutJoins(ctx, identity, j)
}

// unproved is why nothing is done by a list that may be that of a second cluster, see Unproved.
func (l memberList) unproved(so string) error {
	return &cke.Error{Code: cke.CodeSplitBrain, What: fmt.Sprintf("the member list of %s has no quorum of the members on record, so %s", l.via, so),
		Facts: []string{fmt.Sprintf("it lists %s", cke.Count(len(l.members), "member"))}, Unchanged: true, Err: cke.ErrConflict}
}
