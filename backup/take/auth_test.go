package take

import (
	"testing"
	"testing/synctest"
	"time"

	"cke/backup"
)

// After a watch that was cut the histories are compared, however fast deltas are stored.
func TestAuth_FastDeltasPutOffNoComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker, err := New(Config{Bucket: &refusing{}, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{"http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		period := time.Duration(taker.c.Delta.Period)
		s := &session{t: taker, doubt: doubt{raised: 1}, authTry: time.NewTimer(period), at: position{authOK: true}}
		for range 10 {
			s.authSeen(backup.UsersState{})
			time.Sleep(period / 4)
			synctest.Wait()
		}
		select {
		case <-s.authTry.C:
		default:
			t.Error("it was put off")
		}
		s.doubt.settled = 1
		s.authTry.Reset(period)
		for range 10 { // else nobody has to ask
			s.authSeen(backup.UsersState{})
			time.Sleep(period / 4)
			synctest.Wait()
		}
		select {
		case <-s.authTry.C:
			t.Error("asked though each delta tells")
		default:
		}
	})
}

// A watch that is cut while the histories are compared has them compared again at once.
func TestAuth_ACutDuringAComparisonIsComparedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker, err := New(Config{Bucket: &refusing{}, Cluster: "prod", Lineage: "a1b2", Endpoints: []string{"http://127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		s := &session{t: taker, doubt: doubt{raised: 1}, authTry: stopped(), at: position{authOK: true}}
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
		if err := s.authAnswered(authAnswer{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-s.authTry.C:
		default:
			t.Error("it waits for a period")
		}
	})
}
