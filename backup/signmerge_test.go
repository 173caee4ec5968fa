package backup_test

import (
	"errors"
	"slices"
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

// A merge signs nothing that anybody may have written: it refuses, and what was accepted by an operator stays without a signature.
func TestCompact_SignsNothingThatIsUnsigned(t *testing.T) {
	f := makeFixture(t, true)
	signer := newSigner(t)
	ctx := etcdtest.Context(t)
	to := backup.CompactOptions{Recipients: recipients(f.identity.Recipient())}
	half := f.bucket.Clone()
	forge(t, f, half, signer) // signed from here on
	fulls := func(b backup.Bucket) (n int) {
		for _, name := range names(t, b) {
			if p, ok := backup.ParsePlace(name); ok && p.Kind == backup.KindFull {
				n++
			}
		}
		return n
	}
	for name, b := range map[string]*backuptest.Memory{"all unsigned": f.bucket.Clone(), "an unsigned base": half} {
		before := fulls(b)
		p, err := f.guarded(t, b, signer).Compact(ctx, backup.At{}, to)
		if !errors.Is(err, backup.ErrUntrusted) || fulls(b) != before {
			t.Errorf("%s: %s, %v, %d fulls", name, p.ID(), err, fulls(b))
		}
	}
	s := f.guarded(t, half, signer)
	s.AllowUntrusted = true
	if p, err := s.Compact(ctx, backup.At{}, to); !errors.Is(err, backup.ErrUntrusted) {
		t.Errorf("signed deltas on an unsigned base: %s, %v", p.ID(), err)
	}
	b := f.bucket.Clone()
	s = f.guarded(t, b, signer)
	s.AllowUntrusted = true
	p, err := s.Compact(ctx, backup.At{}, to)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := backup.ReadHeader(ctx, b, p); err != nil || h.Signature != nil {
		t.Errorf("%+v, %v", h.Signature, err)
	}
	got, x := taketest.Extract(t, s, backup.At{})
	taketest.SameState(t, f.states[x.Revision], got.State(t, 0))
	if x.Revision != f.last || x.Deltas != 0 {
		t.Errorf("%+v", x)
	}
}

// A single full has nothing to be merged with, whoever wrote it.
func TestCompact_AnUnsignedFullAlone(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	p, err := f.guarded(t, f.bucket, newSigner(t)).Compact(etcdtest.Context(t), backup.At{Revision: f.fulls[1]}, backup.CompactOptions{})
	if err != nil || !slices.Contains(fulls, p.Name()) {
		t.Errorf("%s, %v", p.Name(), err)
	}
}
