package sim_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// advised are the names that the problems of the status say to call destroyed.
func (s *stage) advised() (names []string) {
	for _, p := range s.told().Problems {
		words := strings.FieldsFunc(p.Message+" "+p.Remedy, func(r rune) bool { return strings.ContainsRune(" ,;`", r) })
		for i, w := range words[:max(0, len(words)-1)] {
			if w == "--destroyed" {
				names = cke.With(names, words[i+1])
			}
		}
	}
	return names
}

// unnamedOn has cke put a membership on n2 on record, of which no member is added, and an operator adds members at its URLs and on n3. Cke cannot log in
// to n2. Then the machines of both are gone.
func (s *stage) unnamedOn(t *testing.T) {
	t.Helper()
	s.heldOn(t, 1)
	s.TakeBackup()
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if c.Name == "AddLearner" {
			return sim.Refuse
		}
		return sim.Proceed
	}
	s.Store().SetSpec(s.held("n1", "n2"))
	s.pass(10 * time.Second)
	s.Node("n2").RefuseKey(true)
	s.pass(10 * time.Second)
	if !slices.ContainsFunc(s.Store().Identity().Joins, func(j cke.Join) bool { return j.MemberID == "" && j.Node.Name() == "n2" }) {
		t.Fatalf("%+v", s.Store().Identity().Joins)
	}
	for _, n := range []string{"n2", "n3"} {
		if !s.Node(n).JoinAs("hand-"+n, s.Node(n).Declared().Address) {
			t.Error("cannot join")
		}
		s.pass(time.Minute)
	}
	s.Node("n2").PowerOff()
	s.Node("n3").PowerOff()
	s.pass(time.Minute)
}

// A deletion refuses because of a foreign voter at the URL of a membership whose member id is not on record. What it advises changes that.
func TestDeleteOutsiders_TheAdviceOfARefusalEnds(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.unnamedOn(t)
		s.Store().RequestDelete()
		var named []string
		for range 5 {
			s.pass(3 * time.Minute)
			if s.Store().Deleted() {
				break
			}
			next := cke.With(named, s.advised()...)
			if len(next) == len(named) {
				t.Fatalf("%v leads to nothing: %s %+v", named, s.told().Reason, s.told().Problems)
			}
			named = next
			s.destroy(named...)
		}
		if !s.Store().Deleted() {
			t.Errorf("not deleted: %v: %s", named, s.told().Reason)
		}
		if len(named) != 3 {
			t.Errorf("deleted with %v alone", named)
		}
		s.unbroken(t)
	})
}

// The same before a restore, and while one is under way.
func TestRestoreOutsiders_TheAdviceAboutAMembershipWithoutAnIDEnds(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.unnamedOn(t)
		o := fromBackup
		o.Destroyed = []string{"n2"}
		for range 6 {
			s.order(o)
			s.pass(3 * time.Minute)
			if s.restored() {
				break
			}
			next := cke.With(o.Destroyed, s.advised()...)
			if records := s.Store().Records(); len(records) > 0 {
				words := strings.Fields(records[len(records)-1].Error)
				for i, w := range words[:max(0, len(words)-1)] {
					if w == "--destroyed" && words[i+1] != "NODE" {
						next = cke.With(next, strings.Trim(words[i+1], ",;"))
					}
				}
			}
			if len(next) == len(o.Destroyed) {
				records := s.Store().Records()
				t.Fatalf("%v leads to nothing: %s %+v; %s", o.Destroyed, s.told().Reason, s.told().Problems, records[len(records)-1].Error)
			}
			o.Destroyed = next
			if s.restoring() {
				s.ask(cke.TaskCancelRestore, "", "", "")
				s.pass(3 * time.Minute)
			}
		}
		if !s.restored() {
			t.Errorf("not restored: %v: %s", o.Destroyed, s.told().Reason)
		}
		s.unbroken(t)
	})
}

// endsTheWait asks that what cke said to name as destroyed ends the wait of a restore, or of a deletion.
func (s *stage) endsTheWait(t *testing.T, names []string, deletion bool) {
	t.Helper()
	over := s.restored
	if deletion {
		over = s.Store().Deleted
		s.destroy(names...)
	} else {
		o := fromBackup
		o.Destroyed = names
		s.order(o)
	}
	if !s.until(time.Hour, over) {
		records := s.Store().Records()
		t.Errorf("%v did not help: %s; %s", names, s.told().Reason, records[len(records)-1].Error)
	}
}
