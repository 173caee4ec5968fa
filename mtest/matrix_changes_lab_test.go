package mtest_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/mtest/lab"
)

// Versions of etcd that upgrades go through: the one below the rig's minor, and the patch below the rig's.
const (
	formerMinor = "3.5.35"
	formerPatch = "3.6.15"
)

// changes are what people ask of a cluster.
var changes = []chapter{
	{name: "one, three, five, three, one", nodes: 5, members: 1, quick: true, tell: func(m *loaded) {
		m.measured("the only member restarts", func() {
			m.argument("4294967296")
			m.apply()
		})
		for _, n := range []int{3, 5, 3, 1} {
			m.measured(fmt.Sprintf("to %d", n), func() {
				m.members(span(n)...)
				m.apply()
			})
		}
	}},
	{name: "a dead member is replaced by another node", nodes: 4, members: 3, quick: true, tell: func(m *loaded) {
		dead := m.nodes[1]
		m.measured("power lost", func() { m.loses(dead) })
		m.measured("replaced", func() {
			m.do("replace", dead.Name, m.nodes[3].Name)
			m.adopt()
			m.settled()
		})
		m.measured("the dead node is back, and no member", func() {
			m.must(m.Lab.Start(m.ctx, dead.Name))
			m.fresh()
			m.settled()
		})
	}},
	{name: "a dead member is replaced on its own node", nodes: 3, members: 3, tell: func(m *loaded) {
		victim := m.nodes[2]
		m.measured("its data is lost", func() {
			m.must(m.daemon.Freeze()) // else the container is made anew before its volume is gone
			m.on(victim, "docker rm -f $(docker ps -aq) && docker volume rm $(docker volume ls -q)")
			m.must(m.daemon.Thaw())
			m.awaitProblem(victim.Name, cke.CodeDataMissing)
		})
		m.measured("replaced", func() {
			m.do("replace", victim.Name, "--yes")
			m.settled()
		})
	}},
	{name: "a healthy member is replaced", nodes: 4, members: 3, quick: true, tell: func(m *loaded) {
		for _, role := range []string{"leader", "follower"} {
			from, spare := m.role(role), m.spare()
			m.measured("the "+role+" by another node", func() {
				m.do("replace", from.Name, spare)
				m.adopt()
				m.settled()
			})
		}
		m.measured("a follower on its own node", func() {
			m.do("replace", m.role("follower").Name, "--yes")
			m.settled()
		})
	}},
	{name: "other arguments, one member after the other", nodes: 3, members: 3, quick: true, tell: func(m *loaded) {
		for _, quota := range []string{"4294967296", "5368709120"} {
			m.measured("quota "+quota, func() {
				m.argument(quota)
				m.apply()
			})
		}
	}},
	{name: "what does not work is taken back", nodes: 3, members: 3, quick: true, tell: func(m *loaded) {
		sound := m.file
		m.archive(nextVersion)
		m.measured("an argument that etcd does not know, with a version", func() {
			m.file.Options.Etcd.ExtraArgs, m.file.Options.Etcd.Version = []string{"--no-such-flag"}, nextVersion
			m.set(m.file)
			m.await("a member to be down", readyLimit, func(st cke.Status) bool {
				return slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return strings.Contains(p.Message, "no-such-flag") })
			})
		})
		m.measured("taken back", func() {
			m.file = sound
			m.apply()
		})
		m.measured("a minor version, until one member runs it", func() {
			m.file.Options.Etcd.Version = nextVersion
			m.set(m.file)
			m.await("one member to run it", readyLimit, func(st cke.Status) bool {
				return slices.ContainsFunc(st.Members, func(b cke.MemberStatus) bool { return b.Version == nextVersion })
			})
		})
		m.measured("that is taken back, too", func() {
			m.file = sound
			for _, member := range m.apply().Members {
				if member.Version != "3.6.16" {
					m.Errorf("%s runs %s", member.Name, member.Version)
				}
			}
		})
	}},
	{name: "a patch version up", nodes: 3, members: 3, version: formerPatch, tell: func(m *loaded) { m.upgrade("3.6.16") }},
	{name: "one minor version after the other", nodes: 3, members: 3, version: formerMinor, tell: func(m *loaded) {
		m.upgrade("3.6.16")
		m.upgrade(nextVersion)
	}},
}

// upgrade makes all members run this version.
func (m *loaded) upgrade(version string) {
	m.Helper()
	if version != "3.6.16" { // nodes have that one
		m.archive(version)
	}
	m.measured("to "+version, func() {
		m.file.Options.Etcd.Version = version
		for _, member := range m.apply().Members {
			if member.Version != version {
				m.Errorf("%s runs %s", member.Name, member.Version)
			}
		}
	})
}

// spare is the name of a declared node that is no control-plane node.
func (m *loaded) spare() string {
	m.Helper()
	for _, n := range m.file.Nodes {
		if !n.ControlPlane {
			return n.Name()
		}
	}
	m.Fatal("no node is spare")
	return ""
}

// loses takes a node's power and waits until that is told.
func (m *loaded) loses(n lab.Node) {
	m.Helper()
	m.must(m.Lab.Kill(m.ctx, n.Name))
	m.awaitProblem(n.Name, cke.CodeUnreachable)
}

// soon makes the daemon replace what is provably lost at once.
func (m *loaded) soon() {
	m.file.Policies.Replace.Grace = cke.Duration(time.Second)
	m.apply()
}
