package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cke"
)

const (
	// databaseSize is that of a database without what clients write, in bytes.
	databaseSize = 20480
	// putSize is what a client's write takes, in bytes.
	putSize = 1024
	// defaultQuota is etcd's, in bytes. Source: etcd, server/storage/quota.go.
	defaultQuota = 2 << 30
	// noLegacyLog is the first minor of 3.x that cannot read what members of 3.5 wrote into the log about themselves.
	// Source: etcd 3.7, apply.Apply.
	noLegacyLog = 7
)

// Kinds of alarms.
const (
	noSpace = "NOSPACE"
	corrupt = "CORRUPT"
)

// database is what a member's committed log amounts to, as of its first entries.
type database struct {
	at             int
	known, present []listed
	voters         []uint64
	minor          int
	alarms         []cke.Alarm
	used, history  int64 // bytes in use, and those of them that a compaction frees
	writes         int64 // each makes a revision
	compacted      int64 // revision
	file           int64 // bytes of the file, which only defragmenting makes smaller
	// told is what it reports to be in use: what a compaction freed is not known before the next write is committed.
	// Source: etcd, backend.begin and bbolt, Stats.FreePageN.
	told int64
}

// runs is how a process was started, and what became of it.
type runs struct {
	minor int
	quota int64
	// told: it told its name since it was started. over: it wrote although its database was full. unreadable: it came upon
	// an entry that it cannot read.
	told, over, unreadable bool
	follows                uint64 // the leader that it heard last
}

// apply brings the database to what is committed.
func (m *member) apply() *database {
	d := &m.database
	if d.at == m.commit && d.used > 0 {
		return d
	}
	if d.used == 0 {
		d.used, d.told, d.file = databaseSize, databaseSize, max(d.file, databaseSize)
	}
	changed := false
	for n, e := range m.log[d.at:m.commit] {
		changed = d.take(e) || changed
		if e.kind != entryNone && e.kind != entryCompact {
			d.told = d.used
		}
		if d.at+n < m.snapshot {
			continue // it came as a file
		}
		d.file = max(d.file, d.used)
		m.runs.over = m.runs.over || e.grows() && d.file >= m.quota()
		m.runs.unreadable = m.runs.unreadable || e.legacy && m.runs.minor >= noLegacyLog
	}
	d.at = m.commit
	if changed {
		d.list()
	}
	return d
}

// revision is etcd's: an empty database has the first one.
func (d *database) revision() int64 { return 1 + d.writes }

// take applies one entry and reports whether it changes the membership.
func (d *database) take(e entry) bool {
	d.minor = max(d.minor, e.minor)
	switch e.kind {
	case entryNone, entryVersion, entryAsk:
		return false
	case entryPut:
		d.used, d.writes = d.used+putSize, d.writes+1
		return false
	case entryFill:
		d.used, d.history, d.writes = d.used+e.bytes, d.history+e.bytes, d.writes+1
		return false
	case entryCompact:
		d.used, d.history, d.compacted = d.used-d.history, 0, max(d.compacted, e.bytes)
		return false
	case entryAlarm, entryDisarm:
		a := cke.Alarm{MemberID: hexID(e.id), Kind: e.value}
		d.alarms = slices.DeleteFunc(slices.Clone(d.alarms), func(o cke.Alarm) bool { return o == a })
		if e.kind == entryAlarm {
			d.alarms = append(d.alarms, a)
		}
		return false
	}
	i := slices.IndexFunc(d.known, func(l listed) bool { return l.id == e.id })
	switch {
	case e.kind == entryAdd:
		d.known = append(d.known, listed{id: e.id, peer: e.peer, learner: e.learner})
	case i < 0:
	case e.kind == entryRemove:
		d.known[i].gone = true
	case e.kind == entryPromote:
		d.known[i].learner = false
	case e.kind == entryPublish:
		d.known[i].name, d.known[i].client = e.value, e.client
	case e.kind == entryUpdate:
		d.known[i].peer = e.peer
	}
	return true
}

// list makes the lists again that follow from the membership: who has the former ones keeps them.
func (d *database) list() {
	d.present, d.voters = nil, nil
	for _, l := range d.known {
		if l.gone {
			continue
		}
		d.present = append(d.present, l)
		if !l.learner {
			d.voters = append(d.voters, l.id)
		}
	}
}

// grows reports whether an entry makes the database larger.
func (e entry) grows() bool { return e.kind == entryPut || e.kind == entryFill }

func (e entry) size() int64 {
	if e.kind == entryPut {
		return putSize
	}
	return e.bytes
}

// quota is the size at which the member's database is full, in bytes.
func (m *member) quota() int64 {
	if m.runs.quota > 0 {
		return m.runs.quota
	}
	return defaultQuota
}

// quotaOf is what a container's arguments say; 0: nothing.
func quotaOf(o cke.EtcdOptions) (quota int64) {
	for _, arg := range o.ExtraArgs {
		if text, is := strings.CutPrefix(arg, "--quota-backend-bytes="); is {
			quota, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	return quota
}

// alarmed reports whether an alarm of a kind is active, or will be once what the leader has is committed.
func (m *member) alarmed(kind string) bool {
	if len(m.log) == m.commit && m.apply().alarms == nil {
		return false
	}
	d := database{alarms: m.apply().alarms}
	for _, e := range m.log[m.commit:] {
		if e.kind == entryAlarm || e.kind == entryDisarm {
			d.take(e)
		}
	}
	return slices.ContainsFunc(d.alarms, func(a cke.Alarm) bool { return a.Kind == kind })
}

// takes returns why a member refuses to propose something for a client, before raft. A member whose own database is full
// raises the alarm; what is refused while one is active would be refused by all who apply it.
// Source: etcd, quotaAlarmer.check, applierV3Capped, applierV3Corrupt.
func (w *World) takes(m *member, l process, g *group, running []process, e entry) error {
	switch e.kind {
	case entryPut, entryFill, entryNone, entryCompact:
	default:
		return nil
	}
	if l.alarmed(corrupt) {
		return fmt.Errorf("etcdserver: corrupt cluster")
	}
	if !e.grows() {
		return nil
	}
	full := m.apply().file+e.size() >= m.quota()
	if full && !slices.Contains(l.apply().alarms, cke.Alarm{MemberID: hexID(m.id), Kind: noSpace}) {
		g.raise(w, l, running, m.id)
	}
	if full || l.alarmed(noSpace) {
		return fmt.Errorf("etcdserver: mvcc: database space exceeded")
	}
	return nil
}

// own lets a process do what follows from its own database and version: it raises the alarm where it wrote more than its
// quota, ends at an entry that it cannot read, and writes a snapshot after each entry if it was started so.
func (g *group) own(w *World, l, p process, running []process) {
	p.apply()
	switch {
	case p.runs.unreadable:
		p.runs.unreadable = false
		w.violated("the member on %s runs 3.%d and cannot read its log", p.c.node.name, p.runs.minor)
		p.c.crash(2, unreadable)
		return
	case p.c.writesSnapshots():
		p.snapshot = p.commit
	}
	if p.runs.over && w.reach(l, p) {
		p.runs.over = false
		if !l.alarmed(noSpace) {
			g.raise(w, l, running, p.id)
		}
	}
}

// writesSnapshots reports whether a member that runs so writes a snapshot after every entry.
func (c *container) writesSnapshots() bool {
	return slices.Contains(c.spec.Join.Etcd.ExtraArgs, "--snapshot-count=1")
}

// strained reports whether it falls behind by that.
func (c *container) strained() bool { return c.node.strained && c.writesSnapshots() }

// raise lets a member raise NOSPACE, which nobody expects.
func (g *group) raise(w *World, l process, running []process, id uint64) {
	w.events++
	g.propose(w, l, running, entry{kind: entryAlarm, id: id, value: noSpace})
}

// unreadable are the last words of a member of 3.7 that reads what one of 3.5 wrote.
const unreadable = "panic: unexpected v2 request in the raft log"

// starts notes how a process is started on the log that is there. It returns its last words, or "".
func (m *member) starts(c *container) string {
	m.apply()
	m.runs = runs{minor: c.minor(), quota: quotaOf(c.spec.Join.Etcd)}
	if m.runs.minor >= noLegacyLog && slices.ContainsFunc(m.log[min(m.snapshot, len(m.log)):], func(e entry) bool { return e.legacy }) {
		c.node.world.violated("the member on %s is started as 3.%d and cannot read its log", c.node.name, m.runs.minor)
		return unreadable
	}
	return ""
}

// Fill lets a client write a value of some bytes through a member over the one that it wrote before. It reports whether
// that was acknowledged.
func (w *World) Fill(node string, bytes int64) bool {
	return w.put(node, entry{kind: entryFill, bytes: bytes}, fmt.Sprintf("%d MiB", bytes>>20))
}

// Compact lets a client drop what was overwritten, through any member that accepts it.
func (w *World) Compact() {
	w.change("a client compacts", func() {
		w.events--
		for _, j := range w.store.identity.Joins {
			at := int64(0)
			if c, _ := w.serving(Clients, j.ClientURL()); c != nil {
				at = w.endpoint(j.ClientURL()).Revision
			}
			if w.propose(Clients, j.ClientURL(), entry{kind: entryCompact, bytes: at}) == nil {
				return
			}
		}
	})
}

// NoticeCorruption lets etcd's own comparison find the members whose databases are not what their logs say.
func (w *World) NoticeCorruption() {
	w.change("etcd compares databases", func() {
		s := w.standing()
		if s.leader == nil {
			return
		}
		l := s.running[slices.IndexFunc(s.running, func(p process) bool { return p.member == s.leader })]
		for _, p := range s.running {
			if p.corrupt && w.reach(l, p) {
				w.groups[l.history()].propose(w, l, s.running, entry{kind: entryAlarm, id: p.id, value: corrupt})
			}
		}
	})
}

// Alarms are those that are active by the furthest log of the formed cluster.
func (w *World) Alarms() []cke.Alarm {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := furthest(w.remains()); m != nil {
		return slices.Clone(m.apply().alarms)
	}
	return nil
}

// Defragment implements cke.Etcd. It gives the free pages of the member's file back.
func (e etcdPort) Defragment(ctx context.Context, url string) error {
	return e.maintain(ctx, url, "Defragment", func(c *container) error {
		d := c.member().apply()
		d.file, d.told = d.used, d.used
		return nil
	})
}

// Arm implements cke.Etcd.
func (e etcdPort) Arm(ctx context.Context, url string, a cke.Alarm) error {
	return e.maintain(ctx, url, "Arm", func(*container) error {
		return e.d.world.propose(Management, url, entry{kind: entryAlarm, id: number(a.MemberID), value: a.Kind})
	})
}

// Disarm implements cke.Etcd.
func (e etcdPort) Disarm(ctx context.Context, url string, a cke.Alarm) error {
	return e.maintain(ctx, url, "Disarm", func(c *container) error {
		return e.d.world.propose(Management, url, entry{kind: entryDisarm, id: number(a.MemberID), value: a.Kind})
	})
}

// Compact implements cke.Etcd.
func (e etcdPort) Compact(ctx context.Context, url string, revision int64) error {
	return e.maintain(ctx, url, "Compact", func(c *container) error {
		if c.member().apply().compacted >= revision {
			return nil
		}
		return e.d.world.propose(Management, url, entry{kind: entryCompact, bytes: revision})
	})
}

func (e etcdPort) maintain(ctx context.Context, url, name string, do func(*container) error) error {
	return e.call(ctx, url, name, true, func() error {
		c, err := e.d.world.voting(url)
		if err == nil {
			err = e.d.world.denied()
		}
		if err != nil {
			return err
		}
		return do(c)
	})
}

// alarmsOf are the alarms that a member reports, as they are observed.
func (w *World) alarmsOf(url string) []cke.Alarm {
	c, problem := w.serving(Management, url)
	if problem != "" {
		return nil
	}
	all := slices.Clone(c.member().apply().alarms)
	slices.SortFunc(all, func(a, b cke.Alarm) int {
		return cmp.Or(cmp.Compare(a.MemberID, b.MemberID), cmp.Compare(a.Kind, b.Kind))
	})
	return all
}
