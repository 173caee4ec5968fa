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
	ErrConflict    = errors.New("already there and different")
	ErrDeposed     = errors.New("this daemon no longer leads the cluster")
	ErrDataMissing = errors.New("the member's data is not there")
	ErrUnreachable = errors.New("unreachable")
	ErrNotReady    = errors.New("not ready yet")
	ErrCompacted   = errors.New("compacted already")
)

// sentinels tell programs, and say nothing to people that a message around them does not.
var sentinels = []error{ErrNotFound, ErrConflict, ErrDeposed, ErrDataMissing, ErrUnreachable, ErrNotReady, ErrCompacted}

// Code is a stable name of a refusal or a problem, as "CKE104"; explained by `ckecli help CODE`.
type Code string

// Error is a refusal or failure that a person can act on.
type Error struct {
	Code Code
	// What is one line: what and where.
	What string
	// Facts are further lines, each a fact.
	Facts []string
	// Unchanged tells that nothing was changed.
	Unchanged bool
	// Try is a command that leads out, or empty.
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
