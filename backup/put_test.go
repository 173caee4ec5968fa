package backup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
)

// slow stores at once, and takes until the end of the attempt to read back.
type slow struct {
	backup.Bucket
	created int
}

func (s *slow) Create(ctx context.Context, name string, c backup.Content) error {
	if err := s.Bucket.Create(ctx, name, c); err != nil {
		return err
	}
	s.created++
	<-ctx.Done()
	return ctx.Err()
}

// A full that is there whole is stored, though no time was left to read it back: the next one would fare no better.
func TestPut_ReadsBackInATimeOfItsOwn(t *testing.T) {
	s := &slow{Bucket: backuptest.NewMemory()}
	brief := backup.Retry{First: time.Millisecond, For: time.Millisecond, Attempt: 50 * time.Millisecond}
	if err := brief.Put(t.Context(), s, "x", backup.Content{Head: []byte("1")}, nil); err != nil || s.created != 1 {
		t.Errorf("%v, created %d times", err, s.created)
	}
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := brief.Put(ended, s, "y", backup.Content{Head: []byte("1")}, nil); err == nil {
		t.Error("work that was ended goes on")
	}
	s.Bucket = &backuptest.Faulty{Bucket: s.Bucket, Before: func(_ context.Context, op, _ string) error {
		if op == "open" {
			return errors.New("timeout")
		}
		return nil
	}}
	if err := brief.Put(t.Context(), s, "z", backup.Content{Head: []byte("1")}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("what cannot be read back: %v", err)
	}
}
