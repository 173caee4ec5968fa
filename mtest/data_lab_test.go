package mtest_test

import (
	"fmt"
	"strings"
	"testing"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

func TestLabData_BlankMachinesAreNoReasonForASecondBootstrap(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	did := len(s.records())
	for _, n := range s.nodes {
		s.must(s.Lab.Wipe(s.ctx, n.Name, lab.WipeOptions{KeepHostKey: true}))
	}
	st := s.await("the blank nodes to be told", seenLimit, func(st cke.Status) bool {
		_, told := problemOf(st, "", cke.CodeBlankNodes)
		return told
	})
	c, _ := st.Condition(cke.CondReady)
	p, _ := problemOf(st, "", cke.CodeBlankNodes)
	if c.Status != cke.False || c.Reason != "BlankNodes" || st.Health != cke.HealthLost || !strings.Contains(p.Remedy, "restore") {
		t.Errorf("condition %+v, health %s, problem %+v", c, st.Health, p)
	}
	if st.Incarnation != before.Incarnation || st.ClusterID != before.ClusterID {
		t.Errorf("the cluster is no longer known: %+v", st)
	}
	// It stays so, also for a daemon that comes fresh to it.
	s.do("leader", "--resign")
	s.await("the next term to say the same", seenLimit, func(now cke.Status) bool {
		_, told := problemOf(now, "", cke.CodeBlankNodes)
		return told && now.Leader.Term > st.Leader.Term
	})
	for name, has := range s.carriedBy(s.nodes) {
		if has != "" {
			t.Errorf("%s carries\n%s", name, has)
		}
	}
	for _, r := range s.records()[:len(s.records())-did] {
		t.Errorf("something was done: %+v", r)
	}
}

// losses take away the data of one member: that of the container and volume of this name on a node.
var losses = []struct {
	name string
	lose func(s *story, n lab.Node, volume string)
}{
	{"the volume was removed", func(s *story, n lab.Node, volume string) {
		s.on(n, fmt.Sprintf("docker rm -f %s && docker volume rm %s", volume, volume))
	}},
	{"the volume was emptied", func(s *story, n lab.Node, volume string) {
		s.on(n, fmt.Sprintf("docker kill %s && rm -rf /var/lib/docker/volumes/%s/_data/data", volume, volume))
	}},
	{"the machine was replaced by a blank one", func(s *story, n lab.Node, _ string) {
		s.must(s.Lab.Wipe(s.ctx, n.Name, lab.WipeOptions{KeepHostKey: true}))
	}},
}

func TestLabData_AMemberWhoseDataIsGoneIsNeverStartedEmpty(t *testing.T) {
	for _, loss := range losses {
		t.Run(loss.name, func(t *testing.T) {
			s := newStory(t, 3)
			d := s.daemon("cke1")
			before := s.found()
			tls := s.clientTLS()
			w := s.writer(tls)
			victim := s.nodes[1]
			volume := s.volumeOn(victim)

			s.must(d.Freeze()) // it has no part in what happens behind its back
			loss.lose(s, victim, volume)
			s.must(d.Thaw())
			p := s.awaitProblem(victim.Name, cke.CodeDataMissing)
			if !strings.Contains(p.Message, volume) || !strings.Contains(p.Remedy, "bring the volume back") {
				t.Errorf("problem %+v", p)
			}
			s.await("the others to have a leader and no tolerance", seenLimit, func(st cke.Status) bool {
				return st.Health == cke.HealthDegraded && st.Ready == 2 && st.Tolerance == 0 && st.ClusterID == before.ClusterID
			})
			s.must(w.Await(s.within(seenLimit), 20)) // they serve
			if has := s.carried(victim); strings.Contains(has, "running") {
				t.Errorf("something runs on %s:\n%s", victim.Name, has)
			}
			if wal := s.on(victim, "find /var/lib/docker/volumes -name '*.wal'"); wal != "" {
				t.Errorf("etcd has begun a new log: %s", wal)
			}
			w.Stop()
			s.must(w.Check(s.ctx, []string{s.urls()[0], s.urls()[2]}, tls))
		})
	}
}

// volumeOn is the name of the only volume on a node, and of its container.
func (s *story) volumeOn(n lab.Node) string {
	s.Helper()
	volume, err := rig.Volume(s.ctx, s.Lab, n.Name)
	s.must(err)
	return volume
}
