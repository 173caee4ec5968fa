package cke

import (
	"cmp"
	"slices"
	"time"
)

// LabelMachineType is the label of a node with the type of its machine, as sabakan names it.
const LabelMachineType = "machine-type"

// RepairOptions say how machines are repaired; without a procedure none is.
type RepairOptions struct {
	// MaxConcurrent bounds how many nodes are repaired at the same time. Of nodes with members it is one at most, reboots included.
	MaxConcurrent int `yaml:"max_concurrent,omitempty" json:"max_concurrent,omitempty"`
	// PerDay bounds how many repairs are started in 24 hours, Cooldown is the time from a repair of a node to the next one.
	PerDay   int      `yaml:"per_day,omitempty" json:"per_day,omitempty"`
	Cooldown Duration `yaml:"cooldown,omitempty" json:"cooldown,omitempty"`
	// Procedures say what is done; the first one that fits is taken.
	Procedures []RepairProcedure `yaml:"procedures,omitempty" json:"procedures,omitempty"`
}

// RepairProcedure is what is done for one fault of some machines.
type RepairProcedure struct {
	// Types are values of the label machine-type; empty: all machines.
	Types []string `yaml:"types,omitempty" json:"types,omitempty"`
	// On is the fault, as `ckecli repair-queue add --on` names it.
	On string `yaml:"on,omitempty" json:"on,omitempty"`
	// Check is a command of the daemon's configuration that says whether the machine is healthy; empty: none is asked.
	Check string `yaml:"check,omitempty" json:"check,omitempty"`
	// Steps follow each other until the machine is healthy.
	Steps []RepairStep `yaml:"steps,omitempty" json:"steps,omitempty"`
}

// RepairStep is one command of a procedure.
type RepairStep struct {
	Command string `yaml:"command,omitempty" json:"command,omitempty"`
	// Timeout bounds the command, Watch the time after it until the machine is healthy, and then until the member is in sync.
	Timeout Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	Watch   Duration `yaml:"watch,omitempty" json:"watch,omitempty"`
	// Retries is how many more attempts follow one that did not help.
	Retries int `yaml:"retries,omitempty" json:"retries,omitempty"`
	// Lease: the member of the node is stopped before; nil: it is.
	Lease *bool `yaml:"lease,omitempty" json:"lease,omitempty"`
	// Reboot: the machine is back only when it shows another boot.
	Reboot bool `yaml:"reboot,omitempty" json:"reboot,omitempty"`
}

// Set reports whether the cluster file has the section.
func (o RepairOptions) Set() bool {
	return o.MaxConcurrent != 0 || o.PerDay != 0 || o.Cooldown != 0 || len(o.Procedures) > 0
}

// IsZero leaves the section out of JSON.
func (o RepairOptions) IsZero() bool { return !o.Set() }

// WithDefaults returns o with every default filled in; of a file without the section nothing is.
func (o RepairOptions) WithDefaults() RepairOptions {
	if !o.Set() {
		return o
	}
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 1)
	o.PerDay = cmp.Or(o.PerDay, 3)
	o.Cooldown = cmp.Or(o.Cooldown, Duration(24*time.Hour))
	o.Procedures = slices.Clone(o.Procedures)
	for i := range o.Procedures {
		p := &o.Procedures[i]
		p.Steps = slices.Clone(p.Steps)
		for k := range p.Steps {
			s := &p.Steps[k]
			s.Timeout = cmp.Or(s.Timeout, Duration(5*time.Minute))
			s.Watch = cmp.Or(s.Watch, Duration(10*time.Minute))
			if s.Lease == nil {
				lease := true
				s.Lease = &lease
			}
		}
	}
	return o
}

// Procedure returns the one for a fault of a node; false: none fits.
func (o RepairOptions) Procedure(n Node, on string) (RepairProcedure, bool) {
	for _, p := range o.Procedures {
		if p.On == on && (len(p.Types) == 0 || slices.Contains(p.Types, n.Labels[LabelMachineType])) {
			return p, true
		}
	}
	return RepairProcedure{}, false
}

// Faults are those for which there is a procedure for a node.
func (o RepairOptions) Faults(n Node) []string {
	var all []string
	for _, p := range o.Procedures {
		if _, fits := o.Procedure(n, p.On); fits && !slices.Contains(all, p.On) {
			all = append(all, p.On)
		}
	}
	return all
}

// Turn is how an entry of a queue is carried out now: as reboots are, or by a step of a procedure.
type Turn struct {
	// Command and Check are names of commands; without Command the machine's agent reboots it.
	Command, Check string
	// CommandTimeout bounds the command, BootTimeout the time after it until the node is back, and then until its member is in sync.
	CommandTimeout, BootTimeout Duration
	// Attempts is how many there may be, Interval the pause before each but the first. Last: no step follows.
	Attempts int
	Interval Duration
	Last     bool
	// Lease: the member of the node is stopped before. Boots: the node is back only when it shows another boot.
	Lease, Boots bool
}

// repairInterval is the pause before the next attempt of a step.
const repairInterval = Duration(time.Minute)

// Turn returns how an entry is carried out; false: the file does not say how.
func (c Cluster) Turn(r Entry, n Node) (Turn, bool) {
	if r.Kind() == RebootQueue {
		o := c.Reboot
		t := Turn{Command: o.Command, Check: o.Check, CommandTimeout: o.CommandTimeout, BootTimeout: o.BootTimeout, Attempts: o.Attempts(), Interval: o.Interval, Last: true, Lease: true, Boots: true}
		if r.Agent != "" {
			t.Command, t.Check, t.Attempts, t.Boots = "", "", 1, false
			return t, o.FleetLock
		}
		return t, o.Command != ""
	}
	p, fits := c.Repair.Procedure(n, r.On)
	if !fits || r.Step >= len(p.Steps) {
		return Turn{}, false
	}
	s := p.Steps[r.Step]
	return Turn{Command: s.Command, Check: p.Check, CommandTimeout: s.Timeout, BootTimeout: s.Watch, Attempts: s.Retries + 1, Interval: repairInterval, Last: r.Step == len(p.Steps)-1,
		Lease: s.Lease == nil || *s.Lease, Boots: s.Reboot}, true
}

// LeaseFor is how long the lease of a node may last for one attempt: the command, the way back, and time to spare.
func (t Turn) LeaseFor() time.Duration {
	return time.Duration(t.CommandTimeout) + time.Duration(t.BootTimeout) + 10*time.Minute
}
