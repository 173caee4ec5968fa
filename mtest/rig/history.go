package rig

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// action is what a client does to a register.
type action int

const (
	read action = iota
	write
	swap // compare-and-swap in one transaction, which tells the value that stands if the comparison fails
)

func (a action) String() string { return [...]string{"read", "write", "swap"}[a] }

// call is what a client asked for: a register starts as "", and every value is written by at most one call.
type call struct {
	Key    string
	Action action
	// Expected is what a swap compares with, Value what a write or a swap writes.
	Expected, Value string
}

// answer is what a client was told.
type answer struct {
	// Unknown: no answer came. A write or a swap may have taken effect, or may yet.
	Unknown bool
	// Swapped: the comparison of a swap held.
	Swapped bool
	// Value is what a read found, or a swap whose comparison failed.
	Value string
}

// saw returns the value that the call's effect found in place, and whether the answer tells it.
func saw(c call, a answer) (string, bool) {
	switch {
	case a.Unknown || c.Action == write:
		return "", false
	case c.Action == swap && a.Swapped:
		return c.Expected, true
	}
	return a.Value, true
}

// History is what clients asked of registers, and were answered. Its methods may be called side by side.
type History struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{began: time.Now()} }

func (h *History) now() int64 { return int64(time.Since(h.began)) }

func (h *History) add(client int, c call, called int64, a answer, returned int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: c, Call: called, Output: a, Return: returned})
}

// Len returns how many calls there are, and of how many the outcome is not known.
func (h *History) Len() (all, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		if o.Output.(answer).Unknown {
			unknown++
		}
	}
	return len(h.ops), unknown
}

// registers is the model: each key is a register of its own, and its state the value.
var registers = porcupine.Model{
	Partition: byKey,
	Init:      func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		c, a := input.(call), output.(answer)
		switch {
		case c.Action == write, c.Action == swap && a.Unknown && state == c.Expected:
			return true, c.Value
		case a.Unknown:
			return true, state
		case c.Action == swap && a.Swapped:
			return state == c.Expected, c.Value
		case c.Action == swap:
			return state == a.Value && state != c.Expected, state
		}
		return state == a.Value, state
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

func byKey(ops []porcupine.Operation) [][]porcupine.Operation {
	var all [][]porcupine.Operation
	at := map[string]int{}
	for _, o := range ops {
		key := o.Input.(call).Key
		i, known := at[key]
		if !known {
			i = len(all)
			at[key], all = i, append(all, nil)
		}
		all[i] = append(all[i], o)
	}
	return all
}

// Check fails unless there is an order of all calls, each between its start and its end, in which every answer is
// right: no read is stale, no acknowledged write is undone, no value comes from nowhere. A call without an answer may
// take effect at any time after its start, or never. It also fails when limit is over before that is known.
func (h *History) Check(limit time.Duration) error {
	h.mu.Lock()
	ops := decided(h.ops)
	h.mu.Unlock()
	deadline := time.Now().Add(limit)
	for _, part := range byKey(ops) {
		key := part[0].Input.(call).Key
		switch porcupine.CheckOperationsTimeout(registers, part, max(time.Until(deadline), time.Millisecond)) {
		case porcupine.Illegal:
			return fmt.Errorf("the history of %s is not linearizable: %d calls", key, len(part))
		case porcupine.Unknown:
			return fmt.Errorf("whether the history of %s is linearizable is not known after %s: %d calls", key, limit, len(part))
		}
	}
	return nil
}

// decided leaves out what cannot matter and bounds what can, so that calls without an answer cost little: since every
// value is written by one call, a value that somebody saw was in place before that somebody's end; and a call whose
// value nobody saw can as well have had no effect.
func decided(ops []porcupine.Operation) []porcupine.Operation {
	first := map[[2]string]int64{} // the earliest end of a call that saw a value of a key
	for _, o := range ops {
		c := o.Input.(call)
		if value, told := saw(c, o.Output.(answer)); told {
			at := [2]string{c.Key, value}
			if end, seen := first[at]; !seen || o.Return < end {
				first[at] = o.Return
			}
		}
	}
	var left []porcupine.Operation
	for _, o := range ops {
		c := o.Input.(call)
		if !o.Output.(answer).Unknown {
			left = append(left, o)
			continue
		}
		end, seen := first[[2]string{c.Key, c.Value}]
		if c.Action == read || !seen {
			continue
		}
		o.Return = math.MaxInt64
		if end >= o.Call {
			o.Return = end
		}
		left = append(left, o)
	}
	return left
}
