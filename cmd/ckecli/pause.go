package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/words"
)

// pauses are what users ask leaders to leave alone.
type pauses interface {
	SetHold(ctx context.Context, cluster string, h cke.Hold) error
	EndHold(ctx context.Context, cluster string) error
	HoldOf(ctx context.Context, cluster string) (*cke.Hold, error)
}

// pauseOptions are the options of `pause`.
type pauseOptions struct {
	reason string
	// limit is how long the pause lasts; 0: until it is ended.
	limit time.Duration
}

func newPauseCommand(a *app) *cobra.Command {
	var o pauseOptions
	cmd := &cobra.Command{
		Use: "pause --reason TEXT", GroupID: groupWant, Args: arguments(0, 0),
		Short: "Pause changes to a cluster (observation and backups continue)",
		Long: `Pause changes to a cluster: cke continues to observe it and to back it up, and changes nothing. It does not even start
members that have stopped, so a paused cluster recovers from no failure. Members that run continue to serve.

The status shows the reason. A pause is active until ` + "`ckecli resume`" + `, or with --for until its time
is over. Pausing again replaces the reason and the time.`,
		Example: "  ckecli pause --reason 'new switch in rack 2' --for 2h",
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			o.reason = strings.TrimSpace(o.reason)
			switch {
			case o.reason == "":
				return usageError{errors.New("--reason is missing: say why, for other operators"), cmd.CommandPath()}
			case cmd.Flags().Changed("for") && o.limit <= 0:
				return usageError{fmt.Errorf("--for %s: must be greater than zero", o.limit), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runPause(ctx, a, s, o)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.reason, "reason", "", "`text` that says why; required")
	f.DurationVar(&o.limit, "for", 0, "how long, as 30m or 2h (default: until resumed)")
	must(cmd.RegisterFlagCompletionFunc("reason", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("for", cobra.NoFileCompletions))
	return cmd
}

func newResumeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "resume", GroupID: groupWant, Args: arguments(0, 0),
		Short: "End the pause of a cluster",
		Long:  "End the pause of a cluster. cke continues with what is to be done, from what it observes now. It is refused if the cluster is not paused.",
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runResume(ctx, a, s)
		}),
	}
}

// runPause asks for a pause in place of the one that is there.
func runPause(ctx context.Context, a *app, s interface {
	specs
	pauses
}, o pauseOptions) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	before, err := s.HoldOf(ctx, cluster)
	if err != nil {
		return err
	}
	now := a.now().UTC()
	h := cke.Hold{Reason: o.reason, By: a.whoami(), Since: now}
	if o.limit > 0 {
		h.Until = now.Add(o.limit)
	}
	if err := s.SetHold(ctx, cluster, h); err != nil {
		return err
	}
	if before.Active(now) {
		fmt.Fprintf(a.stderr, "It replaces the pause: %s\n", words.Hold(*before))
	}
	return a.showPaused(paused{cluster, true, &h}, fmt.Sprintf("%s is paused: %s", cluster, words.Hold(h)))
}

// runResume ends a pause. One whose time is over is none.
func runResume(ctx context.Context, a *app, s interface {
	specs
	pauses
}) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	h, err := s.HoldOf(ctx, cluster)
	if err != nil {
		return err
	}
	if h != nil && !h.Active(a.now()) {
		return &cke.Error{Code: cke.CodeNotPaused, What: "cluster " + cluster + " is not paused", Facts: []string{"its pause ended by itself at " + words.Moment(h.Until)}, Unchanged: true}
	}
	if err := s.EndHold(ctx, cluster); err != nil {
		return err
	}
	return a.showPaused(paused{cluster, false, h}, cluster+" is no longer paused")
}

// paused is what `pause` and `resume` write for programs.
type paused struct {
	Cluster string `json:"cluster"`
	Paused  bool   `json:"paused"`
	// Hold is the pause that was asked for, or that was ended.
	Hold *cke.Hold `json:"hold,omitempty"`
}

func (a *app) showPaused(p paused, line string) error {
	return a.showLine(p, p.Cluster, line)
}
