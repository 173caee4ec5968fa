package storage

import (
	"slices"
	"testing"
	"time"

	"cke"
)

// What was seen of a node is read by the leader and by ckecli, also if it cannot be decoded, and counts no more once the operator names the
// node again for the deletion that it contradicts.
func TestSightings_CountUntilTheNodeIsNamedAgain(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "a")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.RequestDelete(ctx, "prod", "me@here", cke.Destroyed{Name: "n2"}, cke.Destroyed{Name: "n3"}))
	spec, err := s.Spec(ctx, "prod")
	must(err)
	must(term.PutSightings(ctx, cke.Sighting{Order: spec.DeletionID(), Node: "n2", At: time.Now().UTC()}, cke.Sighting{Order: spec.DeletionID(), Node: "n3", At: time.Now().UTC()}))
	_, err = s.client.Put(ctx, s.keys.sighting("prod", spec.DeletionID(), "n3"), "{")
	must(err)
	seen := func(want ...string) {
		t.Helper()
		for name, read := range map[string]func() (cke.Identity, error){
			"the leader": func() (cke.Identity, error) { return term.Identity(ctx) },
			"ckecli":     func() (cke.Identity, error) { return s.Identity(ctx, "prod") },
			"a watch":    func() (cke.Identity, error) { return (<-s.WatchCluster(ctx, "prod")).Identity, nil },
		} {
			id, err := read()
			must(err)
			var nodes []string
			for _, one := range id.Sightings(spec.DeletionID()) {
				nodes = append(nodes, one.Node)
			}
			if slices.Sort(nodes); !slices.Equal(nodes, want) {
				t.Errorf("%s: %v, want %v", name, nodes, want)
			}
		}
	}
	seen("n2", "n3")
	must(s.RequestDelete(ctx, "prod", "me@here"))
	seen("n2", "n3")
	must(s.RequestDelete(ctx, "prod", "me@here", cke.Destroyed{Name: "n2"}))
	seen("n3")
	must(s.RequestDelete(ctx, "prod", "me@here", cke.Destroyed{Name: "n3"}, cke.Destroyed{Name: "n4"}))
	seen()
}
