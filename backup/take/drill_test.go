package take_test

import (
	"strings"
	"testing"

	"cke/backup"
	"cke/backup/backuptest"
)

// Of a large database most deltas have no hash: those after the newest hash are drilled as well.
func TestDrill_ReadsWhatFollowsTheNewestHash(t *testing.T) {
	for _, spoiled := range []bool{false, true} {
		b := backuptest.NewMemory()
		r := begin(t, b, nil)
		r.Put("k", "1")
		r.Flush()
		last := r.Put("k", "2")
		r.Flush()
		if err := r.Stop(); err != nil {
			t.Fatal(err)
		}
		newest := ""
		for _, n := range backups(t, b) {
			if strings.Contains(n, "/delta/") {
				newest = n
			}
		}
		rehead(t, b, newest, func(h *backup.Header) { h.Hashes = nil })
		if spoiled {
			data := b.Get(newest)
			data[len(data)-5] ^= 1
			b.Set(newest, data)
		}
		x, err := r.Store().Drill(t.Context(), backup.At{}, nil)
		if backup.IsDamage(err) != spoiled || !spoiled && (err != nil || x.Revision != last || x.Compared == nil || x.Compared.Revision != last-1) {
			t.Errorf("spoiled %t: revision %d of %d, compared %+v, %v", spoiled, x.Revision, last, x.Compared, err)
		}
	}
}
