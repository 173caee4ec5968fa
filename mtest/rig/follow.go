package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"cke"
)

// Follow runs `ckecli history -f` from the first record on and calls see with every state of every record, as it
// happens, until see returns true. It fails when ctx or the stream ends first.
func (r *Rig) Follow(ctx context.Context, see func(cke.Record) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	cmd := r.command(ctx, "history", "-f", "-n", "0", "-o", "json")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return fmt.Errorf("follow the history: %w", err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait() // it was ended by us, or the stream says why
	}()
	for d := json.NewDecoder(out); ; {
		var rec cke.Record
		if err := d.Decode(&rec); err != nil {
			if errors.Is(err, io.EOF) && ctx.Err() != nil {
				err = ctx.Err()
			}
			return fmt.Errorf("follow the history: %w", err)
		}
		if see(rec) {
			return nil
		}
	}
}

// StepBegun tells for Follow whether a step of this name has begun in an operation that runs.
func StepBegun(name string) func(cke.Record) bool {
	return func(r cke.Record) bool {
		return r.State == cke.RecordRunning && slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Name == name })
	}
}
