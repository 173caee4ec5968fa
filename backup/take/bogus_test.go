package take_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"filippo.io/age"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Names of revisions that the cluster has not reached, with nothing sound behind them, are told and left out of account.
func TestTaker_ABogusNameIsToldAndPassedOver(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for name, bogus := range map[string]backup.Place{
		"full":              backup.FullPlace("prod", "a1b2", 99999, at),
		"delta":             backup.DeltaPlace("prod", "a1b2", 99998, 0, 99999),
		"delta in a stream": backup.DeltaPlace("prod", "a1b2", 3, 99, 99999),
		"the next delta":    backup.DeltaPlace("prod", "a1b2", 3, 1, 99999),
	} {
		t.Run(name, func(t *testing.T) {
			mem := backuptest.NewMemory()
			r := begin(t, mem, nil)
			r.Put("a", "1")
			r.Flush()
			if err := r.Stop(); err != nil {
				t.Fatal(err)
			}
			if bogus.Stream == 3 {
				l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
				if err != nil {
					t.Fatal(err)
				}
				bogus.Stream = l.Streams[0].Stream
			}
			mem.Set(bogus.Name(), nil)
			r2 := taketest.Start(t, r.Server, taketest.Config(r.Server, mem))
			last := r2.Put("a", "2")
			r2.Flush()
			e := r2.Await(take.Bogus)
			if e.Damage == nil || e.Damage.Object != bogus.Name() {
				t.Errorf("told: %+v", e)
			}
			for len(r2.Events) > 0 {
				if e := <-r2.Events; e.Type != take.DeltaStored && e.Type != take.FullFound && e.Type != take.Restorable {
					t.Errorf("event %s: %v", e.Type, e.Err)
				}
			}
			if st := r2.Taker.Status(); !st.Connected || st.Revision != last {
				t.Errorf("%+v", st)
			}
			mem.Delete(t.Context(), bogus.Name())
			taketest.Extract(t, r2.Store(), backup.At{Revision: last})
		})
	}
}

// Who holds only the new key can restore from the first full after the change of recipients.
func TestTaker_NewRecipientsBringAFull(t *testing.T) {
	t.Parallel()
	a, b := identity(t), identity(t)
	mem := backuptest.NewMemory()
	r := begin(t, mem, func(c *take.Config) { c.Recipients = []age.Recipient{a.Recipient()} })
	r.Put("x", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	for i, id := range []*age.X25519Identity{b, b, nil} {
		c := taketest.Config(r.Server, mem)
		if id != nil {
			c.Recipients = []age.Recipient{id.Recipient()}
		}
		r = taketest.Start(t, r.Server, c)
		if i != 1 { // the recipients are others
			r.Await(take.FullStored)
		}
		r.Put("x", "2")
		r.Flush()
		s := r.Store()
		if id != nil {
			s.Identities = []age.Identity{id}
		}
		if _, err := s.Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "x"), backup.ExtractOptions{}); err != nil {
			t.Error(err)
		}
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2"); err != nil || len(l.Fulls) != 3 {
		t.Errorf("%d fulls, want one for each set of recipients; %v", len(l.Fulls), err)
	}
}

func identity(t *testing.T) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sealed is a delta that somebody writes without cke, with one change at each revision.
func sealed(t testing.TB, h backup.Header, changes ...backup.Change) (backup.Content, backup.Header) {
	t.Helper()
	w, err := backup.NewDeltaWriter(h.Place.Revision, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if err := w.Add([]backup.Change{c}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c, h, err := w.Seal(h)
	if err != nil {
		t.Fatal(err)
	}
	return c, h
}

// A delta that somebody else put after ours is passed over: the stream goes on behind it, without a full.
func TestTaker_AForgedDeltaIsPassedOver(t *testing.T) {
	t.Parallel()
	mem := backuptest.NewMemory()
	signer := backup.NewSigner(identity(t))
	r := begin(t, mem, func(c *take.Config) { c.Signer = signer })
	r.Put("a", "1")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	l, err := r.Store().Lineage(etcdtest.Context(t), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	last := l.Streams[0].Tail
	p := backup.DeltaPlace("prod", "a1b2", last.Place.Stream, last.Place.Sequence+1, last.Last+1)
	c, _ := sealed(t, backup.Header{Place: p, After: last.Link(), Base: last.Base}, backup.Change{Key: []byte("mine"), CreateRevision: last.Last + 1, ModRevision: last.Last + 1, Version: 1})
	if err := mem.Create(t.Context(), p.Name(), c); err != nil {
		t.Fatal(err)
	}
	r.Put("b", "1")
	config := taketest.Config(r.Server, mem)
	config.Signer = signer
	r2 := taketest.Start(t, r.Server, config)
	if e := r2.Await(take.Bogus); e.Damage.Object != p.Name() || !errors.Is(e.Damage, backup.ErrUntrusted) {
		t.Errorf("%+v", e)
	}
	r2.Put("b", "2")
	r2.Flush()
	s := r2.Store()
	if l, err := s.Lineage(etcdtest.Context(t), "a1b2"); err != nil || len(l.Fulls) != 1 {
		t.Errorf("%d fulls, %v", len(l.Fulls), err)
	}
	s.Trusted = []backup.PublicKey{signer.Public()}
	got, x := taketest.Extract(t, s, backup.At{})
	now := r.Server.State(t, 0)
	if x.Revision != now.Revision {
		t.Errorf("%+v, the cluster is at %d", x, now.Revision)
	}
	taketest.SameState(t, now, got.State(t, 0))
}
