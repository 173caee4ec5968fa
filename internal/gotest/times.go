package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// taken is how long a top-level test took, and the slowest of its subtests.
type taken struct {
	Seconds     float64
	Package     string
	Test        string
	Part        string  `json:",omitempty"`
	PartSeconds float64 `json:",omitempty"`
}

// note appends to the file, which several runs of one `make test` share.
func note(file string, all []taken) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(f)
	for _, t := range all {
		err = errors.Join(err, encoder.Encode(t))
	}
	return errors.Join(err, f.Close())
}

// list prints the n slowest tests of the file.
func list(w io.Writer, file string, n int) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing ran
	} else if err != nil {
		return err
	}
	defer f.Close()
	var all []taken
	d := json.NewDecoder(f)
	for {
		var t taken
		if err := d.Decode(&t); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, t)
	}
	slices.SortStableFunc(all, func(a, b taken) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Fprintf(w, "\nSlowest of %d tests:\n", len(all))
	for _, t := range all[:min(n, len(all))] {
		fmt.Fprintf(w, "%8.1f s  %s %s", t.Seconds, t.Package, t.Test)
		if t.Part != "" {
			fmt.Fprintf(w, " (slowest part %.1f s: %s)", t.PartSeconds, t.Part)
		}
		fmt.Fprintln(w)
	}
	return nil
}
