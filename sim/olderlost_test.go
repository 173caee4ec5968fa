package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// A copy of the store has a membership that ended since, and the data of all members is lost. The status names the one whose data is
// missed, and that backups are the way out; and they are.
func TestOlderStore_OnlyBackupsAreLeft(t *testing.T) {
	inFormed(t, 2, func(s *stage) {
		s.TakeBackup()
		copied, ended := s.Store().Copy(), s.join("n2")
		s.ask(cke.TaskReplace, "n2", string(ended.ID), "")
		s.must("ended", func() bool { return s.Node("n2").Marks(clusterName, ended.ID) })
		s.broughtBack(copied)
		s.eachNode((*sim.Node).RemoveData)
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "nothing else is left")
		s.must("told", func() bool {
			return s.answered() && s.reported(cke.CodeOlderStore, "n2") && s.reported(cke.CodeDataMissing, "n1") && s.arrived()
		})
		s.pass(time.Minute)
		s.order(fromBackup)
		s.must("restored", func() bool { return s.restored() && s.changed() })
		s.isUnharmed(t)
	})
}
