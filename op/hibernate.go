package op

import (
	"context"

	"cke"
)

// Hibernate stops members on request: all followers in parallel, then the leader, which then has every acknowledged
// write. None is stopped before each is seen to have the data that it starts on again. Containers and volumes stay;
// the engine no longer restarts them.
type Hibernate struct {
	// Joins are the members whose node answers and whose container runs.
	Joins []cke.Join
	// Leader is the one of them that leads; empty: unknown.
	Leader cke.JoinID
	// Backup: the cluster serves, so all that it holds can be stored in its backup target first.
	Backup bool
}

var _ Operation = Hibernate{}

// Name implements Operation.
func (Hibernate) Name() string { return "hibernate" }

// Targets implements Operation.
func (h Hibernate) Targets() []string { return joinNames(h.Joins) }

// Stages implements Operation.
func (h Hibernate) Stages() []Stage {
	var check, followers, leader Stage
	for _, j := range h.Joins {
		check = append(check, Step{Name: "check", Node: j.Node.Name(), Run: func(ctx context.Context, e Env) error { return needRunningData(ctx, e, j) }})
		if j.ID == h.Leader {
			leader = append(leader, h.stop(j))
		} else {
			followers = append(followers, h.stop(j))
		}
	}
	var backup Stage
	if h.Backup {
		backup = LastBackup()
	}
	return nonEmpty(backup, check, followers, leader)
}

// stop stops a member that can be started again, unless the hibernation was ended meanwhile: the backup before it may take long.
func (Hibernate) stop(j cke.Join) Step {
	s := only(isFormed, stopKeptStep(j))
	return while(s, func(ctx context.Context, e Env) (string, error) {
		asked, err := e.Ledger.Asked(ctx)
		if err != nil || asked.Hibernation != nil {
			return "", err
		}
		return "the hibernation was ended", nil
	})
}
