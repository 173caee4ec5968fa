package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	"cke"
)

// TakeBackup puts what clients wrote up to now into the cluster's backup target.
func (w *World) TakeBackup() {
	w.change("a backup is taken", func() { w.backup = slices.Clone(w.acknowledged) })
}

// LoseBackup damages the backup.
func (w *World) LoseBackup() {
	w.change("the backup is lost", func() { w.backup, w.noBackup = nil, true })
}

// snapshots is a daemon's place for what it fetches: another daemon does not have it.
type snapshots struct{ d *Daemon }

var _ cke.Snapshots = snapshots{}

// Snapshots is what the daemon restores from.
func (d *Daemon) Snapshots() cke.Snapshots { return snapshots{d} }

func (s snapshots) call(ctx context.Context, name string, writes bool, do func(w *World) error) error {
	return s.d.call(ctx, Call{Port: "backup", Name: name, Writes: writes}, nil, cke.Node{}, func(bool) error { return do(s.d.world) })
}

// Fetch implements cke.Snapshots.
func (s snapshots) Fetch(ctx context.Context, id string, o cke.RestoreOrder, survivor *cke.Join, _ func(string)) (snapshot cke.Snapshot, err error) {
	err = s.call(ctx, "Fetch", true, func(w *World) error {
		values, there := s.d.fetched[id]
		if !there {
			if values, err = w.source(o, survivor); err != nil {
				return err
			}
			if s.d.fetched == nil {
				s.d.fetched = map[string][]string{}
			}
			s.d.fetched[id] = values
		}
		snapshot = w.snapshotOf(values)
		return nil
	})
	return snapshot, err
}

// source is what an order means.
func (w *World) source(o cke.RestoreOrder, survivor *cke.Join) ([]string, error) {
	if o.Survivor == "" {
		if w.noBackup {
			return nil, &cke.Error{Code: cke.CodeBackupDamaged, What: "the backup is damaged", Unchanged: true}
		}
		return w.backup, nil
	}
	if survivor == nil {
		return nil, fmt.Errorf("no member is left on %s: %w", o.Survivor, cke.ErrNotFound)
	}
	n := w.at(survivor.Node.Address)
	if trouble := n.trouble(survivor.Node); trouble != nil {
		return nil, trouble
	}
	c := n.containers[survivor.Volume]
	switch {
	case c == nil || c.volume() == nil || c.volume().wal == nil:
		return nil, cke.ErrDataMissing
	case c.Running() || c.State == cke.ContainerRestarting:
		return nil, fmt.Errorf("container %s runs: %w", c.Name, cke.ErrConflict)
	}
	return c.volume().wal.puts(), nil
}

// puts are the values that a member has applied.
func (m *member) puts() []string {
	var values []string
	for _, e := range m.log[:m.commit] {
		if e.kind == entryPut {
			values = append(values, e.value)
		}
	}
	return values
}

// snapshotOf describes a state; the world remembers what it holds.
func (w *World) snapshotOf(values []string) cke.Snapshot {
	data, _ := json.Marshal(values) // strings only
	sum := sha256.Sum256(data)
	s := cke.Snapshot{Revision: int64(len(values)), Size: int64(len(data)), Digest: hex.EncodeToString(sum[:])}
	w.states[s.Digest] = values
	return s
}

// Hash implements cke.Snapshots. Simulated revisions are not moved.
func (s snapshots) Hash(ctx context.Context, id string, _ int64) (h cke.HashKV, err error) {
	err = s.call(ctx, "Hash", false, func(*World) error {
		sum := crc32.NewIEEE()
		for _, v := range s.d.fetched[id] {
			fmt.Fprintln(sum, v)
		}
		h = cke.HashKV{Hash: sum.Sum32(), Revision: int64(len(s.d.fetched[id]))}
		return nil
	})
	return h, err
}

// Open implements cke.Snapshots.
func (s snapshots) Open(ctx context.Context, id string) (r io.ReadCloser, err error) {
	err = s.call(ctx, "Open", false, func(*World) error {
		values, there := s.d.fetched[id]
		if !there {
			return cke.ErrNotFound
		}
		data, err := json.Marshal(values)
		r = io.NopCloser(strings.NewReader(string(data)))
		return err
	})
	return r, err
}

// Forget implements cke.Snapshots.
func (s snapshots) Forget(ctx context.Context, id string) error {
	return s.call(ctx, "Forget", true, func(*World) error { delete(s.d.fetched, id); return nil })
}

// RestoreData implements cke.Machine. Half done, what was there is gone and nothing has taken its place.
func (m machine) RestoreData(ctx context.Context, s cke.RestoreSpec, open func(context.Context) (io.ReadCloser, error), _ func(string)) error {
	r, err := open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	var values []string
	if err := json.NewDecoder(r).Decode(&values); err != nil {
		return fmt.Errorf("etcdutl: %w", err)
	}
	j := s.Member.Join
	return m.of(ctx, j, "RestoreData", true, func(n *Node, c *container, half bool) error {
		if !c.StartedAt.IsZero() {
			return fmt.Errorf("container %s on %s was started before: %w", c.Name, n.name, cke.ErrConflict)
		}
		if err := noRoom(n); err != nil {
			return err
		}
		v := c.volume()
		if v.wal != nil && v.restored == s.Snapshot.Digest {
			return nil
		}
		v.wal, v.restored = nil, ""
		if half {
			return nil
		}
		v.wal, v.restored, v.unborn = restoredMember(s, values), s.Snapshot.Digest, true
		return nil
	})
}

// restoredMember is what etcdutl makes: the state, then the founders.
func restoredMember(s cke.RestoreSpec, values []string) *member {
	m := &member{name: s.Member.Join.Member, term: 1}
	for _, v := range values {
		m.log = append(m.log, entry{term: 1, kind: entryPut, value: v})
	}
	var ids []uint64
	for _, p := range s.Member.Peers {
		id := memberID(p.URL, s.Member.Token, nil)
		ids = append(ids, id)
		m.log = append(m.log, entry{term: 1, kind: entryAdd, id: id, peer: p.URL})
		m.peers = append(m.peers, p.URL)
		if p.URL == s.Member.Join.PeerURL() {
			m.id = id
		}
	}
	m.commit, m.snapshot, m.cluster = len(m.log), len(m.log), clusterID(ids)
	return m
}

// SaveData implements cke.Machine: a daemon's Snapshots reads simulated members itself.
func (m machine) SaveData(ctx context.Context, j cke.Join, w io.Writer) error {
	var values []string
	err := m.of(ctx, j, "SaveData", false, func(_ *Node, c *container, _ bool) error {
		if c.volume().wal == nil {
			return cke.ErrDataMissing
		}
		values = c.volume().wal.puts()
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(values)
}

// BeginRestore implements cke.Ledger.
func (t *Term) BeginRestore(ctx context.Context, inc cke.Incarnation) error {
	return t.change(ctx, "BeginRestore", func(id *cke.Identity) (err error) {
		asked := slices.ContainsFunc(t.d.world.store.requests.Tasks, func(task cke.Task) bool { return task.ID == inc.Restore.ID })
		if !asked && !id.Incarnation.Life(inc.ID) {
			return fmt.Errorf("the request was taken back: %w", cke.ErrConflict)
		}
		*id, err = id.Restoring(inc)
		return err
	})
}

// CancelRestore implements cke.Ledger.
func (t *Term) CancelRestore(ctx context.Context, inc cke.Incarnation) error {
	return t.change(ctx, "CancelRestore", func(id *cke.Identity) (err error) {
		*id, err = id.RestoreCancelled(inc)
		return err
	})
}

// wereAsked notes the restores that persons ever asked for.
func (c *checker) wereAsked(tasks []cke.Task) {
	if c.ordered == nil {
		c.ordered = map[string]bool{}
	}
	for _, t := range tasks {
		c.ordered[t.ID] = c.ordered[t.ID] || t.Kind == cke.TaskRestore
	}
}

// beginsRestore looks at an incarnation that takes the place of another one: a person must have asked. From then on what
// counts as acknowledged is what the snapshot holds.
func (c *checker) beginsRestore(inc *cke.Incarnation) {
	if !c.ordered[inc.Restore.ID] {
		c.violated("the cluster is replaced and nobody asked for it")
	}
	if c.formed != nil {
		c.replaced, c.lost = c.formed, c.acknowledged
	}
	c.formed, c.acknowledged, c.holds = nil, slices.Clone(c.world.states[inc.Restore.Snapshot.Digest]), held{}
}

// cancelsRestore looks at a life that is put back.
func (c *checker) cancelsRestore(inc *cke.Incarnation) {
	if c.replaced != nil && c.replaced.ID == inc.ID {
		c.formed, c.acknowledged, c.holds = c.replaced, c.lost, held{}
	}
}

// checkFence: no member of the life before may run once one of the restored life does, wherever it can be reached.
func (c *checker) checkFence() {
	id := c.world.store.identity
	if id.Incarnation == nil || id.Incarnation.Restore == nil {
		return
	}
	for _, n := range c.world.nodes {
		for _, running := range n.sorted() {
			if !slices.Contains(id.Incarnation.Restore.Fence, running.Join) || running.member() == nil || id.Incarnation.Restore.Order.Excuses(n.name) {
				continue
			}
			for _, l := range c.leaders() {
				if hexID(l.cluster) == id.Incarnation.ClusterID {
					c.violated("the restored cluster serves while a member of the one before runs on %s", n.name)
				}
			}
		}
	}
}

// Written is what clients wrote and the leader's members have; nil without a leader.
func (w *World) Written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick()
	for _, l := range w.leaders() {
		return l.puts()
	}
	return nil
}
