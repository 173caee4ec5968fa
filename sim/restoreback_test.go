package sim_test

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A restore is cut off once its last revision is on record, another one takes its place, lets clients write, and is called off: the first
// one goes on, and what was written meanwhile is in the backups.
func TestRestore_OneThatComesBackForgetsItsLastRevision(t *testing.T) {
	for name, hiccup := range map[string]string{"the store refuses one write": "UpdateIncarnation", "nothing else fails": ""} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUp()
				armed, dead := false, false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					if armed = armed || c.Name == "Arm"; armed && !dead && c.Name == "StopContainer" {
						dead = true
						return sim.KillBefore
					}
					return sim.Proceed
				}
				s.order(toldStored)
				if !s.until(convergence, func() bool { return dead }) {
					t.Fatal("not cut off")
				}
				first := s.Store().Identity().Incarnation
				if first.Restore.Last == 0 || !first.Restore.Stopping {
					t.Fatalf("%+v", first.Restore)
				}
				s.pass(time.Minute)
				o := toldStored // another one, before anybody leads again
				o.Stored = false
				s.order(o)
				s.daemon()
				if !s.until(time.Hour, func() bool { return s.Store().Identity().Incarnation.ID != first.ID }) {
					t.Fatal("no second")
				}
				s.Node("n3").PowerOff()
				if !s.until(10*time.Minute, func() bool { return s.Write("n2", "meanwhile") }) {
					t.Fatal("clients cannot write")
				}
				back, refused := false, false
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					back = back || s.Store().Identity().Incarnation.ID == first.ID
					if back && !refused && c.Name == hiccup {
						refused = true
						return sim.Refuse
					}
					return sim.Proceed
				}
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.comesTo(func() bool { return s.Store().Identity().Incarnation.ID == first.ID })
				s.TargetRefuses(true)
				s.Node("n3").PowerOn()
				s.pass(30 * time.Minute)
				if v := s.Violations(); v != nil {
					t.Error(strings.Join(v, "\n"))
				}
			})
		})
	}
}
