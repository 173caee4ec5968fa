package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
)

// Two machines boot without the disks of their engines, which answer as if they never had anything: the cluster is recovered from the third
// one, as the status asks for. Then they boot with these disks: containers of an incarnation that is on record as replaced run, and are a
// quorum. The replaced cluster takes no writes for longer than a moment.
func TestRecover_StopsWhatItReplacedOnceItsDisksAreBack(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.missing()()
		s.goesOn(time.Hour)
		if containers, _ := s.Node("n2").Look(); slices.ContainsFunc(containers, cke.Container.Running) {
			_, status := s.latest().now()
			t.Errorf("an hour later the replaced member on n2 still runs: %s: %s", status.Health, status.Summary)
		}
		for _, v := range s.Violations() { // until cke sees it
			if v != "the restored cluster serves while a member of the one before runs on n2" {
				t.Error(v)
			}
		}
	})
}
