package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// threeStores returns clients of three daemons on one store with the cluster prod.
func threeStores(t testing.TB) (a, b, c *Store) {
	config := testConfig(t)
	startEmbeddedStore(t, config)
	a, b, c = openStore(t, config), openStore(t, config), openStore(t, config)
	setCluster(t, a, "prod")
	return a, b, c
}

func TestHandOver_LetsTheChosenDaemonLeadAtOnce(t *testing.T) {
	a, b, c := threeStores(t)
	ctx := testContext(t)
	term := campaign(t, a, "prod", "a")
	second := campaigning(t, b, "prod", "b", 2)
	third := campaigning(t, c, "prod", "c", 3)
	if err := term.HandOver(ctx, c.self()); err != nil {
		t.Fatal(err)
	}
	chosen := awaitTerm(t, third)
	if err := term.PutStatus(ctx, cke.Status{Summary: "late"}); !errors.Is(err, cke.ErrDeposed) || term.Check() == nil {
		t.Errorf("the former leader writes: %v", err)
	}
	if err := chosen.PutStatus(ctx, cke.Status{Summary: "c leads"}); err != nil || chosen.Number() != 2 {
		t.Errorf("term %d, %v", chosen.Number(), err)
	}
	awaitQueue(t, a, "prod", 2) // b has queued up again
	select {
	case <-second:
		t.Fatal("two leaders")
	default:
	}
	if err := chosen.HandOver(ctx, "gone"); err != nil { // the next one leads
		t.Fatal(err)
	}
	if last := awaitTerm(t, second); last.Number() != 3 {
		t.Errorf("term %d", last.Number())
	}
}

// A handover to the daemon that leads already leaves no key of a term that is over in the queue.
func TestHandOver_ToItselfResigns(t *testing.T) {
	a, b, _ := threeStores(t)
	term := campaign(t, a, "prod", "a")
	second := campaigning(t, b, "prod", "b", 2)
	if err := term.HandOver(testContext(t), a.self()); err != nil {
		t.Fatal(err)
	}
	if next := awaitTerm(t, second); next.Number() != 2 {
		t.Errorf("term %d", next.Number())
	}
}

// A daemon that is chosen and does nothing has the cluster until its session expires, and then the next one leads.
func TestHandOver_ToADaemonThatIsFrozenEndsWithItsSession(t *testing.T) {
	a, b, c := threeStores(t)
	ctx := testContext(t)
	c.ttl = MinSessionTTL
	term := campaign(t, a, "prod", "a")
	second := campaigning(t, b, "prod", "b", 2)
	ses, _, err := c.session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := sessionName(ses)
	if _, err := c.queueUp(ctx, ses, "prod", c.keys.candidate("prod", name+"-1"), "c"); err != nil { // and it never campaigns
		t.Fatal(err)
	}
	if err := term.HandOver(ctx, name); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Leader(ctx, "prod"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("c was elected: %v", err)
	}
	ses.end(cke.ErrDeposed) // renews no more
	if next := awaitTerm(t, second); next.Number() != 2 {
		t.Errorf("term %d", next.Number())
	}
}

func TestHandOver_WhileTheOthersElectLeavesOneLeader(t *testing.T) {
	a, b, c := threeStores(t)
	ctx := testContext(t)
	stores := map[string]*Store{"a": a, "b": b, "c": c}
	elected := make(chan *Term, len(stores))
	host := map[*Term]string{}
	enter := func(name string) {
		go func() {
			term, err := stores[name].Campaign(ctx, "prod", name)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			elected <- term
		}()
	}
	for name := range stores {
		enter(name)
	}
	awaitQueue(t, a, "prod", 3)
	next := map[string]string{"a": "b", "b": "c", "c": "a"}
	for number := int64(1); number <= 30; number++ {
		term := await(t, elected, func(*Term) bool { return true })
		leader, err := a.Leader(ctx, "prod")
		if err != nil || term.Number() != number || leader.Term != number {
			t.Fatalf("term %d of %+v, %v; want %d", term.Number(), leader, err, number)
		}
		to := next[leader.Host]
		if want := host[nil]; want != "" && want != leader.Host {
			t.Logf("%s leads, and %s was chosen: it was not in the queue", leader.Host, want)
		}
		host[nil] = to
		if err := term.HandOver(ctx, stores[to].self()); err != nil {
			t.Fatal(err)
		}
		if err := term.PutStatus(ctx, cke.Status{}); !errors.Is(err, cke.ErrDeposed) {
			t.Fatalf("term %d writes after it: %v", number, err)
		}
		enter(leader.Host)
	}
	term := await(t, elected, func(*Term) bool { return true })
	if err := term.PutStatus(ctx, cke.Status{}); err != nil {
		t.Error(err)
	}
	if err := term.Resign(ctx); err != nil {
		t.Error(err)
	}
	for range 2 {
		last := await(t, elected, func(*Term) bool { return true })
		if err := last.Resign(ctx); err != nil {
			t.Error(err)
		}
	}
}

func TestFleet_HasWhoIsAliveAndWhoLeads(t *testing.T) {
	a, b, c := threeStores(t)
	ctx := testContext(t)
	if f, err := a.Fleet(ctx); err != nil || len(f.Daemons) != 0 || len(f.Clusters) != 0 || f.Schema != 1 {
		t.Errorf("before any daemon: %+v, %v", f, err)
	}
	for name, s := range map[string]*Store{"a": a, "b": b} {
		s.Attend(cke.Daemon{Host: name, Version: "1.2." + name})
	}
	views := b.WatchFleet(ctx)
	await(t, views, func(f cke.Fleet) bool { return len(f.Daemons) == 2 && f.Self == b.self() })
	term := campaign(t, a, "prod", "a")
	campaigning(t, b, "prod", "b", 2)
	older := a.keys.candidate("prod", "7f-1") // of a daemon that is too old to say that it is alive
	if _, err := a.client.Put(ctx, older, `{"host":"old","term":0,"since":"2026-01-01T00:00:00Z","schema":2}`); err != nil {
		t.Fatal(err)
	}
	if err := term.Prefer(ctx, []string{"b", "x"}); err != nil {
		t.Fatal(err)
	}
	if err := c.RequestBalance(ctx, "ann@boot-1"); err != nil {
		t.Fatal(err)
	}
	seen := await(t, views, func(f cke.Fleet) bool {
		return len(f.Daemons) == 3 && len(f.Clusters) == 1 && f.Clusters[0].Prefer != nil && len(f.Clusters[0].Waiting) == 2 && f.Asked != nil
	})
	read, err := c.Fleet(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for how, f := range map[string]cke.Fleet{"watched": seen, "read": read} {
		var hosts []string
		for _, d := range f.Daemons {
			hosts = append(hosts, d.Host+" "+d.Version)
		}
		l := f.Clusters[0]
		if got := strings.Join(hosts, ", "); got != "a 1.2.a, b 1.2.b, old " || f.Daemons[2].Schema != 2 || f.Daemons[0].Schema != SchemaVersion {
			t.Errorf("%s: %+v", how, f.Daemons)
		}
		if l.Cluster != "prod" || l.By != a.self() || l.Leader.Term != 1 || l.Leader.Host != "a" || !slices.Equal(l.Prefer, []string{"b", "x"}) || !slices.Equal(l.Waiting, []string{b.self(), "7f"}) {
			t.Errorf("%s: %+v", how, l)
		}
		if f.Asked.By != "ann@boot-1" || time.Since(f.Asked.At) > limit {
			t.Errorf("%s: %+v", how, f.Asked)
		}
	}
	if err := term.PutStatus(ctx, cke.Status{}); err != nil {
		t.Errorf("the leader's key was replaced: %v", err)
	}
	a.Close()
	await(t, views, func(f cke.Fleet) bool {
		_, alive := f.Daemon(l(f).By)
		return len(f.Daemons) == 2 && alive && l(f).Leader.Host == "b"
	})
}

// l is the one cluster of a fleet.
func l(f cke.Fleet) cke.Led {
	if len(f.Clusters) != 1 {
		return cke.Led{}
	}
	return f.Clusters[0]
}

func TestRequestBalance_ExpiresByItself(t *testing.T) {
	a, _, _ := threeStores(t)
	ctx := testContext(t)
	if err := a.RequestBalance(ctx, "ann@boot-1"); err != nil {
		t.Fatal(err)
	}
	resp, err := a.client.Get(ctx, a.keys.balance())
	if err != nil || len(resp.Kvs) != 1 || resp.Kvs[0].Lease == 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	left, err := a.client.Leases(ctx)
	if err != nil || len(left.Leases) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
	if _, err := a.client.Revoke(context.WithoutCancel(ctx), left.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	if f, err := a.Fleet(ctx); err != nil || f.Asked != nil {
		t.Errorf("%+v, %v", f.Asked, err)
	}
}
