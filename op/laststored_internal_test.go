package op

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"cke"
)

// calledOff notes what a restore does that is called off, since there are no backups.
type calledOff struct {
	cke.Ledger
	inc  cke.Incarnation
	did  []string
	fail error // of stops
}

func (c *calledOff) Identity(context.Context) (cke.Identity, error) {
	return cke.Identity{Incarnation: &c.inc}, nil
}

func (c *calledOff) CancelRestore(context.Context, cke.Incarnation) error {
	c.did = append(c.did, "cancel")
	return nil
}

func (c *calledOff) Machine(cke.Node) cke.Machine { return stopper{by: c} }

type stopper struct {
	cke.Machine
	by *calledOff
}

func (s stopper) StopContainer(_ context.Context, j cke.Join, _ time.Duration) error {
	s.by.did = append(s.by.did, "stop "+string(j.ID))
	return s.by.fail
}

// served is etcd of which every member serves the life before.
type served struct{ cke.Etcd }

func (served) Endpoint(_ context.Context, url string) cke.EndpointStatus {
	return cke.EndpointStatus{URL: url, Serializable: true, Linearizable: true, ClusterID: "c1"}
}

// fullTarget takes nothing.
type fullTarget struct {
	cke.Backups
	by *calledOff
}

func (f fullTarget) Flush(context.Context) (cke.StoredBackup, error) {
	f.by.did = append(f.by.did, "flush")
	return cke.StoredBackup{}, errors.New("the target is full")
}

func (fullTarget) Status() *cke.BackupStatus { return nil }

// What runs of an abandoned life would serve beside the life that goes on. It is stopped first: once writes are stopped, clients
// would wait for it.
func TestRestore_StopsAbandonedLivesBeforeItStoresTheLast(t *testing.T) {
	r := Restore{Incarnation: "next", Fence: []cke.Join{{ID: "serves", Incarnation: "before"}, {ID: "left", Incarnation: "gone"}}}
	for _, row := range []struct {
		fail error
		want []string
	}{{nil, []string{"stop left", "flush", "cancel"}}, {errors.New("no answer"), []string{"stop left"}}} {
		c := &calledOff{fail: row.fail, inc: cke.Incarnation{ID: "next", State: cke.Restoring, Previous: []string{"gone"},
			Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "before", ClusterID: "c1"}, Fence: []cke.JoinID{"serves"}, Order: cke.RestoreOrder{Stored: true}}}}
		err := r.storeLast(t.Context(), Env{Machines: c, Ledger: c, Etcd: served{}, Backups: fullTarget{by: c}, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !slices.Equal(c.did, row.want) {
			t.Errorf("%v: %v, %v", row.fail, c.did, err)
		}
	}
}
