package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/cmd/ckecli/internal/term"
	"cke/storage"
)

// setOptions are the options of `cluster set`.
type setOptions struct {
	dryRun     bool
	noWait     bool
	yes        bool
	ifRevision *int64
	// plan is the hash of the only plan that is to be carried out; empty: any.
	plan string
}

func newClusterSetCommand(a *app) *cobra.Command {
	var o setOptions
	var revision int64
	cmd := &cobra.Command{
		Use:   "set FILE|-",
		Short: "Store a cluster file, and follow the work until the cluster is ready",
		Long: `Check a cluster file, store it as a new revision, and follow the work until the cluster is ready.

Every fault in the file is told at once, and nothing is stored then. A file that means the same as the stored one
makes no new revision. A file that takes away a member without which quorum would be lost is refused; one with fewer
members than the stored one is confirmed, or set with --yes. Ctrl-C stops following; the work goes on.`,
		Example: "  ckecli cluster set cluster.yml\n  ckecli cluster set --if-revision 4 - < cluster.yml\n  ckecli cluster set cluster.yml --plan 5f0c7a12b3d4e6f8",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("if-revision") {
				o.ifRevision = &revision
			}
			return runSet(cmd.Context(), a, args[0], o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "check and compare, store nothing")
	f.StringVar(&o.plan, "plan", "", "store only if the plan still has this `hash`, which ckecli plan tells")
	f.BoolVar(&o.noWait, "no-wait", false, "return once the file is stored")
	f.BoolVarP(&o.yes, "yes", "y", false, "confirm that there are to be fewer members")
	f.Int64Var(&revision, "if-revision", 0, "store only if this `revision` is the stored one; 0: only if there is none")
	return cmd
}

// runSet stores a cluster file and follows the work that it leads to.
func runSet(ctx context.Context, a *app, file string, o setOptions) error {
	begun := a.now()
	c, data, err := a.readCluster(ctx, file)
	if err != nil {
		return err
	}
	if err := a.sameCluster(file, c); err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if o.dryRun {
		return runSetDry(ctx, a, s, c, file, o)
	}
	if _, err := a.checkPlan(ctx, s, c, file, &o); err != nil {
		return err
	}
	before, err := s.Spec(ctx, c.Name)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	if question, err := fewer(ctx, s, before.Cluster, c); err != nil {
		return err
	} else if question != "" && !o.yes {
		if err := a.confirmYes(ctx, "taking members of "+c.Name+" away", question, a.again(c.Name, "cluster set "+file+" --yes")); err != nil {
			return err
		}
		if _, err := a.checkPlan(ctx, s, c, file, &o); err != nil { // answering takes its time
			return err
		}
	}
	var spec cke.Spec
	newest, err := a.change(ctx, s, c.Name, "the file was stored", "cluster log", func() (err error) {
		spec, err = s.SetSpec(ctx, c.Name, c, data, a.whoami(), storage.SetOptions{IfGeneration: o.ifRevision})
		return err
	})
	if err != nil {
		return err
	}
	stored := setResult{Cluster: c.Name, Revision: spec.Generation, Changed: spec.Generation != before.Generation}
	if stored.Changed {
		fmt.Fprintf(a.stderr, "%s: stored as revision %d\n", c.Name, spec.Generation)
	} else {
		fmt.Fprintf(a.stderr, "%s: revision %d says the same already\n", c.Name, spec.Generation)
	}
	if o.noWait {
		return a.showSet(stored, fmt.Sprintf("%d", spec.Generation))
	}
	var line string
	stored.outcome, line, err = a.followReady(ctx, s, goal{cluster: c.Name, revision: spec.Generation, is: "stored", newest: newest, begun: begun})
	if err != nil {
		return err
	}
	return a.showSet(stored, line)
}

// fewer is the question that a file is confirmed with that leaves a formed cluster fewer members; "": it does not.
func fewer(ctx context.Context, s planStore, was, wanted cke.Cluster) (string, error) {
	var gone []string
	for _, n := range was.ControlPlane() {
		if !slices.ContainsFunc(wanted.ControlPlane(), func(m cke.Node) bool { return m.Address == n.Address }) {
			gone = append(gone, n.Name())
		}
	}
	from, to := len(was.ControlPlane()), len(wanted.ControlPlane())
	if to >= from {
		return "", nil
	}
	if id, err := s.Identity(ctx, wanted.Name); err != nil || !isFormed(id) {
		return "", err
	}
	return fmt.Sprintf("%s to carry no member any more: %d of %d members can be lost now, %d of %d then. Store it?", are(gone), from-cke.Quorum(from), from, to-cke.Quorum(to), to), nil
}

// are is the beginning of a sentence about nodes.
func are(nodes []string) string {
	if len(nodes) == 1 {
		return nodes[0] + " is"
	}
	return strings.Join(nodes, ", ") + " are"
}

// goal is a revision of a cluster that is to be reached.
type goal struct {
	cluster  string
	revision int64
	// is tells what is done to it already, as "stored".
	is string
	// newest is the newest record that was there when the command was begun.
	newest int64
	begun  time.Time
	// void, if set, is asked about each spec that is stored meanwhile; its error ends the following.
	void func(cke.Spec) error
}

// outcome is how followed work ended, for programs; the zero value when it was not followed.
type outcome struct {
	Health    cke.Health `json:"health,omitempty"`
	Ready     int        `json:"ready,omitempty"`
	Tolerance *int       `json:"tolerance,omitempty"`
	Took      float64    `json:"took,omitempty"` // seconds
}

// followReady follows the work until the cluster is ready for the revision, and returns the line that says so.
func (a *app) followReady(ctx context.Context, s store, g goal) (outcome, string, error) {
	f := a.newFollower(s, g.cluster, g.newest)
	f.about = func(s cke.Status) bool { return s.Generation >= g.revision }
	same := f.sameSpec(g.revision)
	f.declared = func(now cke.Spec) error {
		if g.void != nil {
			if err := g.void(now); err != nil {
				return err
			}
		}
		return same(now)
	}
	st, err := f.until(ctx, func(s cke.Status) bool {
		return s.ObservedGeneration >= g.revision && s.Health == cke.HealthReady
	})
	if err != nil {
		goesOn := "cke goes on working on it"
		if f.tell.alone {
			goesOn = "the work begins once a daemon leads the cluster"
		}
		state := fmt.Sprintf("revision %d of %s is %s, and %s", g.revision, g.cluster, g.is, goesOn)
		return outcome{}, "", detached(ctx, err, state, a.again(g.cluster, "history -f"))
	}
	took := a.now().Sub(g.begun)
	return outcome{st.Health, st.Ready, &st.Tolerance, took.Seconds()}, readyLine(st, took), nil
}

// sameSpec ends the following once the cluster is to be deleted, and says so when another revision is set meanwhile.
func (f *follower) sameSpec(newest int64) func(cke.Spec) error {
	return func(now cke.Spec) error {
		switch {
		case now.Generation == 0:
			return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s was deleted meanwhile", f.cluster)}
		case now.Deleting():
			return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("%s asked meanwhile for cluster %s to be deleted", now.DeleteRequestedBy, f.cluster)}
		case now.Generation > newest:
			newest = now.Generation
			f.tell.out.Print(term.Clean(fmt.Sprintf("%s set revision %d meanwhile; cke works on that one", now.SetBy, newest)))
		}
		return nil
	}
}

// setResult is what `cluster set` writes for programs.
type setResult struct {
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
	Changed  bool   `json:"changed"`
	outcome
}

func (a *app) showSet(r setResult, line string) error {
	return a.showLine(r, r.Cluster, line)
}

// readyLine is the one line at the end of a success.
func readyLine(s cke.Status, took time.Duration) string {
	serve := "members serve"
	if s.Ready == 1 {
		serve = "member serves"
	}
	return fmt.Sprintf("%s is ready: %d %s, can lose %d (took %s)", s.Cluster, s.Ready, serve, max(s.Tolerance, 0), term.Took(took))
}

// readCluster reads and checks a cluster file; "-" is standard input. Warnings are told.
func (a *app) readCluster(ctx context.Context, file string) (cke.Cluster, []byte, error) {
	data, err := a.readFile(ctx, file)
	if err != nil {
		return cke.Cluster{}, nil, err
	}
	c, warnings, err := cke.ParseCluster(fileName(file), data)
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", w)
	}
	var coded *cke.Error
	if errors.As(err, &coded) {
		coded.Unchanged = true
	}
	return c, data, err
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// maxFile bounds what is read from a file or standard input, in bytes.
const maxFile = 1 << 20

// readFile reads a file, or standard input for "-". Reading what a person types ends with ctx, too.
func (a *app) readFile(ctx context.Context, file string) ([]byte, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &cke.Error{Code: cke.CodeConfig, What: "cannot read " + file, Unchanged: true, Err: plainError(err)}
		}
		defer f.Close()
		in = f
	}
	var data []byte
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		data, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case err != nil:
		return nil, &cke.Error{Code: cke.CodeConfig, What: "cannot read " + fileName(file), Unchanged: true, Err: plainError(err)}
	case len(data) > maxFile:
		return nil, &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("%s is larger than %d bytes", fileName(file), maxFile), Unchanged: true}
	}
	return data, nil
}

// plainError is err without the operation and the path that the message has already.
func plainError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// again is a command line of ckecli for this cluster.
func (a *app) again(cluster, command string) string {
	if a.cluster == "" {
		return "ckecli " + command
	}
	return "ckecli " + command + " --cluster " + cluster
}
