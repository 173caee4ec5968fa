package backup_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// onlyHashIn leaves the hash of the newest full to the delta that ends with it, or to no object. It returns that hash.
func onlyHashIn(t *testing.T, f *fixture, delta bool) (hash backup.Hash) {
	t.Helper()
	fulls, deltas := f.objects(t)
	for _, name := range slices.Concat(fulls, deltas) {
		rehead(t, f.bucket, name, func(h *backup.Header) {
			i := slices.IndexFunc(h.Hashes, func(x backup.Hash) bool { return x.Revision == f.fulls[1] })
			if name == fulls[1] && i >= 0 {
				hash = h.Hashes[i]
			}
			h.Hashes, h.After, h.Base = nil, nil, nil
		})
	}
	if hash.Revision != f.fulls[1] {
		t.Fatalf("the newest full had no hash of its revision, %d", f.fulls[1])
	}
	if delta {
		rehead(t, f.bucket, deltas[2], func(h *backup.Header) {
			if h.Last != f.fulls[1] {
				t.Fatalf("the delta before the full ends at revision %d, the full has %d", h.Last, f.fulls[1])
			}
			h.Hashes = []backup.Hash{hash}
		})
	}
	return hash
}

// The newest full is wrong and has no hash. The delta that ends at its revision has one.
func TestExtract_ComparesAFullWithTheHashOfTheDeltaThatEndsWithIt(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	hash := onlyHashIn(t, f, true)
	wrong := place(t, wrongContent(t, f, fulls[1])).ID()
	for _, revision := range []int64{f.fulls[1], f.last} {
		x, err := f.compared(t, backup.At{Revision: revision})
		if err != nil || x.Full == wrong || x.Compared == nil || *x.Compared != hash {
			t.Errorf("revision %d: from %s, compared with %v, %v", revision, x.Full, x.Compared, err)
		}
	}
	if _, err := f.compared(t, backup.At{Full: wrong}); !errors.Is(err, backup.ErrHash) {
		t.Errorf("of the full alone: %v", err)
	}
}

// A merge that reads the full as it streams by compares it, too.
func TestCompact_ComparesAFullWithTheHashOfTheDeltaThatEndsWithIt(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	onlyHashIn(t, f, true)
	wrongContent(t, f, fulls[1])
	p, err := f.store(t, f.bucket).Compact(etcdtest.Context(t), backup.At{}, backup.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Full: p.ID()})
}

// No change follows the newest full: a drill reads nothing but that. It is found wrong, so a prune keeps the one that is sound.
func TestDrill_OfAQuietClusterComparesTheNewestFull(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	fulls, deltas := f.objects(t)
	onlyHashIn(t, f, true)
	wrong := place(t, wrongContent(t, f, fulls[1])).ID()
	for _, d := range deltas[3:] {
		if err := f.bucket.Delete(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	s := f.store(t, f.bucket)
	x, err := s.Drill(ctx, backup.At{}, nil)
	if err != nil || x.Full == wrong || !x.HashChecked {
		t.Errorf("drill from %s, hash compared: %t, %v", x.Full, x.HashChecked, err)
	}
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	f.extractOK(t, f.bucket, backup.At{Revision: f.fulls[1]})
}

// The newest full is damaged, and its header is sound. The full before it, from which the state is restored, is wrong, and nothing that is read with
// it has a hash.
func TestExtract_ComparesWithTheHashOfAFullThatIsSkipped(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	for _, name := range append(deltas, fulls[0]) {
		rehead(t, f.bucket, name, func(h *backup.Header) { h.Hashes, h.After, h.Base = nil, nil, nil })
	}
	data := f.bucket.Get(fulls[1])
	f.bucket.Set(fulls[1], flip(data, len(data)-10))
	x, err := f.compared(t, backup.At{})
	if err != nil || x.Revision != f.last || x.Compared == nil || x.Compared.Revision != f.fulls[1] {
		t.Errorf("a sound full: revision %d, compared with %v, %v", x.Revision, x.Compared, err)
	}
	if x, err := f.compared(t, backup.At{Revision: f.fulls[1] - 1}); err != nil || x.Compared != nil {
		t.Errorf("a hash of a later revision than that restored: compared with %v, %v", x.Compared, err)
	}
	// It counts as well once a drill has found the full damaged.
	s := f.store(t, f.bucket)
	if _, err := s.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := s.LastVerified(etcdtest.Context(t), "a1b2"); err != nil || !slices.Equal(v.Damaged, []string{place(t, fulls[1]).ID()}) {
		t.Fatalf("%+v, %v", v, err)
	}
	wrongContent(t, f, fulls[0])
	if x, err := f.compared(t, backup.At{}); !errors.Is(err, backup.ErrHash) {
		t.Errorf("wrong data from %s, compared with %v, %v", x.Full, x.Compared, err)
	}
	o := backup.ExtractOptions{CheckHash: true, IgnoreHash: true}
	x, err = f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "out"), o)
	if err != nil || !x.HashIgnored || !strings.Contains(strings.Join(x.Notes, "; "), "1 lead to this data") {
		t.Errorf("with IgnoreHash: notes %q, %v", x.Notes, err)
	}
}

// deltaOpens counts how often a delta is opened, and refuses that if it is unreadable.
type deltaOpens struct {
	*backuptest.Memory
	name       string
	unreadable bool
	opened     atomic.Int64
}

func (b *deltaOpens) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name == b.name {
		b.opened.Add(1)
		if b.unreadable {
			return nil, errors.New("the target does not answer")
		}
	}
	return b.Memory.Open(ctx, name, offset, length)
}

// The delta before a full is asked for one header, whether the full has a hash or not. That it cannot be read does not matter.
func TestExtract_NeedsNoOtherHash(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	for _, own := range []bool{true, false} {
		if !own {
			onlyHashIn(t, f, false)
		}
		for _, unreadable := range []bool{false, true} {
			b := &deltaOpens{Memory: f.bucket, name: deltas[2], unreadable: unreadable}
			s := f.store(t, b)
			out := filepath.Join(t.TempDir(), "out")
			x, err := s.Extract(etcdtest.Context(t), backup.At{Revision: f.fulls[1]}, out, backup.ExtractOptions{CheckHash: true})
			if err != nil || (x.Compared != nil) != own {
				t.Errorf("own hash %t, unreadable %t: compared with %v, %v", own, unreadable, x.Compared, err)
			}
			if n := b.opened.Load(); n > 1 || len(x.Notes) > 0 {
				t.Errorf("own hash %t, unreadable %t: %d requests, notes %q", own, unreadable, n, x.Notes)
			}
		}
	}
}

// What no trusted key signed says nothing of data that one signed.
func TestExtract_OtherHashesAreOfWhoIsTrusted(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	signer := backup.NewSigner(id)
	f := &fixture{signer: signer}
	f.make(t, false)
	fulls, deltas := f.objects(t)
	hash := onlyHashIn(t, f, false)
	for _, name := range slices.Concat(fulls, deltas[:2], deltas[3:]) {
		rehead(t, f.bucket, name, func(h *backup.Header) { h.Signer = signer })
	}
	rehead(t, f.bucket, deltas[2], func(h *backup.Header) {
		h.Hashes = []backup.Hash{{Revision: hash.Revision, Compacted: -1, Hash: hash.Hash ^ 1}}
	})
	s := f.store(t, f.bucket)
	s.Trusted = []backup.PublicKey{signer.Public()}
	x, err := s.Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
	if err != nil || x.Full != place(t, fulls[1]).ID() || x.Compared != nil {
		t.Errorf("from %s, compared with %v, %v", x.Full, x.Compared, err)
	}
}
