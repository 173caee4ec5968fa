package mtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// rebooted is what `ckecli reboot-queue list` shows.
type rebooted struct {
	Entries []cke.EntryStatus `json:"entries"`
	History []cke.EndedEntry  `json:"history"`
}

// TestLabReboots_OneAfterTheOtherWhileClientsWrite reboots five nodes by a command that switches them off and on, while clients read and
// write: nodes without a member first, the leader last. Then one never returns.
func TestLabReboots_OneAfterTheOtherWhileClientsWrite(t *testing.T) {
	extra(t)
	m := &loaded{story: newStory(t, 5)}
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithTimeout(t.Context(), 2*matrixLimit)
	t.Cleanup(cancel)
	m.must(m.WriteConfig(map[string]any{"commands": map[string]any{"power-cycle": []string{m.powerCycle()}, "ready": []string{"/bin/echo", "true"}}}))
	retries := 0
	m.file = m.spec()
	m.file.Reboot = cke.RebootOptions{Command: "power-cycle", CommandTimeout: cke.Duration(time.Minute), BootTimeout: cke.Duration(time.Minute), Retries: &retries, Settle: cke.Duration(2 * time.Second)}
	m.members(0, 1, 2)
	m.daemon = m.story.daemon("cke1")
	m.setKey()
	m.under(m.story, func(m *loaded) {
		spares := []string{m.nodes[3].Name, m.nodes[4].Name}
		leader := m.role("leader").Name
		gap := m.measured("all five reboot", func() {
			m.do("reboot-queue", "add", m.nodes[0].Name, m.nodes[1].Name, m.nodes[2].Name, spares[0], spares[1], "--reason", "new kernel")
			m.do("reboot-queue", "wait")
		})
		if gap > 5*time.Second {
			m.Errorf("clients could not write for %s", gap)
		}
		h := m.reboots().History
		order := []string{}
		for _, e := range h {
			order = append(order, e.Node)
			if e.Result != cke.EntryDone || e.Attempts != 1 {
				m.Errorf("%+v", e)
			}
			m.Logf("%s: took %s", e.Node, e.Took().Round(time.Second))
		}
		if len(order) != 5 || !slices.Contains(spares, order[0]) || !slices.Contains(spares, order[1]) || order[4] != leader {
			m.Errorf("the order was %v, and %s led", order, leader)
		}
		if now := m.role("leader").Name; now == leader {
			m.Errorf("%s leads again", now)
		}
		m.neverReturns(spares[0])
	})
}

// neverReturns lets a follower stay off: it keeps another one with a member waiting, and none without.
func (m *loaded) neverReturns(spare string) {
	m.Helper()
	dead := m.role("follower")
	var other string
	for _, member := range m.fresh().Members {
		if member.Role == "follower" && member.Name != dead.Name {
			other = member.Name
		}
	}
	stays := filepath.Join(m.Dir, "stays-off-"+dead.Name)
	m.must(os.WriteFile(stays, nil, 0o600))
	m.measured("one never returns", func() {
		m.do("reboot-queue", "add", dead.Name, other)
		p := m.awaitProblem(dead.Name, cke.CodeReboot)
		if !strings.Contains(p.Remedy, "ckecli reboot-queue retry "+dead.Name) {
			m.Errorf("%+v", p)
		}
		m.do("reboot-queue", "add", spare)
		m.do("reboot-queue", "wait", spare)
		waits := func(why string) {
			m.Helper()
			m.await("the other one to wait: "+why, seenLimit, func(cke.Status) bool {
				r := m.entry(other)
				return r != nil && r.State == cke.EntryQueued && strings.Contains(r.Waits, why)
			})
		}
		waits(dead.Name + " failed")
		m.do("reboot-queue", "skip", dead.Name)
		waits("healthy")
	})
	m.must(os.Remove(stays))
	m.must(m.Lab.Start(m.ctx, dead.Name))
	m.measured("it returns, and both are rebooted", func() {
		m.do("reboot-queue", "wait", other)
		m.do("reboot-queue", "retry", dead.Name)
		m.do("reboot-queue", "wait")
	})
	if left := m.reboots(); len(left.Entries) > 0 {
		m.Errorf("%+v", left.Entries)
	}
}

// TestLabReboots_TheDaemonIsKilledAtEveryStep reboots five nodes while clients write, and kills the daemon that leads as each state of the
// queue is entered; the other one takes over. Each machine reboots once, the leader's last.
func TestLabReboots_TheDaemonIsKilledAtEveryStep(t *testing.T) {
	extra(t)
	h := newHosts(t, borrow(t, 5), 5)
	m := &loaded{story: h.one}
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithTimeout(t.Context(), 2*matrixLimit)
	t.Cleanup(cancel)
	command := []string{m.controller()}
	for _, s := range []*story{h.one, h.two} {
		s.ctx = m.ctx
		config := h.store.Config(h.store.Address)
		config["secret_key_file"], config["commands"] = filepath.Join(h.one.Dir, "secret.key"), map[string]any{"power-cycle": command}
		config["session_ttl"] = cke.DefaultSessionTTL.Short() // so that the daemon that leads loses its term only by its death
		s.must(s.WriteConfig(config))
	}
	daemons := map[string]*rig.Daemon{"boot-1": h.one.daemon("boot-1")}
	m.setKey()
	m.file = m.spec()
	m.file.Reboot = cke.RebootOptions{Command: "power-cycle", CommandTimeout: cke.Duration(time.Minute), BootTimeout: cke.Duration(2 * time.Minute), Settle: cke.Duration(2 * time.Second)}
	m.members(0, 1, 2)
	m.under(h.one, func(m *loaded) {
		daemons["boot-2"] = h.two.daemon("boot-2")
		names, leader := []string{}, m.role("leader").Name
		for _, n := range m.nodes {
			names = append(names, n.Name)
		}
		gap := m.measured("all five reboot, and daemons are killed", func() {
			for i, at := range []moment{
				{"drain-for-reboot", "record"}, // leased
				{"reboot-node", "record"},      // rebooting, before its command
				{"reboot-node", "command"},     // or while that runs
				{"note-reboot", "record"},      // its command has ended, or it is back
				{"note-reboot", "release"},     // returning, or done
				{"drain-for-reboot", "move-leader"},
			} {
				led := m.fresh().Leader.Host
				died := m.when(m.within(2*readyLimit), at.entered(), func() error { daemons[led].Kill(); return nil })
				if i == 0 {
					m.do(append([]string{"reboot-queue", "add", "--reason", "new kernel"}, names...)...)
				}
				m.must(<-died)
				other, back := h.two, h.one
				if led == "boot-2" {
					other, back = h.one, h.two
				}
				st := m.await("another daemon to lead", seenLimit, func(st cke.Status) bool { return st.Leader.Host != led })
				m.Logf("%s was killed at %s, and %s leads", led, at, st.Leader.Host)
				m.story, daemons[led] = other, back.daemon(led)
			}
			m.do("reboot-queue", "wait")
		})
		if gap > patientWrite {
			m.Errorf("a client that waits for %s could not write: the gap was %s", patientWrite, gap)
		}
		q := m.reboots()
		order := []string{}
		for _, e := range q.History {
			order = append(order, e.Node)
			if e.Result != cke.EntryDone || e.Attempts != 1 {
				m.Errorf("%+v", e)
			}
		}
		if len(q.Entries) > 0 || len(order) != 5 || order[4] != leader {
			m.Errorf("the order was %v, and %s led; left are %+v", order, leader, q.Entries)
		}
		text, err := os.ReadFile(filepath.Join(h.one.Dir, "cycled"))
		m.must(err)
		if cycled := strings.Fields(string(text)); !slices.Equal(slices.Sorted(slices.Values(cycled)), slices.Sorted(slices.Values(names))) {
			m.Errorf("power cycles of %v, want one of each", cycled)
		}
	})
}

// entered tells for Follow whether the step has begun, or is already over: it may take less than a moment.
func (m moment) entered() func(cke.Record) bool {
	return func(r cke.Record) bool {
		return r.Operation == m.operation && slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == m.step })
	}
}

// controller is a program that asks for a power cycle of the node whose reboot it is for. The cycle goes on by itself, as in a management
// controller, also when the daemon is killed; each is a line of the file cycled.
func (s *story) controller() string {
	s.Helper()
	cycle := s.powerCycle()
	path := s.file("controller", fmt.Sprintf(`#!/bin/sh
setsid sh -c 'echo "$CKE_NODE" >>%[1]s/cycled; exec %[2]s "$@"' controller "$@" >/dev/null 2>&1 </dev/null &
`, s.Dir, cycle))
	s.must(os.Chmod(path, 0o700))
	return path
}

func (m *loaded) reboots() (q rebooted) {
	m.Helper()
	m.must(json.Unmarshal([]byte(m.do("reboot-queue", "list", "-o", "json")), &q))
	return q
}

// entry is the reboot of a node as it is listed; nil: it is not in the queue.
func (m *loaded) entry(node string) *cke.EntryStatus {
	m.Helper()
	q := m.reboots()
	for i := range q.Entries {
		if q.Entries[i].Node == node {
			return &q.Entries[i]
		}
	}
	return nil
}

// powerCycle is a program that switches the node off and on whose reboot it is for; one that a file names stays off.
func (s *story) powerCycle() string {
	s.Helper()
	program := filepath.Join(s.Dir, "cke-lab")
	s.must(rig.BuildLab(s.ctx, program))
	of := func(l *lab.Lab) string {
		return fmt.Sprintf("%s --dir %s --name %s", program, filepath.Dir(l.Dir()), l.Name())
	}
	path := s.file("power-cycle", fmt.Sprintf(`#!/bin/sh
# What a management controller does: the address is the first argument.
set -eu
echo "power cycle of $CKE_NODE at $1, attempt $CKE_ATTEMPT"
%[1]s kill "$CKE_NODE"
[ -e %[2]s/stays-off-"$CKE_NODE" ] || %[1]s start "$CKE_NODE"
`, of(s.Lab), s.Dir))
	s.must(os.Chmod(path, 0o700))
	return path
}
