package take

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/backup"
)

// refusing is a bucket that takes nothing, and notes when it was asked.
type refusing struct {
	backup.Bucket
	mu    sync.Mutex
	asked []time.Time
}

func (r *refusing) Create(context.Context, string, backup.Content) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, time.Now())
	return errors.New("no space left")
}

func (r *refusing) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

// putting is a delta that a target refuses for an hour of virtual time.
func putting(t *testing.T, during func(s *session, r *refusing)) *refusing {
	t.Helper()
	r := &refusing{}
	synctest.Test(t, func(t *testing.T) {
		taker, err := New(Config{Bucket: r, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{"http://127.0.0.1:1"}, Delta: cke.BackupDelta{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		s := &session{t: taker, ctx: ctx, hurry: make(chan struct{}, 1)}
		if during != nil {
			go during(s, r)
		}
		if err := s.put("name", backup.Content{Head: []byte("x")}); err == nil {
			t.Error("stored")
		}
	})
	return r
}

// A target that fails for long is not pestered, and clusters do not return to it in step.
func TestPut_TriesALongLostTargetLessAndLess(t *testing.T) {
	one, other := putting(t, nil), putting(t, nil)
	if n := len(one.asked); n < 60 || n > 300 {
		t.Errorf("tried %d times in an hour", n)
	}
	same := 0
	for i := 1; i < min(len(one.asked), len(other.asked)); i++ {
		pause := one.asked[i].Sub(one.asked[i-1])
		if pause > 3*deltaRetryMax/2 {
			t.Errorf("pause %d takes %s", i, pause)
		}
		if pause == other.asked[i].Sub(other.asked[i-1]) {
			same++
		}
	}
	if same > 1 {
		t.Errorf("%d pauses are the same", same)
	}
}

// Somebody who waits for it need not wait for the next attempt.
func TestPut_AFlushEndsThePause(t *testing.T) {
	var before, after int
	putting(t, func(s *session, r *refusing) {
		time.Sleep(20*time.Minute + time.Second)
		synctest.Wait()
		before = r.times()
		s.hurry <- struct{}{}
		synctest.Wait()
		after = r.times()
	})
	if after != before+1 {
		t.Errorf("%d attempts, then %d", before, after)
	}
}
