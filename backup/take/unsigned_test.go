package take_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// What nobody signed does not stop the backups of a host that signs as those of another history: they begin anew.
func TestTaker_AnUnsignedFullIsNoOtherHistory(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(h *backup.Header){
		"a later revision": func(h *backup.Header) { h.Last += 1000 },
		"a later log":      func(h *backup.Header) { h.RaftIndex = 1 << 60 },
		"other changes":    func(h *backup.Header) { h.Mark = strings.Repeat("0", 64) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
			r := begin(t, mem, nil)
			r.Put("a", "1")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			l, err := r.Store().Lineage(ctx, "a1b2")
			if err != nil {
				t.Fatal(err)
			}
			h := l.Streams[0].Tail
			h.After, h.Base = nil, nil
			forge(&h)
			h.Place = backup.FullPlace("prod", "a1b2", h.Last, time.Now())
			c, err := backup.BodyContent(nil, []byte("x")).WithHeader(h)
			if err != nil {
				t.Fatal(err)
			}
			if err := mem.Create(ctx, h.Place.Name(), c); err != nil {
				t.Fatal(err)
			}
			for round := range 2 {
				config := taketest.Config(r.Server, mem)
				config.Signer = signer
				r2 := taketest.Start(t, r.Server, config)
				if round == 0 {
					r2.Await(take.FullStored)
				}
				last := r2.Put("b", "2")
				r2.Flush()
				if st := r2.Taker.Status(); !st.Connected || st.Revision != last {
					t.Errorf("%+v", st)
				}
				if err := r2.Stop(); err != nil {
					t.Fatal(err)
				}
				s := r2.Store()
				s.Trusted = []backup.PublicKey{signer.Public()}
				got, x := taketest.Extract(t, s, backup.At{})
				taketest.SameState(t, r.Server.State(t, 0), got.State(t, 0))
				if x.Revision != last {
					t.Errorf("revision %d, want %d", x.Revision, last)
				}
			}
			if d, _, err := r.Store().Diverged(ctx, "a1b2"); err != nil || d != nil {
				t.Errorf("recorded: %+v, %v", d, err)
			}
		})
	}
}

// The newest delta is not signed, and a signed full is newer: what the cluster changed between them is in no delta, and that is reported.
func TestTaker_WhatIsMissingAfterAnUnsignedDeltaIsTold(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
	r := begin(t, mem, nil)
	tail := r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	unsigned := backups(t, mem)
	r.Put("a", "2")
	now := r.Put("a", "3")
	config := taketest.Config(r.Server, mem)
	config.Signer = signer
	r2 := taketest.Start(t, r.Server, config)
	full := r2.Await(take.FullStored).Header.Last
	if err := r2.Stop(); err != nil || full != now {
		t.Fatal(full, err)
	}
	for _, n := range backups(t, mem) { // as if it had been killed before its first delta
		if strings.Contains(n, "/delta/") && !slices.Contains(unsigned, n) {
			mem.Delete(ctx, n)
		}
	}
	r3 := taketest.Start(t, r.Server, config)
	if e := r3.Await(take.Gap); e.From != tail+1 || e.To != full {
		t.Errorf("from %d to %d, want %d to %d", e.From, e.To, tail+1, full)
	}
	r3.Await(take.FullStored)
	last := r3.Put("a", "4")
	r3.Flush()
	s := r3.Store()
	s.Trusted = []backup.PublicKey{signer.Public()}
	for revision := full; revision <= last; revision++ {
		got, _ := taketest.Extract(t, s, backup.At{Revision: revision})
		taketest.SameState(t, r.Server.State(t, revision), got.State(t, 0))
	}
	if st := r3.Taker.Status(); st.Problem != "" {
		t.Errorf("%+v", st)
	}
}

// Whoever is told of a full takes in what it leads to before the Taker says that this can be restored: what was believed of the
// target until then, as of an unsigned full, never counts as restorable.
func TestTaker_TellsOfAFullBeforeItCountsAsRestorable(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t, etcdtest.Options{})
	config := taketest.Config(server, backuptest.NewMemory())
	var taker *take.Taker
	seen := make(chan take.Status, 1)
	config.Notify = func(e take.Event) {
		if e.Type == take.FullStored {
			seen <- taker.Status()
		}
	}
	taker, err := take.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(etcdtest.Context(t))
	ended := make(chan error, 1)
	go func() { ended <- taker.Run(ctx) }()
	if st := <-seen; st.Connected || st.FullRevision == 0 {
		t.Errorf("at the event: %+v", st)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
