package op_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// unasked is a ledger of a cluster of which nobody asks anything.
type unasked struct{ cke.Ledger }

func (unasked) Asked(context.Context) (cke.Requests, error) { return cke.Requests{}, nil }

// With a database above the quota etcd would refuse the first write of the restored cluster.
func TestBeginRestore_RefusesADatabaseAboveTheQuota(t *testing.T) {
	for _, c := range []struct {
		size  int64
		args  []string
		needs string // empty: it is taken
	}{
		{1 << 30, nil, ""},
		{2 << 30, nil, "--quota-backend-bytes=2684354560"},
		{2 << 30, []string{"--quota-backend-bytes=4294967296"}, ""},
		{64 << 20, []string{"--quota-backend-bytes=67108864"}, "--quota-backend-bytes=83886080"},
		{64 << 30, []string{"--quota-backend-bytes=-1"}, ""},
	} {
		t.Run(fmt.Sprint(c.size, c.args), func(t *testing.T) {
			b := op.BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Target: "file:///x"}}}
			b.Spec.Options.Etcd.ExtraArgs = c.args
			var err error
			for _, s := range b.Stages()[1] {
				err = s.Run(t.Context(), op.Env{Snapshots: shown{state: cke.Snapshot{Size: c.size}}, Ledger: unasked{}, Now: time.Now, Note: func(string) {}})
			}
			if c.needs == "" && err != nil || c.needs != "" && (cke.CodeOf(err) != cke.CodeAboveQuota || !strings.Contains(err.Error(), c.needs)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// shown are snapshots of one state.
type shown struct {
	cke.Snapshots
	state cke.Snapshot
}

func (s shown) Fetch(context.Context, string, cke.RestoreOrder, *cke.Join, func(string)) (cke.Snapshot, error) {
	return s.state, nil
}

// etcdutl makes a data directory of a newer snapshot, on which the older etcd does not start: by then the members that served would be gone.
func TestBeginRestore_RefusesDataOfANewerEtcd(t *testing.T) {
	for _, c := range []struct {
		data, declared string
		code           cke.Code
	}{
		{"3.7.0", "3.6.16", cke.CodeVersion},
		{"3.6.0", "3.5.35", cke.CodeVersion},
		{"3.6.0", "3.6.16", cke.CodeOf(nil)},
		{"3.6.0", "3.7.3", cke.CodeOf(nil)},
		{"", "3.6.16", cke.CodeOf(nil)},
	} {
		b := op.BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Target: "file:///x"}}}
		b.Spec.Options.Etcd.Version = c.declared
		var err error
		for _, s := range b.Stages()[1] {
			err = s.Run(t.Context(), op.Env{Snapshots: shown{state: cke.Snapshot{Etcd: c.data}}, Ledger: unasked{}, Now: time.Now, Note: func(string) {}})
		}
		if cke.CodeOf(err) != c.code {
			t.Errorf("data of %q, declared %s: %v", c.data, c.declared, err)
		}
	}
}

// The backups may have changed since the operator confirmed what the plan showed.
func TestBeginRestore_RefusesAnotherStateThanTheOneConfirmed(t *testing.T) {
	confirmed := cke.RestoreOrder{Target: "file:///x", Source: "prod", ShownLineage: "a1b2", ShownRevision: 22}
	atTime := confirmed
	atTime.Time = time.Now()
	for name, row := range map[string]struct {
		order cke.RestoreOrder
		state cke.Snapshot
		code  cke.Code
	}{
		"the same":                {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 22}, cke.CodeOf(nil)},
		"a newer revision":        {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 23}, cke.CodeOf(nil)},
		"an older revision":       {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 12}, cke.CodeLostBackups},
		"another incarnation":     {confirmed, cke.Snapshot{Lineage: "c3d4", Revision: 30}, cke.CodeLostBackups},
		"of the time":             {atTime, cke.Snapshot{Lineage: "a1b2", Revision: 22}, cke.CodeOf(nil)},
		"another one of the time": {atTime, cke.Snapshot{Lineage: "a1b2", Revision: 23}, cke.CodeLostBackups},
		"the plan saw none":       {cke.RestoreOrder{Target: "file:///x"}, cke.Snapshot{Lineage: "c3d4", Revision: 30}, cke.CodeOf(nil)},
	} {
		b := op.BeginRestore{Task: cke.Task{Restore: &row.order}}
		var err error
		for _, s := range b.Stages()[1] {
			err = s.Run(t.Context(), op.Env{Snapshots: shown{state: row.state}, Ledger: unasked{}, Now: time.Now, Note: func(string) {}})
		}
		if cke.CodeOf(err) != row.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What no full leads to cannot be restored, whatever a flush says.
func TestBeginRestore_CountsNothingAsStoredThatNoFullLeadsTo(t *testing.T) {
	cut := sound()
	cut.Connected = false
	for name, row := range map[string]struct {
		status *cke.BackupStatus
		code   cke.Code
	}{
		"all is stored":                {sound(), cke.CodeOf(nil)},
		"no full leads to it":          {cut, cke.CodeNotStored},
		"nothing is known of a target": {nil, cke.CodeNotStored},
	} {
		b := op.BeginRestore{Task: cke.Task{Restore: &cke.RestoreOrder{Target: "file:///x", Stored: true}}, Serving: true}
		e := op.Env{Backups: &fakeBackups{stored: cke.StoredBackup{Revision: 12}, status: row.status}, Ledger: unasked{}, Now: time.Now, Note: func(string) {}}
		if err := b.Stages()[2][0].Run(t.Context(), e); cke.CodeOf(err) != row.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// moving are snapshots that are gone from this host each time, and of backups to which changes are added meanwhile.
type moving struct {
	cke.Snapshots
	newest  int64
	pruned  bool // what was named is no longer there
	reading int
}

func (m *moving) Fetch(_ context.Context, _ string, o cke.RestoreOrder, _ *cke.Join, _ func(string)) (cke.Snapshot, error) {
	m.reading++
	s := cke.Snapshot{Lineage: "a1b2", Revision: m.newest}
	if o.Revision > 0 && !m.pruned {
		s.Revision = o.Revision
	}
	m.newest += 10
	return s, nil
}

func (*moving) Hash(context.Context, string, int64) (cke.HashKV, error) { return cke.HashKV{}, nil }

// recorder is a ledger that keeps the restore that is recorded.
type recorder struct {
	unasked
	restoring cke.Incarnation
}

func (*recorder) Identity(context.Context) (cke.Identity, error) {
	return cke.Identity{Incarnation: &cke.Incarnation{ID: "before", State: cke.Formed}}, nil
}

func (r *recorder) BeginRestore(_ context.Context, inc cke.Incarnation) error {
	r.restoring = inc
	return nil
}

// Between the check and the record clients write on, and backups may be pruned. What is read again is what was checked, or refused.
func TestBeginRestore_RecordsWhatWasChecked(t *testing.T) {
	for pruned, code := range map[bool]cke.Code{false: cke.CodeOf(nil), true: cke.CodeLostBackups} {
		order := cke.RestoreOrder{Target: "file:///x", Source: "prod", ShownLineage: "a1b2", ShownRevision: 20}
		snapshots, ledger := &moving{newest: 22, pruned: pruned}, &recorder{}
		e := op.Env{Cluster: "prod", Snapshots: snapshots, Ledger: ledger, Now: time.Now, Note: func(string) {}}
		b := op.BeginRestore{Task: cke.Task{ID: "t", Restore: &order}}
		stages := b.Stages()
		if err := stages[1][0].Run(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		err := stages[3][0].Run(t.Context(), e)
		if cke.CodeOf(err) != code || snapshots.reading != 2 {
			t.Errorf("pruned: %v: %v", pruned, err)
		}
		if r := ledger.restoring.Restore; !pruned && (r == nil || r.Snapshot.Revision != 22 || r.Order.Revision != 22 || !r.Compared) {
			t.Errorf("on record: %+v", r)
		} else if pruned && r != nil {
			t.Errorf("on record: %+v", r)
		}
	}
}

// restoring is a ledger of a cluster that is being restored.
type restoring struct {
	unasked
	id cke.Identity
}

func (r restoring) Identity(context.Context) (cke.Identity, error) { return r.id, nil }

// other is a snapshot with the data of another state.
type other struct{ shown }

func (other) Hash(context.Context, string, int64) (cke.HashKV, error) {
	return cke.HashKV{Hash: 2}, nil
}

// A snapshot that was fetched once more may hold something else: no node gets that, nor is it noticed only when members serve it.
func TestRestore_MakesNoDataOfAnotherSnapshot(t *testing.T) {
	j := cke.Join{ID: "j", Node: cke.Node{Address: "127.0.0.101"}}
	ledger := restoring{id: cke.Identity{Joins: []cke.Join{j}, Incarnation: &cke.Incarnation{ID: "life", State: cke.Restoring,
		Restore: &cke.Restoration{ID: "t", Snapshot: cke.Snapshot{Revision: 22, Digest: "one"}, Data: cke.HashKV{Hash: 1}}}}}
	e := op.Env{Snapshots: other{shown{state: cke.Snapshot{Revision: 22, Digest: "other"}}}, Ledger: ledger, Now: time.Now, Note: func(string) {}}
	for _, stage := range (op.Restore{Incarnation: "life", Founders: []cke.Join{j}}).Stages() {
		for _, s := range stage {
			if s.Name != "restore-data" {
				continue
			}
			if err := s.Run(t.Context(), e); cke.CodeOf(err) != cke.CodeBackupDamaged {
				t.Errorf("%v", err)
			}
			return
		}
	}
	t.Fatal("no step makes data")
}
