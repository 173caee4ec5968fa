package cke

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Sentinel errors; ask with errors.Is.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("already exists and differs")
	ErrDeposed     = errors.New("this daemon no longer leads the cluster")
	ErrDataMissing = errors.New("the member's data is missing")
	ErrUnreachable = errors.New("unreachable")
	ErrNotReady    = errors.New("not ready yet")
	ErrCompacted   = errors.New("already compacted")
	// ErrMalformed: what was read cannot be decoded, now or later.
	ErrMalformed = errors.New("malformed")
	// ErrNoTarget: the cluster file declares no backup target. No target's own error is this one.
	ErrNoTarget = errors.New("no backup target is declared")
)

// sentinels tell programs, and say nothing to people that a message around them does not.
var sentinels = []error{ErrNotFound, ErrConflict, ErrDeposed, ErrDataMissing, ErrUnreachable, ErrNotReady, ErrCompacted, ErrNoTarget}

// Code is the stable name of an error or a problem, as "CKE104"; `ckecli help CODE` explains it.
type Code string

// Error is an error that the operator can act on.
type Error struct {
	Code Code
	// What is one line: what and where.
	What string
	// Facts are further lines, one fact each.
	Facts []string
	// Unchanged says that nothing was changed.
	Unchanged bool
	// Try is a command that helps, or empty.
	Try string
	// Err is the cause, or nil.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	for _, f := range e.Facts {
		fmt.Fprintf(&b, "; %s", f)
	}
	if e.Err != nil && !slices.Contains(sentinels, e.Err) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code in err's chain, or CodeInternal.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) && e.Code != "" {
		return e.Code
	}
	return CodeInternal
}
