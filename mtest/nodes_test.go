package mtest_test

import (
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// on runs a shell command as root on a node and returns what it wrote.
func (s *story) on(node lab.Node, script string) string {
	s.Helper()
	out, err := s.Lab.Exec(s.ctx, node.Name, "sh", "-c", script)
	s.must(err)
	return out
}

// try runs a shell command on a node that may fail.
func (s *story) try(node lab.Node, script string) {
	s.Helper()
	if _, err := s.Lab.Exec(s.ctx, node.Name, "sh", "-c", script); err != nil {
		if _, exited := lab.IsExit(err); !exited {
			s.Fatal(err)
		}
	}
}

// carried is what the engine of one node carries: containers with their state, and volumes but for marks, one a line.
func (s *story) carried(node lab.Node) string {
	s.Helper()
	has, err := rig.Carried(s.ctx, s.Lab, node.Name)
	s.must(err)
	return has
}

// carriedBy asks several nodes.
func (s *story) carriedBy(nodes []lab.Node) map[string]string {
	s.Helper()
	all := map[string]string{}
	for _, n := range nodes {
		all[n.Name] = s.carried(n)
	}
	return all
}
