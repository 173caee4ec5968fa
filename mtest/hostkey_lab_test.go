package mtest_test

import (
	"strings"
	"testing"

	"cke"
	"cke/mtest/lab"
)

func TestLabHostKey_ThatIsNotTheDeclaredOneStopsTheBootstrap(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	declared := s.spec()
	other := s.nodes[1]
	s.must(s.Lab.Wipe(s.ctx, other.Name, lab.WipeOptions{})) // it has another key now
	before := s.carriedBy(s.nodes)
	s.set(declared)
	s.wantBlocked(blocker{1, cke.CodeHostKey, "ssh.host_key"})
	s.wantUntouched(before)

	// The file goes before what a person accepts.
	s.refused(6, []string{"CKE203", "ssh.host_key", "Nothing was changed"}, "node", "accept-key", other.Name, "--yes")
	s.set(s.spec())
	s.ready()
	s.oneCluster()
}

func TestLabHostKey_IsTrustedAtFirstSightAndNotWhenItChanges(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.setKey()
	c := s.spec()
	for i := range c.Nodes {
		c.Nodes[i].SSH.HostKey = ""
	}
	reinstalled, off := s.nodes[0], s.nodes[2]
	s.must(s.Lab.Kill(s.ctx, off.Name)) // the bootstrap has to wait
	s.set(c)
	s.awaitWaits(map[string]cke.Code{off.Name: cke.CodeUnreachable})

	s.must(s.Lab.Wipe(s.ctx, reinstalled.Name, lab.WipeOptions{}))
	s.awaitWaits(map[string]cke.Code{off.Name: cke.CodeUnreachable, reinstalled.Name: cke.CodeHostKey})
	p := s.awaitProblem(reinstalled.Name, cke.CodeHostKey)
	if strings.Count(p.Message, "SHA256:") != 2 || !strings.Contains(p.Remedy, "ckecli node accept-key "+reinstalled.Name) {
		t.Errorf("problem %+v", p)
	}
	s.must(s.Lab.Start(s.ctx, off.Name))
	s.awaitWaits(map[string]cke.Code{reinstalled.Name: cke.CodeHostKey})
	s.wantUntouched(nil)

	s.refused(6, []string{"CKE107", "--yes"}, "node", "accept-key", reinstalled.Name) // nobody is asked without a terminal
	s.do("node", "accept-key", reinstalled.Name, "--yes")
	s.ready()
	s.oneCluster()
}
