package take_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// damaging stores the next delta with another body, and says that the name is taken.
type damaging struct {
	*backuptest.Memory
	next atomic.Bool
}

func (d *damaging) Create(ctx context.Context, name string, c backup.Content) error {
	err := d.Memory.Create(ctx, name, c)
	if err == nil && strings.Contains(name, "/delta/") && d.next.CompareAndSwap(true, false) {
		data := bytes.Clone(d.Get(name))
		data[len(data)-5] ^= 1
		d.Set(name, data)
		return backup.ErrExists
	}
	return err
}

// withADelta takes backups until a full and one delta are stored.
func withADelta(t *testing.T, b backup.Bucket, signed bool) (*etcdtest.Server, take.Config, *taketest.Rig, backup.Header) {
	t.Helper()
	s := etcdtest.Start(t, etcdtest.Options{})
	c := taketest.Config(s, b)
	if signed {
		c.Signer = backup.NewSigner(identity(t))
	}
	c.Delta.Period = cke.Duration(50 * time.Millisecond)
	r := taketest.Start(t, s, c)
	r.Await(take.FullStored)
	r.Put("k", "1")
	return s, c, r, r.Await(take.DeltaStored).Header
}

// trusting reads what was stored, and trusts who signs.
func trusting(r *taketest.Rig, c take.Config) *backup.Store {
	store := r.Store()
	if c.Signer != nil {
		store.Trusted = []backup.PublicKey{c.Signer.Public()}
	}
	return store
}

// Whatever has the name of the next delta, changes are stored again without a restart.
func TestTaker_ADamagedObjectUnderTheNextNameEndsTheStream(t *testing.T) {
	for name, data := range map[string]string{"empty": "", "the first bytes of a head": "ckeback1", "garbage": "garbage, no object", "a real head, another body": "body"} {
		for _, signed := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", signed", false: ", not signed"}[signed], func(t *testing.T) {
				b := &damaging{Memory: backuptest.NewMemory()}
				s, c, r, h := withADelta(t, b, signed)
				if data == "body" {
					b.next.Store(true)
				} else {
					b.Set(backup.DeltaPlace("prod", "a1b2", h.Place.Stream, h.Place.Sequence+1, h.Last+1).Name(), []byte(data))
				}
				r.Put("k", "2")
				r.Await(take.FullStored)
				r.Put("k", "3")
				r.Flush()
				if st := r.Taker.Status(); !st.Connected || st.Problem != "" {
					t.Errorf("%+v", st)
				}
				store := trusting(r, c)
				got, x := taketest.Extract(t, store, backup.At{})
				want := s.State(t, 0)
				if x.Revision != want.Revision {
					t.Errorf("revision %d, want %d", x.Revision, want.Revision)
				}
				taketest.SameState(t, want, got.State(t, 0))
			})
		}
	}
}

// The newest delta has a sound head and another body: what follows does not continue it, also if reading the target fails once or somebody else
// leads meanwhile.
func TestTaker_NothingContinuesANewestDeltaThatIsDamaged(t *testing.T) {
	for _, name := range []string{"the target fails once", "another leader"} {
		for _, signed := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ", signed", false: ", not signed"}[signed], func(t *testing.T) {
				mem := &damaging{Memory: backuptest.NewMemory()}
				var fail atomic.Bool
				b := &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, _ string) error {
					if op == "list" && fail.CompareAndSwap(true, false) {
						return errors.New("no answer")
					}
					return nil
				}}
				s, c, r, h := withADelta(t, b, signed)
				if name == "another leader" {
					if err := r.Stop(); err != nil {
						t.Fatal(err)
					}
					data := bytes.Clone(mem.Get(h.Place.Name()))
					data[len(data)-5] ^= 1
					mem.Set(h.Place.Name(), data)
					r = taketest.Start(t, s, c)
				} else {
					mem.next.Store(true)
					fail.Store(true)
					r.Put("k", "2")
				}
				r.Await(take.Gap)
				r.Await(take.FullStored)
				r.Put("k", "3")
				r.Flush()
				store := trusting(r, c)
				got, _ := taketest.Extract(t, store, backup.At{})
				taketest.SameState(t, s.State(t, 0), got.State(t, 0))
			})
		}
	}
}
