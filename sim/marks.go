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
