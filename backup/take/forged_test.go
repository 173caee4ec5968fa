package take_test

import (
	"errors"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Who can write to a target, and has no key, stops no backups: not with a record of another history, and not with what a full says of itself.
func TestTaker_WhatIsForgedStopsNoBackups(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(h *backup.Header){
		"a record of another history": nil,
		"a full of a later revision":  func(h *backup.Header) { h.Last += 1000 },
		"a full of a later log":       func(h *backup.Header) { h.RaftIndex = 1 << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
			r := begin(t, mem, func(c *take.Config) { c.Signer = signer })
			r.Put("a", "1")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			theirs := r.Store()
			theirs.Signer, theirs.Trusted = nil, nil
			if forge == nil {
				if err := theirs.MarkDiverged(ctx, "a1b2", backup.Divergence{Revision: 1, Why: "forged"}); err != nil {
					t.Fatal(err)
				}
			} else {
				l, err := theirs.Lineage(ctx, "a1b2")
				if err != nil {
					t.Fatal(err)
				}
				h := l.Streams[0].Tail
				h.Signature, h.Signer, h.After, h.Base = nil, nil, nil, nil
				forge(&h)
				h.Place = backup.FullPlace("prod", "a1b2", h.Last, time.Now())
				c, err := backup.BodyContent(nil, []byte("x")).WithHeader(h)
				if err != nil {
					t.Fatal(err)
				}
				if err := mem.Create(ctx, h.Place.Name(), c); err != nil {
					t.Fatal(err)
				}
			}
			config := taketest.Config(r.Server, mem)
			config.Signer = signer
			r2 := taketest.Start(t, r.Server, config)
			last := r2.Put("b", "2")
			if err := r2.Taker.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if st := r2.Taker.Status(); !st.Connected || st.Revision != last {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A record of another history that the Taker makes is signed: it counts afterwards.
func TestTaker_SignsARecordOfAnotherHistory(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
	r := begin(t, mem, func(c *take.Config) { c.Signer = signer })
	r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	other := etcdtest.Start(t, etcdtest.Options{})
	config := taketest.Config(other, mem)
	config.Signer = signer
	taker, err := take.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Run(ctx); !errors.Is(err, take.ErrDiverged) {
		t.Fatal(err)
	}
	ours := r.Store()
	ours.Signer, ours.Trusted = signer, []backup.PublicKey{signer.Public()}
	if d, trusted, err := ours.Diverged(ctx, "a1b2"); err != nil || d == nil || !trusted {
		t.Errorf("%+v, %v", d, err)
	}
}

// A record of another history that anybody may have made, before anything is signed, has the backups begin anew: a signed full follows, and the
// Taker goes on with what it stored. Where nothing is signed the record counts.
func TestTaker_AnUnsignedRecordBeforeTheFirstSignature(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
	r := begin(t, mem, nil)
	r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := r.Store().PutFile(ctx, "a1b2", "diverged", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	taker, err := take.New(taketest.Config(r.Server, mem))
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Run(ctx); !errors.Is(err, take.ErrDiverged) {
		t.Fatal(err)
	}
	var streams int
	for range 2 {
		config := taketest.Config(r.Server, mem)
		config.Signer = signer
		r2 := taketest.Start(t, r.Server, config)
		if streams == 0 {
			r2.Await(take.FullStored)
		}
		r2.Put("b", "2")
		r2.Flush()
		if err := r2.Stop(); err != nil {
			t.Fatal(err)
		}
		s := r2.Store()
		s.Trusted = []backup.PublicKey{signer.Public()}
		l, err := s.Lineage(ctx, "a1b2")
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Header(ctx, l.Fulls[len(l.Fulls)-1])
		if err != nil || h.Signature == nil {
			t.Errorf("%+v, %v", h, err)
		}
		if streams > 0 && len(l.Streams) != streams {
			t.Errorf("%d streams, then %d", streams, len(l.Streams))
		}
		streams = len(l.Streams)
	}
}

// A forged number leads no delta to a name that no listing reads: a stream that is not signed, or has no number left, is not continued.
func TestTaker_AForgedNumberIsNotContinued(t *testing.T) {
	t.Parallel()
	for name, signer := range map[string]*backup.Signer{"nothing is signed": nil, "signed from now on": backup.NewSigner(identity(t))} {
		t.Run(name, func(t *testing.T) {
			ctx := etcdtest.Context(t)
			mem := backuptest.NewMemory()
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
			last := l.Streams[0].Tail
			p := backup.DeltaPlace("prod", "a1b2", last.Place.Stream, backup.MostSequence, last.Last+1)
			c, _ := sealed(t, backup.Header{Place: p}, backup.Change{Key: []byte("b"), Value: []byte("1"), CreateRevision: last.Last + 1, ModRevision: last.Last + 1, Version: 1})
			if err := mem.Create(ctx, p.Name(), c); err != nil {
				t.Fatal(err)
			}
			r.Put("b", "1")
			config := taketest.Config(r.Server, mem)
			config.Signer = signer
			r2 := taketest.Start(t, r.Server, config)
			newest := r2.Put("b", "2")
			r2.Flush()
			s := r2.Store()
			if signer != nil {
				s.Trusted = []backup.PublicKey{signer.Public()}
			}
			l, err = s.Lineage(ctx, "a1b2")
			if err != nil || len(l.Files) > 0 {
				t.Fatalf("%+v, %v", l.Files, err)
			}
			if st := l.Streams[len(l.Streams)-1]; st.Last != newest || st.Stream == last.Place.Stream {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Who signs takes a full at once where the newest is not signed: anybody may have made that one.
func TestTaker_AnUnsignedFullIsFollowedByASignedOne(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	mem, signer := backuptest.NewMemory(), backup.NewSigner(identity(t))
	r := begin(t, mem, nil)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	config := taketest.Config(r.Server, mem)
	config.Signer = signer
	r2 := taketest.Start(t, r.Server, config)
	full := r2.Await(take.FullStored).Header.Place
	h, err := backup.ReadHeader(ctx, mem, full)
	if err != nil || h.Signature == nil || h.Signature.Key != signer.Public() {
		t.Errorf("%+v, %v", h.Signature, err)
	}
}
