package mtest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// findings are what `ckecli preflight` says, by node and check.
type findings map[string]map[string]string

// busyTries is how often a preflight is run that found a node or an engine too busy to answer within its limit: a disk of this
// machine may stand still for seconds. That is reported rightly, and is not what these stories are about.
const busyTries = 4

// preflight asks for all nodes with the restricted key, and returns "result: detail" of each check.
func (s *story) preflight(code int, args ...string) (all findings) {
	s.Helper()
	for range busyTries {
		busy := false
		if all, busy = s.preflightOnce(code, args...); !busy {
			return all
		}
	}
	s.Fatalf("an engine was too busy %d times", busyTries)
	return nil
}

// preflightOnce also reports whether a node or an engine was too busy to answer.
func (s *story) preflightOnce(code int, args ...string) (all findings, busy bool) {
	s.Helper()
	type check struct{ Node, Check, Result, Detail string }
	begun := time.Now()
	res, err := s.CLI(s.ctx, append([]string{"preflight", "-o", "json"}, args...)...)
	s.must(err)
	s.Logf("preflight: after %s", since(begun))
	var said struct {
		Passed bool
		Checks []check
	}
	err = json.Unmarshal([]byte(res.Stdout), &said)
	if slices.ContainsFunc(said.Checks, func(c check) bool { return c.Check == "disk" && c.Result == "fail" }) {
		code = 1 // this machine's disk is too slow for etcd at present: rightly told, and not what the story is about
	}
	busy = slices.ContainsFunc(said.Checks, func(c check) bool {
		return c.Result != "ok" && (strings.Contains(c.Detail, "the Docker engine on ") || strings.Contains(c.Detail, " cannot be reached: visit"))
	})
	if err != nil || !busy && (res.Code != code || said.Passed != (code == 0)) {
		s.Fatalf("exit code %d, want %d: %v: %s%s", res.Code, code, err, res.Stdout, res.Stderr)
	}
	all = findings{}
	for _, c := range said.Checks {
		if all[c.Node] == nil {
			all[c.Node] = map[string]string{}
		}
		all[c.Node][c.Check] = c.Result + ": " + c.Detail
		s.Logf("%s %s %s: %s", c.Node, c.Check, c.Result, c.Detail)
	}
	return all, busy
}

// want checks what is said of a node, by the beginnings of the words.
func (s *story) wantChecks(said map[string]string, want map[string]string) {
	s.Helper()
	for name, begins := range want {
		if !strings.HasPrefix(said[name], begins) {
			s.Errorf("%s: %q, want %q", name, said[name], begins)
		}
	}
}

func TestLabPreflight_TellsWhatANodeIsWorthAndLeavesNothing(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	file, err := s.WriteSpec(s.spec())
	s.must(err)
	with := []string{file, "--ssh-key", s.nodes[0].RestrictedKeyFile}
	before := s.carriedBy(s.nodes)
	sound := map[string]string{"ssh": "ok: ", "host-key": "ok: as the file says", "engine": "ok: Docker ", "clock": "ok: ", "client-port": "ok: 2379 is free",
		"peer-port": "ok: 2380 is free", "reach-client": "ok: reached from ", "reach-peer": "ok: reached from "}
	untouched := func() {
		s.Helper()
		for _, n := range s.nodes {
			if has := s.carried(n); has != before[n.Name] {
				s.Errorf("%s carried\n%s\nand carries\n%s", n.Name, before[n.Name], has)
			}
		}
	}

	// No store, no daemon: before anything else.
	said := s.preflight(0, with...)
	for _, n := range s.nodes {
		s.wantChecks(said[n.Name], sound)
		if disk := said[n.Name]["disk"]; !strings.Contains(disk, " small writes are synced within ") {
			s.Errorf("disk: %s", disk)
		}
	}
	untouched()

	// A directory for volumes that is there on one node and not on another.
	c := s.spec()
	c.Options.Etcd.VolumeRoot = "/srv/etcd"
	rooted, err := s.WriteSpec(c)
	s.must(err)
	s.on(s.nodes[0], "mkdir /srv/etcd")
	said = s.preflight(0, rooted, "--ssh-key", s.nodes[0].RestrictedKeyFile)
	if disk := said[s.nodes[0].Name]["disk"]; !strings.HasSuffix(disk, " writes, /srv/etcd)") {
		s.Errorf("disk: %s", disk)
	}
	s.wantChecks(said[s.nodes[1].Name], map[string]string{"disk": "warn: not checked: /srv/etcd does not exist", "client-port": "ok: ", "reach-client": "ok: "})
	if left := s.on(s.nodes[0], "ls -A /srv/etcd") + s.on(s.nodes[1], "ls -d /srv/etcd 2>/dev/null || true"); left != "" {
		s.Errorf("left behind: %s", left)
	}
	untouched()

	// Ended in the middle, in good order and not.
	for _, end := range []os.Signal{os.Interrupt, syscall.SIGKILL} {
		ended := s.endInAVisit(end, with...)
		if end == os.Interrupt {
			untouched()
			if code := ended.ExitCode(); code != 130 {
				s.Errorf("exit code %d", code)
			}
		} else {
			for _, n := range s.nodes {
				s.eventually("the end of the visit", func() bool { return !strings.Contains(s.carried(n), "cke-preflight-") })
			}
			untouched()
		}
		if left := s.on(s.nodes[0], "ls -A /srv/etcd"); left != "" {
			s.Errorf("left behind after %s: %s", end, left)
		}
	}
	_, err = s.WriteSpec(s.spec())
	s.must(err)

	// A node that is off is rows, and a port that is taken, or cut off, is told.
	off, taken, asks := s.nodes[2], s.nodes[0], s.nodes[1]
	s.must(s.Lab.Kill(s.ctx, off.Name))
	s.on(taken, "docker run -d --name hand --network host --entrypoint etcd "+cke.DefaultImage+":v"+rig.EtcdVersion+
		" gateway start --listen-addr=0.0.0.0:2380 --endpoints=127.0.0.1:1")
	said = s.preflight(1, with...)
	s.wantChecks(said[off.Name], map[string]string{"ssh": "fail: ", "host-key": "warn: not checked: ", "engine": "warn: not checked: ", "client-port": "warn: not checked: ",
		"reach-peer": "fail: ", "disk": "warn: not checked: "})
	s.wantChecks(said[taken.Name], map[string]string{"client-port": "ok: ", "peer-port": "fail: 2380 is taken; it is not known by which process"})
	s.wantChecks(said[asks.Name], map[string]string{"ssh": "ok: ", "peer-port": "ok: ", "reach-peer": "warn: not checked: from " + off.Name})
}

// endInAVisit starts preflight, and ends it with a signal while a visit runs on each node.
func (s *story) endInAVisit(end os.Signal, args ...string) *os.ProcessState {
	s.Helper()
	for range busyTries {
		cmd := exec.CommandContext(s.ctx, filepath.Join(s.Bin, "ckecli"), append([]string{"preflight"}, args...)...)
		cmd.Env = append(os.Environ(), "CKECLI_CONFIG="+s.Config, "HOME="+s.Dir)
		var said strings.Builder
		cmd.Stderr = &said
		s.must(cmd.Start())
		exited := make(chan struct{})
		go func() {
			_ = cmd.Wait() // its state is asked for
			close(exited)
		}()
		for seen, over := false, false; !seen && !over; {
			has := s.carriedBy(s.nodes)
			seen = !slices.ContainsFunc(s.nodes, func(n lab.Node) bool {
				return !strings.Contains(has[n.Name], "cke-preflight-") || !strings.Contains(has[n.Name], " running")
			})
			select {
			case <-exited:
				over = true // before it was seen: an engine was too busy
			case <-time.After(20 * time.Millisecond):
			}
			if seen && !over {
				s.must(cmd.Process.Signal(end))
				<-exited
				s.Logf("%s: %s", cmd.ProcessState, said.String())
				return cmd.ProcessState
			}
		}
	}
	s.Fatalf("no visit was seen in %d runs of preflight", busyTries)
	return nil
}

func TestLabPreflight_KnowsOurMembersAndTheWayBetweenThem(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	s.daemon("cke1")
	s.found()
	said := s.preflight(0)
	for _, n := range s.nodes {
		s.wantChecks(said[n.Name], map[string]string{"ssh": "ok: ", "client-port": "ok: 2379: our member listens", "peer-port": "ok: 2380: our member listens",
			"reach-client": "ok: reached from ", "reach-peer": "ok: reached from "})
	}
	s.oneCluster()

	lone := s.nodes[2]
	s.must(s.Lab.Cut(s.ctx, lone.Name, lab.Cut{From: s.nodes[0].Name}))
	said = s.preflight(1)
	s.wantChecks(said[lone.Name], map[string]string{"ssh": "ok: ", "reach-peer": "fail: " + lone.Address + ":2380" + " is not reached from " + s.nodes[0].Name})
	s.wantChecks(said[s.nodes[0].Name], map[string]string{"reach-peer": "fail: "})
	var table string
	once := func() bool {
		res, err := s.CLI(s.ctx, "preflight")
		s.must(err)
		table = res.Stdout
		return strings.Count(table, fmt.Sprintf("%s and %s do not reach each other at 2379, 2380: ", s.nodes[0].Name, lone.Name)) == 1 &&
			!regexp.MustCompile("reach-[a-z]+ +fail").MatchString(table)
	}
	for tries := 0; !once(); tries++ { // a node may be too busy to answer
		if tries == busyTries {
			s.Fatalf("a cable that is cut is not one row:\n%s", table)
		}
	}
}
