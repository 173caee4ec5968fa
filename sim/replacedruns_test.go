package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// missing has the cluster recovered from n1 while n2 and n3 run without their disks, and returns what boots them with these.
func (s *stage) missing() (back func()) {
	s.daemon()
	s.must("formed", s.settled)
	s.Write("n1", "kept")
	s.pass(time.Minute)
	two, three := s.Node("n2").MissDisk(), s.Node("n3").MissDisk()
	s.must("lost", func() bool { return s.told().Health == cke.HealthLost })
	s.order(cke.RestoreOrder{Survivor: "n1"})
	s.must("recovered", func() bool { return s.settled() && s.Serving() == 3 && s.Write("n1", "recovered") })
	s.pass(10 * time.Minute)
	return func() { two(); three() }
}

// As TestRecover_StopsWhatItReplacedOnceItsDisksAreBack, and cke is held, or the cluster is hibernated: what stops nothing has to
// say that a second cluster serves.
func TestRecover_WhatItReplacedIsStoppedOrReported(t *testing.T) {
	for name, do := range map[string]func(*stage){
		"held": func(s *stage) {
			s.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "a moment"} })
		},
		"hibernated": func(s *stage) { s.Store().Hibernate(true) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				back := s.missing()
				do(s)
				s.pass(10 * time.Minute)
				t.Log(s.told().Health, s.told().Reason)
				back()
				s.goesOn(time.Hour)
				containers, _ := s.Node("n2").Look()
				_, status := s.latest().now()
				says := slices.ContainsFunc(status.Problems, func(p cke.Problem) bool {
					return p.Code == cke.CodeSplitBrain || strings.Contains(p.Message, "belongs to no present") || strings.Contains(p.Message, "replaced")
				})
				if slices.ContainsFunc(containers, cke.Container.Running) && !says {
					t.Errorf("the replaced cluster serves for an hour, and the status says: %s: %s; %s: %v", status.Health, status.Summary, status.Reason, status.Problems)
				}
			})
		})
	}
}
