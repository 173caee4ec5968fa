package mtest_test

import (
	"os/exec"
	"testing"
	"time"

	"cke/mtest/lab"
	"cke"
)

func TestTmpAllKilled(t *testing.T) {
	s := newStory(t, 3)
	d := s.daemon("cke1", "--log-level", "debug")
	s.setKey()
	spec := s.spec()
	spec.Options.Etcd.ExtraArgs = []string{"--feature-gates=CompactHashCheck=true"}
	s.set(spec)
	before := s.ready()
	tls := s.clientTLS()
	w := s.writer(tls)
	for range 3 {
	s.must(w.Await(s.within(seenLimit), 30))
	s.onAll(func(n lab.Node) error {
		_, err := s.Lab.Exec(s.ctx, n.Name, "sh", "-c", killContainer)
		return err
	})
	then := time.Now()
	s.await("a look after it", seenLimit, func(st cke.Status) bool { return st.ObservedAt.After(then) })
	s.sameMembers(before)
	}
	t.Log(s.do("history", "-o", "wide"))
	for _, r := range s.records() {
		for _, st := range r.Steps {
			t.Logf("%d %s %s %s %s %s", r.ID, st.Name, st.Node, st.StartedAt.Sub(r.StartedAt), st.EndedAt.Sub(st.StartedAt), st.Error)
		}
	}
	out, _ := exec.Command("grep", "-v", "component=etcd", d.Log).Output()
	t.Logf("%s", out)
	for range 2 {
		s.must(w.Await(s.within(seenLimit), 30))
	s.onAll(func(n lab.Node) error { return s.Lab.Kill(s.ctx, n.Name) })
		s.onAll(func(n lab.Node) error { return s.Lab.Start(s.ctx, n.Name) })
	then := time.Now()
	s.await("a look after it", seenLimit, func(st cke.Status) bool { return st.ObservedAt.After(then) })
	s.sameMembers(before)
	}
	for _, n := range s.nodes[:0] {
		t.Log(s.on(n, "docker logs --since 60s $(docker ps -q) 2>&1 | cut -c1-300 | head -150"))
	}
}
