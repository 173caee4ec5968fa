package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/internal/term"
	"cke/internal/words"
	"cke/sabakan"
	"cke/sabakan/keep"
)

// assumedFor is how long a preview assumes that machines are in their states where it cannot know.
const assumedFor = 30 * 24 * time.Hour

func newSabakanPreviewCommand(a *app) *cobra.Command {
	var template, server, file string
	cmd := &cobra.Command{
		Use: "preview [--template FILE --url URL|--file FILE]", Short: "Show the one change of a cluster that follows from an inventory, and change nothing",
		Long: `Read an inventory, and show the one change of the cluster that follows from it and the template, with its cause, its simulated
outcome and what the operator has to confirm; or why nothing follows. Template and inventory are those that are stored, or those
that the flags name. Nothing is changed. The machines that the change would declare are checked from this host: SSH, host key, engine,
etcd's ports and what is left on them. What keeps one from carrying a member is a note.

A single read does not show how machines came to their states. The preview assumes that all machines passed the checks of the daemon and, where no daemon has read the inventory before, that the read before was the same, and that the machines
of a file are in their states for long.`,
		Example: "  ckecli sabakan preview\n  ckecli sabakan preview --template prod-template.yml --url http://10.0.0.1:10080",
		Args:    arguments(0, 0),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if template == "" && server == "" && file == "" {
			return a.onStore(func(ctx context.Context, s store, _ []string) error {
				cluster, err := a.theInventory(ctx, s)
				if err != nil {
					return err
				}
				in, known, err := a.storedInput(ctx, s, cluster)
				if err != nil {
					return err
				}
				return showPreview(ctx, a, s, in, known)
			})(cmd, args)
		}
		source, err := inventoryAt(server, file)
		if err == nil && template == "" {
			err = errors.New("name a template: --template FILE")
		}
		if err != nil {
			return usageError{err, cmd.CommandPath()}
		}
		return a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runPreview(ctx, a, s, template, source, file != "")
		})(cmd, args)
	}
	cmd.Flags().StringVar(&template, "template", "", "template `file`, in place of the stored one")
	inventoryFlags(cmd, &server, &file)
	return cmd
}

// preview is what follows from an inventory, as it is written for programs.
type preview struct {
	Cluster string `json:"cluster"`
	// Revision is that of the stored file; 0: there is none.
	Revision int64 `json:"revision"`
	// ReadAt is when the inventory was read for the preview, KnownAt when the leader daemon last read it well; zero: never, or another one.
	ReadAt  time.Time `json:"readAt"`
	KnownAt time.Time `json:"knownAt,omitzero"`
	// Outcome is the name of what follows.
	Outcome string `json:"outcome"`
	sabakan.Choice
	// Diff is what the change does to the cluster file.
	Diff     []string          `json:"diff,omitempty"`
	Machines []sabakan.Machine `json:"machines"`
}

func runPreview(ctx context.Context, a *app, s store, file string, source cke.Inventory, timeless bool) error {
	data, err := a.readFile(ctx, file)
	if err != nil {
		return err
	}
	t, warnings, err := clusterfile.ParseTemplate(fileName(file), data)
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", w)
	}
	if err != nil {
		return err
	}
	in, err := a.previewInput(ctx, s, t.Filled())
	if err != nil {
		return err
	}
	if in.Read, err = source.Hosts(ctx); err != nil {
		return err
	}
	in.Now = a.now()
	in.Read.ReadAt = in.Now
	assume(&in, timeless)
	return showPreview(ctx, a, s, in, time.Time{})
}

// showPreview shows what follows from an inventory. known is when the leader daemon last read it well.
func showPreview(ctx context.Context, a *app, s store, in sabakan.Input, known time.Time) (err error) {
	p := preview{Cluster: in.Template.Name, Revision: in.Spec.Generation, ReadAt: in.Read.ReadAt, KnownAt: known, Choice: sabakan.Choose(in), Machines: sabakan.Machines(in)}
	p.Outcome = p.Choice.Outcome()
	names := []string{}
	if p.Change != nil {
		names = []string{p.Change.Hash}
		if p.Diff, err = fileDiff(in.Spec.Cluster, p.Change.Cluster); err != nil {
			return err
		}
		unfit, err := a.unfitNow(ctx, s, in, *p.Change)
		if err != nil {
			return err
		}
		p.Notes = append(p.Notes, unfit...)
	}
	return a.show(view{data: p, names: names, table: func(w io.Writer, colour, wide bool) error {
		return a.renderPreview(w, p, colour, wide)
	}})
}

// unfitNow are notes about the machines that a change would declare: what keeps each from carrying a member now. The leader daemon
// checks them itself, those without a member only once they are declared.
func (a *app) unfitNow(ctx context.Context, s store, in sabakan.Input, c sabakan.Change) (notes []sabakan.Note, err error) {
	nodes := slices.DeleteFunc(slices.Clone(c.Cluster.Nodes), func(n cke.Node) bool {
		return slices.ContainsFunc(in.Spec.Cluster.Nodes, func(o cke.Node) bool { return o.Address == n.Address })
	})
	if len(nodes) == 0 {
		return nil, nil
	}
	fmt.Fprintf(a.stderr, "Checking %s; it takes some seconds.\n", cke.Count(len(nodes), "machine"))
	keys, err := a.preflightKeys(ctx, s, c.Cluster.Name, preflightOptions{})
	if err != nil {
		return nil, err
	}
	for _, address := range c.Forget {
		delete(keys.pinned, address)
	}
	id, err := s.Identity(ctx, c.Cluster.Name)
	if err != nil {
		return nil, err
	}
	found, err := a.unfit(ctx, in, id, nodes, keys)
	for _, n := range nodes {
		if why := found[n.Address]; why != "" {
			notes = append(notes, sabakan.Note{Node: n.Name(), Text: n.Name() + " does not fit now: " + why})
		}
	}
	return notes, err
}

// previewInput gathers what is stored about the cluster of a template, and which nodes other clusters have.
func (a *app) previewInput(ctx context.Context, s store, t cke.Template) (sabakan.Input, error) {
	in := sabakan.Input{Template: t}
	k := cke.InventoryWanted{}
	var err error
	if in.Taken, err = s.NodesOfOthers(ctx, t.Name); err != nil {
		return in, err
	}
	if k.Spec, err = s.Spec(ctx, t.Name); errors.Is(err, cke.ErrNotFound) {
		return in, nil
	}
	if err == nil {
		k.Identity, err = s.Identity(ctx, t.Name)
	}
	if err == nil {
		k.Requests, err = s.RequestsOf(ctx, t.Name)
	}
	if err == nil {
		if k.Status, err = s.Status(ctx, t.Name); errors.Is(err, cke.ErrNotFound) {
			err = nil
		}
	}
	in.Spec, in.Status, in.Simulate = k.Spec, k.Status, keep.Simulate(ctx, k)
	return in, err
}

// assume puts into the input what a single read does not show.
func assume(in *sabakan.Input, timeless bool) {
	in.Unchecked()
	in.Past.Hosts = map[string]sabakan.HostPast{}
	in.Past.ReadAt = in.Now.Add(-time.Duration(in.Template.Inventory.Interval))
	for i := range in.Read.Hosts {
		if timeless {
			in.Read.Hosts[i].For = assumedFor
		}
	}
	read := in.Read
	for range 2 { // the first one does not know for how long a machine was missing
		read.ReadAt = in.Past.ReadAt
		in.Past = in.Past.Next(read, in.Spec, in.Status, time.Duration(in.Template.Inventory.Interval), sabakan.Overridden)
	}
	for _, n := range in.Spec.Cluster.Nodes {
		serial := n.Annotations[cke.AnnotationSerial]
		if p, known := in.Past.Hosts[serial]; known {
			p.Watched = cke.Duration(assumedFor)
			if at := slices.IndexFunc(in.Status.Nodes, func(o cke.NodeStatus) bool { return o.Node.Address == n.Address && !o.SeenAt.IsZero() }); at >= 0 {
				p.Silent = cke.Duration(in.Status.ObservedAt.Sub(in.Status.Nodes[at].SeenAt))
			}
			in.Past.Hosts[serial] = p
			in.Unregistered = append(in.Unregistered, serial)
		}
	}
}

// fileDiff returns how one cluster file becomes another.
func fileDiff(before, after cke.Cluster) ([]string, error) {
	old := []byte{}
	if len(before.Nodes) > 0 {
		var err error
		if old, err = cke.MarshalCluster(before); err != nil {
			return nil, err
		}
	}
	text, err := cke.MarshalCluster(after)
	return diff(split(old), split(text)), err
}

// renderPreview writes a preview for users.
func (a *app) renderPreview(w io.Writer, p preview, colour, wide bool) error {
	what, style := "no change", term.Plain
	switch {
	case p.Change != nil:
		what, style = "1 change", term.Yellow
	case p.Stop != "":
		what = "stopped"
	}
	fmt.Fprintf(w, "%s  %s     %s, of which %s carry a further member\n\n", term.Paint(colour, term.Bold, term.Clean(p.Cluster)), term.Paint(colour, style, what),
		cke.Count(len(p.Machines), "machine"), fmt.Sprintf("%d can", p.candidates()))
	l := &term.Labels{}
	l.Add("Inventory", term.Text(p.read()))
	l.Add("Reason", term.Text(strings.TrimSpace(p.Reason+" "+bracketed(p.Code))))
	if p.Stop != "" {
		l.Add("Stop", term.Text(string(p.Stop)+map[bool]string{true: ", which the operator can override"}[p.Overridable]))
	}
	if c := p.Change; c != nil {
		l.Add("Cause", term.Text(string(c.Cause)))
		addAll(l, "Confirm", term.Yellow, c.Confirm)
		if len(c.Forget) > 0 {
			l.Add("Host keys", term.Styled(term.Yellow, "to forget before: "+strings.Join(c.Forget, ", ")))
		}
		if s := c.Simulated; s != nil {
			l.Add("Tolerance", term.Textf("at least %d meanwhile, %d afterward", s.Least, s.Tolerance))
			if s.Zones != "" {
				l.Add("Zones", term.Text("can be lost: "+s.Zones))
			}
		}
		l.Add("Hash", term.Text(c.Hash))
	}
	var notes []string
	for _, n := range p.Notes {
		notes = append(notes, strings.TrimSpace(n.Text+a.untilText(n.Until)+" "+bracketed(n.Code)))
	}
	addAll(l, "Notes", term.Plain, notes)
	if err := l.Write(w, colour); err != nil {
		return err
	}
	if p.Diff != nil {
		fmt.Fprintln(w)
		writeDiff(w, p.Diff, colour)
	}
	if !wide {
		return nil
	}
	fmt.Fprintln(w)
	return p.table().Write(w, colour)
}

// addAll adds lines under one label.
func addAll(l *term.Labels, label string, style term.Style, lines []string) {
	for _, line := range lines {
		l.Add(label, term.Styled(style, line))
		label = ""
	}
}

func bracketed(code cke.Code) string {
	if code == "" {
		return ""
	}
	return "(" + string(code) + ")"
}

// candidates counts the machines that may get a member.
func (p preview) candidates() (n int) {
	for _, m := range p.Machines {
		if m.Unfit == "" && m.Use != "member" {
			n++
		}
	}
	return n
}

// read says how old what is shown is, and how many machines are in which state.
func (p preview) read() string {
	states := map[cke.HostState]int{}
	for _, m := range p.Machines {
		states[m.State]++
	}
	text := cmp.Or(words.States(states), "no machines") + "; read now"
	if !p.KnownAt.IsZero() {
		text += ", by the leader daemon " + words.Ago(p.ReadAt, p.KnownAt) + " ago"
	}
	return text
}

// table has a row for every machine.
func (p preview) table() *term.Table {
	t := term.NewTable("SERIAL", "STATE", "FOR", "ZONE", "USE", "UNFIT")
	for _, m := range p.Machines {
		since := ""
		if m.For > 0 && m.For != assumedFor {
			since = term.Age(m.For)
		}
		t.Add(term.Text(m.ID), term.Text(string(m.State)), term.Text(since), term.Text(m.Zone), term.Text(strings.TrimSpace(m.Use+" "+m.Node)), term.Text(m.Unfit))
	}
	return t
}
