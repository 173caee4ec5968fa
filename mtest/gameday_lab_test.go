package mtest_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

// A game day of a minute passes, one that is interrupted leaves nothing broken, and one that finds a write lost fails.
func TestLabGameday_PassesUnlessAWriteIsLost(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.must(rig.BuildLab(s.ctx, filepath.Join(bin, "cke-lab")))
	d := s.daemon("cke1")
	s.found()
	pid := s.file("cke.pid", fmt.Sprintln(d.Pid()))
	s.cleanly(func(ctx context.Context) error { // the daemon that cke-lab started
		p, err := rig.FindProcess(pid, s.Config)
		if err != nil {
			return err
		}
		return p.Kill(ctx)
	})
	s.part("of a minute", func(s *story) {
		said, code := s.gameday(nil, "--minutes", "1", "--seed", "1")
		s.says(said, code, 0, "Watch it: http://"+s.HTTP+"/clusters/"+s.Cluster+"\n", "PASSED", " acknowledged, 0 lost: ", "  break    ", "  revert   ", "  whole    ", "  cke      ")
	})
	s.part("interrupted", func(s *story) {
		said, code := s.gameday(func() {}, "--faults", "cut,kill,pause", "--seed", "1")
		s.says(said, code, 0, "PASSED", " acknowledged, 0 lost: ", "interrupted")
		if n := strings.Count(said, "  break    "); n != 1 {
			s.Errorf("%d faults, want one", n)
		}
		nodes, err := s.Lab.List(s.ctx)
		s.must(err)
		for _, n := range nodes {
			if n.State != lab.Running || len(n.Cuts) > 0 {
				s.Errorf("%s is %s, cut %v", n.Name, n.State, n.Cuts)
			}
		}
	})
	s.part("a write is lost", func(s *story) {
		said, code := s.gameday(func() { s.loseWrite(s.clientTLS()) }, "--faults", "etcd")
		s.says(said, code, 1, "FAILED: acknowledged writes were lost", " acknowledged, 1 LOST")
	})
}

// loseWrite removes one key that a load has written. The fault under way may end the member that is asked.
func (s *story) loseWrite(config *tls.Config) {
	s.Helper()
	c, err := rig.Client(s.urls()[0], config)
	s.must(err)
	defer c.Close()
	c.SetEndpoints(s.urls()...)
	var key string
	s.eventually("a key of the load to be read", func() bool {
		found, err := c.Get(s.ctx, "load/", clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
		if err != nil {
			return false
		}
		i := slices.IndexFunc(found.Kvs, func(kv *mvccpb.KeyValue) bool { return strings.Contains(string(kv.Key), "/w/") })
		if i >= 0 {
			key = string(found.Kvs[i].Key)
		}
		return i >= 0
	})
	s.eventually(key+" to be removed", func() bool {
		_, err := c.Delete(s.ctx, key)
		return err == nil
	})
}

// gameday runs cke-lab gameday and returns what it printed, and its exit code. At the first fault it does something, if
// there is anything to do, and interrupts it then.
func (s *story) gameday(atFault func(), args ...string) (said string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, filepath.Join(bin, "cke-lab"), append([]string{"gameday", "--demo", s.Dir, "--cluster", s.Cluster,
		"--dir", filepath.Dir(s.Lab.Dir()), "--name", s.Lab.Name()}, args...)...)
	out, err := cmd.StdoutPipe()
	s.must(err)
	var printed, stderr strings.Builder
	cmd.Stderr = &stderr
	s.must(cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if atFault != nil && strings.Contains(lines.Text(), "  break    ") {
			atFault()
			atFault = nil
			s.must(cmd.Process.Signal(os.Interrupt))
		}
	}
	_ = cmd.Wait() // the exit code is judged
	s.Logf("%s%s", printed.String(), stderr.String())
	return printed.String(), cmd.ProcessState.ExitCode()
}

// says checks an exit code, and that each of the words was printed.
func (s *story) says(said string, code, want int, words ...string) {
	s.Helper()
	if code != want {
		s.Errorf("exit code %d, want %d", code, want)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			s.Errorf("%q was not printed", w)
		}
	}
}
