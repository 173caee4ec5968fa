package sim_test

import (
	"testing"
	"time"

	"cke/sim"
)

// N3, which an order calls destroyed, is back as the restore is put on record, and gone for good once its member was
// fenced. It is not waited for.
func TestDestroyed_ANodeThatWasFencedIsNotWaitedFor(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.daemon()
		s.must("formed", s.settled)
		s.Write("n1", "kept")
		s.TakeBackup()
		n3 := s.Node("n3")
		n3.PowerOff()
		s.pass(time.Minute)
		back, fenced := false, false
		s.Judge = func(_ int, c sim.Call) sim.Verdict {
			_, step := s.Store().Running()
			switch {
			case !back && step == "record-restoring":
				back = true
				n3.PowerOn()
			case !fenced && step == "mark-over" && s.Store().Identity().Incarnation.Restore != nil && len(s.Store().Identity().Incarnation.Restore.Fenced) > 0:
				fenced = true
				n3.PowerOff()
			}
			return sim.Proceed
		}
		o := fromBackup
		o.Destroyed = []string{"n3"}
		s.order(o)
		ok := s.until(time.Hour, s.restored)
		t.Log(back, fenced, s.told().Reason, s.Store().Identity().Sighted)
		if !back || !fenced {
			t.Fatal("not played")
		}
		if !ok {
			t.Errorf("not restored: %s; %+v", s.told().Reason, s.Store().Identity().Incarnation.Restore)
		}
		s.unbroken(t)
	})
}
