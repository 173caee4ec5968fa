package sim_test

import (
	"context"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// rogue is a daemon that does what no daemon may.
type rogue struct {
	name string
	// before is what happens to the formed cluster of n1 to n3 first.
	before func(s *stage)
	do     func(ctx context.Context, s *stage, d *sim.Daemon)
	want   string
}

// join is the membership on a node.
func (s *stage) join(node string) cke.Join {
	for _, j := range s.Store().Identity().Joins {
		if j.Node.Name() == node {
			return j
		}
	}
	return cke.Join{}
}

func (s *stage) stopBy(ctx context.Context, d *sim.Daemon, node string) {
	j := s.join(node)
	_ = d.Machines().Machine(j.Node).StopContainer(ctx, j, 0)
}

// leading and following are nodes whose members lead and follow.
func (s *stage) leading() string   { return s.role(true) }
func (s *stage) following() string { return s.role(false) }

func (s *stage) role(leads bool) string {
	_, status := s.drivers[0].now()
	for _, m := range status.Members {
		if (m.Role == "leader") == leads {
			return m.Name
		}
	}
	return ""
}

var rogues = []rogue{
	{"stops a member of two that are left", func(s *stage) { s.Node("n1").PowerOff() },
		func(ctx context.Context, s *stage, d *sim.Daemon) { s.stopBy(ctx, d, "n2") }, "takes the quorum away"},
	{"removes a member beside a dead one", func(s *stage) { s.Node("n4").Join("hand", false) }, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_ = d.Etcd().RemoveMember(ctx, s.join("n3").ClientURL(), s.join("n2").MemberID)
	}, "takes a healthy voter away while"},
	{"stops a second member", nil, func(ctx context.Context, s *stage, d *sim.Daemon) {
		first := s.following()
		s.stopBy(ctx, d, first)
		for _, n := range []string{"n1", "n2", "n3"} {
			if n != first {
				s.stopBy(ctx, d, n)
			}
		}
	}, "takes a second voter away while another one is stopped"},
	{"stops the leader", nil, func(ctx context.Context, s *stage, d *sim.Daemon) { s.stopBy(ctx, d, s.leading()) }, "stops the leader though"},
	{"adds a second member", func(s *stage) { s.Node("n4").Join("hand", false) }, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_, _ = d.Etcd().AddLearner(ctx, s.join("n1").ClientURL(), "https://10.0.0.5:2380")
	}, "adds a member while a change of the member list is under way"},
	{"stops a member beside a learner", nil, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_, _ = d.Etcd().AddLearner(ctx, s.join("n1").ClientURL(), "https://10.0.0.4:2380")
		s.stopBy(ctx, d, s.following())
	}, "takes a healthy voter away while a change of the member list is under way"},
	{"removes a stranger", func(s *stage) { s.Node("n4").Join("hand", true) }, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_, members, _ := d.Etcd().Members(ctx, s.join("n1").ClientURL())
		_ = d.Etcd().RemoveMember(ctx, s.join("n1").ClientURL(), members[len(members)-1].ID)
	}, "removes a foreign member that is to be held"},
	{"removes a member that could come back", func(s *stage) { s.Node("n2").PowerOff() }, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_ = d.Etcd().RemoveMember(ctx, s.join("n1").ClientURL(), s.join("n2").MemberID)
	}, "removes the member of n2, whose data is there"},
	{"removes a member on removed files before there are others with their data", func(s *stage) {
		s.declare(s.Nodes()...)
		for _, n := range s.Nodes()[:3] {
			n.Unlink()
		}
	}, func(ctx context.Context, s *stage, d *sim.Daemon) {
		_ = d.Etcd().RemoveMember(ctx, s.join("n1").ClientURL(), s.join("n2").MemberID)
	}, "before there are as many others as are declared"},
	{"works after its term", func(s *stage) { s.Store().GuardOncePerMethod() }, func(ctx context.Context, s *stage, d *sim.Daemon) {
		s.once(sim.Proceed, func(c sim.Call) bool {
			if c.Name == "StopContainer inspect" {
				s.NewDaemon()
			}
			return c.Name == "StopContainer inspect"
		})
		s.stopBy(context.WithoutCancel(ctx), d, "n2")
	}, "after its term"},
	{"removes a volume", nil, func(ctx context.Context, s *stage, d *sim.Daemon) {
		j := s.join(s.following())
		m := d.Machines().Machine(j.Node)
		_ = m.StopContainer(ctx, j, 0)
		_ = m.RemoveContainer(ctx, j)
		_ = m.RemoveVolume(ctx, j)
	}, "is removed whose incarnation was not abandoned"},
}

// Each invariant is noticed when it is broken, and by itself: a proof that cannot fail proves nothing.
func TestChecker_NoticesWhatARogueDaemonDoes(t *testing.T) {
	for _, r := range rogues {
		t.Run(r.name, func(t *testing.T) {
			play(t, 4, func(s *stage) {
				s.declare(s.Nodes()[:3]...)
				s.daemon()
				if !s.until(convergence, s.settled) {
					t.Fatal("does not form")
				}
				s.latest().Kill()
				if r.before != nil {
					r.before(s)
				}
				d := s.NewDaemon()
				s.wg.Go(func() { r.do(d.Context(), s, d) })
				s.pass(time.Minute)
				s.mustViolate(t, r.want)
			})
		})
	}
}

// A member whose disk is put back to an earlier state has forgotten what it agreed to.
func TestChecker_NoticesAMemberOnOlderData(t *testing.T) {
	inEarlier(t, func(s *stage) {
		s.Node("n2").RollBack(1)
		s.mustViolate(t, "starts on older data than it had")
	})
}

func inEarlier(t *testing.T, scene func(s *stage)) {
	play(t, 3, func(s *stage) {
		s.daemon()
		if !s.until(convergence, s.settled) {
			t.Fatal("does not form")
		}
		s.latest().Kill()
		scene(s)
	})
}
