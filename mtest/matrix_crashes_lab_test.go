package mtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
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
	{name: "killed while it restarts members", nodes: 3, members: 3, tell: func(m *loaded) {
		for i, step := range []string{"move-leader", "stop", "start", "serve"} {
			m.argument(fmt.Sprint(4<<30 + i))
			m.dies(moment{"restart-member", step})
		}
	}},
	{name: "killed while it starts members", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, step := range []string{"start", "serve"} {
			m.measured("start-members/"+step, func() {
				died := m.killedAt(moment{"start-members", step}, func() { m.on(m.role("follower"), killContainer) })
				m.fresh()
				m.settled()
				m.interrupted(died)
			})
		}
	}},
	{name: "killed while it upgrades", nodes: 3, members: 3, tell: func(m *loaded) {
		m.archive(nextVersion)
		m.file.Options.Etcd.Version = nextVersion
		m.measured("to "+nextVersion, func() {
			var revision int64
			died := []*death{m.killedAt(moment{"restart-member", "image"}, func() { revision = m.set(m.file) })}
			for _, step := range []string{"snapshot", "start"} { // of the same member, or the next one
				died = append(died, m.killedAt(moment{"restart-member", step}, func() {}))
			}
			for _, member := range m.follows(revision).Members {
				if member.Version != nextVersion {
					m.Errorf("%s runs %s", member.Name, member.Version)
				}
			}
			m.interrupted(died...)
		})
	}},
	{name: "killed while it replaces a dead node", nodes: 4, members: 3, tell: func(m *loaded) {
		dead, spare := 1, 3
		for _, at := range []moment{{"remove-member", "remove"}, {"add-member", "start"}, {"add-member", "receive-data"}} {
			m.loses(m.nodes[dead])
			m.members(slices.DeleteFunc(span(4), func(i int) bool { return i == dead })...)
			m.dies(at)
			m.must(m.Lab.Start(m.ctx, m.nodes[dead].Name))
			m.fresh()
			if st := m.settled(); slices.Contains(names(st), m.nodes[dead].Name) {
				m.Errorf("%s has a member: %+v", m.nodes[dead].Name, st.Members)
			}
			dead, spare = spare, dead
		}
	}},
	{name: "killed while it replaces lost data", nodes: 3, members: 3, tell: func(m *loaded) {
		m.soon()
		for _, at := range []moment{{"remove-member", "remove"}, {"add-member", "prepare"}, {"add-member", "receive-data"}} {
			m.measured(at.String(), func() {
				victim := m.role("follower")
				was := m.of(m.settled(), victim)
				died := m.killedAt(at, func() {
					m.must(m.daemon.Freeze()) // else the container is made anew before its volume is gone
					m.on(victim, "docker rm -f $(docker ps -aq) && docker volume rm $(docker volume ls -q)")
					m.must(m.daemon.Thaw())
				})
				m.fresh()
				if is := m.of(m.settled(), victim); is.ID == was.ID || is.Join == was.Join {
					m.Errorf("%s has %+v, before %+v", victim.Name, is, was)
				}
				m.interrupted(died)
			})
		}
	}},
	{name: "killed while it drains", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, step := range []string{"check", "move-leader", "stop"} {
			m.measured("drain-node/"+step, func() {
				n := m.role("leader")
				newest := m.newest()
				d := &drain{loaded: m, node: n, turnedDown: newest}
				died := m.killedAt(moment{"drain-node", step}, d.ask, d.askAgain)
				st := m.await("it to be drained, and the others to serve", readyLimit, func(st cke.Status) bool {
					d.askAgain()
					quorate, _ := st.Condition(cke.CondQuorate)
					return len(st.Drains) == 1 && st.Operation == nil && m.of(st, n).State == "drained" && st.Ready == 2 && quorate.Status == cke.True
				})
				m.tells(st, map[cke.ConditionType]string{cke.CondDrained: "True Asked", cke.CondQuorate: "True LinearizableRead"})
				if running := m.on(n, "docker ps -q"); running != "" || m.of(st, n).ID == "" {
					m.Errorf("%s runs %q: %+v", n.Name, running, m.of(st, n))
				}
				m.interrupted(died)
				did := m.did(newest)
				if last := did[len(did)-1]; last.Operation != "drain-node" || last.State != cke.RecordCompleted || last.Task == "" {
					m.Errorf("last was %+v", last)
				}
				m.do("node", "undrain", n.Name)
				m.stillMembers(m.before)
			})
		}
	}},
	{name: "killed while it hibernates and resumes", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, step := range []string{"start", "serve"} {
			m.measured("hibernate/stop and start-members/"+step, func() {
				died := m.killedAt(moment{"hibernate", "stop"}, func() { m.do("cluster", "hibernate", m.Cluster, "--confirm", m.Cluster, "--no-wait") })
				st := m.await("it to hibernate", readyLimit, func(st cke.Status) bool {
					c, _ := st.Condition(cke.CondHibernated)
					return c.Status == cke.True && st.Operation == nil
				})
				m.tells(st, map[cke.ConditionType]string{cke.CondHibernated: "True Asked", cke.CondQuorate: "False Hibernated", cke.CondProgressing: "False Hibernated"})
				for _, n := range m.nodes {
					if running := m.on(n, "docker ps -q"); running != "" || m.of(st, n).State != "hibernated" {
						m.Errorf("%s runs %q, and is told as %+v", n.Name, running, m.of(st, n))
					}
				}
				again := m.killedAt(moment{"start-members", step}, func() { m.do("cluster", "resume", m.Cluster, "--no-wait") })
				m.fresh()
				m.stillMembers(m.before)
				m.interrupted(died, again)
			})
		}
	}},
	{name: "killed while it changes an address", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, step := range []string{"update-member", "stop", "record-address", "start"} {
			n, to := m.nodes[2], m.spareAddress() // clients go on by the others
			was, volume := m.of(m.settled(), n), rig.Lines(m.carried(n), "volume ")
			m.readdress(n, to)
			m.awaitProblem(n.Name, cke.CodeUnreachable)
			m.declareAt(n, to)
			m.standsAt(m.dies(moment{"change-address", step}), n, to, was, volume)
		}
	}},
}

// death is a daemon's, in the middle of an operation, or its being frozen there.
type death struct {
	at     moment
	host   string
	record int64
}

// come reports whether the moment has come, and remembers the record that tells of it.
func (x *death) come(r cke.Record) bool {
	x.record = r.ID
	return x.at.begun()(r)
}

// dies stores the file, kills the daemon at a moment of what follows, and starts it anew.
func (m *loaded) dies(at moment) (st cke.Status) {
	m.Helper()
	m.measured(at.String(), func() {
		var revision int64
		died := m.killedAt(at, func() { revision = m.set(m.file) })
		st = m.follows(revision)
		m.interrupted(died)
	})
	return st
}

// drain is what a person asks for once: cke does not try it again when it is turned down.
type drain struct {
	*loaded
	node       lab.Node
	turnedDown int64 // the last record that was looked at
}

func (d *drain) ask() {
	d.Helper()
	d.do("node", "drain", d.node.Name, "--yes", "--no-wait", "--reason", "new kernel")
}

// askAgain asks again if the last answer was no because a member of a busy machine did not answer for a moment. While the daemon is
// down nobody tells.
func (d *drain) askAgain() {
	d.Helper()
	all, err := d.Records(d.ctx, 1)
	if err != nil || len(all) == 0 || all[0].ID <= d.turnedDown || !turnedDown(all[0]) {
		return
	}
	d.turnedDown = all[0].ID
	d.Logf("again: #%d %s", all[0].ID, all[0].Error)
	d.ask()
}

// turnedDown reports whether a drain was refused before it began, which is on record by what was asked for, or failed since somebody
// did not answer for a moment.
func turnedDown(r cke.Record) bool {
	return r.Operation == string(cke.TaskDrain) && r.Refused || r.Operation == "drain-node" && forNow(r)
}

// killedAt begins something, kills the daemon as soon as a moment of it has come, and starts it anew. Until then it looks again and
// again whether it has to be begun once more.
func (m *loaded) killedAt(at moment, begin func(), again ...func()) *death {
	m.Helper()
	d, x := m.daemon, &death{at: at, host: "cke1"}
	died := m.when(m.within(readyLimit), x.come, func() error { d.Kill(); return nil })
	begin()
	for tick := time.Tick(time.Second); ; {
		select {
		case err := <-died:
			m.must(err)
			m.daemon = m.story.daemon("cke1")
			return x
		case <-tick:
			for _, look := range again {
				look()
			}
		}
	}
}

// follows waits until the cluster is as a revision of the file says.
func (m *loaded) follows(revision int64) cke.Status {
	m.Helper()
	return m.await("the file to be followed", 2*readyLimit, func(st cke.Status) bool {
		return rig.Ready(st) && st.Generation == revision && st.Ready == m.declared() && len(st.Members) == m.declared()
	})
}

// interrupted fails unless the history tells of each operation that the daemon died in that it was cut off there, and
// by whom, and of no operation before the last one that it is still running.
func (m *loaded) interrupted(died ...*death) {
	m.Helper()
	all := m.records()
	for _, r := range all[1:] {
		if r.State == cke.RecordRunning {
			m.Errorf("#%d %s is told as running, and #%d %s came later", r.ID, r.Operation, all[0].ID, all[0].Operation)
		}
	}
	for _, x := range died {
		i := slices.IndexFunc(all, func(r cke.Record) bool { return r.ID == x.record })
		if i < 0 {
			m.Errorf("%s: no record %d", x.at, x.record)
			continue
		}
		r := all[i]
		begun := slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == x.at.step })
		if r.Operation != x.at.operation || !begun || r.State != cke.RecordInterrupted || r.EndedAt.IsZero() || !strings.HasPrefix(r.Error, "cke on "+x.host+" stopped leading while this ran") || i == 0 || all[0].Term <= r.Term {
			m.Errorf("%s: the history tells %+v", x.at, r)
		}
	}
}

// TestLabMatrix_TwoDaemons tells of a leader that is frozen in the middle of an operation, while the other daemon goes
// on with it, and thaws when that has been done: a deposed leader changes nothing, and clients notice nothing.
func TestLabMatrix_TwoDaemons(t *testing.T) {
	for _, tt := range []struct {
		at     moment
		change func(*loaded)
	}{
		{moment{"restart-member", "stop"}, func(m *loaded) { m.argument("4294967296") }},
		{moment{"restart-member", "start"}, func(m *loaded) { m.argument("4294967296") }},
		{moment{"add-member", "add-learner"}, func(m *loaded) { m.members(0, 1, 2, 3) }},
		{moment{"add-member", "start"}, func(m *loaded) { m.members(0, 1, 2, 3) }},
		{moment{"remove-member", "remove"}, func(m *loaded) { m.members(0, 1, 3) }},
	} {
		t.Run(tt.at.String(), func(t *testing.T) {
			rare(t)
			h := newHosts(t, borrow(t, 4), 4)
			first := h.one.daemon("boot-1")
			h.one.setKey()
			m := &loaded{file: h.one.spec()}
			m.members(0, 1, 2)
			m.under(h.one, func(m *loaded) {
				h.two.daemon("boot-2")
				m.story = h.two // the first host's is told by a daemon that freezes
				x := &death{at: tt.at, host: "boot-1"}
				frozen := m.when(m.within(readyLimit), x.come, first.Freeze)
				tt.change(m)
				m.set(m.file)
				m.must(<-frozen)
				m.await("the other daemon to go on", 2*readyLimit, func(st cke.Status) bool {
					return st.Leader.Host == "boot-2" && rig.Ready(st) && st.Ready == m.declared()
				})
				m.must(first.Thaw())
				m.must(first.AwaitLog(m.within(seenLimit), "term ended"))
				m.keepsLeading(m.settled().Leader)
				m.interrupted(x)
			})
		})
	}
}
