package mtest_test

import (
	"testing"

	"cke"
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
