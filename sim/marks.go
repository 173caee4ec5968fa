package sim

import "maps"

// Situation is something that schedules have to reach, or they prove nothing about it.
type Situation string

// Situations that the world notices by itself; Situations, in export_test.go, has all.
const (
	LandedLate Situation = "a call lands after its caller gave it up"
	Elected    Situation = "another leader is elected"
	NoQuorum   Situation = "a formed cluster has no quorum"
	HostsApart Situation = "the clocks of two management hosts differ"
	// DeposedWithin is what the guard is asked before each request for, and not once per method.
	DeposedWithin Situation = "a term ends between two requests of one method"
	DeclaredAgain Situation = "a deleted cluster is declared again"
	// BeforeDeletion is a store that has the members of the deleted cluster on record, and none of those that serve.
	BeforeDeletion Situation = "a store from before a deletion meets the cluster that was declared again"
	TwoHistories   Situation = "a member continues alone under the same cluster id"
	// FormerStarted is what a restore must not overlook: it stopped that member, and may have noticed nothing since.
	FormerStarted Situation = "an operator starts a member that a restore stopped to replace it"
	// BesideKept is what an older store must not overwrite, BesideGivenUp what operators let it overwrite.
	BesideKept    Situation = "an older store finds a newer identity beside the backups"
	BesideGivenUp Situation = "an operator accepts an older store, whose identity takes the place of that beside the backups"
	BesideLost    Situation = "an identity beside the backups is lost"
	BesideDamaged Situation = "the newest identity beside the backups is damaged"
	// AgentGranted and those after it are of agents that ask for the reboots of their own machines.
	AgentGranted  Situation = "an agent may reboot its machine"
	AgentWaits    Situation = "an agent that asks for a reboot has to wait"
	AgentRefused  Situation = "an agent that asks for a reboot is refused it"
	AgentBack     Situation = "the lease of an agent ends because it reports that its machine is back"
	AgentLost     Situation = "the lease of an agent ends because its machine never returned"
	AgentSilent   Situation = "the lease of an agent ends because it does not report that its machine is back"
	AgentBeside   Situation = "an agent gets the lease while the reboot queue has entries of operators"
	AgentOutlives Situation = "the lease of an agent ends under another daemon than it was given by"
	// SuccessorDeclared is what an operator has to order.
	SuccessorDeclared Situation = "an inventory declares a machine at the address of one that left"
)

// mark counts a situation that was reached.
func (w *World) mark(s Situation) {
	if w.marks == nil {
		w.marks = map[Situation]int{}
	}
	w.marks[s]++
}

// Marks are how often each situation was reached.
func (w *World) Marks() map[Situation]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.marks)
}
