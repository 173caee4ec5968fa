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

// sized are snapshots of one size.
type sized struct {
	cke.Snapshots
	size int64
}

func (s sized) Fetch(context.Context, string, cke.RestoreOrder, *cke.Join, func(string)) (cke.Snapshot, error) {
	return cke.Snapshot{Size: s.size}, nil
}

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
				err = s.Run(t.Context(), op.Env{Snapshots: sized{size: c.size}, Ledger: unasked{}, Now: time.Now, Progress: func(string) {}})
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

// The backups may have changed since the operator confirmed what the plan showed.
func TestBeginRestore_RefusesAnotherStateThanTheOneConfirmed(t *testing.T) {
	confirmed := cke.RestoreOrder{Target: "file:///x", Source: "prod", ShownLineage: "a1b2", ShownRevision: 22}
	for name, row := range map[string]struct {
		order cke.RestoreOrder
		state cke.Snapshot
		code  cke.Code
	}{
		"the same":            {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 22}, cke.CodeOf(nil)},
		"a newer revision":    {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 23}, cke.CodeOf(nil)},
		"an older revision":   {confirmed, cke.Snapshot{Lineage: "a1b2", Revision: 12}, cke.CodeLostBackups},
		"another incarnation": {confirmed, cke.Snapshot{Lineage: "c3d4", Revision: 30}, cke.CodeLostBackups},
		"the plan saw none":   {cke.RestoreOrder{Target: "file:///x"}, cke.Snapshot{Lineage: "c3d4", Revision: 30}, cke.CodeOf(nil)},
	} {
		b := op.BeginRestore{Task: cke.Task{Restore: &row.order}}
		var err error
		for _, s := range b.Stages()[1] {
			err = s.Run(t.Context(), op.Env{Snapshots: shown{state: row.state}, Ledger: unasked{}, Now: time.Now, Progress: func(string) {}})
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
		e := op.Env{Backups: &fakeBackups{stored: cke.StoredBackup{Revision: 12}, status: row.status}, Ledger: unasked{}, Now: time.Now, Progress: func(string) {}}
		if err := b.Stages()[2][0].Run(t.Context(), e); cke.CodeOf(err) != row.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}
