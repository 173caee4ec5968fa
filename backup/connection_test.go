package backup_test

import (
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// cutBody is the body of a response whose connection ended early: net/http returns io.ErrUnexpectedEOF.
type cutBody struct {
	io.ReadCloser
	left int
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func cut(b backup.Bucket, part string, at int, times int) *backuptest.Faulty {
	var mu sync.Mutex
	return &backuptest.Faulty{Bucket: b, Read: func(name string, r io.ReadCloser) io.ReadCloser {
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(name, part) || times == 0 {
			return r
		}
		times--
		return &cutBody{r, at}
	}}
}

// A connection that is cut says nothing about the object: nothing is reported as damaged, restored from what is older, or marked as failed.
func TestDamage_ACutConnectionIsNone(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	ctx := etcdtest.Context(t)
	for name, tc := range map[string]struct {
		part string
		at   int
	}{"head of the full": {fulls[1], 100}, "body of the full": {fulls[1], 4096 + 600}, "head of the last delta": {deltas[5], 100}, "body of the last delta": {deltas[5], len(f.bucket.Get(deltas[5])) - 20}} {
		s := f.store(t, cut(f.bucket.Clone(), tc.part, tc.at, 1000))
		_, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if backup.IsDamage(err) {
			t.Errorf("extract, %s: %v", name, err)
		}
		x, err := s.Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{AllowPartial: true})
		if err == nil && (x.Revision != f.last || len(x.Notes) > 0) {
			t.Errorf("extract partial, %s: %d of %d, %v %q", name, x.Revision, f.last, err, x.Notes)
		}
		r, err := s.Check(ctx, "a1b2")
		if err == nil && len(r.Findings) > 0 {
			t.Errorf("check, %s: %v, last good %d of %d, %+v", name, err, r.LastGood, f.last, r.Findings)
		}
		_, err = s.Drill(ctx, backup.At{}, nil)
		n := 0
		for _, o := range names(t, s.Bucket) {
			if strings.Contains(o, "/failed/") {
				n++
			}
		}
		if n > 0 {
			t.Errorf("drill, %s: %v; marks of failure: %d", name, err, n)
		}
	}
}

func TestPrune_WhileConnectionsAreCutKeepsTheNewest(t *testing.T) {
	ctx := etcdtest.Context(t)
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	if _, err := f.store(t, f.bucket).Compact(ctx, backup.At{Revision: 35}, backup.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		b := f.bucket.Clone()
		s := f.store(t, cut(b, deltas[5], 100, n))
		_, pruned := s.Prune(ctx, cke.Retention{Hourly: 24, Daily: 7}, false) // it may refuse
		x, err := f.store(t, b).Extract(ctx, backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if err != nil || x.Revision != f.last {
			t.Errorf("%d reads cut: newest %d of %d, %v (%v)", n, x.Revision, f.last, err, pruned)
		}
	}
}
