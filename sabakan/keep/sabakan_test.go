package keep_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sabakan/keep"
	"cke/sabakan/sabakantest"
)

// aged is an inventory whose machines have been in their states for an hour longer.
type aged struct{ sabakan.Source }

func (a aged) Hosts(ctx context.Context) (cke.HostList, error) {
	l, err := a.Source.Hosts(ctx)
	for i := range l.Hosts {
		l.Hosts[i].For += time.Hour
	}
	return l, err
}

// await waits for a status.
func await(t *testing.T, k *keep.Keeper, what string, ok func(*cke.InventoryStatus) bool) *cke.InventoryStatus {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); ; {
		if s := k.Status(); s != nil && ok(s) {
			return s
		}
		select {
		case <-end:
			t.Fatalf("%s: not within a minute: %+v", what, k.Status())
		case <-k.Changed():
		case <-tick.C:
		}
	}
}

// A real sabakan is read, hangs, is read again, and retires a machine, which is exchanged; a machine that is deleted is asked for.
func TestKeeper_FollowsARealSabakan(t *testing.T) {
	server := sabakantest.Run(t, sabakantest.Wide)
	var machines []cke.Host
	for i := 1; i <= 5; i++ {
		machines = append(machines, cke.Host{ID: fmt.Sprintf("s%d", i), Role: "cs", Rack: i})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(server.Register(t.Context(), machines...))
	for _, m := range machines {
		must(server.SetState(t.Context(), m.ID, "healthy"))
	}
	h := newHouse(t, 3, cke.InventoryAuto)
	source, err := sabakan.NewServer(server.URL)
	must(err)
	list, err := source.Hosts(t.Context())
	must(err)
	for i := range h.spec.Cluster.Nodes { // sabakan gives the addresses
		n := &h.spec.Cluster.Nodes[i]
		n.Address, n.Zone = list.Hosts[i].Addresses[0], fmt.Sprintf("rack%d", i+1)
	}
	h.open = func() sabakan.Source { return aged{source} }
	h.lead(func(k *keep.Keeper) {
		s := await(t, k, "five machines", func(s *cke.InventoryStatus) bool { return s.Hosts[cke.HostHealthy] == 5 })
		is(t, "source", s.Source, "sabakan at "+server.URL+"/graphql")
		resume, err := server.Suspend()
		must(err)
		s = await(t, k, "a read that fails", func(s *cke.InventoryStatus) bool { return s.Failures > 0 })
		is(t, "stop", s.Stop, "read")
		is(t, "revision", h.wanted().Spec.Generation, int64(1))
		resume()
		await(t, k, "a good read again", func(s *cke.InventoryStatus) bool { return s.Failures == 0 })
		must(server.SetState(t.Context(), "s2", "retiring"))
		await(t, k, "the exchange", func(s *cke.InventoryStatus) bool { return len(s.Log.Changes) > 0 })
		is(t, "members", h.members(), "s1 s3 s4")
		is(t, "cause", h.wanted().Spec.Cause, cke.CauseRetiring)
		known, err := source.Registered(t.Context(), "s9")
		if err != nil || known {
			t.Errorf("%v, %v", known, err)
		}
	})
}
