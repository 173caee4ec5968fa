package storage

import (
	"slices"
	"testing"
	"time"

	"cke"
)

// Who leads a cluster that was declared again knows what the deleted ones of its name were, until it is formed: marks on nodes name that.
func TestIdentity_HasWhatWasDeleted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "a")
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
	inc.Previous, inc.Replaced = []string{"gaveup"}, []string{"first"}
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	term = campaign(t, s, "prod", "a")
	for name, read := range map[string]func() (cke.Identity, error){
		"the leader": func() (cke.Identity, error) { return term.Identity(ctx) },
		"ckecli":     func() (cke.Identity, error) { return s.Identity(ctx, "prod") },
	} {
		id, err := read()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{inc.ID, "gaveup", "first", string(inc.Founders[0].ID)} {
			if !slices.Contains(id.Deleted, want) {
				t.Errorf("%s: %s is not in %v", name, want, id.Deleted)
			}
		}
	}
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	if id, err := term.Identity(ctx); err != nil || id.Deleted != nil {
		t.Errorf("%v, %v", id.Deleted, err)
	}
}
