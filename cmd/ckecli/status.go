package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/internal/words"
)

// redrawEvery is how often a watched screen is drawn again while nothing changes, so that ages are right.
const redrawEvery = time.Second

// statusOptions are the options of `status`.
type statusOptions struct {
	watch bool
	check bool
}

func newStatusCommand(a *app) *cobra.Command {
	var o statusOptions
	cmd := &cobra.Command{
		Use: "status [NAME]", GroupID: groupSee,
		Short: "Show a cluster on one screen",
		Long: `Show a cluster on one screen: its health and how many more members it can lose, its members, who paused it and
why, what is wrong and what to do about it, the operation under way or why there is none, and who leads.

With --check the exit code reports the health: 0 ready or being updated, 3 degraded or hibernated, 4 not known (no leader, no
status, or the members cannot be seen), 5 quorum lost.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if o.check && o.watch {
				return usageError{errors.New("--check and --watch cannot be used together"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runStatus(ctx, a, s, o)
		}),
	}
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "show it again whenever it changes")
	cmd.Flags().BoolVar(&o.check, "check", false, "report the health by the exit code")
	return cmd
}

// screen is what `status` shows.
type screen struct {
	status cke.Status
	// revision is the stored one, which the status may not know yet; 0: not known.
	revision int64
	// led reports whether a daemon leads the cluster now.
	led bool
	// hold is the pause that is asked for, nil if none is; its time may be over.
	hold *cke.Hold
}

func runStatus(ctx context.Context, a *app, s store, o statusOptions) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	if o.watch {
		return a.watchStatus(ctx, s, name, func(sc screen) view { return a.statusView(sc) })
	}
	sc, err := readStatus(ctx, s, name)
	if err != nil {
		return err
	}
	if err := a.show(a.statusView(sc)); err != nil {
		return err
	}
	if o.check {
		return a.check(sc)
	}
	return nil
}

// readStatus is readScreen, also of a cluster of which the file or the identity cannot be decoded: nothing is known of it now.
func readStatus(ctx context.Context, s store, name string) (screen, error) {
	sc, err := readScreen(ctx, s, name)
	if err == nil {
		_, err = s.Identity(ctx, name)
	}
	var e *cke.Error
	if !errors.As(err, &e) || e.Code != cke.CodeStored {
		return sc, err
	}
	st, again := s.Status(ctx, name)
	if again != nil {
		return screen{}, err
	}
	st.Health, st.Summary, st.Reason = cke.HealthUnknown, e.What, e.What
	if !slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == e.Code }) {
		st.Problems = append(st.Problems, cke.Problem{Code: e.Code, Message: e.What, Remedy: e.Try})
	}
	led, again := isLed(ctx, s, name)
	return screen{status: st, revision: sc.revision, led: led, hold: sc.hold}, again
}

func readScreen(ctx context.Context, s store, name string) (screen, error) {
	spec, err := s.Spec(ctx, name)
	if err != nil {
		return screen{}, err
	}
	st, err := s.Status(ctx, name)
	if errors.Is(err, cke.ErrNotFound) {
		return screen{}, noStatus(ctx, s, name)
	}
	if err != nil {
		return screen{}, err
	}
	hold, err := s.HoldOf(ctx, name)
	if err != nil {
		return screen{}, err
	}
	led, err := isLed(ctx, s, name)
	return screen{status: st, revision: spec.Generation, led: led, hold: hold}, err
}

func isLed(ctx context.Context, s leadership, name string) (bool, error) {
	_, err := s.Leader(ctx, name)
	if errors.Is(err, cke.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

func noStatus(ctx context.Context, s leadership, name string) error {
	if led, err := isLed(ctx, s, name); err == nil && led {
		return &cke.Error{Code: cke.CodeNoLeader, What: "the leader of " + name + " has reported no status yet", Try: "ckecli status --watch"}
	}
	return &cke.Error{Code: cke.CodeNoLeader, What: name + " has no status yet: no daemon leads it", Try: "systemctl start cke"}
}

// check is the exit code that reports the health.
func (a *app) check(sc screen) error {
	quorate, known := sc.status.Condition(cke.CondQuorate)
	switch {
	case !sc.led, a.age(sc.status) > words.StaleAfter, sc.status.Health == cke.HealthUnknown:
		return exitError(exitNoStatus)
	case sc.status.Health == cke.HealthReady && sc.status.ObservedGeneration >= sc.revision:
		return nil
	case sc.status.Health == cke.HealthUpdating:
		return nil // progress
	case sc.status.Health == cke.HealthLost:
		return exitError(exitQuorumLost)
	case sc.status.Health == cke.HealthFrozen && known && quorate.Status == cke.Unknown:
		return exitError(exitNoStatus)
	case sc.status.Health == cke.HealthFrozen && known && quorate.Status == cke.False:
		return exitError(exitQuorumLost)
	}
	return exitError(exitDegraded)
}

func (a *app) age(s cke.Status) time.Duration { return a.now().Sub(s.ObservedAt) }

// watchStatus shows the status whenever it changes, until ctx ends.
func (a *app) watchStatus(ctx context.Context, s store, name string, show func(screen) view) error {
	if _, err := s.Spec(ctx, name); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	size := a.size(a.stdout)
	if a.structured() || a.output == formatName {
		size = nil
	}
	drawn := term.NewScreen(a.stdout, size)
	var tick <-chan time.Time
	if size != nil {
		ticker := time.NewTicker(redrawEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	patience := time.NewTimer(a.patience)
	defer patience.Stop()
	clusters := s.WatchCluster(watching, name)
	statuses := s.WatchStatus(watching, name)
	sc := screen{led: true}
	for {
		select {
		case <-ctx.Done():
			return watched(ctx, ctx.Err())
		case <-patience.C:
			if sc.status.Cluster == "" {
				fmt.Fprintln(a.stderr, noStatus(ctx, s, name))
			}
			continue
		case c, open := <-clusters:
			if !open {
				return follow.WatchEnded(ctx)
			}
			if c.Spec.Generation == 0 {
				return &cke.Error{Code: cke.CodeCluster, What: "cluster " + name + " has been deleted"}
			}
			before := sc
			sc.revision, sc.hold = c.Spec.Generation, c.Hold()
			if sc.revision == before.revision && reflect.DeepEqual(sc.hold, before.hold) {
				continue
			}
		case st, open := <-statuses:
			if !open {
				return follow.WatchEnded(ctx)
			}
			sc.status = st
		case <-tick:
		}
		if sc.status.Cluster == "" {
			continue
		}
		if a.age(sc.status) > words.StaleAfter {
			sc.led, _ = isLed(ctx, s, name)
		} else {
			sc.led = true
		}
		var b bytes.Buffer
		if a.output == formatYAML {
			b.WriteString("---\n")
		}
		if err := a.showOn(&b, show(sc), size != nil && a.colour(a.stdout)); err != nil {
			return err
		}
		if err := drawn.Draw(b.String()); err != nil {
			return err
		}
	}
}
