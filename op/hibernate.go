package op

import (
	"slices"

	"cke"
)

// Hibernate stops members because a person asked that none run: all followers side by side, then the leader, which has
// then heard of every write that was acknowledged. Containers and volumes stay; the engine no longer restarts them.
type Hibernate struct {
	// Joins are the members whose node answers and whose container runs.
	Joins []cke.Join
	// Leader is the one of them that leads; empty: none is known to.
	Leader cke.JoinID
	// Backup tells that the cluster serves, so that all that it holds can be stored in its backup target first.
	Backup bool
}

var _ Operation = Hibernate{}

// Name implements Operation.
func (Hibernate) Name() string { return "hibernate" }

// Targets implements Operation.
func (h Hibernate) Targets() []string { return joinNames(h.Joins) }

// Stages implements Operation.
func (h Hibernate) Stages() []Stage {
	var followers, leader Stage
	for _, j := range h.Joins {
		if j.ID == h.Leader {
			leader = append(leader, only(isFormed, stopStep(j)))
		} else {
			followers = append(followers, only(isFormed, stopStep(j)))
		}
	}
	var backup Stage
	if h.Backup {
		backup = LastBackup()
	}
	return slices.DeleteFunc([]Stage{backup, followers, leader}, func(s Stage) bool { return len(s) == 0 })
}
