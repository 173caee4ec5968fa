package backup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
)

// careless is a target that overwrites what is there.
type careless struct{ *backuptest.Memory }

func (c careless) Create(ctx context.Context, name string, content backup.Content) error {
	if err := c.Memory.Delete(ctx, name); err != nil {
		return err
	}
	return c.Memory.Create(ctx, name, content)
}

func TestMark_NoticesATargetThatOverwrites(t *testing.T) {
	for _, b := range []backup.Bucket{backuptest.NewMemory(), careless{backuptest.NewMemory()}} {
		s := &backup.Store{Bucket: b, Cluster: "prod"}
		for range 2 {
			m, err := s.Mark(t.Context(), "")
			if _, is := b.(careless); err != nil || m.Overwrites != is {
				t.Errorf("%T: overwrites %v, %v", b, m.Overwrites, err)
			}
		}
		if list := names(t, b); len(list) != 1 {
			t.Errorf("%T: %q", b, list)
		}
	}
}

// A target that answers reads and keeps writes waiting holds up nobody who opens it: what is written next tells.
func TestMark_DoesNotWaitForATargetThatIsSilentToWrites(t *testing.T) {
	silent := false
	b := &backuptest.Faulty{Bucket: backuptest.NewMemory(), Before: func(ctx context.Context, op, _ string) error {
		if silent && op == "create" {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	s := &backup.Store{Bucket: b, Cluster: "prod", Retry: backup.Retry{Attempt: 50 * time.Millisecond}}
	if _, err := s.Mark(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	silent = true
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if m, err := s.Mark(ctx, ""); err != nil || ctx.Err() != nil || m.Overwrites {
		t.Errorf("%+v, %v, %v", m, err, ctx.Err())
	}
}

// A probe of which the answer was lost goes with the next try, or the next time that the target is opened.
func TestMark_ProbesDoNotStay(t *testing.T) {
	mem := backuptest.NewMemory()
	lost := false
	b := &backuptest.Faulty{Bucket: mem, After: func(op, name string) error {
		if lost && op == "create" && strings.Contains(name, "probe-") {
			return errors.New("the answer was lost")
		}
		return nil
	}}
	now := time.Now()
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }}
	m, err := s.Mark(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	lost = true
	if err := m.Probe(t.Context(), true); err == nil || len(names(t, mem)) != 1 {
		t.Errorf("%v, left %q", err, names(t, mem))
	}
	mem.Set(".target/probe-LEFT", []byte("probe"))
	now = now.Add(2 * time.Hour)
	if _, err := s.Mark(t.Context(), m.ID); err != nil || len(names(t, mem)) != 1 {
		t.Errorf("%v, left %q", err, names(t, mem))
	}
}

// A copy of a target in which a drill failed once, and succeeded later, is pruned like that.
func TestPrune_AFailedDrillCountsUntilALaterOneSucceeds(t *testing.T) {
	f, signer := signedFixture(t)
	b := f.bucket.Clone()
	s := f.guarded(t, b, signer)
	now := time.Now()
	s.Now = func() time.Time { return now }
	for i, kind := range []backup.FileKind{"failed", "verified", "failed"} {
		now = now.Add(time.Minute)
		if err := s.PutFile(t.Context(), "a1b2", kind, fmt.Appendf(nil, `{"revision":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		plan, err := s.Prune(t.Context(), cke.Retention{Last: 1}, true)
		if err != nil || (len(plan.Delete) > 0) != (kind == "verified") {
			t.Errorf("%d, %s: %+v, %v", i, kind, plan.Delete, err)
		}
	}
}
