// Package contain turns panics into errors. A daemon works on the backups of many clusters: a fault in the work on one of
// them must not stop the others. Every goroutine of the packages below cke/backup is started with it, and each that holds
// backups for a restore.
package contain

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Fault is a panic that was caught.
type Fault struct {
	Value any
	Stack string
}

func (f *Fault) Error() string { return fmt.Sprintf("fault in cke: %v", f.Value) }

// Do runs work and returns its panic as an error with a *Fault.
func Do(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Fault{Value: p, Stack: string(debug.Stack())}
		}
	}()
	return work()
}

// Err wraps Do for an errgroup.
func Err(work func() error) func() error { return func() error { return Do(work) } }

// Work wraps Do for a goroutine that returns nothing: failed gets the fault, and must release those that wait for the
// goroutine.
func Work(work func(), failed func(error)) func() {
	return func() {
		if err := Do(func() error { work(); return nil }); err != nil {
			failed(err)
		}
	}
}

// Of returns the Fault in err's chain, or nil.
func Of(err error) *Fault {
	var f *Fault
	errors.As(err, &f)
	return f
}
