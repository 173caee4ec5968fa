package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/etcdnode"
	"cke/internal/follow"
	"cke/internal/term"
	"cke/internal/words"
	"cke/preflight"
	"cke/sabakan"
	"cke/storage"
)

// answerLimit is how long the leader daemon may take to answer an order.
const answerLimit = 30 * time.Second

// inventoryApplyOptions are the options of `sabakan apply`.
type inventoryApplyOptions struct {
	hash        string
	yes, noWait bool
}

func newSabakanApplyCommand(a *app) *cobra.Command {
	var o inventoryApplyOptions
	cmd := &cobra.Command{
		Use: "apply [HASH]", Short: "Apply the change that follows from the inventory, and follow the work until the cluster is ready", Args: arguments(0, 1),
		Long: `Ask the leader daemon to apply the one change that it shows in the status, and follow the work until the cluster is ready. With HASH
only the change with this hash is applied, so that it is the one that you saw. The leader chooses once more before it stores the
change: it refuses one that no longer follows. A stop that can be overridden has a hash of its own, in the status.

Confirm what needs confirmation, or give --yes: a bootstrap, one member less, a stop that is overridden, a moment without
service, more zones that cannot be lost, a machine at an address that belonged to another one.

For a cluster that does not exist yet the command itself reads the inventory and checks the machines: it stores the first cluster
file, and the daemon bootstraps the cluster.`,
		Example: "  ckecli sabakan preview\n  ckecli sabakan apply 6611a4b66692a78b",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			if len(args) > 0 {
				o.hash = args[0]
			}
			return runInventoryApply(ctx, a, s, o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is stored")
	return cmd
}

func runInventoryApply(ctx context.Context, a *app, s store, o inventoryApplyOptions) error {
	begun := a.now()
	cluster, err := a.theInventory(ctx, s)
	if err != nil {
		return err
	}
	_, err = s.Spec(ctx, cluster)
	var stored int64
	var newest int64
	switch {
	case errors.Is(err, cke.ErrNotFound):
		stored, err = a.bootstrapFromInventory(ctx, s, cluster, o)
	case err == nil:
		if newest, err = follow.NewestRecord(ctx, s, cluster); err == nil {
			stored, err = a.orderChange(ctx, s, cluster, o)
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s: stored as revision %d\n", cluster, stored)
	r := setResult{Cluster: cluster, Revision: stored, Changed: true}
	if o.noWait {
		return a.showSet(r, fmt.Sprint(stored))
	}
	var line string
	if r.outcome, line, err = a.followReady(ctx, s, goal{cluster: cluster, revision: stored, is: "stored", newest: newest, begun: begun}); err != nil {
		return err
	}
	return a.showSet(r, line)
}

// orderChange asks the leader daemon for a change, and returns the revision that was stored.
func (a *app) orderChange(ctx context.Context, s store, cluster string, o inventoryApplyOptions) (int64, error) {
	if _, err := s.Leader(ctx, cluster); errors.Is(err, cke.ErrNotFound) {
		return 0, follow.NobodyTakes(cluster)
	} else if err != nil {
		return 0, err
	}
	st, err := s.Status(ctx, cluster)
	if err != nil {
		return 0, err
	}
	p, err := chosenProposal(cluster, st.Inventory, o.hash)
	if err != nil {
		return 0, err
	}
	if err := a.confirmChange(ctx, cluster, p.Reason, p.Hash, p.Confirm, o.yes); err != nil {
		return 0, err
	}
	order := cke.NewInventoryOrder(p.Hash, a.whoami(), a.now())
	unknown := func(err error) error {
		return detached(ctx, err, "it is not known whether the change is applied", a.again(cluster, "cluster log"))
	}
	if err := s.OrderInventory(ctx, cluster, order); err != nil {
		return 0, unknown(err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for st := range s.WatchStatus(ctx, cluster) {
		if st.Inventory == nil || st.Inventory.Log.Answer == nil || st.Inventory.Log.Answer.Order.ID != order.ID {
			continue
		}
		if answer := st.Inventory.Log.Answer; answer.Refused != "" {
			return 0, &cke.Error{Code: answer.Code, What: "the change " + p.Hash + " was not applied", Facts: []string{answer.Refused}, Unchanged: true, Try: a.again(cluster, "sabakan preview")}
		}
		return st.Inventory.Log.Answer.Generation, nil
	}
	return 0, unknown(&cke.Error{Code: cke.CodeNoLeader, What: "the leader daemon did not answer within " + cke.Duration(answerLimit).Short(), Try: a.again(cluster, "cluster log")})
}

// chosenProposal returns the change that the leader daemon shows, by its hash if one is given.
func chosenProposal(cluster string, s *cke.InventoryStatus, hash string) (*cke.InventoryProposal, error) {
	refuse := func(try, format string, args ...any) (*cke.InventoryProposal, error) {
		return nil, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf(format, args...), Unchanged: true, Try: try}
	}
	switch {
	case s == nil:
		return refuse("ckecli sabakan enable", "the leader daemon reads no inventory of cluster %s", cluster)
	case s.Change != nil && (hash == "" || hash == s.Change.Hash):
		return s.Change, nil
	case s.Override != nil && hash == s.Override.Hash:
		return s.Override, nil
	case s.Override != nil && hash == "":
		return refuse("ckecli sabakan apply "+s.Override.Hash+", which overrides that", "nothing follows from the inventory of cluster %s now: %s", cluster, s.Reason)
	case hash == "" && commandIn(s.Reason) != "":
		return refuse(commandIn(s.Reason), "nothing follows from the inventory of cluster %s now: %s", cluster, s.Reason)
	case hash != "" && s.Change != nil:
		return refuse("ckecli sabakan preview", "the change that follows from the inventory of cluster %s is %s now, not %s", cluster, s.Change.Hash, hash)
	}
	return refuse("ckecli sabakan preview", "nothing follows from the inventory of cluster %s now: %s", cluster, s.Reason)
}

// confirmChange has a change confirmed for the reasons that need it.
func (a *app) confirmChange(ctx context.Context, cluster, reason, hash string, why []string, yes bool) error {
	fmt.Fprintf(a.stderr, "%s: %s\n", cluster, reason)
	for _, w := range why {
		fmt.Fprintf(a.stderr, "  %s\n", w)
	}
	if yes || len(why) == 0 {
		return nil
	}
	return a.confirmYes(ctx, "the change "+hash+" of cluster "+cluster, "Apply it?", a.again(cluster, "sabakan apply "+hash+" --yes"))
}

// mostRounds bounds how often other machines are checked because some of those before do not fit.
const mostRounds = 10

// bootstrapFromInventory stores the first file of a cluster, and returns its revision.
func (a *app) bootstrapFromInventory(ctx context.Context, s store, cluster string, o inventoryApplyOptions) (int64, error) {
	in, _, err := a.storedInput(ctx, s, cluster)
	if err != nil {
		return 0, err
	}
	keys, err := a.preflightKeys(ctx, s, cluster, preflightOptions{})
	if err != nil {
		return 0, err
	}
	in.Checks = map[string]sabakan.Check{}
	choice := sabakan.Choose(in)
	for range mostRounds {
		if len(choice.Check) == 0 {
			break
		}
		fmt.Fprintf(a.stderr, "Checking %s; it takes some seconds.\n", cke.Count(len(choice.Check), "machine"))
		var nodes []cke.Node
		for _, h := range in.Read.Hosts {
			for _, serial := range choice.Check {
				if serial == h.ID {
					nodes = append(nodes, sabakan.NodeOf(in.Template, h))
				}
			}
		}
		found, err := a.unfit(ctx, in, cke.Identity{}, nodes, keys)
		if err != nil {
			return 0, err
		}
		for _, n := range nodes {
			in.Checks[n.Hostname] = sabakan.Check{At: in.Now, Address: n.Address, Problem: found[n.Address]}
			if found[n.Address] != "" {
				fmt.Fprintf(a.stderr, "  %s does not fit: %s\n", n.Hostname, found[n.Address])
			}
		}
		choice = sabakan.Choose(in)
	}
	c := choice.Change
	switch {
	case c == nil:
		return 0, &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s cannot be bootstrapped from its inventory", cluster), Facts: []string{choice.Reason}, Unchanged: true, Try: cmp.Or(commandIn(choice.Reason), "ckecli sabakan preview -o wide")}
	case o.hash != "" && o.hash != c.Hash:
		return 0, &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("the change that follows from the inventory of cluster %s is %s now, not %s", cluster, c.Hash, o.hash), Facts: []string{choice.Reason}, Unchanged: true, Try: "ckecli sabakan preview"}
	}
	if err := a.confirmChange(ctx, cluster, choice.Reason, c.Hash, c.Confirm, o.yes); err != nil {
		return 0, err
	}
	text, err := cke.MarshalCluster(c.Cluster)
	if err != nil {
		return 0, err
	}
	if _, err := a.parseCluster("the file that follows from the inventory", text); err != nil {
		return 0, err
	}
	none := int64(0)
	spec, err := s.SetSpec(ctx, cluster, c.Cluster, text, a.whoami(), storage.SetOptions{IfGeneration: &none, Cause: c.Cause})
	return spec.Generation, detached(ctx, err, "it is not known whether the file was stored", a.again(cluster, "cluster log"))
}

// unfit returns what keeps machines from carrying a member of the cluster of a template, and what helps, by address.
func (a *app) unfit(ctx context.Context, in sabakan.Input, id cke.Identity, nodes []cke.Node, keys nodeKeys) (map[string]string, error) {
	spec := in.Spec
	if spec.Generation == 0 {
		spec = spec.Following(in.Template.Cluster(nil), spec)
	}
	return preflight.Fit(ctx, spec, id, nodes, etcdnode.Config{Keys: keys.login, AgentSocket: a.getenv("SSH_AUTH_SOCK")}, keys.pinned)
}

// commandIn is the first command of ckecli in backticks in a text; empty: there is none.
func commandIn(text string) string {
	for i, piece := range strings.Split(text, "`") {
		if i%2 == 1 && strings.HasPrefix(piece, "ckecli ") {
			return piece
		}
	}
	return ""
}

// storedInput is what follows from what is stored of an inventory, read anew. What a single read does not show is assumed where no daemon
// has read it. known is when one last read it well.
func (a *app) storedInput(ctx context.Context, s store, cluster string) (in sabakan.Input, known time.Time, err error) {
	i, err := s.Inventory(ctx, cluster)
	if err != nil {
		return in, known, err
	}
	cannot := func(what, try string) error {
		return &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s has no %s", cluster, what), Unchanged: true, Try: try}
	}
	switch {
	case i.Template == "":
		return in, known, cannot("template", "ckecli sabakan set-template FILE")
	case i.URL == "":
		return in, known, cannot("URL of an inventory", "ckecli sabakan set-url URL")
	}
	t, err := clusterfile.InventoryTemplate(i)
	if err != nil {
		return in, known, err
	}
	source, err := sabakan.Open(t.Inventory.Source, i.URL, clusterfile.ParseHosts)
	if err != nil {
		return in, known, err
	}
	if in, err = a.previewInput(ctx, s, t); err != nil {
		return in, known, err
	}
	past, err := s.InventoryPast(ctx, cluster)
	if err != nil {
		return in, known, err
	}
	shown := in.Status.Inventory
	if shown != nil && !past.ReadAt.IsZero() && shown.ReadAt.After(past.ReadAt) {
		accepted := sabakan.Accepted
		if shown.Stop == string(sabakan.StopMany) {
			accepted = sabakan.Refused
		}
		past = cke.InventoryPast(sabakan.Past(past).Until(shown.ReadAt, in.Spec, in.Status, accepted))
	}
	file, timeless := source.(*sabakan.File)
	if timeless {
		file.Continue(past.ReadAt, past.Hosts)
	}
	if known = past.ReadAt; shown != nil && shown.ReadAt.After(known) {
		known = shown.ReadAt
	}
	if in.Read, err = source.Hosts(ctx); err != nil {
		if !known.IsZero() {
			fmt.Fprintf(a.stderr, "The leader daemon last read the inventory well %s ago.\n", words.Ago(a.now(), known))
		}
		return in, known, err
	}
	in.Now = a.now()
	in.Read.ReadAt = in.Now
	if past.ReadAt.IsZero() {
		assume(&in, timeless)
		return in, known, nil
	}
	in.Past = sabakan.Past(past)
	in.Unchecked()
	return in, known, nil
}

// inventoryFacts are the lines of a status about the inventory.
func (a *app) inventoryFacts(l *term.Labels, st cke.Status, wide bool) {
	s := st.Inventory
	if s == nil {
		return
	}
	if wide || s.Change == nil && s.Override == nil && s.Source != "" {
		read := words.LastRead(a.now(), s)
		if machines := words.Machines(s); machines != "" {
			read = machines + ", " + read
		}
		l.Add("Inventory", term.Textf("%s: %s", s.Source, read))
		l.Add("", term.Text(s.Reason))
	} else {
		l.Add("Inventory", term.Text(s.Reason))
	}
	for _, p := range []*cke.InventoryProposal{s.Change, s.Override} {
		switch {
		case p == nil:
		case p == s.Override:
			l.Add("", term.Styled(term.Yellow, "→ `"+a.again(st.Cluster, "sabakan apply "+p.Hash)+"` overrides that: "+p.Reason))
		case !p.Auto:
			l.Add("", term.Styled(term.Yellow, "→ `"+a.again(st.Cluster, "sabakan apply "+p.Hash)+"`"))
		}
	}
	for _, n := range s.Notes {
		if n.Code == "" { // else it is a problem, too
			l.Add("", term.Text(n.Text+a.untilText(n.Until)))
		}
	}
}

func (a *app) untilText(t time.Time) string {
	if t.IsZero() || !t.After(a.now()) {
		return ""
	}
	return " (in " + a.in(t) + ")"
}

// causeText is the cause of a revision that an inventory led to.
func causeText(c cke.InventoryCause) string {
	if c == "" {
		return ""
	}
	return "(" + string(c) + ")"
}
