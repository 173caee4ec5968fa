package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cke"
)

// Follow runs `ckecli history -f` from the first record on and calls see with every state of every record, as it
// happens, until see returns true. It fails when ctx or the stream ends first.
func (r *Rig) Follow(ctx context.Context, see func(cke.Record) bool) error {
	if err := each(ctx, r, see, "history", "-f", "-n", "0", "-o", "json"); err != nil {
		return fmt.Errorf("follow the history: %w", err)
	}
	return nil
}

// each runs a ckecli that prints one JSON value after the other, and calls see with each until that returns true. It fails when
// ctx or the stream ends first, with what was printed to stderr.
func each[T any](ctx context.Context, r *Rig, see func(T) bool, args ...string) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.command(running, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	for d := json.NewDecoder(out); ; {
		var value T
		if err = d.Decode(&value); err != nil || see(value) {
			break
		}
	}
	cancel()
	_ = cmd.Wait() // it was ended by us, or the stream and stderr say why
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
}

// StepBegun reports for Follow whether a step of this name has started in an operation that runs.
func StepBegun(name string) func(cke.Record) bool {
	return func(r cke.Record) bool {
		return r.State == cke.RecordRunning && slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == name })
	}
}
