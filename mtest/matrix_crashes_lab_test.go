package mtest_test

import (
	"fmt"
	"testing"

	"cke"
	"cke/mtest/rig"
)

// moment is a step of an operation in which something happens to the daemon.
type moment struct{ operation, step string }

func (m moment) String() string { return m.operation + "/" + m.step }

// begun tells for Follow whether the moment has come.
func (m moment) begun() func(cke.Record) bool {
	step := rig.StepBegun(m.step)
	return func(r cke.Record) bool { return r.Operation == m.operation && step(r) }
}

// crashes are deaths of the daemon in the middle of each kind of operation.
var crashes = []chapter{
	{name: "killed while it adds and removes", nodes: 4, members: 3, tell: func(m *loaded) {
		for i, at := range []moment{
			{"add-member", "record-join"}, {"remove-member", "remove"},
			{"add-member", "add-learner"}, {"remove-member", "record-end"},
			{"add-member", "prepare"}, {"remove-member", "stop"},
			{"add-member", "start"}, {"remove-member", "move-leader"},
			{"add-member", "receive-data"}, {"remove-member", "remove"},
			{"promote-member", "promote"}, {"remove-member", "remove"},
		} {
			m.members(span(4 - i%2)...)
			m.dies(at)
		}
	}},
	{name: "killed while it restarts members", nodes: 3, members: 3, quick: true, tell: func(m *loaded) {
		for i, step := range []string{"move-leader", "stop", "start", "serve"} {
			m.argument(fmt.Sprint(4<<30 + i))
			m.dies(moment{"restart-member", step})
		}
	}},
	{name: "killed while it starts members", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, step := range []string{"start", "serve"} {
			died := m.killIn(moment{"start-members", step})
			m.measured("start-members/"+step, func() {
				m.on(m.role("follower"), killContainer)
				m.must(<-died)
				m.daemon = m.story.daemon("cke1")
				m.fresh()
				m.settled()
			})
		}
	}},
	{name: "killed while it upgrades", nodes: 3, members: 3, tell: func(m *loaded) {
		m.archive(nextVersion)
		m.file.Options.Etcd.Version = nextVersion
		m.dies(moment{"restart-member", "image"})
	}},
}

// dies stores the file, kills the daemon at a moment of what follows, and starts it anew.
func (m *loaded) dies(at moment) {
	m.Helper()
	m.measured(at.String(), func() {
		died := m.killIn(at)
		revision := m.set(m.file)
		m.must(<-died)
		m.daemon = m.story.daemon("cke1")
		m.await("the file to be followed", 2*readyLimit, func(st cke.Status) bool {
			return rig.Ready(st) && st.Generation == revision && st.Ready == m.declared() && len(st.Members) == m.declared()
		})
	})
}

// killIn kills the daemon as soon as a moment has come, and tells when it is dead.
func (m *loaded) killIn(at moment) <-chan error {
	d := m.daemon
	return m.when(m.within(readyLimit), at.begun(), func() error { d.Kill(); return nil })
}

// TestLabMatrix_TwoDaemons tells of a leader that is frozen in the middle of an operation, while the other daemon goes
// on with it, and thaws when that has been done: a deposed leader changes nothing, and clients notice nothing.
func TestLabMatrix_TwoDaemons(t *testing.T) {
	for i, tt := range []struct {
		at     moment
		change func(*loaded)
	}{
		{moment{"restart-member", "stop"}, func(m *loaded) { m.argument("4294967296") }},
		{moment{"restart-member", "start"}, func(m *loaded) { m.argument("4294967296") }},
		{moment{"add-member", "add-learner"}, func(m *loaded) { m.members(0, 1, 2, 3) }},
		{moment{"add-member", "start"}, func(m *loaded) { m.members(0, 1, 2, 3) }},
		{moment{"remove-member", "remove"}, func(m *loaded) { m.members(0, 1, 3) }},
	} {
		if i > 0 && !*wholeMatrix {
			continue
		}
		t.Run(tt.at.String(), func(t *testing.T) {
			h := newHosts(t, borrow(t, 4), 4)
			first := h.one.daemon("boot-1")
			h.one.setKey()
			m := &loaded{file: h.one.spec()}
			m.members(0, 1, 2)
			m.under(h.one, func(m *loaded) {
				h.two.daemon("boot-2")
				m.story = h.two // the first host's is told by a daemon that freezes
				frozen := m.when(m.within(readyLimit), tt.at.begun(), first.Freeze)
				tt.change(m)
				m.set(m.file)
				m.must(<-frozen)
				m.await("the other daemon to go on", 2*readyLimit, func(st cke.Status) bool {
					return st.Leader.Host == "boot-2" && rig.Ready(st) && st.Ready == m.declared()
				})
				m.must(first.Thaw())
				m.must(first.AwaitLog(m.within(seenLimit), "term ended"))
				m.keepsLeading(m.settled().Leader)
			})
			for _, r := range m.records() {
				if r.State == cke.RecordRunning {
					t.Errorf("operation %+v", r)
				}
			}
		})
	}
}
