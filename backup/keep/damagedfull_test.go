package keep_test

import (
	"context"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A restore asks for this last: that all is stored. What leads there is listed, and has seven bytes.
func TestKeeper_FlushFailsIfWhatLeadsThereIsCutShort(t *testing.T) {
	for name, row := range map[string]struct {
		signs bool
		what  string
	}{
		"the only full, signed":     {true, "full/"},
		"the only full, not signed": {false, "full/"},
		"a delta, signed":           {true, "delta/"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			id, err := age.GenerateX25519Identity()
			if err != nil {
				t.Fatal(err)
			}
			if row.signs {
				h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
			}
			last := h.storeDeltas()
			there, err := h.memory.List(t.Context(), "prod/life1/"+row.what)
			if err != nil || len(there) == 0 {
				t.Fatal(there, err)
			}
			h.memory.Set(there[0].Name, []byte("garbage"))
			if d, err := h.keeper.Flush(etcdtest.Context(t)); cke.CodeOf(err) != cke.CodeLostBackups {
				t.Errorf("%+v, %v", d, err)
			}
			h.await("another full", func(s *cke.BackupStatus) bool { return s.Connected && s.Lost != nil && s.Problem == nil })
			if _, err := h.keeper.Flush(etcdtest.Context(t)); err != nil {
				t.Error(err)
			}
			x, err := h.store().Extract(t.Context(), backup.At{Lineage: "life1"}, t.TempDir()+"/db", backup.ExtractOptions{})
			if err != nil || x.Revision != last {
				t.Errorf("%+v, %v; want revision %d", x, err, last)
			}
		})
	}
}
