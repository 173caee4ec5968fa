package storage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"cke"
)

// shortLived is the configuration of a daemon whose terms end by themselves while a test waits.
func shortLived(c Config) Config {
	c.SessionTTL = MinSessionTTL
	return c
}

func TestTerm_EndsWhenItsKeyIsGone(t *testing.T) {
	a, b := twoStores(t)
	term := campaign(t, a, "prod", "a")
	if _, err := b.client.Delete(testContext(t), term.key); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, term.Done(), limit)
	campaign(t, a, "prod", "a") // and may be had again
}

func TestTerm_EndsWhenTheStoreEndsItsSession(t *testing.T) {
	a, b := twoStores(t)
	term := campaign(t, a, "prod", "a")
	if _, err := b.client.Revoke(testContext(t), term.ses.lease); err != nil {
		t.Fatal(err)
	}
	awaitDone(t, term.Done(), limit)
	if next := campaign(t, a, "prod", "a"); next.ses.lease == term.ses.lease {
		t.Error("the session came back")
	}
}

func TestCampaign_TakesOverFromAKilledDaemonWithinTheTTL(t *testing.T) {
	c := startExternal(t)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	p := startProcess(t, helperTask{Where: whereOf(shortLived(c)), Lead: "prod", Host: "killed"})
	p.says("elected 1")
	// How long the store waits for a silent leader.
	all, err := s.client.Leases(ctx)
	if err != nil || len(all.Leases) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	lease, err := s.client.TimeToLive(ctx, all.Leases[0].ID)
	if err != nil || lease.GrantedTTL != int64(MinSessionTTL/time.Second) {
		t.Errorf("%+v, %v", lease, err)
	}
	elected := campaigning(t, s, "prod", "next", 2)
	p.signal(9)
	term := awaitTerm(t, elected)
	if err := term.InterruptRunning(ctx); err != nil {
		t.Error(err)
	}
}

func TestTerm_OfAFrozenDaemonWritesNothingWhenThawed(t *testing.T) {
	for name, blind := range map[string]bool{"StoppedByItsClock": false, "StoppedByTheStore": true} {
		t.Run(name, func(t *testing.T) {
			c := startExternal(t)
			s := openStore(t, c)
			ctx := testContext(t)
			setCluster(t, s, "prod")
			p := startProcess(t, helperTask{Where: whereOf(shortLived(c)), Lead: "prod", Host: "frozen", Blind: blind})
			p.says("elected 1")
			elected := campaigning(t, s, "prod", "next", 2)
			statuses := s.WatchStatus(ctx, "prod")
			await(t, statuses, func(st cke.Status) bool { return st.Summary == "frozen" })
			p.signal(19) // SIGSTOP
			term := awaitTerm(t, elected)
			if err := term.PutStatus(ctx, cke.Status{Cluster: "prod", Summary: "next"}); err != nil {
				t.Fatal(err)
			}
			before := revision(t, s)
			p.signal(18) // SIGCONT
			line := p.says("stopped")
			if line != "stopped deposed: true context ended: true" {
				t.Error(line)
			}
			status, err := s.Status(ctx, "prod")
			if err != nil || status.Summary != "next" {
				t.Errorf("status of %q, %v", status.Summary, err)
			}
			// Its new session's lease and key are not its old term's writes; here it ended, so nothing was written.
			if after := revision(t, s); after != before {
				t.Errorf("revision went from %d to %d", before, after)
			}
		})
	}
}

func TestTerm_EndsWithinTheTTLWhenTheStoreIsCutOff(t *testing.T) {
	t.Parallel()
	external := startExternal(t)
	w, c := newWire(t, external)
	c = shortLived(c)
	s := openStore(t, c)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "cut-off")
	if term.ses.limit >= c.SessionTTL {
		t.Errorf("it ends %v after a renewal, its lease after %v", term.ses.limit, c.SessionTTL)
	}
	w.stop()
	awaitDone(t, term.Done(), limit)
	if err := context.Cause(term.Context()); !strings.Contains(err.Error(), "no renewal confirmed for") {
		t.Errorf("it was not its clock that ended it: %v", err)
	}
	if err := term.Check(); !errors.Is(err, cke.ErrDeposed) {
		t.Errorf("got %v", err)
	}
	// Another one leads; and the cut-off one again, once it can be heard.
	campaign(t, openStore(t, external), "prod", "other").Resign(testContext(t))
	w.resume()
	campaign(t, s, "prod", "cut-off")
}

func TestTerm_LastsWhileTheStoreAnswersNowAndThen(t *testing.T) {
	t.Parallel()
	w, c := newWire(t, startExternal(t))
	c.SessionTTL = 15 * time.Second // the outage, the wait before it and some seconds in which the machine stands still
	s := openStore(t, c)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "here")
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		w.stop()
		renewed := term.ses.lastRenewal()
		outage := time.NewTimer(c.SessionTTL * 2 / 5)
		select {
		case <-outage.C:
		case <-term.Done():
			t.Fatalf("ended %v after the last renewal", time.Since(renewed))
		}
		w.resume()
		if err := term.PutStatus(testContext(t), cke.Status{}); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(limit); !term.ses.lastRenewal().After(renewed); {
			if time.Now().After(deadline) {
				t.Fatal("not renewed")
			}
			if err := term.PutStatus(testContext(t), cke.Status{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (ses *session) lastRenewal() time.Time {
	ses.mu.Lock()
	defer ses.mu.Unlock()
	return ses.renewed
}

func TestSession_GoesByTheClockThatWentFurther(t *testing.T) {
	now := time.Now()
	asleep := now.Add(time.Hour).Round(0) // the machine slept: wall clock only
	if got := elapsed(now, asleep); got != time.Hour {
		t.Errorf("asleep: got %v", got)
	}
	ctx, end := context.WithCancelCause(t.Context())
	ses := &session{limit: time.Minute, renewed: now.Add(-time.Hour), ctx: ctx, end: end}
	ses.confirm(now)
	if err := ses.check(); !errors.Is(err, cke.ErrDeposed) || !ses.lastRenewal().Before(now) {
		t.Errorf("a session that ran out came back: %v", err)
	}
}
