package mtest_test

import (
	"context"
	"slices"
	"strings"

	"cke"
	"cke/mtest/lab"
)

// drifts are about members that do not run as declared.
var drifts = []chapter{
	{name: "other environment, mounts and limits", nodes: 3, members: 3, tell: func(m *loaded) {
		etcd := &m.file.Options.Etcd
		m.rolls("an environment variable", func() { etcd.ExtraEnv = map[string]string{"GOMEMLIMIT": "400MiB"} }, func(s settings) bool {
			return slices.Contains(s.Config.Env, "GOMEMLIMIT=400MiB") && s.binds() == "" && s.HostConfig.NanoCpus == 0 && s.HostConfig.Memory == 0
		})
		for _, n := range m.nodes {
			m.on(n, "mkdir -p /srv/notes")
		}
		m.rolls("a mount", func() { etcd.ExtraBinds = []cke.Bind{{Source: "/srv/notes", Destination: "/notes", ReadOnly: true}} }, func(s settings) bool {
			return slices.Contains(s.Config.Env, "GOMEMLIMIT=400MiB") && s.binds() == "/srv/notes /notes false"
		})
		limited := func(s settings) bool {
			return s.HostConfig.NanoCpus == 1_500_000_000 && s.HostConfig.Memory == 512<<20 && s.binds() == "/srv/notes /notes false"
		}
		m.rolls("limits", func() { etcd.Resources = cke.Resources{CPUs: 1.5, Memory: 512 << 20} }, limited)
		m.byHand(m.role("follower"), limited)
		m.rolls("all of it taken back", func() { etcd.ExtraEnv, etcd.ExtraBinds, etcd.Resources = nil, nil, cke.Resources{} }, func(s settings) bool {
			return !slices.ContainsFunc(s.Config.Env, func(e string) bool { return strings.HasPrefix(e, "GOMEMLIMIT=") }) && s.binds() == "" && s.HostConfig.NanoCpus == 0 && s.HostConfig.Memory == 0
		})
	}},
	{name: "engines that discard a memory limit", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, n := range m.nodes {
			m.withoutMemoryLimits(n)
		}
		before, newest := leadOf(m.settled()), m.newest()
		m.measured("a limit that no engine applies", func() {
			m.file.Options.Etcd.Resources.Memory = 512 << 20
			m.set(m.file)
			st := m.await("the limit to be reported as discarded by all engines", 2*readyLimit, func(st cke.Status) bool {
				return !slices.ContainsFunc(m.nodes, func(n lab.Node) bool {
					_, told := problemOf(st, n.Name, cke.CodeDiscarded)
					return !told
				})
			})
			for _, n := range m.nodes {
				if p, _ := problemOf(st, n.Name, cke.CodeDiscarded); !strings.Contains(p.Message, "created with 512MiB") {
					m.Errorf("%s: %s", n.Name, p.Message)
				}
				if memory := m.inspect(n).HostConfig.Memory; memory != 0 {
					m.Errorf("the engine of %s applied a limit of %d", n.Name, memory)
				}
			}
		})
		st := m.allServe()
		m.inTurn(m.did(newest), "restart-member", names(st), before)
		newest = m.newest()
		for range 5 { // without the record of what the engine made, the first member is restarted again at once
			m.fresh()
		}
		m.didNothing(newest)
		m.measured("the limit is withdrawn", func() {
			m.file.Options.Etcd.Resources = cke.Resources{}
			m.apply()
		})
		m.inTurn(m.did(newest), "restart-member", names(st), leadOf(st))
	}},
}

// withoutMemoryLimits takes the memory controller from a node, as a kernel does that was booted without it: its engine discards
// limits of memory from then on, with nothing but a warning. A power cycle brings it back.
func (m *loaded) withoutMemoryLimits(n lab.Node) {
	m.Helper()
	if strings.TrimSpace(m.on(n, "stat -fc %T /sys/fs/cgroup")) == "cgroup2fs" {
		m.Skip("taking away one controller is written for cgroup v1")
	}
	m.on(n, "umount -l /sys/fs/cgroup/memory")
	m.cleanly(func(ctx context.Context) error { return m.Lab.Kill(ctx, n.Name) }) // whoever borrows it next switches it on
	m.must(m.Lab.RestartDocker(m.ctx, n.Name))
	m.fresh()
	m.stillMembers(m.before)
}

// rolls changes how members run, and checks that they were restarted one after the other, the leader last, and run so.
func (m *loaded) rolls(what string, change func(), is func(settings) bool) {
	m.Helper()
	before, newest := leadOf(m.settled()), m.newest()
	var st cke.Status
	m.measured(what, func() {
		change()
		st = m.apply()
	})
	m.inTurn(m.did(newest), "restart-member", names(st), before)
	for _, n := range m.nodes {
		if s := m.inspect(n); !is(s) {
			m.Errorf("%s: the container of %s has %+v", what, n.Name, s)
		}
		if drift := m.of(st, n).Drift; drift != nil {
			m.Errorf("%s: drift of %s: %v", what, n.Name, drift)
		}
	}
}

// byHand changes the limits of a member's container behind cke's back: a paused cluster tells of it, and is left alone;
// afterwards the member is restarted with those on record.
func (m *loaded) byHand(n lab.Node, is func(settings) bool) {
	m.Helper()
	m.do("pause", "--reason", "a look at what drifts")
	newest, before := m.newest(), m.inspect(n)
	m.on(n, "docker update --cpus 1 --memory 384m $(docker ps -q)")
	p := m.awaitProblem(n.Name, cke.CodeNotApplied)
	const told = "limits: its container was given 1 CPUs and 384MiB outside cke, and was created with 1.5 CPUs and 512MiB"
	st := m.allServe()
	if drift := m.of(st, n).Drift; p.Message != told || !slices.Equal(drift, []string{told}) {
		m.Errorf("problem %q, drift %q", p.Message, drift)
	}
	m.tells(st, map[cke.ConditionType]string{cke.CondPaused: "True Asked", cke.CondProgressing: "False Paused", cke.CondAllMembersReady: "True AllServing"})
	if s := m.inspect(n); s.ID != before.ID || is(s) {
		m.Errorf("while it is paused %s has %+v, before %+v", n.Name, s, before)
	}
	m.didNothing(newest)
	m.measured("limits by hand", func() {
		m.do("resume")
		m.settled()
	})
	m.inTurn(m.did(newest), "restart-member", []string{n.Name}, lead{})
	if s := m.inspect(n); s.ID == before.ID || !is(s) {
		m.Errorf("%s has %+v, before %+v", n.Name, s, before)
	}
}
