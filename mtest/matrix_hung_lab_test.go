package mtest_test

import (
	"slices"
	"strings"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// hangs are about changes that people ask for while an engine does not answer and its etcd serves.
var hangs = []chapter{
	{name: "a follower's engine hangs while members change", nodes: 4, members: 3, tell: func(m *loaded) {
		m.quietly()
		m.apply()
		hung, added := m.role("follower"), m.nodes[3]
		m.hangs(hung)
		m.measured("a member is added elsewhere", func() {
			m.members(span(4)...)
			st, did := m.beside(hung, func(st cke.Status) bool { return st.Ready == 4 && len(st.Members) == 4 })
			m.waitsFor(st, hung)
			m.were(did, "add-member "+added.Name, "promote-member "+added.Name)
		})
		m.measured("other arguments", func() {
			before := leadOf(m.fresh())
			m.quietly("--quota-backend-bytes=4294967296")
			st, did := m.beside(hung, func(st cke.Status) bool {
				return !slices.ContainsFunc(st.Members, func(member cke.MemberStatus) bool { return member.Name != hung.Name && member.Drift != nil })
			})
			m.waitsFor(st, hung)
			m.inTurn(did, "restart-member", slices.DeleteFunc(names(st), func(n string) bool { return n == hung.Name }), before)
			if drift := m.of(st, hung).Drift; !slices.Equal(drift, []string{"arguments: [--log-level=error], declared [--log-level=error --quota-backend-bytes=4294967296]"}) || st.ObservedGeneration >= st.Generation {
				m.Errorf("drift of %s: %q; generation %d of %d", hung.Name, drift, st.ObservedGeneration, st.Generation)
			}
		})
		m.goesOn(hung, "restart-member "+hung.Name)

		hung = m.role("follower")
		m.hangs(hung)
		m.measured("the one whose engine hangs is to go", func() {
			m.members(slices.DeleteFunc(span(4), func(i int) bool { return m.nodes[i].Name == hung.Name })...)
			st, did := m.beside(hung, func(st cke.Status) bool { return st.Health == cke.HealthReady && len(st.Members) == 3 })
			m.were(did, "remove-member "+hung.Name)
			if steps := stepsOf(did[0]); !slices.Equal(steps, []string{"move-leader", "remove", "record-end"}) {
				m.Errorf("steps %v: nobody can stop its container", steps)
			}
			if slices.Contains(names(st), hung.Name) {
				m.Errorf("members %+v", st.Members)
			}
		})
		volume := rig.Lines(m.on(hung, "ls /var/lib/docker/volumes"), "etcd")
		m.goesOn(hung, "stop-stray "+hung.Name, "mark-ended "+hung.Name)
		if has := rig.Lines(m.carried(hung), ""); len(volume) != 1 || !slices.Equal(has, []string{"volume " + volume[0]}) {
			m.Errorf("%s carries %v, before volume %v", hung.Name, has, volume)
		}
	}},
}

// quietly has members run with arguments, and log next to nothing: nobody reads what they log while their engine hangs,
// and an etcd that cannot write its log stands still.
func (m *loaded) quietly(args ...string) {
	m.file.Options.Etcd.ExtraArgs = append([]string{"--log-level=error"}, args...)
}

// hangs stops a node's engine, and waits until that is told.
func (m *loaded) hangs(n lab.Node) {
	m.Helper()
	m.must(m.Lab.HangDocker(m.ctx, n.Name))
	p := m.awaitProblem(n.Name, cke.CodeEngine)
	if !strings.HasPrefix(p.Message, "the Docker engine on "+n.Name+" ") || p.Remedy != "on "+n.Name+": `systemctl status docker`; restart it if it hangs" {
		m.Errorf("problem %+v", p)
	}
}

// beside stores the file and waits until nothing more is done about it while an engine hangs. It returns the status, and
// what was done.
func (m *loaded) beside(hung lab.Node, ok func(cke.Status) bool) (cke.Status, []cke.Record) {
	m.Helper()
	newest := m.newest()
	revision := m.set(m.file)
	st := m.await("what can be done beside a hung engine", 2*readyLimit, func(st cke.Status) bool {
		_, told := problemOf(st, hung.Name, cke.CodeEngine)
		return told && st.Generation == revision && st.Operation == nil && ok(st)
	})
	return st, m.did(newest)
}

// waitsFor fails unless a status tells that all members serve, and that a silent node is waited for.
func (m *loaded) waitsFor(st cke.Status, hung lab.Node) {
	m.Helper()
	m.tells(st, map[cke.ConditionType]string{cke.CondReady: "False Degraded", cke.CondAllMembersReady: "True AllServing", cke.CondQuorate: "True LinearizableRead",
		cke.CondDataVolumesReady: "Unknown NodeSilent", cke.CondProgressing: "False Waiting"})
	if want := "waiting for " + hung.Name + ": its data may be intact"; st.Health != cke.HealthDegraded || st.Reason != want {
		m.Errorf("%s: %q, want %q", st.Health, st.Reason, want)
	}
}

// goesOn lets a hung engine go on, and checks what is done then.
func (m *loaded) goesOn(hung lab.Node, what ...string) {
	m.Helper()
	newest := m.newest()
	m.measured("the engine goes on", func() {
		m.must(m.Lab.ResumeDocker(m.ctx, hung.Name))
		m.await("what waited to be done", readyLimit, func(cke.Status) bool { return len(m.did(newest)) >= len(what) })
		m.settled()
	})
	m.were(m.did(newest), what...)
}
