package mtest_test

import (
	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// faults are what befalls nodes.
var faults = []chapter{
	{name: "the leader's node loses power", nodes: 3, members: 3, quick: true, tell: passing("leader", cke.CodeUnreachable,
		func(m *loaded, n lab.Node) error { return m.Lab.Kill(m.ctx, n.Name) },
		func(m *loaded, n lab.Node) error { return m.Lab.Start(m.ctx, n.Name) })},
	{name: "the leader's node is paused", nodes: 3, members: 3, tell: passing("leader", cke.CodeUnreachable,
		func(m *loaded, n lab.Node) error { return m.Lab.Pause(m.ctx, n.Name) },
		func(m *loaded, n lab.Node) error { return m.Lab.Unpause(m.ctx, n.Name) })},
	{name: "a follower's node is paused", nodes: 3, members: 3, tell: passing("follower", cke.CodeUnreachable,
		func(m *loaded, n lab.Node) error { return m.Lab.Pause(m.ctx, n.Name) },
		func(m *loaded, n lab.Node) error { return m.Lab.Unpause(m.ctx, n.Name) })},
	{name: "nothing reaches the leader's node", nodes: 3, members: 3, tell: cutOff("leader", lab.In)},
	{name: "nothing leaves the leader's node", nodes: 3, members: 3, tell: cutOff("leader", lab.Out)},
	{name: "the leader's node is cut off", nodes: 3, members: 3, tell: cutOff("leader", lab.Both)},
	{name: "nothing reaches a follower's node", nodes: 3, members: 3, tell: cutOff("follower", lab.In)},
	{name: "nothing leaves a follower's node", nodes: 3, members: 3, tell: cutOff("follower", lab.Out)},
	{name: "a node is wiped", nodes: 3, members: 3, tell: func(m *loaded) {
		m.soon()
		n := m.role("leader")
		m.measured("wiped and replaced", func() {
			m.must(m.Lab.Wipe(m.ctx, n.Name, lab.WipeOptions{KeepHostKey: true}))
			m.await("a fresh member", readyLimit, func(st cke.Status) bool {
				return len(st.Members) == 3 && m.changed(st) == 1 && st.Ready == 3
			})
			m.settled()
		})
	}},
	{name: "an engine hangs", nodes: 3, members: 3, tell: passing("leader", cke.CodeEngine,
		func(m *loaded, n lab.Node) error { return m.Lab.HangDocker(m.ctx, n.Name) },
		func(m *loaded, n lab.Node) error { return m.Lab.ResumeDocker(m.ctx, n.Name) })},
	{name: "an engine hangs and its etcd is killed", nodes: 3, members: 3, tell: passing("leader", cke.CodeEngine,
		func(m *loaded, n lab.Node) error {
			if err := m.Lab.HangDocker(m.ctx, n.Name); err != nil {
				return err
			}
			m.on(n, rig.KillEtcd)
			return nil
		},
		func(m *loaded, n lab.Node) error { return m.Lab.ResumeDocker(m.ctx, n.Name) })},
	{name: "the leader's disk is full", nodes: 3, members: 3, tell: passing("leader", cke.CodeDiskFull,
		func(m *loaded, n lab.Node) error { return m.Lab.FillDisk(m.ctx, n.Name) },
		func(m *loaded, n lab.Node) error { return m.Lab.FreeDisk(m.ctx, n.Name) })},
}

// passing tells of a trouble that befalls the member of a role, is told as a problem of its node, and passes: the
// cluster and its members are the same afterwards.
func passing(role string, code cke.Code, begin, end func(*loaded, lab.Node) error) func(*loaded) {
	return func(m *loaded) {
		n := m.role(role)
		m.measured("trouble at "+n.Name, func() {
			m.must(begin(m, n))
			m.await("the trouble to be told", seenLimit, func(st cke.Status) bool {
				_, told := problemOf(st, n.Name, code)
				return told
			})
			m.writes()
		})
		m.measured("its end", func() {
			m.must(end(m, n))
			m.fresh()
			st := m.settled()
			if changed := m.changed(st); changed > 0 {
				m.Errorf("%d members are new: %+v, before %+v", changed, st.Members, m.before.Members)
			}
		})
	}
}

func cutOff(role string, d lab.Direction) func(*loaded) {
	return passing(role, cke.CodeUnreachable,
		func(m *loaded, n lab.Node) error { return m.Lab.Cut(m.ctx, n.Name, lab.Cut{Direction: d}) },
		func(m *loaded, n lab.Node) error { return m.Lab.Heal(m.ctx, n.Name) })
}

// changed counts the members that were not there when the cluster was founded.
func (m *loaded) changed(st cke.Status) int {
	known := map[string]bool{}
	for _, member := range m.before.Members {
		known[member.ID] = true
	}
	n := 0
	for _, member := range st.Members {
		if member.ID == "" || !known[member.ID] {
			n++
		}
	}
	return n
}
