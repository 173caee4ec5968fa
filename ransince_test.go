package cke_test

import (
	"encoding/json"
	"testing"
	"time"

	"cke"
)

// A recovery on record by an earlier cke does not have when members were last started: that they ran before says nothing. One of members
// none of which had a container has that.
func TestRanSince_OfARecoveryThatHasNoStarts(t *testing.T) {
	j := cke.Join{ID: "j1", Node: cke.Node{Hostname: "n1"}}
	c := cke.Container{State: cke.ContainerExited, StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, row := range []struct {
		ran  map[cke.JoinID]time.Time
		want bool
	}{{nil, false}, {map[cke.JoinID]time.Time{}, true}, {map[cke.JoinID]time.Time{"j1": c.StartedAt}, false}} {
		text, err := json.Marshal(cke.Restoration{Order: cke.RestoreOrder{Survivor: "n2"}, Fence: []cke.JoinID{"j1"}, Ran: row.ran})
		if err != nil {
			t.Fatal(err)
		}
		var stored cke.Restoration
		if err := json.Unmarshal(text, &stored); err != nil {
			t.Fatal(err)
		}
		if got := stored.RanSince(j, c); got != row.want {
			t.Errorf("%v: %v, stored as %s", row.ran, got, text)
		}
	}
}
