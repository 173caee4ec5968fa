package storage

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// Requirements C1, D1: a generation for each meaning of the file.
func TestSetSpec_MakesAGenerationOnlyForAnotherMeaning(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	plain := testCluster("prod")
	pinned := testCluster("prod")
	pinned.Options.Etcd.Version = cke.DefaultEtcdVersion // the default, written down
	other := testCluster("prod")
	other.Options.Etcd.ClientPort = 12379

	type step struct {
		name       string
		cluster    cke.Cluster
		source     string
		generation int64
		setBy      string // who stands in the stored spec afterwards
	}
	for _, step := range []step{
		{"first", plain, "a", 1, "first"},
		{"same", plain, "a", 1, "first"},
		{"comment", plain, "a # why", 1, "comment"},
		{"default written down", pinned, "b", 1, "default written down"},
		{"another port", other, "c", 2, "another port"},
		{"back", pinned, "b", 3, "back"},
	} {
		got, err := s.SetSpec(ctx, "prod", step.cluster, []byte(step.source), step.name, SetOptions{})
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		stored, err := s.Spec(ctx, "prod")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(got, stored); d != "" {
			t.Errorf("%s: returned and stored differ:\n%s", step.name, d)
		}
		if got.Generation != step.generation || got.Source != step.source || got.SetBy != step.setBy {
			t.Errorf("%s: got generation %d, source %q, by %q", step.name, got.Generation, got.Source, got.SetBy)
		}
		if d := cmp.Diff(step.cluster, got.Cluster); d != "" {
			t.Errorf("%s: not kept as written:\n%s", step.name, d)
		}
	}
	log, err := s.SpecLog(ctx, "prod")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, spec := range log {
		told = append(told, fmt.Sprintf("%d by %s", spec.Generation, spec.SetBy))
	}
	if d := cmp.Diff([]string{"3 by back", "2 by another port", "1 by default written down"}, told); d != "" {
		t.Errorf("log:\n%s", d)
	}
}

func TestSetSpec_RefusesWhatAnArchiveCouldNotHold(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	for _, size := range []int{maxSpec - 4096, maxSpec + 1} {
		_, err := s.SetSpec(ctx, "prod", testCluster("prod"), bytes.Repeat([]byte("x"), size), "me", SetOptions{})
		if refused := cke.CodeOf(err) == cke.CodeConfig; refused != (size > maxSpec) || err != nil && !refused {
			t.Errorf("%d bytes: got %v", size, err)
		}
	}
	if err := s.RequestDelete(ctx, "prod", "me"); err != nil {
		t.Fatal(err)
	}
	if err := campaign(t, s, "prod", "here").FinishDelete(ctx); err != nil {
		t.Error(err)
	}
}

func TestSetSpec_RefusesAnUnexpectedGeneration(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	set := func(generation int64, port int) error {
		c := testCluster("prod")
		c.Options.Etcd.ClientPort = port
		_, err := s.SetSpec(ctx, "prod", c, nil, "me", SetOptions{IfGeneration: &generation})
		return err
	}
	for _, step := range []struct {
		generation int64
		port       int
		refused    bool
	}{{1, 1000, true}, {0, 1000, false}, {0, 1001, true}, {1, 1001, false}, {1, 1002, true}} {
		err := set(step.generation, step.port)
		if refused := errors.Is(err, cke.ErrConflict) && cke.CodeOf(err) == cke.CodeConflict; refused != step.refused || err != nil && !refused {
			t.Errorf("%+v: got %v", step, err)
		}
	}
}

// A text that means the same has the same generation, and is somebody's work all the same.
func TestSetSpec_RefusesAnUnexpectedText(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	for _, step := range []struct {
		before, text string
		refused      bool
	}{{"", "# one", false}, {"", "# two", true}, {"# one", "# two", false}, {"# one", "# three", true}} {
		spec, err := s.SetSpec(ctx, "prod", testCluster("prod"), []byte(step.text), "me", SetOptions{IfSource: &step.before})
		if refused := errors.Is(err, cke.ErrConflict) && cke.CodeOf(err) == cke.CodeConflict; refused != step.refused || err == nil && spec.Generation != 1 || err != nil && !refused {
			t.Errorf("%+v: got revision %d, %v", step, spec.Generation, err)
		}
	}
}

func TestSetSpec_RefusesAClusterThatIsBeingDeleted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.RequestDelete(ctx, "prod", "me@here"); !errors.Is(err, cke.ErrNotFound) {
		t.Errorf("deletion of a cluster that is not there: %v", err)
	}
	setCluster(t, s, "prod")
	for range 2 {
		if err := s.RequestDelete(ctx, "prod", "me@here"); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := s.Spec(ctx, "prod")
	if err != nil || !spec.Deleting() || spec.DeleteRequestedBy != "me@here" || spec.Generation != 1 {
		t.Errorf("got %+v, %v", spec, err)
	}
	if _, err := s.SetSpec(ctx, "prod", testCluster("prod"), nil, "me", SetOptions{}); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

func TestSetSpec_RefusesNamesThatCouldBeOtherKeys(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{"", "a/spec", "A", "../x"} {
		if _, err := s.SetSpec(testContext(t), name, cke.Cluster{Name: name}, nil, "me", SetOptions{}); cke.CodeOf(err) != cke.CodeCluster {
			t.Errorf("%q: got %v", name, err)
		}
	}
	if _, err := s.SetSpec(testContext(t), "prod", cke.Cluster{Name: "test"}, nil, "me", SetOptions{}); cke.CodeOf(err) != cke.CodeConfig {
		t.Errorf("got %v", err)
	}
}

func TestSetSpec_CountsEveryOneOfConcurrentChanges(t *testing.T) {
	s := newStore(t)
	const people = 8
	var wg sync.WaitGroup
	for i := range people {
		wg.Go(func() {
			c := testCluster("prod")
			c.Options.Etcd.ClientPort = 10000 + i
			if _, err := s.SetSpec(testContext(t), "prod", c, nil, "me", SetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	log, err := s.SpecLog(testContext(t), "prod")
	if err != nil || len(log) != people || log[0].Generation != people {
		t.Errorf("got %d revisions, %v", len(log), err)
	}
}

func TestSpec_OfAClusterThatIsNotThere(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	_, spec := s.Spec(ctx, "prod")
	_, log := s.SpecLog(ctx, "prod")
	_, status := s.Status(ctx, "prod")
	_, record := s.Record(ctx, "prod", 1)
	_, leader := s.Leader(ctx, "prod")
	_, offered := s.OfferedHostKey(ctx, "prod", "10.0.0.11")
	_, key := s.SSHKey(ctx, "prod", "cp1")
	_, campaign := s.Campaign(ctx, "prod", "here")
	_, secret := s.Secrets("prod").Secret(ctx, "ca")
	for what, err := range map[string]error{"spec": spec, "log": log, "status": status, "record": record, "leader": leader,
		"offered key": offered, "SSH key": key, "campaign": campaign, "secret": secret,
		"resign":  s.RequestResign(ctx, "prod"),
		"request": s.PutRequest(ctx, "prod", "defrag", "me", nil),
		"pin":     s.PinHostKey(ctx, "prod", "10.0.0.11", "ssh-ed25519 AAAA"),
	} {
		if !errors.Is(err, cke.ErrNotFound) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestRequestDelete_NamesDestroyedNodesAlsoLater(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	for _, destroyed := range [][]cke.Destroyed{nil, {{Name: "n2", IDs: []string{"2"}}}, {{Name: "n2", IDs: []string{"2", "b"}}}, {{Name: "n3"}}} {
		if err := s.RequestDelete(ctx, "prod", "me", destroyed...); err != nil {
			t.Fatal(err)
		}
	}
	spec, err := s.Spec(ctx, "prod")
	if err != nil || !spec.Deleting() || strings.Join(spec.Destroyed, " ") != "n2 n3" || strings.Join(spec.DestroyedIDs, " ") != "2 b" {
		t.Errorf("%v, %v, %v", spec.Destroyed, spec.DestroyedIDs, err)
	}
}
