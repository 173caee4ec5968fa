package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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

// Whoever gives up a declaration stops no member of the cluster that it continues: what was declared was not deleted, but for what the
// declaration itself made and gave up.
func TestIdentity_HasNothingOfAClusterWhoseDeclarationWasDeleted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
	inc.State, inc.Previous, inc.Replaced = cke.Formed, []string{"gaveup"}, []string{"first"}
	was := cke.NewIdentity(&inc, inc.Founders)
	task := cke.NewTask(cke.TaskRestore, "", "", "me@here", time.Now())
	task.Restore = &cke.RestoreOrder{Target: "file:///b", Source: "prod"}
	if err := s.AskRestore(ctx, "prod", task, RestoreAsked{Declare: &Declared{Cluster: testCluster("prod"), Source: []byte("name: prod"), Identity: was}}); err != nil {
		t.Fatal(err)
	}
	term := campaign(t, s, "prod", "a")
	if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	id, err := s.Identity(ctx, "prod")
	if err != nil || id.Deleted != nil || !slices.Equal(id.GaveUp, []string{"gaveup"}) {
		t.Fatalf("deleted %v, given up %v, %v", id.Deleted, id.GaveUp, err)
	}
	for what, later := range map[string]bool{inc.ID: true, "first": true, string(inc.Founders[0].ID): true, "gaveup": false} {
		if got := id.MarkedLater([]cke.NodeStatus{{Over: []string{what, "gaveup"}}}); (got != nil) != later {
			t.Errorf("a mark of %s: %v", what, got)
		}
	}
}

// A node that left the cluster may still have the mark that its membership ended, long after its volume is gone.
func TestIdentity_HasMembershipsWhoseVolumesWereGoneAtTheDeletion(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	term := campaign(t, s, "prod", "a")
	inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	id, err := term.Identity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	left := inc.Founders[0]
	left.EndedAt, left.RemovedAt = time.Now(), time.Now()
	if err := term.PutJoins(ctx, id, left); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "prod")
	again, err := s.Identity(ctx, "prod")
	if err != nil || !slices.Contains(again.Deleted, string(left.ID)) {
		t.Fatalf("%s is not in %v, %v", left.ID, again.Deleted, err)
	}
	if got := again.MarkedLater([]cke.NodeStatus{{Over: []string{string(left.ID)}}}); got != nil {
		t.Errorf("the mark is of something later: %v", got)
	}
}

// Archives beyond the last ones are dropped. What they named is known all the same: a target may have backups of it.
func TestIdentity_HasWhatDroppedArchivesNamed(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	var deleted, gaveUp []string
	for i := range 2*keptArchives + 3 {
		setCluster(t, s, "prod")
		term := campaign(t, s, "prod", "a")
		inc := cke.NewIncarnation(testCluster("prod").WithDefaults(), nil, time.Now())
		if i == 1 { // a declaration that was given up
			inc = cke.NewAwaiting(time.Now())
			inc.Previous = []string{"gaveup"}
			gaveUp = inc.Previous
		} else {
			deleted = append(deleted, inc.ID, string(inc.Founders[0].ID))
		}
		if err := errors.Join(term.CreateIncarnation(ctx, inc), s.RequestDelete(ctx, "prod", "me@here"), term.FinishDelete(ctx)); err != nil {
			t.Fatal(i, err)
		}
	}
	if n := keys(t, s, s.keys.archives("prod")); n != keptArchives {
		t.Errorf("%d archives", n)
	}
	id, err := s.Identity(ctx, "prod")
	if err != nil || !slices.Equal(id.GaveUp, gaveUp) {
		t.Errorf("given up %v, %v", id.GaveUp, err)
	}
	for _, want := range deleted {
		if !slices.Contains(id.Deleted, want) {
			t.Fatalf("%s is not among %d ids", want, len(id.Deleted))
		}
	}
}

// The ids that an archive keeps of dropped ones have a bound: the oldest are forgotten.
func TestArchive_ForgetsTheOldestIDsOfDroppedArchives(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	var ids []string
	for i := range keptDropped {
		ids = append(ids, fmt.Sprint("id", i))
	}
	for i := range keptArchives {
		op, err := put(s.keys.archive("prod", fmt.Sprint(i)), Archive{Dropped: droppedIDs{Deleted: ids}, Identity: cke.NewIdentity(&cke.Incarnation{ID: "last"}, nil)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.commit(ctx, nil, []clientv3.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	_, dropped, err := s.dropArchives(ctx, "prod")
	if got := dropped.Deleted; err != nil || len(got) != keptDropped || got[0] != "id1" || got[keptDropped-1] != "last" {
		t.Errorf("%d ids, %v", len(dropped.Deleted), err)
	}
}
