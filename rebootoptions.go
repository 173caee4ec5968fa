package cke

import (
	"cmp"
	"time"
)

// DefaultSettle is the usual pause after a reboot or a repair.
const DefaultSettle = Duration(2 * time.Minute)

// RebootOptions say how nodes are rebooted; without a command none is, unless its own agent does it.
type RebootOptions struct {
	// Command and Check are names of commands in the daemon's configuration.
	Command string `yaml:"command,omitempty" json:"command,omitempty"`
	Check   string `yaml:"check,omitempty" json:"check,omitempty"`
	// CommandTimeout bounds each run of a command, BootTimeout the time from a command to the reboot, and that until the member is in sync.
	CommandTimeout Duration `yaml:"command_timeout,omitempty" json:"command_timeout,omitempty"`
	BootTimeout    Duration `yaml:"boot_timeout,omitempty" json:"boot_timeout,omitempty"`
	// Retries is how many more attempts follow one that failed, Interval the pause before each; nil: two.
	Retries  *int     `yaml:"retries,omitempty" json:"retries,omitempty"`
	Interval Duration `yaml:"interval,omitempty" json:"interval,omitempty"`
	// MaxConcurrent bounds how many nodes reboot at the same time. Of nodes with members it is one at most.
	MaxConcurrent int `yaml:"max_concurrent,omitempty" json:"max_concurrent,omitempty"`
	// Settle is the time from the end of one reboot to the next one of a node with a member.
	Settle Duration `yaml:"settle,omitempty" json:"settle,omitempty"`
	// FleetLock: agents of machines may ask for reboots, which they make themselves.
	FleetLock bool `yaml:"fleet_lock,omitempty" json:"fleet_lock,omitempty"`
	// Window is when reboots may be started; zero: at any time.
	Window Window `yaml:"window,omitempty" json:"window,omitzero"`
}

// Set reports whether the cluster file has the section.
func (o RebootOptions) Set() bool { return o != RebootOptions{} }

// WithDefaults returns o with every default filled in; of a file without the section nothing is.
func (o RebootOptions) WithDefaults() RebootOptions {
	if !o.Set() {
		return o
	}
	o.CommandTimeout = cmp.Or(o.CommandTimeout, Duration(5*time.Minute))
	o.BootTimeout = cmp.Or(o.BootTimeout, Duration(30*time.Minute))
	if o.Retries == nil {
		retries := 2
		o.Retries = &retries
	}
	o.Interval = cmp.Or(o.Interval, Duration(time.Minute))
	o.MaxConcurrent = cmp.Or(o.MaxConcurrent, 1)
	o.Settle = cmp.Or(o.Settle, DefaultSettle)
	return o
}

// Attempts is how many there may be.
func (o RebootOptions) Attempts() int {
	if o.Retries == nil {
		return 1
	}
	return *o.Retries + 1
}
