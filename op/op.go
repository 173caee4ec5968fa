// Package op holds the operations that change a cluster and their steps.
//
// An Operation is data: Decide makes it, tests compare it. Its steps act only through the ports of package cke. Each
// step may be killed half-way and repeated; each re-reads what it depends on.
package op

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"cke"
)

// Operation is one change to a cluster, chosen by Decide.
type Operation interface {
	// Name returns the operation's name in records, as "bootstrap".
	Name() string
	// Targets returns the names of its nodes.
	Targets() []string
	// Stages returns the steps: stages run one after the other, the steps of a stage in parallel. A stage starts only
	// when every step of the one before succeeded.
	Stages() []Stage
	// Traits returns what the strategy must know of its kind.
	Traits() Traits
}

// Stage is a set of steps that do not depend on each other.
type Stage []Step

// nonEmpty are those of some stages that have a step.
func nonEmpty(stages ...Stage) []Stage {
	return slices.DeleteFunc(stages, func(s Stage) bool { return len(s) == 0 })
}

// Around returns stages in which each step is replaced by the result of around; i is its index in its stage. The
// given stages are not modified: an operation may name one twice.
func Around(stages []Stage, around func(i int, s Step) Step) []Stage {
	all := make([]Stage, len(stages))
	for k, stage := range stages {
		for i, s := range stage {
			all[k] = append(all[k], around(i, s))
		}
	}
	return all
}

// Step is one recorded part of an operation.
type Step struct {
	Name string
	// Node is the name of the node that the step is about; empty when it is about the cluster.
	Node string
	// Limit bounds the step; zero means DefaultStepLimit.
	Limit time.Duration
	// Away: a member that served is stopped meanwhile, until a later step starts it again.
	Away bool
	Run  func(ctx context.Context, e Env) error
}

// Away reports whether an operation of which these steps are on record has a member stopped that it starts again next.
func Away(o Operation, begun []cke.StepRecord) bool {
	left := len(begun)
	for _, stage := range o.Stages() {
		if left -= len(stage); left == 0 {
			return slices.ContainsFunc(stage, func(s Step) bool { return s.Away })
		}
	}
	return false
}

// DefaultStepLimit bounds a step that names no limit of its own.
const DefaultStepLimit = 30 * time.Second

// Env is what steps work with. Collaborators are passed in; nothing is global.
type Env struct {
	Cluster   string
	Machines  cke.Machines
	Etcd      cke.Etcd
	Authority cke.Authority
	Ledger    cke.Ledger
	// Backups are those of the cluster; nil: none are taken.
	Backups cke.Backups
	// Snapshots are the sources of restores; nil: nothing can be restored.
	Snapshots cke.Snapshots
	// Commands runs programs of the daemon's configuration; nil: none can be run.
	Commands cke.Commands
	// Leader is the daemon in whose name the steps run.
	Leader cke.Leader
	Now    func() time.Time
	// Pause waits between two checks for an expected change; it returns early with ctx's error.
	Pause func(ctx context.Context, d time.Duration) error
	Log   *slog.Logger
	// Progress reports the progress of a long step; set by Run for each step.
	Progress func(text string)
	// Note records what an operator should know of a step that completes; set by Run for each step.
	Note func(text string)
	// Saw keeps what a step saw of a node that an order calls destroyed until that is on record, before anything else is decided; nil: nothing is kept.
	Saw func(...cke.Sighting)
	// Stored records a backup that a step has made; set by Run for each step.
	Stored func(cke.StoredBackup)
}
