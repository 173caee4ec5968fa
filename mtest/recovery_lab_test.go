package mtest_test

import (
	"crypto/tls"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// writer writes to the cluster until the test ends.
func (s *story) writer(tls *tls.Config) *rig.Writer {
	s.Helper()
	w, err := rig.StartWriter(s.urls(), tls, "w/")
	s.must(err)
	s.Cleanup(w.Stop)
	return w
}

// onAll does something on all nodes at once.
func (s *story) onAll(do func(lab.Node) error) {
	s.Helper()
	var g errgroup.Group
	for _, n := range s.nodes {
		g.Go(func() error { return do(n) })
	}
	s.must(g.Wait())
}

// killContainer is a script for a node that carries one member.
const killContainer = "docker kill $(docker ps -q)"

var disasters = []struct {
	name   string
	strike func(*story)
}{
	{"one etcd is killed and its engine restarts it", func(s *story) { s.on(s.nodes[0], rig.KillEtcd) }},
	{"one container is killed", func(s *story) { s.on(s.nodes[1], killContainer) }},
	{"one container is removed", func(s *story) { s.on(s.nodes[2], rig.RemoveContainer) }},
	{"all containers are killed", func(s *story) {
		s.onAll(func(n lab.Node) error {
			_, err := s.Lab.Exec(s.ctx, n.Name, "sh", "-c", killContainer)
			return err
		})
	}},
	{"a node loses power and comes back", func(s *story) {
		s.must(s.Lab.Kill(s.ctx, s.nodes[1].Name))
		s.must(s.Lab.Start(s.ctx, s.nodes[1].Name))
	}},
	{"all nodes lose power at once and come back", func(s *story) {
		s.onAll(func(n lab.Node) error { return s.Lab.Kill(s.ctx, n.Name) })
		s.onAll(func(n lab.Node) error { return s.Lab.Start(s.ctx, n.Name) })
	}},
	{"a Docker engine is restarted", func(s *story) { s.must(s.Lab.RestartDocker(s.ctx, s.nodes[2].Name)) }},
	{"a Docker engine crashes", func(s *story) { s.must(s.Lab.CrashDocker(s.ctx, s.nodes[0].Name)) }},
}

func TestLabRecovery_MembersComeBackOnTheirOwnDataAndNoWriteIsLost(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	tls := s.clientTLS()
	w := s.writer(tls)
	for _, d := range disasters {
		s.part(d.name, func(s *story) {
			s.must(w.Await(s.within(seenLimit), 30))
			w.TakeGap()
			began := time.Now()
			d.strike(s)
			s.sameMembers(before, began)
			s.must(w.Await(s.within(seenLimit), 30))
			s.Logf("the longest time without an acknowledged write: %s", w.TakeGap().Round(time.Millisecond))
			s.must(w.Check(s.within(seenLimit), s.urls(), tls))
		})
	}
	w.Stop()
	s.must(w.Check(s.ctx, s.urls(), tls))
	s.oneCluster()
	t.Logf("%d acknowledged writes, none lost", w.Acked())
	for _, r := range s.records() {
		switch r.Operation {
		case "bootstrap", "start-members", "compare-data":
		case "renew-certificates": // an engine that starts or stops may show a volume without its files, or no container; the renewal reads them again
		default:
			t.Errorf("operation %+v", r)
		}
	}
}

func TestLabRecovery_StartsMembersThatStopWhileAnotherIsWaitedFor(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	did := s.records()[0].ID
	began := time.Now()
	for _, n := range s.nodes {
		s.on(n, killContainer)
		s.must(s.Follow(s.within(seenLimit), func(r cke.Record) bool { return r.ID > did }))
	}
	s.sameMembers(before, began)
	for _, r := range s.records() {
		if r.State == cke.RecordFailed {
			t.Errorf("operation %+v", r)
		}
	}
}
