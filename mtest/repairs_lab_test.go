package mtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"cke"
	"cke/mtest/rig"
	"cke/server"
)

// TestLabRepairs_APowerCycleBringsAMemberBack repairs a machine that lost its power, while clients read and write: the first step does
// not help, the second one switches it on.
func TestLabRepairs_APowerCycleBringsAMemberBack(t *testing.T) {
	extra(t)
	m := &loaded{story: newStory(t, 3)}
	m.must(m.WriteConfig(map[string]any{"commands": map[string]any{"power-cycle": []string{m.powerCycle()}, "lamp": []string{"/bin/true"}}}))
	m.file = m.spec()
	lease := false
	m.file.Reboot = cke.RebootOptions{Command: "power-cycle", Settle: cke.Duration(time.Second)}
	m.file.Repair = cke.RepairOptions{Procedures: []cke.RepairProcedure{{On: "unreachable", Steps: []cke.RepairStep{
		{Command: "lamp", Lease: &lease, Watch: cke.Duration(time.Second)},
		{Command: "power-cycle", Timeout: cke.Duration(time.Minute), Watch: cke.Duration(2 * time.Minute), Reboot: true},
	}}}}
	m.daemon = m.story.daemon("cke1")
	m.setKey()
	m.under(m.story, func(m *loaded) {
		dead := m.role("follower")
		m.must(m.Lab.Kill(m.ctx, dead.Name))
		m.awaitProblem(dead.Name, cke.CodeUnreachable)
		gap := m.measured("a machine is repaired", func() {
			m.do("repair-queue", "add", dead.Name)
			m.do("repair-queue", "wait")
		})
		if gap > 5*time.Second {
			m.Errorf("clients could not write for %s", gap)
		}
		var q rebooted
		m.must(json.Unmarshal([]byte(m.do("repair-queue", "list", "-o", "json")), &q))
		if len(q.Entries) > 0 || len(q.History) != 1 || q.History[0].Result != cke.EntryDone || q.History[0].Attempts != 2 {
			m.Errorf("%+v", q)
		}
	})
}

// fleetLocked lets agents on this host ask a daemon for any node.
func (s *story) fleetLocked(config map[string]any) {
	s.Helper()
	config["http"] = map[string]any{"listen": s.HTTP, "fleet_lock": map[string]any{"username": "agents", "password_file": s.file("agents.password", "secret\n"), "proxies": []string{"127.0.0.1/32"}}}
	s.must(s.WriteConfig(config))
}

// asks sends a request of the agent of a node to a daemon, and returns the code and the answer.
func (s *story) asks(d *rig.Daemon, path, node string) (int, string) {
	s.Helper()
	body, err := json.Marshal(map[string]any{"client_params": map[string]string{"id": node, "group": "default"}})
	s.must(err)
	ctx, cancel := context.WithTimeout(s.ctx, seenLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.HTTP+path, bytes.NewReader(body))
	s.must(err)
	r.Header.Set("fleet-lock-protocol", "true")
	r.SetBasicAuth("agents", "secret")
	resp, err := http.DefaultClient.Do(r)
	s.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	s.must(err)
	return resp.StatusCode, string(text)
}

// TestLabFleetLock_AnAgentRebootsItsMachine lets the agent of a machine ask a daemon that does not lead, under load; the leader dies
// while the machine is away, and the agent reports to the other daemon.
func TestLabFleetLock_AnAgentRebootsItsMachine(t *testing.T) {
	extra(t)
	h := newHosts(t, borrow(t, 3), 3)
	h.one.fleetLocked(h.store.Config(h.store.Address))
	two := h.store.Config(h.store.Address)
	two["secret_key_file"] = filepath.Join(h.one.Dir, "secret.key")
	h.two.fleetLocked(two)
	leader := h.one.daemon("boot-1")
	m := &loaded{story: h.one}
	m.daemon = leader
	m.setKey()
	m.file = m.spec()
	m.file.Reboot = cke.RebootOptions{FleetLock: true, BootTimeout: cke.Duration(2 * time.Minute), Settle: cke.Duration(time.Second)}
	m.under(h.two, func(m *loaded) {
		other := h.two.daemon("boot-2")
		node, neighbor := m.role("follower").Name, m.role("leader").Name
		gap := m.measured("an agent reboots its machine", func() {
			if code, text := m.asks(other, server.FleetLockAsk, node); code != http.StatusOK {
				m.Fatalf("%d %s", code, text)
			}
			if code, text := m.asks(leader, server.FleetLockAsk, neighbor); code != http.StatusConflict {
				m.Errorf("a second machine may reboot: %d %s", code, text)
			}
			m.asks(leader, server.FleetLockRelease, neighbor)
			m.must(m.Lab.Kill(m.ctx, node))
			leader.Kill()
			m.must(m.Lab.Start(m.ctx, node))
			if code, text := m.asks(other, server.FleetLockRelease, node); code != http.StatusOK {
				m.Fatalf("%d %s", code, text)
			}
			m.do("reboot-queue", "wait")
		})
		if gap > 10*time.Second {
			m.Errorf("clients could not write for %s", gap)
		}
		h := m.reboots().History
		if len(h) == 0 || h[len(h)-1].Node != node || h[len(h)-1].Result != cke.EntryDone {
			m.Errorf("%+v", h)
		}
	})
}
