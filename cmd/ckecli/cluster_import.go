package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/backup"
	"cke/internal/term"
	"cke/storage"
)

// importOptions are the options of `cluster import`.
type importOptions struct {
	endpoints []string
	// Files in PEM: what the old members are asked with, and their peer authority.
	caCert, cert, key, peerCert, peerKey string
	backups                              backupOptions

	keepOld, plan, revert, goOn, noWait bool
	confirm                             string
}

func newClusterImportCommand(a *app) *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use: "import FILE|NAME", Args: arguments(1, 1),
		Short: "Bring a running etcd under cke without downtime",
		Long: `Declare a cluster whose members are those of an etcd that runs, the old cluster, and let members of cke take their place: each
control-plane node gets a member, which joins as a learner and votes once it has all data; then the members of the old cluster
leave one by one. The cluster keeps its cluster id, its revisions, leases and watches, and serves all the time.

FILE declares other machines than those of the old cluster. --endpoint names client URLs of it, and --cacert, --cert and --key what
its members are asked with if they serve clients with TLS. If they use TLS between peers, --peer-cacert and --peer-key hand over
their peer authority, which signs for the members of cke until the last old member has left, and is replaced then. All of it
is sealed in the store. Without TLS between peers the members of cke have none either until the last old member has left.

With --keep-old the members of the old cluster stay until ` + "`ckecli cluster import NAME --continue`" + `: time to move clients to the new
URLs. The plan is shown first; confirm it by typing the cluster's name, or with --confirm NAME. ` + "`ckecli pause NAME`" + ` stops an import, and
` + "`ckecli cluster import NAME --revert`" + ` lets the members of cke leave again, until the last old member has left. Ctrl-C stops
following; the work continues.`,
		Example: "  ckecli cluster import prod.yml --endpoint http://10.0.0.21:2379 --plan\n  ckecli cluster import prod.yml --endpoint https://10.0.0.21:2379 --cacert ca.crt --cert admin.crt --key admin.key --peer-cacert peer-ca.crt --peer-key peer-ca.key\n  ckecli cluster import prod --revert",
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			switch {
			case o.revert:
				return runTurnImport(ctx, a, s, args[0], cke.ImportRevert, o.noWait)
			case o.goOn:
				return runTurnImport(ctx, a, s, args[0], cke.ImportContinue, o.noWait)
			case len(o.endpoints) == 0:
				return usageError{errors.New("--endpoint names no member of the old cluster"), "ckecli cluster import"}
			}
			return runImport(ctx, a, s, args[0], o)
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.endpoints, "endpoint", nil, "client `URL` of a member of the old cluster; may be given again")
	f.StringVar(&o.caCert, "cacert", "", "`file` with the authorities of the old members' server certificates, in PEM")
	f.StringVar(&o.cert, "cert", "", "`file` with a client certificate that the old members accept, in PEM")
	f.StringVar(&o.key, "key", "", "`file` with its key, in PEM")
	f.StringVar(&o.peerCert, "peer-cacert", "", "`file` with the certificate of the old peer authority, in PEM")
	f.StringVar(&o.peerKey, "peer-key", "", "`file` with its key, in PEM")
	o.backups.addCredentials(cmd)
	f.BoolVar(&o.keepOld, "keep-old", false, "let no old member leave before --continue")
	f.BoolVar(&o.plan, "plan", false, "show what would be done, and store nothing")
	f.BoolVar(&o.revert, "revert", false, "let the members of cke leave the old cluster again")
	f.BoolVar(&o.goOn, "continue", false, "continue an import that was reverted, or that keeps the old members")
	f.StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	f.BoolVar(&o.noWait, "no-wait", false, "return once it is stored or asked for")
	cmd.MarkFlagsMutuallyExclusive("plan", "revert", "continue", "confirm")
	return cmd
}

func runImport(ctx context.Context, a *app, s store, file string, o importOptions) error {
	begun := a.now()
	c, text, err := a.readCluster(ctx, file)
	if err != nil {
		return unstored{err}
	}
	if err := a.sameCluster(file, c); err != nil {
		return err
	}
	if _, err := s.Spec(ctx, c.Name); !errors.Is(err, cke.ErrNotFound) {
		if err == nil {
			err = refused(&cke.Error{Code: cke.CodeConflict, What: "cluster " + c.Name + " is in the store already", Unchanged: true,
				Facts: []string{"an import declares its cluster"}, Try: "ckecli status --cluster " + c.Name})
		}
		return err
	}
	if err := a.noSecond(ctx, s, c, o.backups); err != nil {
		return err
	}
	i, err := lookOld(ctx, a, cke.Spec{}.Following(c, cke.Spec{}).Wanted(), o)
	if err != nil {
		return err
	}
	if err := notOurs(ctx, s, i.plan.ClusterID); err != nil {
		return err
	}
	if o.plan {
		return a.show(i.plan.view())
	}
	if err := i.plan.write(a.stderr, a.colour(a.stderr)); err != nil {
		return err
	}
	how := fmt.Sprintf("the same command with --confirm %s", c.Name)
	if err := a.confirmName(ctx, "importing "+c.Name, c.Name, o.confirm, how); err != nil {
		return err
	}
	shown := i.old.Members
	if i, err = lookOld(ctx, a, i.cluster, o); err != nil {
		return err
	}
	if !slices.Equal(shown, i.old.Members) {
		return refused(notImportable("the same command again", "the members of the old cluster have changed since the plan was shown"))
	}
	i.old.KeepOld = o.keepOld
	imported := storage.Imported{Cluster: c, Source: text, Incarnation: cke.NewImport(c, i.plan.ClusterID, i.old, a.now()), Secrets: i.secrets}
	var spec cke.Spec
	newest, err := a.change(ctx, s, c.Name, "the import was stored", "status", func() (err error) {
		spec, err = s.Import(ctx, imported, a.whoami(), a.now())
		return err
	})
	if err != nil {
		return err
	}
	r := setResult{Cluster: c.Name, Revision: spec.Generation, Changed: true}
	switch {
	case o.keepOld:
		return a.showSet(r, fmt.Sprintf("%s: the import is stored; the old members stay until: ckecli cluster import %[1]s --continue", c.Name))
	case o.noWait:
		return a.showSet(r, fmt.Sprintf("%s: the import is stored", c.Name))
	}
	var line string
	if r.outcome, line, err = a.followReady(ctx, s, goal{cluster: c.Name, revision: spec.Generation, is: "stored", newest: newest, begun: begun}); err != nil {
		return err
	}
	return a.showSet(r, line)
}

// noSecond refuses to import a cluster of a name of which its backup target has another one: that may serve.
func (a *app) noSecond(ctx context.Context, s store, c cke.Cluster, o backupOptions) error {
	if o.target = c.Backup.Target; o.target == "" {
		return nil
	}
	id, err := s.Identity(ctx, c.Name)
	if err != nil {
		return err
	}
	unread := func(err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return refused(backup.UnknownSecond("the target cannot be read from here", c.Name, err,
			"the same command on a management host that reads the target, with --credentials FILE if it needs them; a directory that was never used has to be made first"))
	}
	target, _ := cke.ParseTarget(c.Backup.Target)
	local := backup.Store{Bucket: backup.Dir(target.Path), Cluster: c.Name}
	if target.Scheme == "file" { // as it is: what reads it may make it
		if err := local.Mounted(); err != nil {
			return unread(err)
		}
	}
	b, err := a.openBackups(ctx, o)
	if err != nil {
		return unread(err)
	}
	defer b.Close()
	there := b.of(c.Name)
	switch unknown, err := there.HasUnknown(ctx, id); {
	case err != nil:
		return unread(err)
	case unknown:
		return refused(backup.Second(cke.CodeOldCluster, b.where, c.Name, "give the new cluster another name", "its members may serve", "to bring that cluster back: ckecli restore"))
	case target.Scheme == "file" && local.MayBeUnmounted():
		fmt.Fprintln(a.stderr, term.Clean(fmt.Sprintf("%s is empty: it was never used, or it is not mounted, so that it is not known whether it has another cluster %s", b.where, c.Name)))
	}
	return nil
}

// notOurs refuses to import a cluster that cke manages: two names would be two managers.
func notOurs(ctx context.Context, s store, clusterID string) error {
	names, err := s.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := s.Identity(ctx, name)
		if err != nil {
			return err
		}
		if id.Incarnation != nil && id.Incarnation.ClusterID == clusterID {
			return refused(&cke.Error{Code: cke.CodeOldCluster, What: "cluster " + name + " in the store is this cluster", Unchanged: true, Try: "ckecli status --cluster " + name})
		}
	}
	return nil
}

// runTurnImport lets the members of cke leave the old cluster again, or not any more.
func runTurnImport(ctx context.Context, a *app, s store, cluster, to string, noWait bool) error {
	if _, err := s.Spec(ctx, cluster); err != nil {
		return err
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskImport, "", to), noWait: noWait, done: func(cke.Record, string) string {
		if to == cke.ImportContinue {
			return "the import of " + cluster + " continues: `ckecli status` shows how far it is"
		}
		return "the members of cke leave the old cluster: once none is left, `ckecli cluster delete " + cluster + "`"
	}})
}

// importTakes is how long the old members are given to answer.
const importTakes = 15 * time.Second

// view shows what an import would do.
func (p oldPlan) view() view {
	return view{data: p, table: func(w io.Writer, colour, _ bool) error { return p.write(w, colour) }}
}

func (p oldPlan) write(w io.Writer, colour bool) error {
	var l term.Labels
	l.Add("Old", term.Textf("cluster %s of %s, etcd %s, %s", p.ClusterID, cke.Count(len(p.Old), "member"), p.Version, term.Size(p.Size)))
	l.Add("Peers", term.Text(p.Peers))
	l.Add("Clients", term.Text(p.Clients))
	if !p.Until.IsZero() {
		l.Add("Asked", term.Textf("with a client certificate that is valid until %s: it has to outlast the import", p.Until.Format(time.RFC3339)))
	}
	fmt.Fprintln(w, term.Clean(fmt.Sprintf("%s continues the etcd at %s", p.Cluster, p.Old[0].URL)))
	if err := l.Write(w, colour); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t := term.NewTable("STEP", "OLD VOTERS", "VOTERS OF CKE", "CAN LOSE")
	for _, s := range p.Steps {
		t.Add(term.Text(s.What), term.Textf("%d", s.Old), term.Textf("%d", s.Own), term.Textf("%d", s.CanLose))
	}
	return t.Write(w, colour)
}
