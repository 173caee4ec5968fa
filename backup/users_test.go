package backup_test

import (
	"path/filepath"
	"testing"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// An earlier version may have merged a newer full with older users and roles than those of a full before it.
func TestExtract_PrefersTheFullWithTheNewestUsers(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	for i, name := range append(fulls[:2:2], deltas...) {
		rehead(t, f.bucket, name, func(h *backup.Header) {
			h.After, h.Base, h.Merged = nil, nil, i == 1
			if i == 0 {
				h.AuthRevision = 5
			}
		})
	}
	x, err := f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true})
	if err != nil {
		t.Fatal(err)
	}
	if x.Full != place(t, fulls[0]).ID() || len(x.Notes) > 0 {
		t.Errorf("restored from %s, notes %q", x.Full, x.Notes)
	}
}
