package cke

import (
	"context"
	"time"
)

// HostState is how an inventory judges a machine.
type HostState string

// Host states. What an inventory says beyond these is HostUnknown.
const (
	HostHealthy     HostState = "healthy"
	HostUnhealthy   HostState = "unhealthy"   // alive with a fault
	HostUnreachable HostState = "unreachable" // does not answer the inventory
	HostMaintenance HostState = "maintenance" // planned work: an update, or not set up yet
	HostRetiring    HostState = "retiring"    // a decision to take it out
	HostRetired     HostState = "retired"     // its disk keys are gone, and with them its data
	HostUnknown     HostState = "unknown"
)

// HostStates are all of them.
func HostStates() []HostState {
	return []HostState{HostHealthy, HostUnhealthy, HostUnreachable, HostMaintenance, HostRetiring, HostRetired, HostUnknown}
}

// HostStateOf returns the state that a word of sabakan means.
func HostStateOf(word string) HostState {
	switch word {
	case "HEALTHY":
		return HostHealthy
	case "UNHEALTHY":
		return HostUnhealthy
	case "UNREACHABLE":
		return HostUnreachable
	case "UPDATING", "UNINITIALIZED":
		return HostMaintenance
	case "RETIRING":
		return HostRetiring
	case "RETIRED":
		return HostRetired
	}
	return HostUnknown
}

// Host is a machine as an inventory describes it.
type Host struct {
	// ID is the machine's serial: its identity, also where another machine has got its address.
	ID string
	// Addresses are its IP addresses, first the one to reach it at.
	Addresses []string
	Role      string
	Rack      int
	// Zone is the failure zone that the inventory names; empty: it names none.
	Zone   string
	Labels map[string]string
	State  HostState
	// For is how long it has been in State, by the inventory's own clock; never negative.
	For time.Duration
	// RetireDate is when it is due to be replaced; zero: never set.
	RetireDate time.Time
	// BMC is the type of its baseboard controller.
	BMC string
}

// HostList is one whole answer of an inventory, in the order of the hosts' ids.
type HostList struct {
	Hosts  []Host
	ReadAt time.Time
}

// HostFilter is what hosts are compared with. What is empty in it is not compared.
type HostFilter struct {
	Labels map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Racks  []int             `yaml:"racks,omitempty" json:"racks,omitempty"`
	Roles  []string          `yaml:"roles,omitempty" json:"roles,omitempty"`
	States []HostState       `yaml:"states,omitempty" json:"states,omitempty"`
	// MinDaysBeforeRetire is how many whole days are left until RetireDate, or more; nil: not compared.
	MinDaysBeforeRetire *int `yaml:"min_days_before_retire,omitempty" json:"minDaysBeforeRetire,omitempty"`
}

// Inventory is a list of machines that another system keeps. It is only ever read.
type Inventory interface {
	// Hosts returns all machines. An answer that is not whole and sound is an error: a machine that is missing from a list is one
	// that is not registered.
	Hosts(ctx context.Context) (HostList, error)
	// Registered reports whether the inventory knows a machine, asked for that one alone. Only a clear answer is one: what cannot
	// be understood is an error.
	Registered(ctx context.Context, id string) (bool, error)
}
