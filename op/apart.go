package op

import (
	"context"
	"fmt"
	"slices"

	"cke"
)

// StopApart stops a member that an operator has put aside, see cke.Join.Apart, and ends its engine's own restarts. Its membership and its
// volume stay until it is replaced.
type StopApart struct{ Join cke.Join }

var _ Operation = StopApart{}

// Name implements Operation.
func (StopApart) Name() string { return "stop-apart" }

// Targets implements Operation.
func (s StopApart) Targets() []string { return []string{s.Join.Node.Name()} }

// Stages implements Operation.
func (s StopApart) Stages() []Stage {
	return []Stage{{unless(stopStep(s.Join), func(ctx context.Context, e Env, id cke.Identity) error {
		if j, lasts := id.Join(s.Join.ID); !lasts || !j.Apart {
			return fmt.Errorf("%s is not put aside: %w", s.Join.Node.Name(), cke.ErrConflict)
		}
		serving := cke.EtcdStatus{Endpoints: servingNow(ctx, e, id)}
		own, _ := serving.Endpoint(s.Join.ID)
		for _, o := range serving.Endpoints {
			if o.Join != own.Join && own.Follows(o, id.Incarnation.ClusterID) {
				return fmt.Errorf("%s serves with %s: %w", s.Join.Node.Name(), o.URL, cke.ErrConflict)
			}
		}
		return nil
	})}}
}

// answersOf asks each member where it is on record, in the order of the memberships.
func answersOf(ctx context.Context, e Env, id cke.Identity) (all []cke.EndpointStatus) {
	for _, j := range id.Joins {
		s := e.Etcd.Endpoint(ctx, j.ClientURL())
		s.Join = j.ID
		all = append(all, s)
	}
	return all
}

// servingNow are the answers of those that serve as the members that are on record.
func servingNow(ctx context.Context, e Env, id cke.Identity) []cke.EndpointStatus {
	return slices.DeleteFunc(answersOf(ctx, e, id), func(s cke.EndpointStatus) bool {
		j, _ := id.Join(s.Join)
		return s.MemberID != j.MemberID || !s.Serves(id.Incarnation.ClusterID)
	})
}

// putAside records which members are not to be started any more once a freeze is lifted: those that served without the ones that serve
// now, or less than these, and that a person has stopped. Who is right is chosen by that, so it has to be seen.
func putAside(ctx context.Context, e Env, id cke.Identity) error {
	f := id.Freeze
	if f.Kind != cke.FreezeTwoQuorums && f.Kind != cke.FreezeWentBack || id.Incarnation == nil {
		return nil
	}
	c := choice{cluster: id.Incarnation.ClusterID, seen: f.Etcd}
	for look := range apartLooks { // one answer may be lost, or an election be under way
		if look > 0 && e.Pause(ctx, apartPause) != nil {
			return ctx.Err()
		}
		if c.now = servingNow(ctx, e, id); c.complete(id.Joins) {
			break
		}
	}
	var changed []cke.Join
	var open []cke.Join
	for _, j := range id.Joins {
		apart := !c.serves(j) && (j.Apart || c.without(j) || f.Kind == cke.FreezeWentBack && f.Problem.Node == j.Node.Name() && !c.with(j) && !runs(ctx, e, j))
		if !apart && !c.serves(j) && c.served(j) {
			open = append(open, j)
		}
		if apart != j.Apart {
			j.Apart = apart
			changed = append(changed, j)
		}
	}
	if err := c.refusal(f.Kind, open); err != nil {
		return err
	}
	if changed == nil {
		return nil
	}
	return e.Ledger.PutJoins(ctx, id, changed...)
}

// choice is what a person has chosen by stopping members, as far as can be seen.
type choice struct {
	cluster string
	seen    cke.EtcdStatus       // when the cluster was frozen
	now     []cke.EndpointStatus // of those that serve now
}

func (c choice) serves(j cke.Join) bool {
	return slices.ContainsFunc(c.now, func(s cke.EndpointStatus) bool { return s.Join == j.ID })
}

func (c choice) served(j cke.Join) bool {
	then, _ := c.seen.Endpoint(j.ID)
	return then.Serves(c.cluster)
}

// apart reports whether two members were seen to serve without each other.
func (c choice) apart(a, b cke.JoinID) bool {
	one, _ := c.seen.Endpoint(a)
	other, _ := c.seen.Endpoint(b)
	two := cke.EtcdStatus{Endpoints: []cke.EndpointStatus{one, other}, Members: c.seen.Members, MembersSource: c.seen.MembersSource}
	_, _, is := two.Apart(c.cluster)
	return is
}

// without reports whether a member served without one that serves now.
func (c choice) without(j cke.Join) bool {
	return slices.ContainsFunc(c.now, func(s cke.EndpointStatus) bool { return c.apart(s.Join, j.ID) })
}

// with reports whether a member served in one quorum with one that serves now.
func (c choice) with(j cke.Join) bool {
	then, _ := c.seen.Endpoint(j.ID)
	return slices.ContainsFunc(c.now, func(s cke.EndpointStatus) bool {
		was, _ := c.seen.Endpoint(s.Join)
		return then.Follows(was, c.cluster)
	})
}

// complete reports whether each member that served then serves now, or served without one that does.
func (c choice) complete(joins []cke.Join) bool {
	return len(c.now) > 0 && !slices.ContainsFunc(joins, func(j cke.Join) bool { return c.served(j) && !c.serves(j) && !c.without(j) })
}

// refusal is why nothing can be said of who is right. open are members that served then, do not serve now, and are with nobody who does. A
// cluster that went back as a whole, and serves, is lifted as it is.
func (c choice) refusal(kind cke.FreezeKind, open []cke.Join) error {
	refuse := func(what string, facts ...string) error {
		return &cke.Error{Code: cke.CodeSplitBrain, What: what, Facts: facts, Unchanged: true, Try: "ckecli cluster evidence"}
	}
	now := cke.EtcdStatus{Endpoints: c.now}
	if one, other, is := now.Apart(c.cluster); is {
		return refuse("two clusters serve still: stop the members with the wrong data before the freeze is lifted", one.URL+" follows member "+one.LeaderID, other.URL+" follows member "+other.LeaderID)
	}
	if len(c.now) == 0 {
		return refuse("no member serves, so it cannot be seen which data is to be kept: let the right ones serve, and stop the others, before the freeze is lifted", "where too few of them are left to serve, `ckecli recover` goes on from one")
	}
	if kind != cke.FreezeTwoQuorums {
		return nil
	}
	for i, a := range open {
		for _, b := range open[:i] {
			if c.apart(a.ID, b.ID) {
				return refuse("it cannot be seen which data is to be kept: let the right members serve before the freeze is lifted",
					fmt.Sprintf("%s and %s served without each other, and neither serves", b.Node.Name(), a.Node.Name()))
			}
		}
	}
	return nil
}

// runs reports whether a member's container is seen to run.
func runs(ctx context.Context, e Env, j cke.Join) bool {
	c, err := e.Machines.Machine(j.Node).Container(ctx, j)
	return err == nil && c.Running()
}
