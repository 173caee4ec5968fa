package mtest_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
	"cke/storage"
)

func TestLabDelete_StopsTheMembersAndKeepsTheirData(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	before := s.found()
	var volumes []string
	for _, n := range s.nodes {
		volumes = append(volumes, rig.Lines(s.carried(n), "volume ")...)
	}

	s.refused(6, []string{"CKE107", "--confirm prod"}, "cluster", "delete", "prod")
	s.refused(6, []string{"CKE107"}, "cluster", "delete", "prod", "--confirm", "prd")
	if s.nudge().Health != cke.HealthReady {
		t.Error("the cluster is no longer ready, although nothing was confirmed")
	}
	began := time.Now()
	s.do("cluster", "delete", "prod", "--confirm", "prod")
	t.Logf("deleted in %s", since(began))
	s.refused(1, []string{"there is no cluster prod"}, "status")

	var kept []string
	for _, n := range s.nodes {
		has := s.carried(n)
		if strings.Contains(has, "running") || strings.Contains(has, "restarting") {
			t.Errorf("something runs on %s:\n%s", n.Name, has)
		}
		kept = append(kept, rig.Lines(has, "volume ")...)
		if s.on(n, "docker volume ls -q --filter label=cke.over="+before.Incarnation) == "" {
			t.Errorf("%s has no mark that the cluster is over", n.Name)
		}
		if s.on(n, "find /var/lib/docker/volumes -name '*.wal'") == "" {
			t.Errorf("no data is left on %s", n.Name)
		}
	}
	if strings.Join(kept, "\n") != strings.Join(volumes, "\n") {
		t.Errorf("volumes %v, before %v", kept, volumes)
	}
	archive := s.archived()
	if len(archive) != 1 || archive[0].Cluster != "prod" || archive[0].Identity.Incarnation.ClusterID != before.ClusterID || len(archive[0].Identity.Joins) != 3 {
		t.Errorf("archived: %+v", archive)
	}

	// The same name again: what is left is in the way, and the status says what to do about each piece.
	s.set(s.spec())
	for _, n := range s.nodes {
		s.awaitProblem(n.Name, cke.CodeLeftover)
	}
	for len(s.followRemedies()) > 0 {
	}
	after := s.ready()
	s.oneCluster()
	if after.ClusterID == before.ClusterID || after.Incarnation == before.Incarnation {
		t.Errorf("the new cluster is the old one: %s of %s", after.ClusterID, after.Incarnation)
	}
}

// followRemedies does once on each node what the status says about leftovers there, as a person would, and returns what
// was done.
func (s *story) followRemedies() []string {
	s.Helper()
	st := s.nudge()
	var done []string
	for _, p := range st.Problems {
		if p.Code != cke.CodeLeftover {
			continue
		}
		_, command, ok := strings.Cut(p.Remedy, ": ")
		command, _, _ = strings.Cut(command, ",")
		if !ok || !strings.HasPrefix(command, "docker ") {
			s.Fatalf("no command to follow: %+v", p)
		}
		for _, n := range s.nodes {
			if n.Name == p.Node {
				s.try(n, command)
			}
		}
		done = append(done, command)
	}
	return done
}

// archived reads the archives of deleted clusters from the store.
func (s *story) archived() []storage.Archive {
	s.Helper()
	store, err := storage.Open(s.ctx, storage.Config{Embedded: storage.EmbeddedConfig{DataDir: filepath.Join(s.Dir, "store")}})
	s.must(err)
	defer store.Close()
	all, err := store.Deleted(s.ctx)
	s.must(err)
	return all
}
