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
