package mtest_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
)

// earlier is a commit of cke that stored no version where the file names none, and erased fields that it did not know.
const earlier = "2e7b045d689cfe7a613186087b288bef02449701"

// buildEarlier builds cke and ckecli as they were at that commit, with another default version of etcd.
func (s *story) buildEarlier(version string) string {
	s.Helper()
	top, err := exec.CommandContext(s.ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil || exec.CommandContext(s.ctx, "git", "cat-file", "-e", earlier+"^{commit}").Run() != nil {
		s.Skipf("commit %s is not in the history here: a shallow clone, or no checkout", earlier)
	}
	dir := s.TempDir()
	archive := exec.CommandContext(s.ctx, "sh", "-c", "git archive "+earlier+" | tar -x -C "+dir)
	archive.Dir = strings.TrimSpace(string(top))
	out, err := archive.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "cluster.go")
	text, err := os.ReadFile(file)
	s.must(err)
	other := strings.Replace(string(text), `DefaultEtcdVersion = "`+cke.DefaultEtcdVersion+`"`, `DefaultEtcdVersion = "`+version+`"`, 1)
	s.must(os.WriteFile(file, []byte(other), 0o600))
	build := exec.CommandContext(s.ctx, "go", "build", "-o", filepath.Join(dir, "bin")+"/", "./cmd/cke", "./cmd/ckecli")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "bin")
}

// started is when each member's container was started, and which one it is.
func (s *story) started() (all string) {
	s.Helper()
	for _, n := range s.nodes {
		all += n.Name + " " + s.on(n, "docker inspect --format '{{.Id}} {{.State.StartedAt}}' $(docker ps -q)")
	}
	return all
}

// TestLabVersions_AnEarlierCkeAndThisOneTakeTurns founds a cluster whose file names no version with an earlier cke, which
// has another default, and lets this cke and that one lead in turn. Members are restarted once, since their containers could found the
// cluster again, and never for a version; what is wanted stays.
func TestLabVersions_AnEarlierCkeAndThisOneTakeTurns(t *testing.T) {
	rare(t)
	s := newStory(t, 3)
	s.archive(nextVersion)
	now, before := s.Bin, s.buildEarlier(nextVersion)
	s.Bin = before
	d := s.daemon("cke1")
	s.setKey()
	c := s.spec()
	c.Options.Etcd.Version = ""
	s.set(c)
	if st := s.ready(); st.Members[0].Version != nextVersion {
		t.Fatalf("the earlier cke runs %s", st.Members[0].Version)
	}
	members := s.started()
	for turn, bin := range []string{now, before, now} {
		term := s.now().Leader.Term
		_, err := d.Stop(stopLimit)
		s.must(err)
		s.Bin = bin
		d = s.daemon("cke1")
		s.await("the next one to lead", readyLimit, func(st cke.Status) bool { return st.Leader.Term > term && rig.Ready(st) })
		again := time.Now().Add(15 * time.Second) // longer than a status is kept unchanged
		s.await("it to look for a while", readyLimit, func(st cke.Status) bool { return st.ObservedAt.After(again) && rig.Ready(st) })
		if turn == 0 { // containers that the earlier cke made could found the cluster again; this one makes them anew, once
			members = s.started()
			continue
		}
		if is := s.started(); is != members {
			t.Fatalf("turn %d: members were restarted:\n%s\n%s", turn, members, is)
		}
	}
	var spec cke.Spec
	s.must(json.Unmarshal([]byte(s.do("cluster", "get", "-o", "json")), &spec))
	if spec.Etcd.Version != nextVersion || spec.Generation != 1 {
		t.Errorf("revision %d wants %+v", spec.Generation, spec.Etcd)
	}
}

// TestLabVersions_TwoVotersOfThreeAreAskedAbout takes one of three members away for good, and changes an argument.
func TestLabVersions_TwoVotersOfThreeAreAskedAbout(t *testing.T) {
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	s.do("pause", "--reason", "the file changes first")
	c := s.spec()
	c.Options.Etcd.ExtraArgs = []string{"--max-txn-ops=256"}
	s.set(c) // of three it goes without a gap
	s.must(s.Lab.Kill(s.ctx, s.nodes[2].Name))
	s.await("the two others to have a leader", seenLimit, func(st cke.Status) bool {
		_, gone := problemOf(st, s.nodes[2].Name, cke.CodeUnreachable)
		others := slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Node != "" && p.Node != s.nodes[2].Name })
		return gone && !others && st.Etcd.Quorate
	})
	s.do("resume")
	s.do("replace", s.nodes[2].Name, "--yes", "--no-wait")
	s.await("the restart to wait for a person", readyLimit, func(st cke.Status) bool {
		for _, p := range st.Problems {
			if p.Code == cke.CodeInterrupt {
				return true
			}
		}
		return false
	})
	s.refused(6, []string{string(cke.CodeConfirm)}, "cluster", "apply", "--no-wait")
	s.do("cluster", "apply", "--yes", "--no-wait")
	s.await("both to run with the argument", readyLimit, func(st cke.Status) bool {
		for _, p := range st.Problems {
			if p.Code == cke.CodeInterrupt {
				return false
			}
		}
		return st.Etcd.Quorate && st.Ready == 2 && !strings.Contains(st.Reason, "runs with other")
	})
	for _, n := range s.nodes[:2] {
		if !strings.Contains(s.on(n, "docker inspect $(docker ps -q)"), "--max-txn-ops=256") {
			t.Errorf("%s runs without the argument", n.Name)
		}
	}
}
