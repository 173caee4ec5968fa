package words_test

import (
	"testing"
	"time"

	"cke"
	"cke/internal/words"
)

func TestInventory_CountsMachinesAndNamesChanges(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := &cke.InventoryStatus{ReadAt: now.Add(-12 * time.Second), Candidates: 2, Hosts: map[cke.HostState]int{cke.HostRetired: 1, cke.HostHealthy: 5, cke.HostUnknown: 0}}
	for _, c := range []struct{ got, want string }{
		{words.Machines(s), "6 machines: 5 healthy, 1 retired; 2 can carry a further member"},
		{words.Machines(&cke.InventoryStatus{Hosts: map[cke.HostState]int{}}), "0 machines; 0 can carry a further member"},
		{words.Machines(&cke.InventoryStatus{}), ""},
		{words.LastRead(now, s), "last read 12s ago"},
		{words.LastRead(now, &cke.InventoryStatus{}), "never read"},
		{words.InventoryChange(cke.InventoryChange{Cause: cke.CauseRetired, Old: "a", New: "b", Generation: 7}), "revision 7: b in place of a (retired)"},
		{words.InventoryChange(cke.InventoryChange{Cause: cke.CauseSpare, New: "b", Generation: 7, RolledBackAt: now}), "revision 7: b (spare), rolled back"},
		{words.InventoryChange(cke.InventoryChange{Cause: cke.CauseFewer, Old: "a", Generation: 7}), "revision 7: without a (fewer)"},
		{words.InventoryChange(cke.InventoryChange{Cause: cke.CauseMoved, Old: "a", New: "a", Generation: 7}), "revision 7: a (moved)"},
		{words.InventoryChange(cke.InventoryChange{Cause: cke.CauseTemplate, Generation: 7}), "revision 7: the cluster file (template)"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
