package backup_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
)

// aged is a bucket in which probes, and the locks of others, are two hours old.
type aged struct{ *backuptest.Memory }

func (a aged) List(ctx context.Context, prefix string) ([]backup.Object, error) {
	list, err := a.Memory.List(ctx, prefix)
	for i, o := range list {
		if strings.Contains(o.Name, "/probe-") || strings.Contains(o.Name, "-other") {
			list[i].ModTime = o.ModTime.Add(-2 * time.Hour)
		}
	}
	return list, err
}

// A policy may let objects be created and forbid that they are deleted: what is not about deleting goes on.
func TestNoDeletion_ProbesDrillsAndLocksGoOn(t *testing.T) {
	f := makeFixture(t, false)
	refused := 0
	s := f.store(t, &backuptest.Faulty{Bucket: aged{f.bucket}, Before: func(_ context.Context, op, name string) error {
		if op == "delete" {
			if strings.Contains(name, "-other") {
				refused++
			}
			return errors.New("api error AccessDenied: Access Denied")
		}
		return nil
	}})
	for range 2 { // the target is opened again
		m, err := s.Mark(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := m.Probe(t.Context(), true); err != nil {
				t.Error(err)
			}
		}
	}
	if list, err := f.bucket.List(t.Context(), ".target/probe-"); err != nil || len(list) != 1 {
		t.Errorf("%d probes, %v", len(list), err)
	}
	failed := "prod/a1b2/failed/" + time.Now().UTC().Add(-time.Hour).Format("20060102T150405.000Z") + "-00"
	if err := f.bucket.Create(t.Context(), failed, backup.Content{Head: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Drill(t.Context(), backup.At{}, nil); err != nil {
		t.Errorf("drill: %v", err)
	}
	if v, err := s.LastVerified(t.Context(), "a1b2"); err != nil || v == nil {
		t.Errorf("verified %+v, %v", v, err)
	}
	for n := range 20 {
		f.bucket.Set(fmt.Sprintf(".locks/prod/reading-other%d-0000000001", n), []byte("{}"))
	}
	if _, err := s.Extract(t.Context(), backup.At{}, filepath.Join(t.TempDir(), "db"), backup.ExtractOptions{}); err != nil || refused > 2 {
		t.Errorf("%v, %d attempts to remove locks", err, refused)
	}
}

// A policy may refuse the second object of a name with the same words as a deletion: what is kept then proves nothing, and a fresh one does.
func TestNoDeletion_AKeptProbeThatIsRefusedIsNotBelieved(t *testing.T) {
	denied := errors.New("api error AccessDenied: Access Denied")
	mem, readOnly, now := backuptest.NewMemory(), false, time.Now()
	b := &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, name string) error {
		if op == "delete" || op == "create" && (readOnly || mem.Get(name) != nil) {
			return denied
		}
		return nil
	}}
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }}
	m, err := s.Mark(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	left := func() int {
		list, err := mem.List(t.Context(), ".target/probe-")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for n := range 30 * 24 {
		if err := m.Probe(t.Context(), true); err != nil {
			t.Fatalf("hour %d: %v", n, err)
		}
		now = now.Add(time.Hour)
	}
	if left() > 40 {
		t.Errorf("%d probes are left after a month", left())
	}
	before := left()
	readOnly, now = true, now.Add(24*time.Hour)
	for range 3 {
		if err := m.Probe(t.Context(), true); !errors.Is(err, denied) {
			t.Errorf("read-only: %v", err)
		}
	}
	readOnly = false
	if err := m.Probe(t.Context(), true); err != nil || left() > before+1 {
		t.Errorf("%v, %d probes left", err, left())
	}
}

// What is kept is there already, and a full target says so as before: a fresh one each day does not fit.
func TestNoDeletion_AFullTargetIsNoticedWithinADay(t *testing.T) {
	full := errors.New("no space left")
	mem, isFull, now := backuptest.NewMemory(), false, time.Now()
	b := &backuptest.Faulty{Bucket: mem, Before: func(_ context.Context, op, name string) error {
		switch {
		case op == "delete":
			return errors.New("api error AccessDenied: Access Denied")
		case op == "create" && isFull && mem.Get(name) == nil:
			return full
		}
		return nil
	}}
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }}
	m, err := s.Mark(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 30 * 24 {
		if err := m.Probe(t.Context(), true); err != nil {
			t.Fatalf("hour %d: %v", n, err)
		}
		now = now.Add(time.Hour)
	}
	if list, err := mem.List(t.Context(), ".target/probe-"); err != nil || len(list) > 31 {
		t.Errorf("%d probes are left after a month, %v", len(list), err)
	}
	isFull, now = true, now.Add(24*time.Hour)
	for range 3 {
		if err := m.Probe(t.Context(), true); !errors.Is(err, full) {
			t.Errorf("full: %v", err)
		}
	}
	isFull = false
	if err := m.Probe(t.Context(), true); err != nil {
		t.Error(err)
	}
}
