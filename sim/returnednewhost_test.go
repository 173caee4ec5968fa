package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// On a new management host the identity beside the backups is from before n2 and n3 got other members. Their machines are called destroyed, and are back with
// an sshd that refuses cke, while the restore waits: what answers where their former members were counts, whatever its id.
func TestReturned_OnANewHostWhatOnlyEtcdAnswersCounts(t *testing.T) {
	for name, replaced := range map[string]bool{"the identity is the newest": false, "the identity is from before": true} {
		for still, hides := range map[string]bool{"they answer all the time": false, "they are cut off again": true} {
			t.Run(name+", "+still, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					s.backedUp()
					beside := s.Store().Copy()
					if replaced {
						s.replaceAll(t, "n2", "n3")
					}
					s.TakeBackup()
					if !replaced {
						beside = s.Store().Copy()
					}
					s.latest().Kill()
					down := s.Nodes()[1:3]
					for _, n := range down {
						n.RefuseKey(true)
						n.PowerOff()
					}
					s.declaredFrom(beside)
					s.pass(time.Minute)
					s.Node("n1").FillDisk()
					o := destroyedOrders["restore"]
					if replaced { // a name does not mean members that are not on record
						o.Destroyed = slices.Clone(o.Destroyed)
						for _, m := range s.told().Etcd.Members[1:] {
							o.Destroyed = append(o.Destroyed, m.ID)
						}
					}
					s.order(o)
					s.until(10*time.Minute, func() bool { return s.Store().Identity().Incarnation.State == cke.Restoring })
					if s.Store().Identity().Incarnation.State != cke.Restoring {
						t.Skipf("refused: %+v", s.Store().Records()[len(s.Store().Records())-1])
					}
					s.Node("n1").PowerOff()
					s.pass(time.Minute)
					for _, n := range down {
						n.PowerOn()
					}
					s.pass(10 * time.Minute)
					if inc := s.Store().Identity().Incarnation; inc.Restore != nil {
						t.Logf("returned %v", inc.Restore.Returned)
					}
					if hides {
						for _, n := range down {
							n.FilterClientPort(true)
							s.Cut(sim.Management, n.Name())
						}
					}
					s.Node("n1").FreeDisk()
					s.Node("n1").PowerOn()
					s.pass(30 * time.Minute)
					if s.restored() {
						t.Error("restored beside members that were seen")
					}
					for _, r := range s.Store().Records()[max(0, len(s.Store().Records())-3):] {
						t.Logf("%s %s %s", r.Operation, r.State, r.Error)
					}
					s.unbroken(t)
				})
			})
		}
	}
}
