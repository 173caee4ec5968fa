package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/internal/words"
)

// historyOptions are the options of `history`.
type historyOptions struct {
	id     int64 // 0: all
	n      int
	follow bool
	// past is set if a user asked for n older ones when following.
	past bool
	// since leaves out operations that ended before it; zero: none.
	since time.Time
}

func newHistoryCommand(a *app) *cobra.Command {
	var o historyOptions
	since := ""
	cmd := &cobra.Command{
		Use: "history [ID]", GroupID: groupSee,
		Short: "Show what was done and why, with every step",
		Long: `Show the operations on a cluster, newest first: what was done, on which nodes, how long it took and why.
-o wide shows when each started; --since 2h shows what was active in the last two hours. With an ID its steps are shown. With -f
steps are shown as they happen, until Ctrl-C; with an ID, until this operation is over. Following starts with what is under way,
or with the last N operations if -n is given.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeRecords()),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				id, err := strconv.ParseInt(strings.TrimPrefix(args[0], "#"), 10, 64)
				if err != nil || id < 1 {
					return usageError{fmt.Errorf("invalid operation id %q: want a number from 1", args[0]), cmd.CommandPath()}
				}
				o.id = id
			}
			o.past = cmd.Flags().Changed("number")
			if since != "" {
				var err error
				if o.since, err = parseWhen(since, a.now()); err != nil {
					return usageError{fmt.Errorf("--since: %w", err), cmd.CommandPath()}
				}
				if o.id > 0 || o.follow {
					return usageError{errors.New("--since selects from the list: use it without ID and -f"), cmd.CommandPath()}
				}
				if !o.past {
					o.n = 0
				}
			}
			return notNegative(cmd, "-n", o.n)
		},
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runHistory(ctx, a, s, o)
		}),
	}
	cmd.Flags().IntVarP(&o.n, "number", "n", 20, "how many to show; 0: all")
	cmd.Flags().StringVar(&since, "since", "", "only what was active at or after this `time`, as 2h, 3d or 2026-05-02T03:10:44Z")
	must(cmd.RegisterFlagCompletionFunc("since", cobra.NoFileCompletions))
	cmd.Flags().BoolVarP(&o.follow, "follow", "f", false, "show what happens, as it happens")
	return cmd
}

func runHistory(ctx context.Context, a *app, s store, o historyOptions) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	if o.id > 0 {
		r, err := s.Record(ctx, name, o.id)
		if errors.Is(err, cke.ErrNotFound) {
			return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("%s has no operation %d", name, o.id), Unchanged: true, Try: a.again(name, "history")}
		}
		if err != nil {
			return err
		}
		if o.follow {
			return followHistory(ctx, a, s, name, o)
		}
		return a.show(view{data: r, names: []string{fmt.Sprint(r.ID)}, table: func(w io.Writer, colour, _ bool) error {
			return a.renderRecord(w, r, colour)
		}})
	}
	if _, err := s.Spec(ctx, name); err != nil {
		return err
	}
	if o.follow {
		return followHistory(ctx, a, s, name, o)
	}
	records, err := s.Records(ctx, name, o.n)
	if err != nil {
		return err
	}
	none := "Nothing was done on %s yet.\n"
	if !o.since.IsZero() {
		none = "Nothing was done on %s since " + o.since.UTC().Format(time.RFC3339) + ".\n"
		records = slices.DeleteFunc(records, func(r cke.Record) bool { return !r.EndedAt.IsZero() && r.EndedAt.Before(o.since) })
	}
	names := []string{}
	for _, r := range records {
		names = append(names, fmt.Sprint(r.ID))
	}
	return a.show(view{data: append([]cke.Record{}, records...), names: names, table: func(w io.Writer, colour, wide bool) error {
		if len(records) == 0 {
			fmt.Fprintf(a.stderr, none, name)
			return nil
		}
		return a.recordTable(records, wide).Write(w, colour)
	}})
}

func (a *app) recordTable(records []cke.Record, wide bool) *term.Table {
	header := []string{"ID", "STATE", "OPERATION", "TARGETS", "STARTED", "TOOK", "REASON"}
	if wide {
		header = []string{"ID", "STATE", "OPERATION", "TARGETS", "STARTED", "TOOK", "REVISION", "BY", "REASON", "ERROR"}
	}
	t := term.NewTable(header...)
	for _, r := range records {
		reason, started := words.Why(r), a.ago(r.StartedAt)+" ago"
		if wide {
			reason, started = r.Reason, words.Moment(r.StartedAt)
		}
		cells := []term.Cell{term.Textf("%d", r.ID), term.Styled(words.OutcomeStyle(r.State, r.Refused), r.Outcome()), term.Text(r.Operation),
			term.Text(strings.Join(r.Targets, ",")), term.Text(started), term.Text(term.Took(r.Took(a.now())))}
		if wide {
			cells = append(cells, term.Textf("%d", r.Generation), term.Textf("%s, term %d", r.Host, r.Term))
		}
		t.Add(append(cells, term.Text(reason), term.Text(r.Error))...)
	}
	return t
}

// renderRecord writes one record with its steps.
func (a *app) renderRecord(w io.Writer, r cke.Record, colour bool) error {
	l := &term.Labels{}
	l.Add("Operation", term.Text(words.Heading(r)))
	l.Add("State", term.Styled(words.OutcomeStyle(r.State, r.Refused), r.Outcome()))
	l.Add("Reason", term.Text(r.Reason))
	l.Add("Started", term.Textf("%s, %s ago", words.Moment(r.StartedAt), a.ago(r.StartedAt)))
	l.Add("Took", term.Text(term.Took(r.Took(a.now()))))
	l.Add("Revision", term.Textf("%d", r.Generation))
	l.Add("By", term.Textf("%s, term %d", r.Host, r.Term))
	if r.Error != "" {
		l.Add("Error", term.Styled(words.OutcomeStyle(r.State, r.Refused), words.WithCode(r.Error, r.Code)))
	}
	if err := l.Write(w, colour); err != nil || len(r.Steps) == 0 {
		return err
	}
	t := term.NewTable("STEP", "NODE", "AFTER", "TOOK", "RESULT")
	for _, s := range r.Steps {
		t.Add(a.stepRow(r, s)...)
	}
	fmt.Fprintln(w)
	return t.Write(w, colour)
}

func (a *app) stepRow(r cke.Record, s cke.StepRecord) []term.Cell {
	end, style, text := words.StepResult(a.now(), r, s)
	return []term.Cell{term.Text(s.Name), term.Text(s.Node), term.Text(term.Took(s.StartedAt.Sub(r.StartedAt))),
		term.Text(term.Took(end.Sub(s.StartedAt))), term.Styled(style, text)}
}

// followHistory shows steps as they happen. What is shown is the output here, so it goes to stdout.
func followHistory(ctx context.Context, a *app, s store, name string, o historyOptions) error {
	after := o.id - 1
	if o.id == 0 {
		var err error
		if after, err = followFrom(ctx, s, name, o); err != nil {
			return err
		}
	}
	if a.structured() || a.output == formatName {
		return a.streamRecords(ctx, s, name, after, o.id)
	}
	f := &follow.Follower{Store: s, Cluster: name, After: after,
		Tell: follow.NewNarrator(term.NewLive(a.stdout, a.size(a.stdout)), a.colour(a.stdout), a.now)}
	return watched(ctx, f.Records(ctx, o.id))
}

// followFrom returns the id after which records are shown.
func followFrom(ctx context.Context, s tellings, name string, o historyOptions) (int64, error) {
	if !o.past {
		return follow.NewestRecord(ctx, s, name)
	}
	records, err := s.Records(ctx, name, o.n)
	if err != nil || len(records) == 0 {
		return 0, err
	}
	return records[len(records)-1].ID - 1, nil
}

// streamRecords writes every state of every record from one on, one JSON document on a line or YAML documents.
func (a *app) streamRecords(ctx context.Context, s tellings, name string, after, only int64) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for r := range s.WatchRecords(watching, name, after) {
		if only > 0 && r.ID != only {
			continue
		}
		var err error
		switch a.output {
		case formatJSON:
			err = json.NewEncoder(a.stdout).Encode(r)
		case formatYAML:
			fmt.Fprintln(a.stdout, "---")
			err = writeYAML(a.stdout, r)
		default:
			_, err = fmt.Fprintln(a.stdout, r.ID)
		}
		if err != nil || only > 0 && !r.EndedAt.IsZero() {
			return err
		}
	}
	return watched(ctx, follow.WatchEnded(ctx))
}
