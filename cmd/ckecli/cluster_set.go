package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
	"cke/quorum"
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
	// ifSource is the only text that may be replaced; nil: any.
	ifSource *string
}

func newClusterSetCommand(a *app) *cobra.Command {
	var o setOptions
	cmd := &cobra.Command{
		Use:   "set FILE|-",
		Short: "Store a cluster file, and follow the work until the cluster is ready",
		Long: `Check a cluster file, store it as a new revision, and follow the work until the cluster is ready.

All errors in the file are shown together, and nothing is stored then. A file that means the same as the stored one
makes no new revision. A file that removes a member without which quorum would be lost is refused; confirm one with fewer
members than the stored one, one after which more zones cannot be lost, or one whose changes interrupt service, or give
--yes. A file whose version no member can ever reach is refused, too. Ctrl-C stops following; the work continues.`,
		Example: "  ckecli cluster set cluster.yml\n  ckecli cluster set --if-revision 4 - < cluster.yml\n  ckecli cluster set cluster.yml --plan 5f0c7a12b3d4e6f8",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSet(cmd.Context(), a, args[0], o)
		},
	}
	o.flags(cmd)
	return cmd
}

// flags are those of a command that stores a text that is there already.
func (o *setOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "check and compare, store nothing")
	f.StringVar(&o.plan, "plan", "", "store only if the plan still has this `hash`, which ckecli plan and --dry-run show")
	o.storingFlags(cmd)
	revision := f.Int64("if-revision", 0, "store only if this `revision` is the stored one; 0: only if there is none")
	cmd.PreRun = func(*cobra.Command, []string) {
		if f.Changed("if-revision") {
			o.ifRevision = revision
		}
	}
}

// storingFlags are those of every command that stores a text.
func (o *setOptions) storingFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once the file is stored")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm fewer members, worse zones, or an interruption of service")
}

// runSet stores a cluster file and follows the work that it leads to.
func runSet(ctx context.Context, a *app, file string, o setOptions) error {
	begun := a.now()
	c, text, err := a.readCluster(ctx, file)
	if err != nil {
		return unstored{err}
	}
	if err := a.sameCluster(file, c); err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	return a.set(ctx, s, fileEdition(file, c, text), o, begun)
}

// set stores a text, or shows what that would change, and follows the work that it leads to.
func (a *app) set(ctx context.Context, s store, e edition, o setOptions, begun time.Time) error {
	if o.dryRun {
		if err := rightNames(ctx, s, e.cluster); err != nil {
			return err
		}
		return runSetDry(ctx, a, s, e, o)
	}
	stored, err := a.storeEdition(ctx, s, e, o)
	if err != nil {
		return err
	}
	return a.followSet(ctx, s, stored, o, begun)
}

// rightNames refuses a file that gives the hostname of a member's machine to another one.
func rightNames(ctx context.Context, s store, c cke.Cluster) error {
	id, err := s.Identity(ctx, c.Name)
	if err != nil {
		return err
	}
	var facts []string
	for _, m := range id.Misnamed(c) {
		facts = append(facts, m.Problem().Message)
	}
	if facts == nil {
		return nil
	}
	return refused(&cke.Error{Code: cke.CodeMisnamed, What: "the file gives hostnames of members to other machines", Facts: facts, Unchanged: true,
		Try: "keep the hostname of each machine; if machines get other addresses, declare these one machine at a time"})
}

// storeEdition checks, has confirmed and stores a text.
func (a *app) storeEdition(ctx context.Context, s store, e edition, o setOptions) (setResult, error) {
	name := e.cluster.Name
	before, p, err := a.readyEdition(ctx, s, e, &o)
	if err != nil {
		return setResult{}, unstored{err}
	}
	var spec cke.Spec
	newest, err := a.change(ctx, s, name, "the file was stored", "cluster log", func() (err error) {
		spec, err = s.SetSpec(ctx, name, e.cluster, e.text, a.whoami(), storage.SetOptions{IfGeneration: o.ifRevision, IfSource: o.ifSource, As: e.as, Interrupt: p.interrupts()})
		return err
	})
	if err != nil {
		return setResult{}, err
	}
	stored := setResult{Cluster: name, Revision: spec.Generation, Changed: spec.Generation != before.Generation, newest: newest}
	switch {
	case stored.Changed:
		fmt.Fprintf(a.stderr, "%s: stored as revision %d\n", name, spec.Generation)
	case spec.Source != before.Source:
		fmt.Fprintf(a.stderr, "%s: the text is stored; it means the same, and is still revision %d\n", name, spec.Generation)
	default:
		fmt.Fprintf(a.stderr, "%s: revision %d says the same already\n", name, spec.Generation)
	}
	if len(e.cluster.Prefer) > 0 {
		if f, err := s.Fleet(ctx); err == nil { // else only the note is missing
			for _, note := range absent(f, name, e.cluster.Prefer) {
				fmt.Fprintln(a.stderr, "note: "+note)
			}
		}
	}
	return stored, nil
}

// readyEdition checks a text and has it confirmed: all that is done before it is stored.
func (a *app) readyEdition(ctx context.Context, s store, e edition, o *setOptions) (before cke.Spec, p *planned, err error) {
	if err := rightNames(ctx, s, e.cluster); err != nil {
		return before, nil, err
	}
	if p, err = a.checkPlan(ctx, s, e, o); err != nil {
		return before, nil, err
	}
	if before, err = s.Spec(ctx, e.cluster.Name); err != nil && !errors.Is(err, cke.ErrNotFound) {
		return before, nil, err
	}
	asked, err := a.confirmEdition(ctx, s, before, e, p, *o)
	if err == nil && asked {
		_, err = a.checkPlan(ctx, s, e, o) // answering takes its time
	}
	return before, p, err
}

// confirmEdition has confirmed what a text takes away: members, zones that can be lost, and service for a while. asked: a
// user was.
func (a *app) confirmEdition(ctx context.Context, s planStore, before cke.Spec, e edition, p *planned, o setOptions) (asked bool, err error) {
	name := e.cluster.Name
	id, err := s.Identity(ctx, name)
	if err != nil || o.yes {
		return false, err
	}
	type question struct{ about, text string }
	var questions []question
	if isFormed(id) {
		questions = []question{
			{"removing members of " + name, fewer(before.Cluster, e.cluster)},
			{worseSpread(name), worseZones(before.Cluster, e.cluster)},
		}
	}
	if p.interrupts() {
		questions = append(questions, question{"interrupting the service of " + name, p.interruption()})
	}
	for _, q := range questions {
		if q.text == "" {
			continue
		}
		asked = true
		if err := a.confirmYes(ctx, q.about, q.text+" Store it?", a.again(name, e.set+" --yes")); err != nil {
			return true, err
		}
	}
	return asked, nil
}

// interrupts reports whether the plan takes a quorum away for a while. No plan does not.
func (p *planned) interrupts() bool { return p != nil && len(p.Interrupts()) > 0 }

// interruption says what interrupts.
func (p *planned) interruption() string {
	return fmt.Sprintf("The cluster does not serve while %s restarts: one or two voters tolerate no failure.", strings.Join(p.Interrupts(), ", then "))
}

// followSet follows the work that a stored text leads to.
func (a *app) followSet(ctx context.Context, s store, stored setResult, o setOptions, begun time.Time) error {
	if o.noWait {
		return a.showSet(stored, fmt.Sprintf("%d", stored.Revision))
	}
	var line string
	var err error
	stored.outcome, line, err = a.followReady(ctx, s, goal{cluster: stored.Cluster, revision: stored.Revision, is: "stored", newest: stored.newest, begun: begun})
	if err != nil {
		return err
	}
	return a.showSet(stored, line)
}

// fewer is what a file is confirmed with that leaves a cluster fewer members; "": it does not.
func fewer(was, wanted cke.Cluster) string {
	var gone []string
	for _, n := range was.ControlPlane() {
		if !slices.ContainsFunc(wanted.ControlPlane(), func(m cke.Node) bool { return m.Address == n.Address }) {
			gone = append(gone, n.Name())
		}
	}
	from, to := len(was.ControlPlane()), len(wanted.ControlPlane())
	if to >= from {
		return ""
	}
	return fmt.Sprintf("%s declared without a member: %d of %d members can be lost now, %d of %d then.", are(gone), from-quorum.Of(from), from, to-quorum.Of(to), to)
}

// worseSpread is what worseZones is about.
func worseSpread(cluster string) string { return "a worse spread of " + cluster + " over zones" }

// worseZones is what a file is confirmed with after which more zones cannot be lost; "": it is not so.
func worseZones(was, wanted cke.Cluster) string {
	now, then := was.DeclaredSpread(), wanted.DeclaredSpread()
	if !then.WorseThan(now) {
		return ""
	}
	can := "any one zone"
	if !now.AnyOne() {
		var names []string
		for _, z := range now.Zones {
			if z.CanBeLost {
				names = append(names, z.Name)
			}
		}
		can = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s can be lost now. Then: %s.", term.Clean(can), words.Zones(then))
}

// are is the start of a sentence about nodes.
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
	// is says what was done to it already, as "stored".
	is string
	// newest is the newest record that was there when the command was started.
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
	f.About = func(s cke.Status) bool { return s.Generation >= g.revision }
	same := f.SameSpec(g.revision)
	f.Declared = func(now cke.Spec) error {
		if g.void != nil {
			if err := g.void(now); err != nil {
				return err
			}
		}
		return same(now)
	}
	st, err := f.Until(ctx, func(s cke.Status) bool {
		return s.ObservedGeneration >= g.revision && s.Health == cke.HealthReady
	})
	if err != nil {
		goesOn := "cke continues to work on it"
		if f.Tell.Leaderless() {
			goesOn = "the work starts once a daemon leads the cluster"
		}
		state := fmt.Sprintf("revision %d of %s is %s, and %s", g.revision, g.cluster, g.is, goesOn)
		return outcome{}, "", detached(ctx, err, state, a.again(g.cluster, "history -f"))
	}
	took := a.now().Sub(g.begun)
	return outcome{st.Health, st.Ready, &st.Tolerance, took.Seconds()}, readyLine(st, took), nil
}

// setResult is what `cluster set` writes for programs.
type setResult struct {
	Cluster  string `json:"cluster"`
	Revision int64  `json:"revision"`
	Changed  bool   `json:"changed"`
	outcome

	newest int64 // record that was there before
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

// again is a command line of ckecli for this cluster.
func (a *app) again(cluster, command string) string {
	if a.cluster == "" {
		return "ckecli " + command
	}
	return "ckecli " + command + " --cluster " + cluster
}
