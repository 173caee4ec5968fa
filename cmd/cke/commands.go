package main

import (
	"context"
	"maps"
	"slices"

	"cke"
	"cke/internal/bounded"
	"cke/server"
)

// commands are those of the configuration file.
type commands map[string][]string

var _ server.CommandRunner = commands{}

// Names implements server.CommandRunner.
func (c commands) Names() []string { return slices.Sorted(maps.Keys(c)) }

// Run implements server.CommandRunner.
func (c commands) Run(ctx context.Context, run cke.CommandRun, args ...string) (string, error) {
	words, known := c[run.Name]
	if !known {
		return "", &cke.Error{Code: cke.CodeConfig, What: "the configuration has no command " + run.Name, Err: cke.ErrNotFound}
	}
	return bounded.Run{Program: words[0], Args: slices.Concat(words[1:], args), Env: run.Environment(), Limit: run.Limit, Output: cke.MaxCommandOutput}.Do(ctx)
}
