package keep_test

import (
	"context"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// A restore asks for this last: that all is stored. The only full is there by its name, and a listing shows that it has seven bytes.
func TestKeeper_FlushFailsIfTheOnlyFullIsCutShort(t *testing.T) {
	for name, signs := range map[string]bool{"signed": true, "not signed": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			id, err := age.GenerateX25519Identity()
			if err != nil {
				t.Fatal(err)
			}
			if signs {
				h.config.Identity = func(context.Context) (age.Identity, error) { return id, nil }
			}
			last := h.storeDeltas()
			fulls, err := h.memory.List(t.Context(), "prod/life1/full/")
			if err != nil || len(fulls) != 1 {
				t.Fatal(fulls, err)
			}
			h.memory.Set(fulls[0].Name, []byte("garbage"))
			d, err := h.keeper.Flush(etcdtest.Context(t))
			s := h.keeper.Status()
			if _, lost := h.store().Find(t.Context(), backup.At{Lineage: "life1", Revision: last}); err == nil {
				x, extracted := h.store().Extract(t.Context(), backup.At{Lineage: "life1"}, t.TempDir()+"/db", backup.ExtractOptions{})
				t.Errorf("stored, it says: %+v, connected %v; but: %v, %+v, %v", d, s.Connected, lost, x.Revision, extracted)
			} else if cke.CodeOf(err) != cke.CodeLostBackups && cke.CodeOf(err) != cke.CodeBackupDamaged {
				t.Errorf("%v", err)
			}
		})
	}
}
