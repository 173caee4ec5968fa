package backup_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// wrongHashes makes all hashes wrong that a member gave from the second full on, as one gives them whose own data is wrong.
func wrongHashes(t *testing.T, f *fixture) {
	t.Helper()
	fulls, deltas := f.objects(t)
	second := place(t, fulls[1])
	for _, name := range append(fulls[1:2:2], deltas...) {
		if p := place(t, name); p.Kind == backup.KindDelta && p.Revision <= second.Revision {
			continue
		}
		rehead(t, f.bucket, name, func(h *backup.Header) {
			h.After, h.Base = nil, nil
			for i := range h.Hashes {
				h.Hashes[i].Hash ^= 1
			}
		})
	}
}

// The member that is asked for the hash, the leader first, may be the one whose data is wrong. All backups are sound then.
func TestExtract_AWrongHashLeavesAWayOn(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	wrongHashes(t, f)
	s := f.store(t, f.bucket)
	out := func() string { return filepath.Join(t.TempDir(), "out") }
	_, err := s.Extract(ctx, backup.At{}, out(), backup.ExtractOptions{CheckHash: true})
	var d *backup.DamagedError
	if !errors.As(err, &d) || !errors.Is(err, backup.ErrHash) {
		t.Fatalf("no damage: %v", err)
	}
	if x, err := s.Extract(ctx, backup.At{Revision: d.LastGood}, out(), backup.ExtractOptions{CheckHash: true}); err != nil || x.Compared == nil {
		t.Errorf("revision %d, said to be the last good one: compared with %v, %v", d.LastGood, x.Compared, err)
	}
	if x, err := s.Extract(ctx, backup.At{}, out(), backup.ExtractOptions{CheckHash: true, AllowPartial: true}); err != nil || x.Revision != d.LastGood {
		t.Errorf("with AllowPartial: revision %d, %v", x.Revision, err)
	}
	x, err := s.Extract(ctx, backup.At{}, out(), backup.ExtractOptions{CheckHash: true, IgnoreHash: true})
	if err != nil || x.Revision != f.last || x.Compared != nil || !strings.Contains(strings.Join(x.Notes, "; "), "of the full backups that were compared, 2 lead to this data") {
		t.Errorf("with IgnoreHash: revision %d, compared with %v, notes %q, %v", x.Revision, x.Compared, x.Notes, err)
	}
}

// One of two fulls is wrong, and so is the hash: nothing shows which.
func TestExtract_AWrongHashIsNotIgnoredWhereFullsDiffer(t *testing.T) {
	for what, slow := range map[string]time.Duration{"hashes at once": 0, "on a busy machine": 250 * time.Millisecond} {
		t.Run(what, func(t *testing.T) {
			f := &fixture{slow: slow}
			f.make(t, false)
			wrongHashIsNotIgnored(t, f)
		})
	}
}

func wrongHashIsNotIgnored(t *testing.T, f *fixture) {
	t.Helper()
	makeWrong(t, f)
	s := f.store(t, f.bucket)
	extract := func() (backup.Extracted, error) {
		return s.Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true, IgnoreHash: true})
	}
	if x, err := extract(); err != nil || x.Compared == nil {
		t.Errorf("a full leads there with an equal hash: compared with %v, %v", x.Compared, err)
	}
	wrongHashes(t, f)
	if _, err := extract(); !errors.Is(err, backup.ErrHash) {
		t.Errorf("fulls that differ: %v", err)
	}
}
