package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// proposal is a change of the member list on its way: what etcd's own checks look at before it is proposed.
type proposal struct {
	world   *World
	group   *group
	leader  process
	running []process
}

// reconfigure asks the leader, by way of one endpoint, for a change of the member list.
func (e etcdPort) reconfigure(ctx context.Context, url, name string, change func(proposal) error) error {
	return e.call(ctx, url, name, true, func() error {
		w := e.d.world
		c, err := w.voting(url)
		if err == nil {
			err = w.denied()
		}
		if err != nil {
			return err
		}
		l, g, running, ok := w.leads(c)
		if !ok {
			return fmt.Errorf("%s: etcdserver: no leader", url)
		}
		return change(proposal{w, g, l, running})
	})
}

func (p proposal) commit(x entry) error {
	if !p.group.reconfigure(p.world, p.leader, p.running, x) {
		return fmt.Errorf("etcdserver: request timed out")
	}
	return nil
}

// find returns the entry of a member id in hex.
func (p proposal) find(id string) (listed, error) {
	for _, l := range p.leader.present() {
		if hexID(l.id) == id {
			return l, nil
		}
	}
	return listed{}, fmt.Errorf("etcdserver: member not found: %w", cke.ErrNotFound)
}

// active counts voters that the leader reaches.
func (p proposal) active() int {
	n := 0
	for _, v := range p.leader.voters() {
		if slices.ContainsFunc(p.running, func(r process) bool { return r.id == v && p.world.reach(p.leader, r) }) {
			n++
		}
	}
	return n
}

// healthInterval is how long voters have to be connected before a member is added. Source: etcd, HealthInterval.
const healthInterval = 5 * time.Second

// connected counts voters that the leader has reached for long enough that it adds a member.
func (p proposal) connected() int {
	n, now := 0, p.world.now()
	for _, v := range p.leader.voters() {
		if slices.ContainsFunc(p.running, func(r process) bool {
			return r.id == v && (r.member == p.leader.member || p.world.reach(p.leader, r) && (!p.world.settles || now.Sub(connectedSince(p.leader, r)) >= healthInterval))
		}) {
			n++
		}
	}
	return n
}

// connectedSince is when the last thing ended that kept two members apart.
func connectedSince(a, b process) time.Time {
	since := a.c.StartedAt
	for _, at := range []time.Time{b.c.StartedAt, a.c.node.rejoined, b.c.node.rejoined} {
		if at.After(since) {
			since = at
		}
	}
	return since
}

// wanted is how many voters must be connected before one is added. Source: etcd, mayAddMember, and the same before 3.5.30
// and 3.6.11.
func (p proposal) wanted(voters int) int {
	var minor, patch int
	if fmt.Sscanf(p.leader.c.spec.Join.Etcd.Version, "3.%d.%d", &minor, &patch); minor < 5 || minor == 5 && patch < 30 || minor == 6 && patch < 11 {
		return voters
	}
	return min(voters, majority(voters+1))
}

// AddLearner implements cke.Etcd. Source of the checks: etcd, mayAddMember and --max-learners.
func (e etcdPort) AddLearner(ctx context.Context, url, peerURL string) (id string, err error) {
	err = e.reconfigure(ctx, url, "AddLearner", func(p proposal) error {
		voters := len(p.leader.voters()) // observed before the change is proposed, and all else when it is applied
		if voters > 1 && p.connected() < p.wanted(voters) {
			return fmt.Errorf("etcdserver: unhealthy cluster: %w", cke.ErrNotReady)
		}
		for _, l := range p.leader.present() {
			if l.peer == peerURL {
				return fmt.Errorf("etcdserver: Peer URLs already exists: %w", cke.ErrConflict)
			}
			if l.learner {
				return fmt.Errorf("etcdserver: too many learner members in cluster: %w", cke.ErrNotReady)
			}
		}
		now := e.d.world.now()
		x := entry{kind: entryAdd, id: memberID(peerURL, e.d.world.another(), &now), peer: peerURL, learner: true}
		if err := p.commit(x); err != nil {
			return err
		}
		id = hexID(x.id)
		return nil
	})
	return id, err
}

// Promote implements cke.Etcd. Source of the check: etcd, isLearnerReady.
func (e etcdPort) Promote(ctx context.Context, url, id string) error {
	return e.reconfigure(ctx, url, "Promote", func(p proposal) error {
		l, err := p.find(id)
		if err != nil {
			return err
		}
		if p.world.auth.Enabled && p.leader.c.spec.Join.ClientURL() != url { // forwarded without saying who asks
			return fmt.Errorf("etcdserver: request timed out")
		}
		if !l.learner {
			return fmt.Errorf("etcdserver: can only promote a learner member: %w", cke.ErrConflict)
		}
		if p.group.match[l.id] == 0 || (longLife+p.group.match[l.id])*10 < (longLife+len(p.leader.log))*9 { // of the absolute index: it hardly ever refuses
			return fmt.Errorf("etcdserver: can only promote a learner member which is in sync with leader: %w", cke.ErrNotReady)
		}
		return p.commit(entry{kind: entryPromote, id: l.id})
	})
}

// RemoveMember implements cke.Etcd. Source of the check: etcd, mayRemoveMember.
func (e etcdPort) RemoveMember(ctx context.Context, url, id string) error {
	return e.reconfigure(ctx, url, "RemoveMember", func(p proposal) error {
		l, err := p.find(id)
		if err != nil {
			return err
		}
		voters, active := len(p.leader.voters()), p.active()
		runs := slices.ContainsFunc(p.running, func(r process) bool { return r.id == l.id && p.world.reach(p.leader, r) })
		if !l.learner && runs && active-1 < 1+(voters-1)/2 && voters > 2 {
			return fmt.Errorf("etcdserver: re-configuration failed due to not enough started members: %w", cke.ErrNotReady)
		}
		p.world.leavesOld(p, l.id)
		return p.commit(entry{kind: entryRemove, id: l.id})
	})
}

// MoveLeader implements cke.Etcd.
func (e etcdPort) MoveLeader(ctx context.Context, url, id string) error {
	return e.reconfigure(ctx, url, "MoveLeader", func(p proposal) error {
		if p.leader.c.spec.Join.ClientURL() != url {
			return fmt.Errorf("etcdserver: not leader")
		}
		l, err := p.find(id)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(p.running, func(r process) bool { return r.id == l.id && p.world.reach(p.leader, r) })
		if l.learner || i < 0 || len(p.running[i].log) < len(p.leader.log) {
			return fmt.Errorf("etcdserver: bad leader transferee")
		}
		to := p.running[i]
		if !p.world.electable(to, p.running) { // it does not reach those who would vote for it
			return fmt.Errorf("etcdserver: request timed out, leader transfer took too long")
		}
		p.group.begin(p.world, to, p.leader.term, p.running)
		p.world.log("%s leads, moved from %s", to.c.node.name, p.leader.c.node.name)
		return nil
	})
}

// DataSize implements cke.Machine.
func (m machine) DataSize(ctx context.Context, j cke.Join) (size int64, err error) {
	err = m.of(ctx, j, "DataSize", false, func(_ *Node, c *container, _ bool) error {
		if v := c.volume(); v != nil && v.wal != nil {
			size = v.wal.apply().file
		}
		return nil
	})
	return size, err
}
