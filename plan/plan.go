// Package plan computes what the daemon would do from here on: it plays Decide forward on a simulated copy of the observed
// cluster and runs the real operations there, on a clock of its own, until all is as declared or nothing can be done.
//
// Nothing in the real world is read or changed by it.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"cke"
)

// Plan is what the daemon would do, in order, as far as can be foreseen.
type Plan struct {
	Cluster string `json:"cluster"`
	// Revision is that of the spec that the plan leads to.
	Revision int64 `json:"revision"`
	// Hash covers the spec, its revision, who the cluster is, and the operations in their order; not times.
	Hash string `json:"hash"`
	// ObservedAt is the time of the observation that the plan starts from.
	ObservedAt time.Time `json:"observedAt"`
	// Operations is how many of the steps are operations.
	Operations int    `json:"operations"`
	Steps      []Step `json:"steps"`
	// LeastTolerance is the smallest tolerance before, during and after any operation that found a quorum; -1: a gap. It
	// is nil where no operation found one.
	LeastTolerance *int `json:"leastTolerance,omitempty"`
	// Outcome is how the plan ends, Reason why, in the daemon's words.
	Outcome Outcome `json:"outcome"`
	Reason  string  `json:"reason"`
	// Blockers are what a blocked plan waits for.
	Blockers []cke.Problem `json:"blockers,omitempty"`
	// Afterwards is the maintenance of the cluster once all is done, such as a comparison of the members' data; it is no part
	// of the plan.
	Afterwards string `json:"afterwards,omitempty"`
	// Held is what the steps wait for that are marked as held; empty: none is.
	Held string `json:"held,omitempty"`
	// Assumed are the nodes that were never observed; they are assumed to answer and to be blank.
	Assumed []string `json:"assumed,omitempty"`
	// Quorum is set when the plan ends because it would lose quorum.
	Quorum *Arithmetic `json:"quorum,omitempty"`
	// End is the state of the cluster after the last step.
	End End `json:"end"`
}

// Outcome is how a plan ends.
type Outcome string

// Outcomes.
const (
	Converged Outcome = "converged" // all that the spec wants is so
	Blocked   Outcome = "blocked"   // nothing can be done before something outside changes
	Deleted   Outcome = "deleted"   // the cluster is gone, as was asked for
	Endless   Outcome = "endless"   // no end within the bounds of a plan
)

// StepKind distinguishes operations and waits.
type StepKind string

// Kinds of steps.
const (
	KindOperation StepKind = "operation"
	KindWait      StepKind = "wait"
)

// Step is one operation, or a time that passes before the next one.
type Step struct {
	Kind StepKind `json:"kind"`
	// Reason is why the operation is done, or what is waited for.
	Reason string `json:"reason"`
	// Held: it waits for what Plan.Held names.
	Held bool `json:"held,omitempty"`

	// Of an operation. Number counts from 1.
	Number    int        `json:"number,omitempty"`
	Operation string     `json:"operation,omitempty"`
	Targets   []string   `json:"targets,omitempty"`
	Task      string     `json:"task,omitempty"` // id of the task that it is for
	Tolerance *Tolerance `json:"tolerance,omitempty"`
	// Zones is nil if no declared node has a zone.
	Zones *Zones `json:"zones,omitempty"`
	// Error is what it would fail with, Code the error's.
	Error string   `json:"error,omitempty"`
	Code  cke.Code `json:"code,omitempty"`

	// Seconds is how long is waited.
	Seconds float64 `json:"seconds,omitempty"`

	key string // FailureKey of the operation
}

// Tolerance is how many more voters can be lost; -1: there is no quorum.
type Tolerance struct {
	Before int `json:"before"`
	During int `json:"during"`
	After  int `json:"after"`
}

// Gap reports whether the operation interrupts a quorum that, if all goes well, returns.
func (t Tolerance) Gap() bool { return t.Before >= 0 && t.During < 0 }

// End is the state of a cluster.
type End struct {
	Health    cke.Health `json:"health"`
	Summary   string     `json:"summary"`
	Declared  int        `json:"declared"`
	Ready     int        `json:"ready"`
	Tolerance int        `json:"tolerance"`
	// Zones is nil if no declared node has a zone.
	Zones *ZoneCount `json:"zones,omitempty"`
}

// endOf is the end that a status reports.
func endOf(s cke.Status) End {
	e := End{Health: s.Health, Summary: s.Summary, Declared: s.Declared, Ready: s.Ready, Tolerance: s.Tolerance}
	if s.Spread != nil {
		zones := zonesIn(s.Spread)
		e.Zones = &zones
	}
	return e
}

// Interrupts returns, in order, the nodes whose restart interrupts service.
func (p Plan) Interrupts() []string {
	var all []string
	for _, s := range p.Steps {
		if s.Kind == KindOperation && s.Task == "" && s.Tolerance.Gap() {
			all = append(all, s.Targets...)
		}
	}
	return all
}

// Changes reports whether anything would be done.
func (p Plan) Changes() bool { return p.Operations > 0 }

// hash distinguishes plans by what is done, to whom and for what; a plan that is made again a little later has the same.
func hash(generation int64, spec cke.Cluster, deleting bool, id cke.Identity, p Plan) string {
	type done struct {
		Operation string
		Targets   []string
		Task      string
		Held      bool
		Code      cke.Code
	}
	type membership struct {
		ID     cke.JoinID
		Member string
		Node   string
		Etcd   cke.EtcdOptions
	}
	about := struct {
		Spec        cke.Cluster
		Generation  int64
		Deleting    bool
		Incarnation string
		State       cke.IncarnationState
		ClusterID   string
		Joins       []membership
		Operations  []done
		Outcome     Outcome
	}{Spec: spec, Generation: generation, Deleting: deleting, Outcome: p.Outcome}
	if inc := id.Incarnation; inc != nil {
		about.Incarnation, about.State, about.ClusterID = inc.ID, inc.State, inc.ClusterID
	}
	for _, j := range id.Joins {
		about.Joins = append(about.Joins, membership{j.ID, j.MemberID, j.Node.Address, j.Etcd})
	}
	for _, s := range p.Steps {
		if s.Kind == KindOperation {
			about.Operations = append(about.Operations, done{s.Operation, s.Targets, s.Task, s.Held, s.Code})
		}
	}
	text, err := json.Marshal(about)
	if err != nil {
		panic(fmt.Sprintf("a plan cannot be written: %v", err)) // plain data
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
