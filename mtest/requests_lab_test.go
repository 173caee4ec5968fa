package mtest_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
)

// TestLabRequests_AreDoneWhileClientsWrite asks one cluster of three for all that persons ask for once, or for a time,
// while clients write. No acknowledged write may be lost, and the cluster stays the same one.
func TestLabRequests_AreDoneWhileClientsWrite(t *testing.T) {
	rare(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	founded := s.found()
	tls := s.clientTLS()
	w, err := rig.StartWriter(s.urls(), tls, "w/")
	s.must(err)
	t.Cleanup(w.Stop)
	name := func(i int) string { return s.nodes[i].Name }
	running := func(i int) bool { return s.on(s.nodes[i], "docker ps -q") != "" }

	asked := func(title string, serves bool, f func(*story)) {
		s.part(title, func(s *story) {
			s.must(w.Await(s.within(seenLimit), 20))
			w.TakeGap()
			f(s)
			s.must(w.Await(s.within(seenLimit), 20))
			gap := w.TakeGap().Round(time.Millisecond)
			s.Logf("the longest time without an acknowledged write: %s", gap)
			if serves && gap > 5*time.Second {
				s.Errorf("clients could not write for %s", gap)
			}
			s.must(w.Check(s.within(seenLimit), s.urls(), tls))
			if st := s.ready(); st.ClusterID != founded.ClusterID {
				s.Errorf("the cluster id was %s and is %s", founded.ClusterID, st.ClusterID)
			}
		})
	}
	asked("each member leads in turn", true, func(s *story) {
		for i := range s.nodes {
			s.do("etcd", "move-leader", name(i))
			s.await(name(i)+" to lead", seenLimit, func(st cke.Status) bool { return st.Members[i].Role == "leader" })
		}
	})
	asked("a node is drained, rebooted and undrained", true, func(s *story) {
		s.do("etcd", "can-stop", name(2))
		s.do("node", "drain", name(2), "--for", "10m", "--reason", "new kernel", "--yes")
		if running(2) {
			s.Errorf("%s may not be taken down: its member runs", name(2))
		}
		s.await("the lease to be told", seenLimit, func(st cke.Status) bool { return len(st.Drains) == 1 && st.Members[2].State == "drained" })
		s.refused(6, []string{"CKE112", name(2) + " is drained"}, "node", "drain", name(1), "--yes")
		s.refused(6, []string{"CKE104", "is drained"}, "etcd", "can-stop", name(1))
		s.refused(6, []string{"CKE104"}, "etcd", "defrag", name(0))
		s.must(s.Lab.Kill(s.ctx, name(2)))
		s.must(s.Lab.Start(s.ctx, name(2)))
		s.nudge()
		s.await(name(2)+" to answer", readyLimit, func(st cke.Status) bool { return st.Nodes[2].Answered() })
		if running(2) {
			s.Errorf("the member of %s came back by itself", name(2))
		}
		s.do("node", "undrain", name(2))
		if policy := s.on(s.nodes[2], "docker inspect -f '{{.HostConfig.RestartPolicy.Name}}' $(docker ps -q)"); strings.TrimSpace(policy) != "always" {
			s.Errorf("the engine of %s would not restart the member: %q", name(2), policy)
		}
		s.stillMembers(founded)
	})
	asked("databases are defragmented", true, func(s *story) { s.do("etcd", "defrag") })
	asked("the cluster hibernates and is resumed", false, func(s *story) {
		s.do("cluster", "hibernate", founded.Cluster, "--confirm", founded.Cluster)
		for i := range s.nodes {
			if running(i) {
				s.Errorf("the member of %s runs", name(i))
			}
		}
		s.on(s.nodes[1], "docker start $(docker ps -aq)")
		s.await("the member that somebody started to be stopped", readyLimit, func(cke.Status) bool { return !running(1) })
		s.do("cluster", "resume", founded.Cluster)
		s.stillMembers(founded)
	})
	asked("a healthy member is replaced", true, func(s *story) {
		s.do("replace", name(1), "--yes")
		st := s.ready()
		if st.Members[1].Join == founded.Members[1].Join || st.Members[0].Join != founded.Members[0].Join {
			s.Errorf("%+v, before %+v", st.Members, founded.Members)
		}
	})
	w.Stop()
	t.Logf("%d acknowledged writes, none lost", w.Acked())
}
