package mtest_test

import (
	"fmt"
	"testing"

	"cke"
	"cke/etcdnode"
	"cke/mtest/lab"
)

// troubles are failures of a node, or of a part of its network, that pass.
var troubles = []struct {
	name  string
	role  string // of the member that is struck
	begin func(*story, lab.Node)
	code  cke.Code
}{
	{"a follower is frozen", "follower", freeze, cke.CodeUnreachable},
	{"a follower is cut off", "follower", cut(lab.Cut{}), cke.CodeUnreachable},
	{"a follower is deaf", "follower", cut(lab.Cut{Direction: lab.In}), cke.CodeUnreachable},
	{"a follower is mute", "follower", cut(lab.Cut{Direction: lab.Out}), cke.CodeUnreachable},
	{"the management host does not reach a follower", "follower", cut(lab.Cut{From: lab.FromHost}), cke.CodeUnreachable},
	{"the other members do not reach a follower", "follower", cutFromPeers, cke.CodeMemberSilent},
	{"the leader is frozen", "leader", freeze, cke.CodeUnreachable},
}

func freeze(s *story, n lab.Node) { s.must(s.Lab.Pause(s.ctx, n.Name)) }

func cut(c lab.Cut) func(*story, lab.Node) {
	return func(s *story, n lab.Node) { s.must(s.Lab.Cut(s.ctx, n.Name, c)) }
}

func cutFromPeers(s *story, n lab.Node) {
	for _, other := range s.nodes {
		if other.Name != n.Name {
			s.must(s.Lab.Cut(s.ctx, n.Name, lab.Cut{From: other.Name}))
		}
	}
}

// The status says what is wrong, nothing is done about it, since the data may be intact, and all is well once it passes.
func TestLabNetwork_TroubleThatPassesLeadsToNoHarm(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	tls := s.clientTLS()
	did := len(s.records())
	w := s.writer(tls)
	for _, trouble := range troubles {
		s.part(trouble.name, func(s *story) {
			s.must(w.Await(s.within(seenLimit), 20))
			w.TakeGap()
			n := s.carrier(trouble.role)
			trouble.begin(s, n)
			s.await("the trouble to be told", seenLimit, func(st cke.Status) bool {
				_, told := problemOf(st, n.Name, trouble.code)
				return told && st.Health == cke.HealthDegraded && st.Ready == 2 && st.Tolerance == 0 && st.Operation == nil
			})
			s.refused(3, nil, "status", "--check")
			s.must(w.Await(s.within(seenLimit), 20))
			s.must(s.Lab.Heal(s.ctx, n.Name))
			s.must(s.Lab.Unpause(s.ctx, n.Name))
			s.stillMembers(before)
			s.Logf("the longest time without an acknowledged write: %s", w.TakeGap())
			if now := s.records(); len(now) != did {
				s.Errorf("something was done: %+v", now[:len(now)-did])
			}
		})
	}
	w.Stop()
	s.must(w.Check(s.ctx, s.urls(), tls))
	s.oneCluster()
}

// carrier returns a node that carries a member of this role.
func (s *story) carrier(role string) lab.Node {
	s.Helper()
	st := s.ready()
	for i, m := range st.Members {
		if m.Role == role {
			return s.nodes[i]
		}
	}
	s.Fatalf("no %s: %+v", role, st.Members)
	return lab.Node{}
}

// onNode asks a member from its own node, with the certificate of its server, which its client port trusts.
func (s *story) onNode(n lab.Node, args ...string) (string, error) {
	in := func(file string) string { return etcdnode.DataPath + "/" + file }
	j := s.statusOf(n.Name)
	command := append([]string{"docker", "exec", j.Container.Name, "etcdctl", "--endpoints=https://127.0.0.1:2379",
		"--cacert=" + in(cke.ServerCAFile), "--cert=" + in(cke.ServerCertFile), "--key=" + in(cke.ServerKeyFile)}, args...)
	return s.Lab.Exec(s.within(seenLimit), n.Name, command...)
}

func (s *story) statusOf(node string) cke.MemberStatus {
	for _, m := range s.now().Members {
		if m.Name == node {
			return m
		}
	}
	s.Fatalf("no member on %s", node)
	return cke.MemberStatus{}
}

// What the management host cannot see may serve: it is never said to be lost.
func TestLabNetwork_AManagementHostThatIsCutOffSaysThatItSeesNothing(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	tls := s.clientTLS()
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))
	for _, n := range s.nodes {
		s.must(s.Lab.Cut(s.ctx, n.Name, lab.Cut{From: lab.FromHost}))
	}
	st := s.await("the cluster to be out of sight", seenLimit, func(st cke.Status) bool {
		_, told := problemOf(st, "", cke.CodeUnseen)
		if st.Health == cke.HealthLost {
			t.Errorf("LOST: %s", st.Summary)
		}
		return told && st.Health == cke.HealthUnknown
	})
	for i, n := range s.nodes {
		if _, err := s.onNode(n, "put", "meanwhile", fmt.Sprint(i)); err != nil {
			t.Errorf("%s takes no write: %v", n.Name, err)
		}
	}
	for _, kind := range []cke.ConditionType{cke.CondReady, cke.CondQuorate, cke.CondAllMembersReady} {
		if c, _ := st.Condition(kind); c.Status != cke.Unknown {
			t.Errorf("%+v", c)
		}
	}
	s.refused(4, nil, "status", "--check")
	t.Logf("\n%s", s.do("status"))
	for _, n := range s.nodes {
		s.must(s.Lab.Heal(s.ctx, n.Name))
	}
	s.ready()
	// One node that is provably down and one that is silent: two of three are no quorum, and only one is known not to serve.
	s.must(s.Lab.Cut(s.ctx, s.nodes[0].Name, lab.Cut{}))
	s.must(s.Lab.Cut(s.ctx, s.nodes[1].Name, lab.Cut{}))
	s.await("the member that is left to be isolated", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthUnknown })
	for _, n := range s.nodes[:2] {
		s.must(s.Lab.Heal(s.ctx, n.Name))
	}
	s.ready()
	w.Stop()
	s.must(w.Check(s.ctx, s.urls(), tls))
	s.oneCluster()
}
