package storage

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// twoStores returns clients of two daemons on one store with the cluster prod.
func twoStores(t testing.TB) (a, b *Store) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	a, b = openStore(t, c), openStore(t, c)
	setCluster(t, a, "prod")
	return a, b
}

// campaigning starts a campaign and returns once it stands in the queue as the nth.
func campaigning(t testing.TB, s *Store, cluster, host string, nth int64) <-chan *Term {
	t.Helper()
	elected := make(chan *Term, 1)
	go func() {
		term, err := s.Campaign(testContext(t), cluster, host)
		if err != nil {
			t.Errorf("campaign of %s: %v", host, err)
		}
		elected <- term
	}()
	awaitQueue(t, s, cluster, nth)
	return elected
}

func awaitTerm(t testing.TB, elected <-chan *Term) *Term {
	t.Helper()
	return await(t, elected, func(*Term) bool { return true })
}

func TestCampaign_ElectsOneAtATimeInOrder(t *testing.T) {
	a, b := twoStores(t)
	ctx := testContext(t)
	first := campaign(t, a, "prod", "a")
	second := campaigning(t, b, "prod", "b", 2)

	leader, err := b.Leader(ctx, "prod")
	if err != nil || leader.Host != "a" || leader.Term != 1 || leader.Since.IsZero() {
		t.Errorf("got %+v, %v", leader, err)
	}
	if _, err := a.Campaign(ctx, "prod", "a"); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("a campaigns while it leads: %v", err)
	}
	if err := first.PutStatus(ctx, cke.Status{Summary: "first"}); err != nil {
		t.Error(err)
	}
	select {
	case <-second:
		t.Fatal("two leaders")
	default:
	}
	if err := first.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	again := campaigning(t, a, "prod", "a", 2) // at the end of the queue
	term := awaitTerm(t, second)
	if term.Number() != 2 {
		t.Errorf("term %d after term 1", term.Number())
	}
	if err := first.PutStatus(ctx, cke.Status{Summary: "late"}); !errors.Is(err, cke.ErrDeposed) {
		t.Errorf("got %v", err)
	}
	if err := term.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	if term := awaitTerm(t, again); term.Number() != 3 {
		t.Errorf("term %d after term 2", term.Number())
	}
}

func TestCampaign_LeavesTheQueueWithItsContext(t *testing.T) {
	a, b := twoStores(t)
	campaign(t, a, "prod", "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Campaign(ctx, "prod", "b"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Campaign(ctx, "prod", "b")
		done <- err
	}()
	awaitQueue(t, a, "prod", 2)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	awaitQueue(t, a, "prod", 1)
}

func TestClose_GivesTheSessionBack(t *testing.T) {
	c := startExternal(t)
	s := openStore(t, c)
	setCluster(t, s, "prod")
	campaign(t, s, "prod", "here")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := adminClient(t, c, "root").Leases(testContext(t))
	if err != nil || len(left.Leases) != 0 {
		t.Errorf("left: %v, %v", left.Leases, err)
	}
}

func TestElect_RefusesAllButTheEldest(t *testing.T) {
	a, b := twoStores(t)
	ctx := testContext(t)
	campaign(t, a, "prod", "a")
	ses, _, err := b.session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	key := b.keys.candidate("prod", "b")
	rev, err := b.queueUp(ctx, ses, "prod", key, "b")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := b.elect(ctx, ses, "prod", key, rev, "b"); err != nil || e.Term != 0 {
		t.Errorf("the second in the queue was elected for term %d, %v", e.Term, err)
	}
	if leader, err := a.Leader(ctx, "prod"); err != nil || leader.Host != "a" {
		t.Errorf("got %+v, %v", leader, err)
	}
}

func TestCampaign_IsNotHeldUpByALostAnswer(t *testing.T) {
	a, b := twoStores(t)
	a.ttl = 20 * time.Second // what is left of a campaign is swept with each renewal
	ctx := testContext(t)
	setCluster(t, a, "test")
	campaign(t, a, "test", "a")
	ses, _, err := a.session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The store has put a into the queue, and a never learned it.
	if _, err := a.queueUp(ctx, ses, "prod", a.keys.candidate("prod", sessionName(ses)+"-lost"), "a"); err != nil {
		t.Fatal(err)
	}
	campaign(t, b, "prod", "b")
	if err := a.sessions.current.check(); err != nil {
		t.Errorf("the session had to end: %v", err)
	}
}

// awaitQueue waits until the cluster's queue has n candidates.
func awaitQueue(t testing.TB, s *Store, cluster string, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := under(s.keys.candidates(cluster))
	for {
		all, err := s.client.Get(ctx, r.start, r.options()...)
		if err != nil {
			t.Fatal(err)
		}
		if all.Count == n {
			return
		}
		watched, unwatch := context.WithCancel(ctx)
		<-s.client.Watch(watched, r.start, r.options(clientv3.WithRev(all.Header.Revision+1))...)
		unwatch()
	}
}

// Requirements I2, D15: many clusters, a leader each.
func TestCampaign_ManyClustersShareOneSession(t *testing.T) {
	a, b := twoStores(t)
	ctx := testContext(t)
	const clusters = 20
	var terms []*Term
	for i := range clusters {
		name := "c" + strconv.Itoa(i)
		setCluster(t, a, name)
		terms = append(terms, campaign(t, a, name, "a"))
	}
	leases, err := a.client.Leases(ctx)
	if err != nil || len(leases.Leases) != 1 {
		t.Errorf("%d sessions, %v", len(leases.Leases), err)
	}
	if err := terms[3].Resign(ctx); err != nil {
		t.Fatal(err)
	}
	campaign(t, b, "c3", "b")
	for i, term := range terms {
		if err := term.PutStatus(ctx, cke.Status{}); errors.Is(err, cke.ErrDeposed) != (i == 3) {
			t.Errorf("c%d: got %v", i, err)
		}
	}
	a.Close() // leads nothing more, at once
	for i, term := range terms {
		awaitDone(t, term.Done(), limit)
		if !errors.Is(context.Cause(term.Context()), cke.ErrDeposed) || !errors.Is(term.Check(), cke.ErrDeposed) {
			t.Errorf("c%d: ended by %v", i, context.Cause(term.Context()))
		}
	}
	if _, err := b.Leader(ctx, "c0"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("still led: %v", err)
	}
}

func TestRequestResign_IsForTheLeaderOfThatTermOnly(t *testing.T) {
	a, b := twoStores(t)
	ctx := testContext(t)
	term := campaign(t, a, "prod", "a")
	states := a.WatchCluster(ctx, "prod")
	next := campaigning(t, b, "prod", "b", 2)
	if err := b.RequestResign(ctx, "prod"); err != nil {
		t.Fatal(err)
	}
	await(t, states, func(s ClusterState) bool { return s.ResignRequested(term.Number()) })
	if err := term.Resign(ctx); err != nil {
		t.Fatal(err)
	}
	second := awaitTerm(t, next)
	state := await(t, states, func(s ClusterState) bool { return len(s.Requests) == 0 })
	if state.ResignRequested(second.Number()) {
		t.Error("the next leader feels asked")
	}
}
