package mtest_test

import (
	"slices"
	"strings"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// moves are about machines that get another address.
var moves = []chapter{
	{name: "machines get other addresses", nodes: 3, members: 3, tell: func(m *loaded) {
		leader, to := m.role("leader"), m.spareAddress()
		m.on(leader, "ip addr add "+to+"/24 dev $(ip -o -4 addr show to "+leader.Address+" | awk '{print $2}')")
		m.moves("the leader's has both for a time", leader, to)
		newest := m.newest()
		m.measured("its former one is gone", func() {
			m.readdress(leader, to)
			m.fresh()
			m.settled()
		})
		m.didNothing(newest)

		follower, to := m.role("follower"), m.spareAddress()
		newest = m.newest()
		m.measured("a follower's has another one", func() {
			m.readdress(follower, to)
			if p := m.awaitProblem(follower.Name, cke.CodeUnreachable); !strings.Contains(p.Message, follower.Address) {
				m.Errorf("problem %+v", p)
			}
		})
		m.didNothing(newest)
		m.moves("that is declared", follower, to)
	}},
}

// moveSteps are those of a change of address.
var moveSteps = []string{"image", "same-machine", "try-files", "move-leader", "update-member", "stop", "certificates", "record-address", "start", "serve"}

// moves declares another address of a node, and checks that its member was taken there, with its id and its data, and
// that nothing else was done.
func (m *loaded) moves(name string, n lab.Node, to string) {
	m.Helper()
	newest, volume := m.newest(), rig.Lines(m.carried(n), "volume ")
	was := m.of(m.fresh(), n)
	var st cke.Status
	m.measured(name, func() {
		m.declareAt(n, to)
		st = m.apply()
	})
	did := m.did(newest)
	m.were(did, "change-address "+n.Name)
	if steps := stepsOf(did[0]); !slices.Equal(steps, moveSteps) {
		m.Errorf("steps %v", steps)
	}
	m.standsAt(st, n, to, was, volume)
}

// standsAt fails unless the member on a node is the one that it was, at an address, with the volume that it had, and none beside it.
func (m *loaded) standsAt(st cke.Status, n lab.Node, to string, was cke.MemberStatus, volume []string) {
	m.Helper()
	is := m.of(st, n)
	if is.ID != was.ID || is.Join != was.Join || is.Address != to || is.ClientURL != "https://"+to+":2379" || is.PeerURL != "https://"+to+":2380" {
		m.Errorf("%s has member %+v, before %+v", n.Name, is, was)
	}
	if changed := m.changed(st); changed > 0 || len(st.Members) != len(m.before.Members) {
		m.Errorf("%d members are new: %+v", changed, st.Members)
	}
	has := m.carried(n)
	if containers := rig.Lines(has, "container "); len(containers) != 1 || !strings.HasSuffix(containers[0], " running") || !slices.Equal(rig.Lines(has, "volume "), volume) {
		m.Errorf("%s carries\n%s\nbefore %v", n.Name, has, volume)
	}
	m.must(m.oneOf(n, st, is.ClientURL, m.clientTLS()))
}

func (m *loaded) spareAddress() string {
	m.Helper()
	address, err := m.Lab.SpareAddress()
	m.must(err)
	return address
}

// readdress gives a node another address in place of its own.
func (m *loaded) readdress(n lab.Node, to string) {
	m.Helper()
	i := slices.IndexFunc(m.nodes, func(other lab.Node) bool { return other.Name == n.Name })
	var err error
	m.nodes[i], err = m.Lab.Readdress(m.ctx, n.Name, to)
	m.must(err)
}

// declareAt writes another address of a node into the file.
func (m *loaded) declareAt(n lab.Node, to string) {
	i := slices.IndexFunc(m.file.Nodes, func(other cke.Node) bool { return other.Hostname == n.Name })
	m.file.Nodes[i].Address = to
}
