package storage

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
)

func schemaCode(err error) bool {
	var e *cke.Error
	return errors.As(err, &e) && e.Code == cke.CodeSchema && e.Unchanged
}

// The schema is raised only once no daemon is left that does not know it; from then on none leads or writes.
func TestRaiseSchema_WaitsForEveryDaemonAndShutsOlderOnesOut(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	if now, err := s.Schema(ctx); err != nil || now.Version != 1 {
		t.Fatalf("%+v, %v", now, err)
	}
	older := s.keys.candidate("prod", "older") // as a daemon of before queues up
	if _, err := s.client.Put(ctx, older, `{"host":"boot-2","term":0,"since":"2026-01-01T00:00:00Z"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.RaiseSchema(ctx, "me@here"); !schemaCode(err) {
		t.Fatalf("raised beside an older daemon: %v", err)
	}
	if _, err := s.client.Delete(ctx, older); err != nil {
		t.Fatal(err)
	}
	term := campaign(t, s, "prod", "here")
	candidates, err := s.Candidates(ctx)
	if err != nil || len(candidates) != 1 || candidates[0].Schema != SchemaVersion || candidates[0].Host != "here" || candidates[0].Cluster != "prod" {
		t.Fatalf("%+v, %v", candidates, err)
	}
	if now, err := s.RaiseSchema(ctx, "me@here"); err != nil || now.Version != SchemaVersion || now.By != "me@here" {
		t.Fatalf("%+v, %v", now, err)
	}
	if err := term.PutStatus(ctx, cke.Status{Cluster: "prod"}); err != nil {
		t.Errorf("the leader cannot write any more: %v", err)
	}

	// A newer cke raises it further, while this one leads and its ckecli is at work.
	b, err := json.Marshal(StoreSchema{Version: SchemaVersion + 1, Since: time.Now()})
	if err == nil {
		_, err = s.client.Put(ctx, s.keys.version(), string(b))
	}
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.Spec(ctx, "prod")
	if err != nil {
		t.Fatal(err)
	}
	unchanged := func() error { // first, when this store does not know yet that the schema was raised
		_, err := s.SetSpec(ctx, "prod", testCluster("prod"), []byte(stored.Source), "me", SetOptions{})
		return err
	}()
	for name, err := range map[string]error{
		"an unchanged cluster file": unchanged,
		"a leader's write":          term.PutStatus(ctx, cke.Status{Cluster: "prod"}),
		"a person's write":          s.RequestDelete(ctx, "prod", "me@here"),
		"raising to less":           func() error { _, err := s.RaiseSchema(ctx, "me@here"); return err }(),
		"asking whether it may":     s.MayWrite(),
		"setting a cluster file": func() error {
			_, err := s.SetSpec(ctx, "next", testCluster("next"), nil, "me", SetOptions{})
			return err
		}(),
	} {
		if !schemaCode(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Spec(ctx, "prod"); err != nil {
		t.Errorf("it cannot be read: %v", err)
	}
	if err := term.Resign(ctx); err != nil {
		t.Errorf("it cannot give its term up: %v", err)
	}
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := s.Campaign(short, "prod", "again"); err == nil || !errors.Is(err, context.DeadlineExceeded) && !schemaCode(err) {
		t.Errorf("an older daemon leads: %v", err)
	}
}

// A new store has the schema of the daemon that made it.
func TestOpenSecrets_GivesANewStoreTheSchema(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Schema(ctx); err != nil || now.Version != SchemaVersion {
		t.Errorf("%+v, %v", now, err)
	}
	setCluster(t, s, "prod")
	if names, err := s.Clusters(ctx); err != nil || !slices.Equal(names, []string{"prod"}) {
		t.Errorf("%v, %v", names, err)
	}
}

// A daemon of before would lift a freeze without putting aside who is named as wrong: such a task needs a store in which none leads.
func TestAddTask_NamesWhoIsWrongOnlyWhereNoOlderDaemonLeads(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	lift := cke.NewTask(cke.TaskUnfreeze, "", "f1", "me@here", time.Now())
	if err := s.AddTask(ctx, "prod", lift); err != nil {
		t.Errorf("nobody is named: %v", err)
	}
	lift = cke.NewTask(cke.TaskUnfreeze, "", "f1", "me@here", time.Now())
	lift.Wrong = []string{"cp3"}
	if err := s.AddTask(ctx, "prod", lift); !schemaCode(err) {
		t.Errorf("a daemon of before may lead: %v", err)
	}
	if r, err := s.RequestsOf(ctx, "prod"); err != nil || len(r.Tasks) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.RaiseSchema(ctx, "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := s.AddTask(ctx, "prod", lift); err != nil {
		t.Error(err)
	}
}

// A daemon of before would start a member again that is put aside: none is, whoever asks for it, where one may lead.
func TestPutJoins_PutsMembersAsideOnlyWhereNoOlderDaemonLeads(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	c := setCluster(t, s, "prod").Cluster.WithDefaults()
	term := campaign(t, s, "prod", "here")
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(c, nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	put := func(apart bool) error {
		t.Helper()
		id, err := term.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j := id.Joins[0]
		j.Apart = apart
		return term.PutJoins(ctx, id, j)
	}
	if err := put(true); !schemaCode(err) {
		t.Errorf("a daemon of before may lead: %v", err)
	}
	if id, err := term.Identity(ctx); err != nil || id.Joins[0].Apart {
		t.Errorf("%+v, %v", id.Joins[0], err)
	}
	if err := put(false); err != nil {
		t.Errorf("nobody is put aside: %v", err)
	}
	if _, err := s.RaiseSchema(ctx, "me@here"); err != nil {
		t.Fatal(err)
	}
	if err := put(true); err != nil {
		t.Error(err)
	}
	if _, err := s.client.Delete(ctx, s.keys.version()); err != nil { // a store in which it was put aside before that
		t.Fatal(err)
	}
	if err := put(true); err != nil {
		t.Errorf("it was put aside before: %v", err)
	}
}
