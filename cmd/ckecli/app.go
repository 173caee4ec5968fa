package main

import (
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"cke"
	"cke/clusterfile"
	"cke/internal/follow"
)

// errTimedOut is why a context ended that --timeout bounds.
var errTimedOut = errors.New("timed out")

// app is what commands work with. Collaborators are passed in.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
	open           opener

	// patience is how long following waits for a first sign of a leader, and silence how long nothing may be reported after it,
	// before it is asked why.
	patience, silence time.Duration
	// bound ends a context with --timeout.
	bound func(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc)
	// editing is set if an editor has the terminal.
	editing atomic.Bool

	global
	store  store // nil until a command asked for it
	loaded *cke.Config
	cancel context.CancelFunc
}

// global are the options of every command.
type global struct {
	config  string
	cluster string
	output  string
	timeout time.Duration
	// configGiven is set if a user named the configuration file, on the command line or in the environment.
	configGiven bool
	// clusterFlag is --cluster as it stands on the command line.
	clusterFlag string
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string, now func() time.Time, open opener) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr, getenv: getenv, now: now, open: open, patience: follow.LeaderPatience, silence: follow.SilencePatience,
		bound: context.WithTimeoutCause, cancel: func() {}}
}

// run executes one command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	defer a.cancel()
	if a.store != nil {
		defer a.store.Close()
	}
	if err == nil {
		return exitDone
	}
	if cmd != nil && cmd.Context() != nil {
		ctx = cmd.Context()
	}
	f := failureOf(ctx, err)
	f.try = a.aimed(cmd, f.try)
	if f.message != "" {
		f.write(a.stderr, a.jsonErrors(args), a.colour(a.stderr))
	}
	return f.exit
}

// loadConfig reads the configuration file once.
func (a *app) loadConfig() (cke.Config, error) {
	if a.loaded == nil {
		c, err := clusterfile.LoadConfig(a.config, a.configGiven)
		if err != nil {
			return cke.Config{}, err
		}
		a.loaded = &c
	}
	return *a.loaded, nil
}

// connect opens the store once. It is closed when the command line ends.
func (a *app) connect(ctx context.Context) (store, error) {
	if a.store != nil {
		return a.store, nil
	}
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	s, err := a.open(ctx, c)
	if err != nil {
		var coded *cke.Error
		if errors.As(err, &coded) {
			coded.Unchanged = true // nothing is done before the store is open
		}
		return nil, unstored{err}
	}
	a.store = s
	return s, nil
}

// colour reports whether w shows colors.
func (a *app) colour(w io.Writer) bool {
	return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" && a.terminal(w)
}

// terminal reports whether w, or a reader, is a terminal.
func (a *app) terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// size returns how to measure w, or nil when it is no terminal that can be redrawn.
func (a *app) size(w io.Writer) func() (columns, rows int) {
	if !a.terminal(w) || a.getenv("TERM") == "dumb" {
		return nil
	}
	return func() (int, int) {
		columns, rows, err := term.GetSize(int(w.(*os.File).Fd()))
		if err != nil || columns <= 0 {
			return 80, 24
		}
		return columns, rows
	}
}
