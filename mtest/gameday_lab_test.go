package mtest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

// A game day of a minute loses nothing, and one that is interrupted leaves nothing broken.
func TestLabGameday_LosesNothingAndLeavesNothingBroken(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	if out, err := exec.CommandContext(s.ctx, "go", "build", "-o", filepath.Join(bin, "cke-lab"), "cke/cmd/cke-lab").CombinedOutput(); err != nil {
		t.Fatalf("build cke-lab: %v: %s", err, out)
	}
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
		said := s.gameday("", "--minutes", "1", "--seed", "1")
		for _, event := range []string{"  break    ", "  revert   ", "  whole    ", "  cke      "} {
			if !strings.Contains(said, event) {
				s.Errorf("no line has %q", event)
			}
		}
	})
	s.part("interrupted", func(s *story) {
		said := s.gameday("  break    ", "--faults", "cut,kill,pause", "--seed", "1")
		if n := strings.Count(said, "  break    "); n != 1 || !strings.Contains(said, "interrupted") {
			s.Errorf("%d faults, want one and then the end", n)
		}
		nodes, err := s.Lab.List(s.ctx)
		s.must(err)
		for _, n := range nodes {
			if n.State != lab.Running || len(n.Cuts) > 0 {
				s.Errorf("%s is %s, cut %v", n.Name, n.State, n.Cuts)
			}
		}
	})
}

// gameday runs cke-lab gameday, which has to pass, and returns what it printed. It is interrupted once it prints a text, if there
// is one.
func (s *story) gameday(interruptAt string, args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, filepath.Join(bin, "cke-lab"), append([]string{"gameday", "--demo", s.Dir, "--cluster", s.Cluster,
		"--dir", filepath.Dir(s.Lab.Dir()), "--name", s.Lab.Name()}, args...)...)
	out, err := cmd.StdoutPipe()
	s.must(err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	s.must(cmd.Start())
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if interruptAt != "" && strings.Contains(lines.Text(), interruptAt) {
			interruptAt = ""
			s.must(cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	s.Logf("%s%s", said.String(), stderr.String())
	if err != nil || !strings.Contains(said.String(), "PASSED") || !strings.Contains(said.String(), " acknowledged, 0 lost: ") {
		s.Errorf("cke-lab gameday: %v", err)
	}
	return said.String()
}
