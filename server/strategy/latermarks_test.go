package strategy_test

import (
	"cmp"
	"strings"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// A copy of the store without a formed incarnation, on whose nodes a mark names what came after it: the cluster that followed may
// serve on other nodes, so that none is bootstrapped or restored beside it. What a deletion marked is on record.
func TestDecide_MakesNoClusterBesideALaterMark(t *testing.T) {
	blank := func(marks ...string) *scene {
		s := formed(3).with(func(s *scene) {
			s.Identity, s.Seen.Etcd = cke.Identity{}, cke.EtcdStatus{}
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Containers, s.Seen.Nodes[i].Volumes = nil, nil
				s.Seen.Nodes[i].ClientPort, s.Seen.Nodes[i].PeerPort = cke.PortClosed, cke.PortClosed
			}
			s.node(2).Over = marks
		})
		return s
	}
	abandoned := func(s *scene) {
		s.Identity.Incarnation = &cke.Incarnation{ID: "gaveup", State: cke.Abandoned, Previous: []string{"earlier"}}
	}
	awaiting := func(s *scene) {
		s.Identity.Incarnation = &cke.Incarnation{ID: "awaits", State: cke.Awaiting, Replaced: []string{"first", "second"}}
	}
	unknown := func(s *scene) { s.Identity = cke.Identity{}.Awaiting(noon) }
	imported := cke.RestoreOrder{Source: "demo.import", Lineage: "ab12"}
	deleted := func(s *scene) { s.Identity.Deleted = []string{"second", "j1"} }
	onlyDeclared := func(s *scene) { s.Identity.GaveUp = []string{"calledoff"} }
	manyEnded := func(s *scene) {
		for range cke.KeptTombstones {
			s.Identity.Ended = append(s.Identity.Ended, cke.Join{ID: "gone", EndedAt: noon, RemovedAt: noon})
		}
	}
	for name, c := range map[string]struct {
		scene *scene
		order cke.RestoreOrder
		free  bool
	}{
		"no mark": {scene: blank(), free: true},
		"an incarnation that nobody knows is over":           {scene: blank("first")},
		"of an incarnation that nobody knows":                {scene: blank("j9")},
		"an operator names what to restore":                  {scene: blank("first"), order: cke.RestoreOrder{Lineage: "first"}},
		"what is restored is another cluster's":              {scene: blank("first"), order: imported},
		"declared for that, and nothing is known before it":  {scene: blank("first").with(unknown), order: imported},
		"declared for that, after a deletion":                {scene: blank("second").with(unknown).with(deleted), order: imported, free: true},
		"declared, and nothing is known before it":           {scene: blank("first").with(unknown)},
		"declared so, and an operator names what to restore": {scene: blank("first").with(unknown), order: cke.RestoreOrder{Lineage: "first"}},
		"it was deleted":                                           {scene: blank("j0", "j1", "second").with(deleted), free: true},
		"another one came after it was deleted":                    {scene: blank("second", "third").with(deleted)},
		"a member of another one ended after that":                 {scene: blank("second", "j9").with(deleted)},
		"a bootstrap was given up":                                 {scene: blank("earlier").with(abandoned), free: true},
		"another one came after that":                              {scene: blank("gaveup", "later").with(abandoned)},
		"declared: what was replaced is over":                      {scene: blank("j7", "first").with(awaiting), free: true},
		"declared: a mark that nobody knows":                       {scene: blank("j9").with(awaiting), free: true},
		"declared: a member ended after it was noted":              {scene: blank("first", "j9").with(awaiting)},
		"declared so, and many ended before":                       {scene: blank("first", "j9").with(awaiting).with(manyEnded), free: true},
		"declared: what it continues from is over":                 {scene: blank("second").with(awaiting)},
		"declared: a restore of it was canceled by an earlier cke": {scene: blank("second", "calledoff").with(awaiting).with(func(s *scene) { s.Identity.Incarnation.Previous = []string{"calledoff"} })},
		"declared: a bootstrap was given up before it":             {scene: blank("second", "gaveup").with(awaiting).with(func(s *scene) { s.Identity.Incarnation.Previous = []string{"gaveup"} })},
		"declared: so marked, and not over":                        {scene: blank("gaveup", "first").with(awaiting).with(func(s *scene) { s.Identity.Incarnation.Previous = []string{"gaveup"} }), free: true},
		"a declaration was deleted":                                {scene: blank("j1", "calledoff").with(onlyDeclared)},
		"a declaration was deleted, of what nobody knows":          {scene: blank("calledoff").with(onlyDeclared), free: true},
		"declared again after only the declaration was deleted":    {scene: blank("second", "calledoff").with(awaiting).with(onlyDeclared)},
		"declared so, and what it continues from is not over":      {scene: blank("first", "calledoff").with(awaiting).with(onlyDeclared), free: true},
		"declared again after a deletion":                          {scene: blank("second").with(awaiting).with(deleted), free: true},
		"declared again, and a member of what followed ended":      {scene: blank("second", "j9").with(awaiting).with(deleted)},
		"declared again, and a restore was canceled":               {scene: blank("second", "calledoff").with(awaiting).with(deleted).with(func(s *scene) { s.Identity.Incarnation.Previous = []string{"calledoff"} }), free: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(c.scene.Input)
			_, begun := d.Operation.(op.Bootstrap)
			awaits := c.scene.Identity.Incarnation != nil && c.scene.Identity.Incarnation.State == cke.Awaiting
			if begun != (c.free && !awaits) || !begun && !awaits && (len(d.Blockers) != 1 || d.Blockers[0].Code != cke.CodeOlderStore || d.Blockers[0].Node != "n2" || d.Blockers[0].Remedy == "") {
				t.Errorf("%#v: %s %+v", d.Operation, d.Reason, d.Blockers)
			}
			c.order.Target, c.order.Source = "file:///b", cmp.Or(c.order.Source, "demo")
			why := strategy.RestoreRefusal(c.scene.Input, c.order)
			named := c.order.Source == "demo" && c.order.Lineage != ""
			if free := c.free || named; free != (why == nil) || why != nil && why.Code != cke.CodeOlderStore {
				t.Errorf("a restore: %v", why)
			}
			if why != nil && strings.Contains(why.Try+strings.Join(why.Facts, ""), "--lineage") != (c.order.Source == "demo") {
				t.Errorf("the way out: %v", why)
			}
		})
	}
}

// A live import adds its first member to the old cluster only when a bootstrap would start: a later mark keeps it from that, too.
func TestDecide_AddsNoMemberOfAnImportBesideALaterMark(t *testing.T) {
	for name, c := range map[string]struct {
		marks, deleted []string
		ended          bool
		free           bool
	}{
		"no mark":                  {free: true},
		"of an earlier cluster":    {marks: []string{"j1", "first"}},
		"it was deleted":           {marks: []string{"j1", "first"}, deleted: []string{"j1", "first"}, free: true},
		"another one came after":   {marks: []string{"first", "j9"}, deleted: []string{"j1", "first"}},
		"a member of the import":   {marks: []string{"was"}, ended: true, free: true},
		"a member ended before it": {marks: []string{"first"}, ended: true, free: true}, // the import began beside it
	} {
		t.Run(name, func(t *testing.T) {
			s := imported(3).unjoined(3).unjoined(2).unjoined(1)
			if c.ended {
				s.Identity.Ended = []cke.Join{{ID: "was", Incarnation: s.Identity.Incarnation.ID, EndedAt: noon}}
			}
			s.node(1).Over, s.Identity.Deleted = c.marks, c.deleted
			d := strategy.Decide(s.Input)
			if _, adds := d.Operation.(op.AddMember); adds != c.free || !adds && (d.Blockers[0].Code != cke.CodeOlderStore || d.Blockers[0].Node != "n1") {
				t.Errorf("%v: %s %+v", d.Operation, d.Reason, d.Blockers)
			}
		})
	}
}
