package etcdnode

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cke"
)

func TestReach_RemovesOnlyWhatNobodyReachesInto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		leave, err := r.into("c1")
		if err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() {
			done, err := r.alone(t.Context(), "c1")
			if err != nil {
				t.Error(err)
				return
			}
			done(nil)
			close(gone)
		}()
		synctest.Wait()
		select {
		case <-gone:
			t.Fatal("removed beside a request into it")
		default:
		}
		if _, err := r.into("c1"); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("a request into what is being removed: %v", err)
		}
		if other, err := r.into("c2"); err != nil {
			t.Error(err)
		} else {
			other(nil)
		}
		leave(nil)
		<-gone
		if len(r.of) != 0 {
			t.Errorf("%d containers are remembered", len(r.of))
		}
	})
}

// The removal of the process beside does not wait for this one.
func TestReach_LooksAtNothingBesideAnotherProcess(t *testing.T) {
	r := reach{beside: true}
	if _, err := r.look(t.Context(), "c1"); !errors.Is(err, cke.ErrConflict) {
		t.Error(err)
	}
	if _, err := r.into("c1"); err != nil {
		t.Errorf("its own container: %v", err)
	}
}

func TestReach_WaitsForWhatWasGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		asking, giveUp := context.WithCancel(t.Context())
		leave, _ := r.into("c1")
		giveUp()
		leave(asking.Err())
		began := time.Now()
		done, err := r.alone(t.Context(), "c1")
		if waited := time.Since(began); err != nil || waited != lateGrace {
			t.Errorf("%v after %s", err, waited)
		}
		done(errNotAsked)
		ctx, cancel := context.WithTimeout(t.Context(), lateGrace/2)
		defer cancel()
		if _, err := r.alone(ctx, "c1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what was given up is forgotten: %v", err)
		}
		if _, err := r.into("c1"); err != nil {
			t.Errorf("a removal that was given up holds others off: %v", err)
		}
	})
}

// A list that has told enough is closed before its end: the engine may write on for a moment, with the volume mounted.
func TestReach_WaitsForAStreamThatWasLeftBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		leave, _ := r.into("c1")
		leave(errLeft)
		time.Sleep(lateGrace / 4)
		began := time.Now()
		done, err := r.alone(t.Context(), "c1")
		if waited := time.Since(began); err != nil || waited != lateGrace-lateGrace/4 {
			t.Errorf("%v after %s", err, waited)
		}
		done(nil)
		if len(r.of) != 0 {
			t.Errorf("%d containers are remembered", len(r.of))
		}
	})
}

// The engine goes on with a removal whose caller has gone away.
func TestReach_LooksAtNothingThatMayBeBeingRemovedStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reach
		done, err := r.alone(t.Context(), "c1")
		if err != nil {
			t.Fatal(err)
		}
		done(context.DeadlineExceeded)
		if _, err := r.look(t.Context(), "c1"); !errors.Is(err, cke.ErrConflict) {
			t.Errorf("a look beside it: %v", err)
		}
		time.Sleep(lateGrace)
		if _, err := r.look(t.Context(), "c1"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
}

// The term before had asked an engine to remove a container, which may be about to do so.
func TestReach_LooksIntoWhatHasEndedOnlyOnceTheTermBeforeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reach{began: time.Now()}
		r.seen("ended", true)
		r.seen("runs", false)
		for _, c := range []struct {
			id   string
			wait time.Duration
		}{{"runs", 0}, {"ended", lateGrace}, {"ended", 0}} {
			began := time.Now()
			leave, err := r.look(t.Context(), c.id)
			if took := time.Since(began); err != nil || took != c.wait {
				t.Errorf("%s: %v after %s, want %s", c.id, err, took, c.wait)
				continue
			}
			leave(nil)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := reach{began: time.Now()}
		r.seen("c1", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.look(ctx, "c1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
