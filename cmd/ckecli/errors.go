package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cke"
	"cke/clusterfile"
	"cke/internal/term"
)

// Exit codes; scripts rely on them. Source: docs/cli.md.
const (
	exitDone        = 0
	exitFailed      = 1
	exitChanges     = 2
	exitDegraded    = 3
	exitNoStatus    = 4
	exitQuorumLost  = 5
	exitRefused     = 6
	exitTimedOut    = 7
	exitStore       = 8
	exitDamaged     = 9
	exitUsage       = 64
	exitInterrupted = 130
)

// exitOf is the exit code of a coded error; all others are exitFailed.
var exitOf = map[cke.Code]int{
	cke.CodeConfig:    exitRefused,
	cke.CodeConflict:  exitRefused,
	cke.CodeQuorum:    exitRefused,
	cke.CodeConfirm:   exitRefused,
	cke.CodeNotPaused: exitRefused,
	cke.CodeCannot:    exitRefused,
	cke.CodeDrain:     exitRefused,
	cke.CodeVersion:   exitRefused,
	cke.CodeSchema:    exitRefused,
	cke.CodeStranger:  exitRefused,
	cke.CodeFrozen:    exitRefused,
	cke.CodeAuth:      exitRefused,
	cke.CodeUser:      exitRefused,
	cke.CodeRecord:    exitRefused,
	cke.CodeStored:    exitNoStatus,
	cke.CodeVolume:    exitRefused,
	cke.CodeSSHKey:    exitRefused,
	cke.CodeStore:     exitStore,
	cke.CodeNoLeader:  exitNoStatus,

	cke.CodeBackupDamaged: exitDamaged,
	cke.CodeBackupEmpty:   exitDamaged,
	cke.CodeUntrusted:     exitDamaged,
	cke.CodeBackupsBusy:   exitRefused,
	cke.CodeBackupRefused: exitRefused,
	cke.CodeNotCovered:    exitRefused,
	cke.CodeImport:        exitRefused,
}

// sentinels inform programs, and say nothing that the message does not.
var sentinels = []error{cke.ErrNotFound, cke.ErrConflict, cke.ErrDeposed}

// usageError is a command line that means nothing.
type usageError struct {
	error
	// command is the command's full name, as "ckecli cluster set".
	command string
}

// exitError ends with an exit code and without a message: the output has said it all.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exitWith gives an error another exit code than its own.
type exitWith struct {
	error
	exit int
}

func (e exitWith) Unwrap() error { return e.error }

// refused makes an error a refusal.
func refused(err error) error { return exitWith{err, exitRefused} }

// detachedError ends a command that followed work which continues without it.
type detachedError struct {
	// state says what continues; how says how to follow it again.
	state, how string
}

func (e detachedError) Error() string { return e.state }

// failure is an error as it is shown.
type failure struct {
	exit      int
	code      string // empty: none
	message   string
	facts     []string
	faults    []clusterfile.Fault
	unchanged bool
	try       string
	// note: what is shown is no error.
	note bool
}

// failureOf turns the error of a command, whose context was ctx, into what is shown.
func failureOf(ctx context.Context, err error) failure {
	var (
		usage    usageError
		silent   exitError
		detached detachedError
		coded    *cke.Error
		other    exitWith
		early    unstored
	)
	timedOut := errors.Is(context.Cause(ctx), errTimedOut)
	unchanged := errors.As(err, &early) || errors.As(err, &coded) && coded.Unchanged
	switch {
	case errors.As(err, &usage):
		return failure{exit: exitUsage, code: "usage", message: usage.Error(), try: usage.command + " --help"}
	case errors.As(err, &silent):
		return failure{exit: int(silent)}
	case errors.As(err, &detached) && timedOut:
		return failure{exit: exitTimedOut, code: "timeout", message: "waiting timed out: " + detached.state, try: detached.how}
	case errors.As(err, &detached):
		return failure{exit: exitInterrupted, code: "interrupted", message: "Detached: " + detached.state, try: detached.how, note: true}
	case timedOut:
		return failure{exit: exitTimedOut, code: "timeout", message: "no answer within the time that --timeout allows", unchanged: unchanged}
	case ctx.Err() != nil && (!errors.As(err, &coded) || coded.Code == cke.CodeStore):
		return failure{exit: exitInterrupted, code: "interrupted", message: "Interrupted.", unchanged: unchanged, note: true}
	case errors.As(err, &coded):
		f := codedFailure(coded, err)
		if errors.As(err, &other) {
			f.exit = other.exit
		}
		return f
	}
	return failure{exit: exitFailed, code: string(cke.CodeInternal), message: err.Error()}
}

func codedFailure(e *cke.Error, err error) failure {
	f := failure{exit: exitFailed, code: string(e.Code), message: e.What, facts: slices.Clone(e.Facts), unchanged: e.Unchanged, try: e.Try}
	if f.try == "" && e.Code != "" && e.Code != cke.CodeInternal && e.Code != cke.CodeConfig { // no error leaves its reader without a way out
		f.try = "ckecli help " + string(e.Code)
	}
	if exit, ok := exitOf[e.Code]; ok {
		f.exit = exit
	}
	// What the callers said around it.
	if around, found := strings.CutSuffix(err.Error(), e.Error()); found {
		f.message = around + f.message
	}
	var faults *clusterfile.FaultList
	switch {
	case errors.As(e.Err, &faults):
		f.faults = faults.Faults
		for _, fault := range faults.Faults {
			f.facts = append(f.facts, fault.String())
		}
	case slices.Contains(sentinels, e.Err):
	case e.Err != nil:
		f.facts = append(f.facts, e.Err.Error())
	}
	return f
}

// write shows the failure: what and where, the facts, whether anything was changed, the way out.
func (f failure) write(w io.Writer, asJSON, colour bool) {
	if asJSON {
		f.writeJSON(w)
		return
	}
	var b strings.Builder
	switch {
	case f.note:
	case f.code == "" || !strings.HasPrefix(f.code, "CKE"):
		b.WriteString(term.Paint(colour, term.Alarm, "error:") + " ")
	default:
		b.WriteString(term.Paint(colour, term.Alarm, "error["+f.code+"]:") + " ")
	}
	b.WriteString(term.Clean(f.message) + "\n")
	for _, fact := range f.facts {
		for _, line := range strings.Split(fact, "\n") {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			b.WriteString("  " + indent + term.Clean(strings.TrimLeft(line, " ")) + "\n")
		}
	}
	if f.unchanged {
		b.WriteString("Nothing was changed.\n")
	}
	if f.try != "" {
		b.WriteString("Try: " + f.try + "\n")
	}
	io.WriteString(w, b.String()) // there is nowhere to report a fault
}

func (f failure) writeJSON(w io.Writer) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(struct {
		Code      string              `json:"code"`
		Message   string              `json:"message"`
		Facts     []string            `json:"facts"`
		Faults    []clusterfile.Fault `json:"faults,omitempty"`
		Unchanged bool                `json:"unchanged"`
		Try       string              `json:"try,omitempty"`
	}{f.code, f.message, append([]string{}, f.facts...), f.faults, f.unchanged, f.try})
}
