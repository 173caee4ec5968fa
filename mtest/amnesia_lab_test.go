package mtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// dataOf is the data directory of the member on a node, as the node sees it.
func (s *story) dataOf(n lab.Node) string {
	return rig.DataDir(s.volumeOn(n))
}

// empty removes the data directory of the member on a node and kills etcd, which its engine starts again at once.
func (s *story) empty(n lab.Node) {
	s.must(rig.Empty(s.ctx, s.Lab, n.Name))
}

// neverEmpty fails if etcd has begun a log on a node whose data was removed.
func (s *story) neverEmpty(n lab.Node) {
	s.Helper()
	if wal := s.on(n, fmt.Sprintf("ls %s/member/wal/*.wal 2>/dev/null || true", s.dataOf(n))); wal != "" {
		s.Errorf("etcd has begun a log on %s: %s", n.Name, wal)
	}
}

// A founder that is emptied stays down, whoever starts it and whoever is away: the others have what was acknowledged.
func TestLabAmnesia_AFounderThatIsEmptiedStaysDown(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	tls := s.clientTLS()
	n1, n2, n3 := s.nodes[0], s.nodes[1], s.nodes[2]
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))
	s.must(s.Lab.Cut(s.ctx, n3.Name, lab.Cut{}))
	s.must(w.Await(s.within(seenLimit), 20)) // by n1 and n2 alone
	w.Stop()
	s.must(s.Lab.Cut(s.ctx, n1.Name, lab.Cut{}))
	s.empty(n1)
	s.must(s.Lab.Kill(s.ctx, n2.Name))
	s.must(s.Lab.Heal(s.ctx, n1.Name))
	s.must(s.Lab.Heal(s.ctx, n3.Name))
	p := s.awaitProblem(n1.Name, cke.CodeDataMissing)
	if strings.Contains(p.Message, "intact") {
		t.Errorf("%+v", p)
	}
	s.on(n1, "docker start "+s.volumeOn(n1))
	if st := s.now(); st.Health == cke.HealthReady || st.Etcd.Quorate {
		t.Errorf("%s, quorate %v", st.Health, st.Etcd.Quorate)
	}
	s.neverEmpty(n1)
	s.must(s.Lab.Start(s.ctx, n2.Name))
	s.await("n2 and n3 to serve", seenLimit, func(st cke.Status) bool { return st.Etcd.Quorate && st.Ready == 2 })
	s.neverEmpty(n1)
	s.must(w.Check(s.ctx, []string{s.urls()[1], s.urls()[2]}, tls))
}

// The shortest way: the others are down, one is emptied, the others come back.
func TestLabAmnesia_AFounderThatIsEmptiedWhileItIsAloneStaysDown(t *testing.T) {
	rare(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	tls := s.clientTLS()
	n1 := s.nodes[0]
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))
	w.Stop()
	for _, n := range s.nodes[1:] {
		s.must(s.Lab.Kill(s.ctx, n.Name))
	}
	s.empty(n1)
	s.awaitProblem(n1.Name, cke.CodeDataMissing)
	for _, n := range s.nodes[1:] {
		s.must(s.Lab.Start(s.ctx, n.Name))
	}
	st := s.await("the others to serve", seenLimit, func(st cke.Status) bool { return st.Etcd.Quorate && st.Ready == 2 })
	if st.Health != cke.HealthDegraded {
		t.Errorf("%s", st.Health)
	}
	s.neverEmpty(n1)
	s.must(w.Check(s.ctx, []string{s.urls()[1], s.urls()[2]}, tls))
}

// hollowLimit is how soon data that is removed under a member is recognized: 10 s where nodes answer in time, to which a busy
// machine adds.
const hollowLimit = 30 * time.Second

// Data that is removed while etcd runs is recognized soon, whether etcd runs on or its engine starts it again and again, and
// replaced by policy while the others serve.
func TestLabAmnesia_DataRemovedUnderAMemberIsReplaced(t *testing.T) {
	for _, row := range []struct {
		name, script string
		skipped      func(*testing.T) // nil: it never is
	}{
		{"the data directory", "rm -rf %s", rare},
		{"the log", "rm -rf %s/member/wal", rare},
		{"the only file of the log", "rm -f %s/member/wal/*.wal", extra},
		{"the data directory, and etcd is killed", "rm -rf %s; " + rig.KillEtcd, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.skipped != nil {
				row.skipped(t)
			}
			s := newStory(t, 3)
			s.daemon("cke1")
			s.found()
			tls := s.clientTLS()
			w := s.writer(tls)
			n := s.nodes[0]
			volume := s.volumeOn(n)
			s.must(w.Await(s.within(seenLimit), 20))
			s.on(n, fmt.Sprintf(row.script, s.dataOf(n)))
			removed := time.Now()
			p := s.awaitProblem(n.Name, cke.CodeDataMissing)
			took := since(removed)
			t.Logf("recognized after %s: %s", took, p.Message)
			if took > hollowLimit {
				t.Errorf("after %s: %+v", took, p)
			}
			s.await("the way out to be told, once the others have a leader", seenLimit, func(st cke.Status) bool {
				return slices.ContainsFunc(st.Problems, func(p cke.Problem) bool {
					return p.Code == cke.CodeDataMissing && strings.Contains(p.Remedy, "ckecli replace")
				})
			})
			for _, r := range s.records() {
				if strings.Contains(r.Reason, "data is there") {
					t.Errorf("on record: %s", r.Reason)
				}
			}
			c := s.spec()
			c.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Second)}
			s.set(c)
			s.await("a new member in its place", 2*time.Minute, func(st cke.Status) bool {
				return st.Health == cke.HealthReady && st.Members[0].Container != nil && st.Members[0].Container.Name != volume
			})
			w.Stop()
			s.must(w.Check(s.ctx, s.urls(), tls))
		})
	}
}

// Certificates that are removed under a member are recognized and written again.
func TestLabAmnesia_CertificatesRemovedUnderAMemberAreWrittenAgain(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	tls := s.clientTLS()
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))
	n := s.nodes[1]
	removed := time.Now()
	s.on(n, fmt.Sprintf("rm -rf /var/lib/docker/volumes/%s/_data/pki", s.volumeOn(n)))
	s.await("new certificates", seenLimit, func(cke.Status) bool {
		return s.on(n, fmt.Sprintf("ls /var/lib/docker/volumes/%s/_data/pki/peer.key 2>/dev/null || true", s.volumeOn(n))) != ""
	})
	if took := since(removed); took > hollowLimit {
		t.Errorf("written after %s", took)
	}
	s.ready()
	w.Stop()
	s.must(w.Check(s.ctx, s.urls(), tls))
}

// A quorum whose disks were put back to an earlier state has lost what was acknowledged: that is evidence.
func TestLabAmnesia_AClusterThatWentBackIsFrozen(t *testing.T) {
	s := newStory(t, 3)
	d := s.daemon("cke1")
	s.found()
	tls := s.clientTLS()
	old := s.nodes[:2]
	s.must(d.Freeze())
	for _, n := range old {
		s.on(n, fmt.Sprintf("docker stop %[1]s && cp -a %[2]s %[2]s.old && docker start %[1]s", s.volumeOn(n), s.dataOf(n)))
	}
	s.must(d.Thaw())
	s.ready()
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))
	w.Stop()
	s.await("the writes to be seen", seenLimit, func(st cke.Status) bool { return st.Reached != nil && st.Reached.Revision > 20 })
	s.must(s.Lab.Kill(s.ctx, s.nodes[2].Name))
	s.must(d.Freeze())
	for _, n := range old {
		s.on(n, fmt.Sprintf("docker kill %[1]s; rm -rf %[2]s && mv %[2]s.old %[2]s && docker start %[1]s", s.volumeOn(n), s.dataOf(n)))
	}
	s.must(d.Thaw())
	st := s.await("the freeze", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthFrozen })
	if !slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeWentBack }) {
		t.Errorf("%+v", st.Problems)
	}
}
