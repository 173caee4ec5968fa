package mtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// nextVersion is one minor version above the rig's.
const nextVersion = "3.7.3"

// of is a cluster file for some of the story's nodes.
func (s *story) of(indices ...int) cke.Cluster {
	s.Helper()
	all := s.spec()
	c := all
	c.Nodes = nil
	for _, i := range indices {
		c.Nodes = append(c.Nodes, all.Nodes[i])
	}
	return c
}

// becomes stores the file and waits until the cluster is as it says, with so many members.
func (s *story) becomes(c cke.Cluster) cke.Status {
	s.Helper()
	revision := s.set(c)
	return s.await("the file to be followed", readyLimit, func(st cke.Status) bool {
		return rig.Ready(st) && st.Generation == revision && st.Ready == len(c.Nodes)
	})
}

// TestLabMembership_FollowsTheFileWhileClientsWrite grows, shrinks, replaces, restarts and upgrades one cluster. The
// clients write through three nodes of which one is lost on the way; no acknowledged write may be lost, and the cluster
// stays the same one.
func TestLabMembership_FollowsTheFileWhileClientsWrite(t *testing.T) {
	s := newStory(t, 5)
	s.archive(nextVersion)
	d := s.daemon("cke1")
	s.setKey()
	founded := s.becomes(s.of(0, 1, 2))
	tls := s.clientTLS()
	w, err := rig.StartWriter(s.urls()[:3], tls, "w/")
	s.must(err)
	t.Cleanup(w.Stop)

	change := func(name string, readable []int, f func(*story)) {
		s.part(name, func(s *story) {
			s.must(w.Await(s.within(seenLimit), 20))
			w.TakeGap()
			f(s)
			s.must(w.Await(s.within(seenLimit), 20))
			s.Logf("the longest time without an acknowledged write: %s", w.TakeGap().Round(time.Millisecond))
			var urls []string
			for _, i := range readable {
				urls = append(urls, s.urls()[i])
			}
			s.must(w.Check(s.within(seenLimit), urls, tls))
			if st := s.now(); st.ClusterID != founded.ClusterID {
				s.Errorf("the cluster id was %s and is %s", founded.ClusterID, st.ClusterID)
			}
		})
	}
	change("three members become five", []int{0, 1, 2, 3, 4}, func(s *story) { s.becomes(s.of(0, 1, 2, 3, 4)) })
	change("five members become three", []int{0, 1, 2}, func(s *story) {
		s.becomes(s.of(0, 1, 2))
		for _, n := range s.nodes[3:] {
			s.eventually("no container to run on "+n.Name, func() bool { return s.on(n, "docker ps -q") == "" }) // the member list is told before its member stops
			if volumes := s.on(n, "docker volume ls -q"); volumes == "" {
				s.Errorf("%s has lost its former volume", n.Name)
			}
		}
	})
	change("other arguments", []int{0, 1, 2}, func(s *story) {
		c := s.of(0, 1, 2)
		c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=4294967296"}
		s.becomes(c)
	})
	change("the next minor version", []int{0, 1, 2}, func(s *story) {
		c := s.of(0, 1, 2)
		c.Options.Etcd.Version = nextVersion
		st := s.becomes(c)
		for _, m := range st.Members {
			if m.Version != nextVersion {
				s.Errorf("%s runs %s", m.Name, m.Version)
			}
		}
	})
	change("a step back is refused", []int{0, 1, 2}, func(s *story) {
		path, err := s.WriteSpec(s.of(0, 1, 2))
		s.must(err)
		res, err := s.CLI(s.ctx, "cluster", "set", "--no-wait", "--yes", path)
		s.must(err)
		if res.Code != 6 || !strings.Contains(res.Stderr, string(cke.CodeVersion)) {
			s.Errorf("exit code %d: %s", res.Code, res.Stderr)
		}
	})
	upgraded := func(indices ...int) cke.Cluster {
		c := s.of(indices...)
		c.Options.Etcd.Version = nextVersion
		c.Policies.Replace.Grace = cke.Duration(time.Second)
		return c
	}
	change("a dead node gives its place to one that was a member before", []int{0, 1, 3}, func(s *story) {
		s.must(s.Lab.Kill(s.ctx, s.nodes[2].Name))
		s.becomes(upgraded(0, 1, 3))
	})
	change("a member's data is lost and it is replaced", []int{0, 1, 3}, func(s *story) {
		s.must(d.Freeze()) // else the container is made anew before its volume is gone
		s.on(s.nodes[3], "docker rm -f $(docker ps -aq) && docker volume rm $(docker volume ls -q)")
		s.must(d.Thaw())
		s.await("the loss to be noticed", seenLimit, func(st cke.Status) bool { return st.Ready < st.Declared })
		s.ready()
	})
	change("the dead node comes back and is no member", []int{0, 1, 3}, func(s *story) {
		s.must(s.Lab.Start(s.ctx, s.nodes[2].Name))
		s.nudge()
		s.ready()
	})
	w.Stop()
	t.Logf("%d acknowledged writes, none lost", w.Acked())
}

// archive puts the image of an etcd version where the daemon looks for it.
func (s *story) archive(version string) {
	s.Helper()
	img, err := lab.EtcdImage(s.ctx, version, nil)
	s.must(err)
	s.must(os.Symlink(img.Archive, filepath.Join(s.Dir, "images", "etcd-"+version+".tar")))
}
