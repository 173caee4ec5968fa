package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/internal/term"
	"cke/internal/words"
	"cke/preflight"
	"cke/server/strategy"
)

// preflightOptions are the options of `preflight`.
type preflightOptions struct {
	sshKey string
}

func newPreflightCommand(a *app) *cobra.Command {
	var o preflightOptions
	cmd := &cobra.Command{
		Use: "preflight [FILE|-]", GroupID: groupSee, Short: "Check the nodes of a cluster file before cke changes anything on them",
		Long: `Check every node of FILE, or of the stored file, from this host: whether SSH works and the host key is the right one, the
Docker engine, the clock, whether the etcd ports are free or those of our member, whether the other nodes reach them, and
how long the disk takes to sync small writes: etcd wants 99 of 100 within 10ms.

For ports and disk ckecli runs itself on the control-plane nodes for some seconds, in a container of the etcd image that is
removed in any case. If that is not possible, the check says so, and on a node without the image how it gets there. Nothing is
changed permanently, and no host key is stored. Exit code 1: a check failed.`,
		Example: "  ckecli preflight cluster.yml --ssh-key ~/.ssh/cke\n  ckecli preflight -o json",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runPreflight(cmd.Context(), a, file, o)
		},
	}
	cmd.Flags().StringVar(&o.sshKey, "ssh-key", "", "private key `file` to log in with, in place of those that are stored")
	must(cmd.MarkFlagFilename("ssh-key"))
	return cmd
}

// preflightResult is what `preflight` writes for programs.
type preflightResult struct {
	Cluster string            `json:"cluster"`
	Passed  bool              `json:"passed"`
	Checks  []preflight.Check `json:"checks"`
	Causes  []preflight.Cause `json:"causes"`
}

func runPreflight(ctx context.Context, a *app, file string, o preflightOptions) error {
	c, s, err := a.preflightFile(ctx, file, o)
	if err != nil {
		return err
	}
	keys, err := a.preflightKeys(ctx, s, c.Name, o)
	if err != nil {
		return err
	}
	defer holdSignals()() // a second Ctrl-C would leave what is on the nodes
	own := preflight.Members{Cluster: c.Name}
	if s != nil {
		id, err := s.Identity(ctx, c.Name)
		if err != nil {
			return err
		}
		own.Identity = &id
	}
	known := &preflight.HostKeys{Known: keys.pinned}
	fleet := etcdnode.New(etcdnode.Config{Keys: keys.login, AgentSocket: a.getenv("SSH_AUTH_SOCK"), HostKeys: known, Beside: true})
	defer fleet.Close()
	fleet.Update(c, cke.Identity{}) // members are not asked
	fmt.Fprintf(a.stderr, "Checking %s; it takes some seconds.\n", cke.Count(len(c.Nodes), "node"))
	seen := preflight.Observe(ctx, fleet)
	visits := preflight.VisitNodes(ctx, fleet, c, own, seen)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := preflightResult{Cluster: c.Name, Passed: true, Checks: preflight.Judge(c, own, seen, known.Seen(s == nil), visits)}
	if own.Identity != nil {
		r.Checks = append(versionCheck(ctx, s, c, *own.Identity), r.Checks...)
	}
	r.Checks = append(r.Checks, zonesCheck(c)...)
	r.Causes = preflight.Causes(r.Checks)
	names := []string{}
	for _, check := range r.Checks {
		if check.Result == preflight.Fail && check.Because == "" {
			r.Passed = false
			names = append(names, check.Node+"/"+check.Check)
		}
	}
	if err := a.show(view{data: r, names: names, table: r.table}); err != nil {
		return err
	}
	if !r.Passed {
		return exitError(exitFailed)
	}
	return nil
}

// preflightFile is the file that is asked about, and the store; nil: it does not answer, and is not needed.
func (a *app) preflightFile(ctx context.Context, file string, o preflightOptions) (cke.Cluster, store, error) {
	if file == "" {
		s, err := a.connect(ctx)
		if err != nil {
			return cke.Cluster{}, nil, err
		}
		_, spec, err := a.theSpec(ctx, s)
		return spec.Wanted(), s, err
	}
	c, _, err := a.readCluster(ctx, file)
	if err != nil {
		return cke.Cluster{}, nil, err
	}
	if err := a.sameCluster(file, c); err != nil {
		return cke.Cluster{}, nil, err
	}
	s, err := a.connect(ctx)
	if err == nil {
		_, err = s.Clusters(ctx)
	}
	if err != nil && (o.sshKey != "" || a.getenv("SSH_AUTH_SOCK") != "") && ctx.Err() == nil {
		fmt.Fprintf(a.stderr, "The store does not answer: host keys are not compared with those in it.\n")
		return c.WithDefaults(), nil, nil
	}
	if err != nil {
		return c.WithDefaults(), s, err
	}
	stored, err := s.Spec(ctx, c.Name)
	if errors.Is(err, cke.ErrNotFound) {
		err = nil
	}
	return edition{cluster: c}.after(stored).Wanted(), s, err
}

// versionCheck says whether the members of a cluster can come to run the version that is required.
func versionCheck(ctx context.Context, s store, c cke.Cluster, id cke.Identity) []preflight.Check {
	status, err := s.Status(ctx, c.Name)
	if err != nil {
		status = cke.Status{} // what is on record counts
	}
	if e := strategy.Unreachable(strategy.InputFrom(cke.Spec{Cluster: c}, id, cke.Requests{}, status)); e != nil {
		return []preflight.Check{{Node: c.Name, Check: "version", Result: preflight.Fail, Detail: e.What + ": " + strings.Join(e.Facts, "; "), Code: e.Code, Remedy: e.Try}}
	}
	return nil
}

// zonesCheck says which zones could be lost with all members as declared, and which nodes have no zone though others have one.
func zonesCheck(c cke.Cluster) []preflight.Check {
	if !c.HasZones() {
		return nil
	}
	spread, detail := c.DeclaredSpread(), ""
	if len(spread.Voters) > 0 {
		detail = words.Zones(spread)
	}
	check := preflight.Check{Node: c.Name, Check: "zones", Result: preflight.OK}
	var bare []string
	for _, n := range c.Nodes {
		if n.Zone == "" && !n.ControlPlane {
			bare = append(bare, n.Name())
		}
	}
	if bare != nil {
		detail += "; no zone is declared of " + term.Clean(strings.Join(bare, ", "))
	}
	if tolerates := len(spread.Voters) > 2; bare != nil || spread.Unplaced() != nil || tolerates && !spread.AnyOne() {
		check.Result, check.Remedy = preflight.Warn, "declare a zone for every node, and so that no zone has too many members: docs/zones.md"
	}
	check.Detail = strings.TrimPrefix(detail, "; ")
	return []preflight.Check{check}
}

// nodeKeys is what nodes are reached with.
type nodeKeys struct {
	login  func(ctx context.Context, n cke.Node) ([]byte, error)
	pinned map[string]string // host keys by address
}

func (a *app) preflightKeys(ctx context.Context, s store, cluster string, o preflightOptions) (nodeKeys, error) {
	keys := nodeKeys{login: func(context.Context, cke.Node) ([]byte, error) { return nil, cke.ErrNotFound }}
	if s != nil {
		pinned, err := s.HostKeys(ctx, cluster)
		if err != nil {
			return keys, err
		}
		keys.pinned = pinned
		keys.login = func(ctx context.Context, n cke.Node) ([]byte, error) { return s.SSHKey(ctx, cluster, n.Name()) }
	}
	if o.sshKey != "" {
		pem, err := a.readFile(ctx, o.sshKey)
		if err != nil {
			return keys, err
		}
		keys.login = func(context.Context, cke.Node) ([]byte, error) { return pem, nil }
	}
	return keys, nil
}

// table writes the checks for users: each cause once, with the nodes that it touches, or all checks if they are asked for.
func (r preflightResult) table(w io.Writer, colour, wide bool) error {
	t := term.NewTable("NODE", "CHECK", "RESULT", "DETAIL")
	styles := map[preflight.Verdict]term.Style{preflight.OK: term.Green, preflight.Warn: term.Yellow, preflight.Fail: term.Red}
	row := func(node, check string, result preflight.Verdict, detail string, code cke.Code) {
		if code != "" {
			detail += " [" + string(code) + "]"
		}
		t.Add(term.Text(node), term.Text(check), term.Styled(styles[result], string(result)), term.Text(detail))
	}
	failed, causes := 0, r.Causes
	for i, c := range r.Checks {
		if c.Result == preflight.Fail && c.Because == "" {
			failed++
		}
		for ; !wide && len(causes) > 0 && causes[0].At == i; causes = causes[1:] {
			detail := causes[0].Detail
			if n := causes[0].Follow; n > 0 {
				detail += "; " + cke.Plural(n, "more check waits for this", "more checks wait for this")
			}
			row(causes[0].Touched(), strings.Join(causes[0].Checks, ", "), causes[0].Result, detail, causes[0].Code)
		}
		if wide || c.Result == preflight.OK {
			row(c.Node, c.Check, c.Result, c.Detail, c.Code)
		}
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	of := 0
	for _, c := range r.Causes {
		if c.Result == preflight.Fail {
			of++
		}
		if c.Remedy != "" {
			fmt.Fprintf(w, "%s: %s\n", c.Touched(), c.Remedy)
		}
	}
	said := "No check failed."
	if failed > 0 {
		said = cke.Count(failed, "check") + " failed."
	}
	if failed > of {
		said = fmt.Sprintf("%s failed, for %s.", cke.Count(failed, "check"), cke.Count(of, "cause"))
	}
	_, err := fmt.Fprintln(w, "\n"+said)
	return err
}

// holdSignals keeps further signals from ending the process before it has tidied up; the returned function ends that.
func holdSignals() func() {
	held := make(chan os.Signal, 1)
	signal.Notify(held, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	return func() { signal.Stop(held) }
}
