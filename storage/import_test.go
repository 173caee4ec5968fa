package storage

import (
	"errors"
	"testing"
	"time"

	"cke"
)

func TestImport_DeclaresAClusterWithItsIdentity(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	c := testCluster("prod")
	i := Imported{Cluster: c, Source: []byte("name: prod"), Secrets: map[string][]byte{cke.ImportSecret: []byte("sealed")},
		Incarnation: cke.NewImport(c, "c1", cke.Import{Members: []cke.OldMember{{ID: "o1", Name: "old", URL: "http://10.0.0.9:2379"}}, PlainPeers: true}, time.Now())}
	spec, err := s.Import(ctx, i, "me@here", time.Now())
	if err != nil || spec.Generation != 1 || spec.Etcd.Version == "" {
		t.Fatalf("%+v, %v", spec, err)
	}
	if b, err := s.Secrets("prod").Secret(ctx, cke.ImportSecret); err != nil || string(b) != "sealed" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := s.Import(ctx, i, "me@here", time.Now()); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("again: %v", err)
	}
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(c.WithDefaults(), nil, time.Now())); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("a second cluster: %v", err)
	}
	inc := i.Incarnation
	turned := *inc.Import
	turned.Reverting, turned.Members = true, nil // who they are never changes
	inc.Import = &turned
	if err := term.UpdateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	id, err := term.Identity(ctx)
	if got := id.Incarnation.Importing(); err != nil || got == nil || !got.Reverting || len(got.Members) != 1 || !got.PlainPeers || id.Incarnation.ClusterID != "c1" {
		t.Errorf("%+v, %v", id.Incarnation, err)
	}
	setCluster(t, s, "other")
	i.Cluster.Name = "other"
	if _, err := s.Import(ctx, i, "me@here", time.Now()); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("over a cluster of cke: %v", err)
	}
}

// An older daemon would not ask the members of the old cluster.
func TestImport_NeedsTheSchema(t *testing.T) {
	s := newStore(t)
	c := testCluster("prod")
	_, err := s.Import(testContext(t), Imported{Cluster: c, Incarnation: cke.NewImport(c, "c1", cke.Import{}, time.Now())}, "me@here", time.Now())
	if !schemaCode(err) {
		t.Error(err)
	}
}

// What a deleted cluster of this name marked on nodes is on record until the first member of the import is added.
func TestImport_KnowsWhatWasDeletedBefore(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	c := testCluster("prod")
	term := campaign(t, s, "prod", "a")
	gone := cke.NewIncarnation(c.WithDefaults(), nil, time.Now())
	for _, err := range []error{term.CreateIncarnation(ctx, gone), s.RequestDelete(ctx, "prod", "me@here"), term.FinishDelete(ctx)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	inc := cke.NewImport(c, "c1", cke.Import{Members: []cke.OldMember{{ID: "o1", Name: "old", URL: "http://10.0.0.9:2379"}}}, time.Now())
	if _, err := s.Import(ctx, Imported{Cluster: c, Incarnation: inc}, "me@here", time.Now()); err != nil {
		t.Fatal(err)
	}
	id, err := campaign(t, s, "prod", "a").Identity(ctx)
	if err != nil || id.MarkedLater([]cke.NodeStatus{{Over: []string{gone.ID}}}) != nil || id.MarkedLater([]cke.NodeStatus{{Over: []string{"later"}}}) == nil {
		t.Errorf("deleted %v, %v", id.Deleted, err)
	}
}
