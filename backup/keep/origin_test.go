package keep

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
)

// A cluster is declared on a blank host, to be restored: what it has until then has an id of its own, which no backup names. The
// restored incarnation replaces the newest one that was on record.
func TestOriginOf_ReplacesTheIncarnationBeforeADeclaration(t *testing.T) {
	now := time.Now()
	was := func(state cke.IncarnationState, id string, replaced ...string) cke.Identity {
		return cke.Identity{Incarnation: &cke.Incarnation{ID: id, State: state, Replaced: replaced}}
	}
	for name, c := range map[string]struct {
		was      cke.Identity
		want     string
		replaced []string
	}{
		"formed":                           {was(cke.Formed, "life2", "life1"), "life2", []string{"life1", "life2"}},
		"declared on a blank host":         {was(cke.Formed, "life2", "life1").Awaiting(now), "life2", []string{"life1", "life2"}},
		"declared twice":                   {was(cke.Formed, "life2", "life1").Awaiting(now).Awaiting(now), "life2", []string{"life1", "life2"}},
		"declared, and nothing was known":  {cke.Identity{}.Awaiting(now), "", nil},
		"declared while it was restored":   {was(cke.Restoring, "life3", "life1", "life2").Awaiting(now), "life3", []string{"life1", "life2", "life3"}},
		"after more than a header is told": {was(cke.Formed, "9", "0", "1", "2", "3", "4", "5", "6", "7", "8"), "9", []string{"2", "3", "4", "5", "6", "7", "8", "9"}},
	} {
		inc := cke.NewRestoration(cke.Cluster{Name: "prod"}, c.was, cke.Restoration{
			Order: cke.RestoreOrder{Source: "prod"}, Snapshot: cke.Snapshot{Lineage: "life1", Revision: 7},
		}, now)
		again := cke.NewRestoration(cke.Cluster{Name: "prod"}, cke.Identity{Incarnation: &inc}, *inc.Restore, now)
		for _, i := range []cke.Incarnation{inc, again} {
			o := originOf("prod", i)
			if o == nil || o.Replaces != c.want || o.Lineage != "life1" {
				t.Errorf("%s: %+v, want %q", name, o, c.want)
			}
			told := slices.DeleteFunc(slices.Clone(i.Replaced), func(id string) bool { return !o.Follows(id) })
			if i.ID == inc.ID && !slices.Equal(told, c.replaced) {
				t.Errorf("%s: follows %q, want %q", name, told, c.replaced)
			}
		}
	}
}

// A restore finds more incarnations on nodes than a header names: those that it knew stay named.
func TestOriginOf_WhatWasFoundOnNodesPushesNothingOut(t *testing.T) {
	was := cke.Identity{Incarnation: &cke.Incarnation{ID: "life2", State: cke.Formed, Replaced: []string{"life1"}}}
	inc := cke.NewRestoration(cke.Cluster{Name: "prod"}, was, cke.Restoration{Order: cke.RestoreOrder{Source: "prod"}}, time.Now())
	for i := range 2 * toldReplaced {
		inc.Replaced = append(inc.Replaced, fmt.Sprint("found", i))
	}
	if o := originOf("prod", inc); !slices.Contains(o.Replaced, "life1") || !o.Follows(inc.Replaced[len(inc.Replaced)-1]) || len(o.Replaced) > 2*toldReplaced {
		t.Errorf("%q", o.Replaced)
	}
}

// Whoever waits for the comparison, or shows what lacks, hears of every change of it.
func TestLack_TellsOfEveryChange(t *testing.T) {
	told := 0
	l := &line{news: func() { told++ }}
	a, b := cke.Lacking{ID: "j1"}, cke.Lacking{ID: "j2"}
	for i, all := range [][]cke.Lacking{nil, {a}, {a, b}, {b}, nil} {
		l.lack(all)
		l.lack(all)
		if told != i+1 {
			t.Errorf("%d: %d times", i, told)
		}
	}
}
