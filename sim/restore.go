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
	w.change("a backup is taken", func() {
		if !w.target.silent {
			w.backup = slices.Clone(w.acknowledged)
		}
	})
}

// LoseBackup damages the backup.
func (w *World) LoseBackup() {
	w.change("the backup is lost", func() { w.backup, w.noBackup = nil, true })
}

// TargetRefuses lets the backup target take nothing more, or take what it is given again.
func (w *World) TargetRefuses(on bool) {
	w.change(fmt.Sprintf("the target refuses writes: %v", on), func() { w.refuses = on })
}

// source is what an order means.
func (w *World) source(o cke.RestoreOrder, survivor *cke.Join) ([]string, error) {
	switch {
	case o.Survivor != "":
	case w.target.silent:
		return nil, errSilent
	case w.noBackup:
		return nil, &cke.Error{Code: cke.CodeBackupDamaged, What: "the backup is damaged", Unchanged: true}
	default:
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
	case c == nil:
		return nil, fmt.Errorf("container %s is gone: %w", survivor.Volume, cke.ErrNotFound)
	case c.volume() == nil || c.volume().wal == nil:
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
	s := cke.Snapshot{Revision: 1 + int64(len(values)), Size: int64(len(data)), Digest: hex.EncodeToString(sum[:])}
	w.states[s.Digest] = values
	return s
}

// Hash implements cke.Snapshots. Simulated revisions are not moved.
func (s snapshots) Hash(ctx context.Context, id string, _ int64) (h cke.HashKV, err error) {
	err = s.call(ctx, "Hash", false, func(*World) error {
		sum := crc32.NewIEEE()
		for _, v := range s.fetched()[id].values {
			fmt.Fprintln(sum, v)
		}
		h = cke.HashKV{Hash: sum.Sum32(), Revision: 1 + int64(len(s.fetched()[id].values))}
		return nil
	})
	return h, err
}

// Open implements cke.Snapshots.
func (s snapshots) Open(ctx context.Context, id string) (r io.ReadCloser, err error) {
	err = s.call(ctx, "Open", false, func(*World) error {
		f, there := s.fetched()[id]
		if !there {
			return cke.ErrNotFound
		}
		data, err := json.Marshal(f.values)
		r = io.NopCloser(strings.NewReader(string(data)))
		return err
	})
	return r, err
}

// Forget implements cke.Snapshots.
func (s snapshots) Forget(ctx context.Context, id string) error {
	return s.call(ctx, "Forget", true, func(*World) error { delete(s.fetched(), id); return nil })
}

// NoSecond implements cke.Snapshots. The simulated target has no other cluster.
func (snapshots) NoSecond(context.Context, string, cke.Identity, func(string)) error { return nil }

// RestoreData implements cke.Machine. All that changes the volume goes by way of the container that the tool runs in, which is
// removed before anything is started on the data: what lands late finds it gone.
func (m machine) RestoreData(ctx context.Context, s cke.RestoreSpec, open func(context.Context) (io.ReadCloser, error), _ func(string)) error {
	r, j, done, tool := m.method(ctx, "RestoreData"), s.Member.Join, false, 0
	err := r.request("inspect", false, nil, func(n *Node, _ bool) error {
		c, err := n.inspect(j)
		if err != nil {
			return err
		}
		if !c.StartedAt.IsZero() {
			return fmt.Errorf("container %s on %s was started before: %w", c.Name, n.name, cke.ErrConflict)
		}
		v := c.id.volume()
		done = v != nil && v.wal != nil && v.restored == s.Snapshot.Digest
		return nil
	})
	if err != nil {
		return err
	}
	// in is one request that needs the tool's container.
	in := func(what string, do func(n *Node, v *volume) error) error {
		return r.request(what, true, nil, func(n *Node, _ bool) error {
			v := n.volumes[j.Volume]
			if n.tools[j.Volume] != tool || v == nil {
				return fmt.Errorf("the tool's container on %s: %w", n.name, cke.ErrNotFound)
			}
			return do(n, v)
		})
	}
	if err := r.request("clear", true, nil, func(n *Node, _ bool) error { delete(n.tools, j.Volume); return nil }); err != nil || done {
		return err
	}
	if err := r.request("create", true, nil, func(n *Node, _ bool) error {
		n.toolsMade++
		tool = n.toolsMade
		n.tools[j.Volume] = tool
		return noRoom(n)
	}); err != nil {
		return err
	}
	values, err := readSnapshot(ctx, open)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(n *Node, v *volume) error
	}{
		{"send", func(n *Node, v *volume) error {
			if v.wal != nil && !v.unborn {
				n.world.violated("data of %s is removed that a member runs on", v.name)
			}
			v.wal, v.restored = nil, ""
			return noRoom(n)
		}},
		{"run", func(n *Node, v *volume) error {
			if err := noRoom(n); err != nil {
				return err
			}
			v.wal, v.unborn = restoredMember(s, values), true
			return nil
		}},
		{"mark", func(n *Node, v *volume) error { v.restored = s.Snapshot.Digest; return noRoom(n) }},
		{"", func(n *Node, _ *volume) error { delete(n.tools, j.Volume); return nil }},
	} {
		if err := in(step.what, step.do); err != nil {
			return err
		}
	}
	return nil
}

func readSnapshot(ctx context.Context, open func(context.Context) (io.ReadCloser, error)) (values []string, err error) {
	r, err := open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&values); err != nil {
		return nil, fmt.Errorf("etcdutl: %w", err)
	}
	return values, nil
}

// restoredMember is what etcdutl makes.
func restoredMember(s cke.RestoreSpec, values []string) *member {
	m := foundedMember(s.Member, values)
	m.snapshot = len(m.log)
	return m
}

// SaveData implements cke.Machine: a daemon's Snapshots reads simulated members itself.
func (m machine) SaveData(ctx context.Context, j cke.Join, w io.Writer) error {
	var values []string
	err := m.of(ctx, j, "SaveData", false, func(_ *Node, c *container, _ bool) error {
		switch {
		case c.Running() || c.State == cke.ContainerRestarting:
			return fmt.Errorf("container %s runs: %w", c.Name, cke.ErrConflict)
		case c.volume().wal == nil:
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
		if id.Incarnation.Life(inc.ID) {
			return nil // a former attempt, whose answer was lost
		}
		if inc.Restore == nil || !slices.ContainsFunc(t.d.world.store.requests.Tasks, func(task cke.Task) bool { return task.ID == inc.Restore.ID }) {
			return fmt.Errorf("the request was withdrawn: %w", cke.ErrConflict)
		}
		if t.d.world.store.spec.Deleting() {
			return fmt.Errorf("its deletion is requested: %w", cke.ErrConflict)
		}
		t.d.world.believes(t.d, actorOf(ctx), word{inc.Restore.ID, inc.Restore.Order.Destroyed}, id.MayRun(), inc.Restore.Returned)
		*id, err = id.Restoring(inc)
		return err
	})
}

// CancelRestore implements cke.Ledger. The order goes with it.
func (t *Term) CancelRestore(ctx context.Context, inc cke.Incarnation) error {
	return t.change(ctx, "CancelRestore", func(id *cke.Identity) (err error) {
		if id.Incarnation.WasAbandoned(inc.ID) {
			return nil // a former attempt, whose answer was lost
		}
		if *id, err = id.RestoreCancelled(inc); err != nil {
			return err
		}
		r := &t.d.world.store.requests
		r.Tasks = slices.DeleteFunc(slices.Clone(r.Tasks), func(task cke.Task) bool { return task.ID == inc.Restore.ID })
		return nil
	})
}

// wereAsked notes the restores that operators ever asked for, and the volumes that they asked to remove and not to keep since.
func (c *checker) wereAsked(tasks []cke.Task) {
	if c.ordered == nil {
		c.ordered, c.purges = map[string]bool{}, map[string]bool{}
	}
	for _, t := range tasks {
		c.ordered[t.ID] = c.ordered[t.ID] || t.Kind == cke.TaskRestore
		if t.Kind == cke.TaskPurge {
			c.purges[t.Subject] = true
		}
	}
}

// wasAnswered notes that a task is done: a volume that operators asked to keep is not removed for what was asked before.
func (c *checker) wasAnswered(id string) {
	tasks := c.world.store.requests.Tasks
	for _, t := range tasks {
		if t.ID == id && t.Kind == cke.TaskUndelete {
			delete(c.purges, t.Subject)
		}
	}
	c.wereAsked(tasks)
}

// beginsRestore observes an incarnation that takes the place of another one: an operator must have asked. From then on what
// counts as acknowledged is what the snapshot holds.
func (c *checker) beginsRestore(inc *cke.Incarnation) {
	if !c.ordered[inc.Restore.ID] {
		c.violated("the cluster is replaced, which was not requested")
	}
	c.recovers(inc)
	if c.formed != nil {
		c.replaced, c.lost = c.formed, c.acknowledged
		c.begun = len(c.lost)
	}
	c.formed, c.acknowledged, c.holds = nil, slices.Clone(c.world.states[inc.Restore.Snapshot.Digest]), held{}
}

// cancelsRestore observes an incarnation that is put back.
func (c *checker) cancelsRestore(inc *cke.Incarnation) {
	// A store to which the cluster was declared to be restored goes back to that.
	if c.replaced != nil && (c.replaced.ID == inc.ID || inc.State == cke.Awaiting && inc.WasReplaced(c.replaced.ID)) {
		c.formed, c.acknowledged, c.holds = c.replaced, c.lost, held{}
		c.taken.excused = nil
	} else if inc.State == cke.Abandoned { // it was to be the first one since a deletion
		c.formed, c.acknowledged, c.holds = nil, nil, held{}
	}
}

// serves is the incarnation that serves clients: while a restore is being prepared, that which will be replaced.
func (c *checker) serves() *cke.Incarnation {
	if inc := c.world.store.identity.Incarnation; c.formed == nil && inc != nil && inc.State == cke.Restoring {
		return c.replaced
	}
	return c.formed
}

// restores observes an incarnation that takes the place of another one: all that was acknowledged in that is in its backups where the
// person was told so.
func (c *checker) restores(inc *cke.Incarnation) {
	lost := c.lost
	c.replaced, c.lost = nil, nil
	if inc.Restore == nil || !inc.Restore.Order.Stored {
		return
	}
	for _, value := range lost {
		if !slices.Contains(c.world.stored, value) && !c.taken.excuses(c.taken.by[value]) {
			c.violated("the acknowledged write %s is in no backup, and the plan of the restore said that it will be", value)
		}
	}
}

// checkFence: no member of the incarnation before may run once one of the restored life does, wherever it can be reached.
func (c *checker) checkFence() {
	id := c.world.store.identity
	if id.Incarnation == nil || id.Incarnation.Restore == nil {
		return
	}
	for _, n := range c.world.nodes {
		for _, running := range n.sorted() {
			if !slices.Contains(id.Incarnation.Restore.Fence, running.Join) || running.member() == nil || slices.Contains(id.Incarnation.Restore.Order.Without, n.name) || c.taken.excused[running.Join] {
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
