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
	"cke/internal/follow"
	"cke/internal/term"
	"cke/op"
	"cke/storage"
)

// restores are orders to restore.
type restores interface {
	AskRestore(ctx context.Context, cluster string, t cke.Task, asked storage.RestoreAsked) error
	WithdrawRestore(ctx context.Context, cluster, task string) error
}

// restoreOptions are the options of `restore`.
type restoreOptions struct {
	backups backupOptions
	point   pointOptions
	// file describes a cluster that is not in the store; empty: the one in the store, or the one beside the backups.
	file string
	// snapshot is data that cke did not take; skipHash accepts it without a hash.
	snapshot string
	skipHash bool
	orderOptions
	cancel     bool
	ignoreHash bool
	accept     []string
}

// orderOptions are those of every order to restore.
type orderOptions struct {
	without, destroyed []string
	plan               bool
	confirm            string
	noWait             bool
}

func (o *orderOptions) addFlags(a *app, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.without, "without", nil, "leave out a `node` that does not answer; may be repeated")
	f.StringArrayVar(&o.destroyed, "destroyed", nil, "leave out a `node` that is switched off or wiped for good; may be repeated")
	f.BoolVar(&o.plan, "plan", false, "show what would be done, change nothing")
	f.StringVar(&o.confirm, "confirm", "", "confirm with the cluster's `name`")
	f.BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	for _, name := range []string{"without", "destroyed"} {
		must(cmd.RegisterFlagCompletionFunc(name, a.completeNodes()))
	}
}

func newRestoreCommand(a *app) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use: "restore", GroupID: groupBackup, Short: "Restore a cluster to a state in its backups", Args: arguments(0, 0),
		Long: `Restore a cluster to the state in backups at a revision, at a time, or the newest one, on its declared control-plane nodes.
Everything that is needed is read and checked first. Then data for every member is made beside the present data, all present
members are stopped, and new ones start: a new incarnation of the cluster, with the same certificate authorities. The volumes
of the former members are kept.

What was written after that state is lost: confirm by typing the cluster's name, or with --confirm. --plan shows what would be
done, node by node. A restore continues if ckecli, cke, or a node stops in the middle of it; while no restored member was
started, --cancel returns to the cluster as it was.

A cluster that is not in the store is restored from the file that lies beside its backups, with the key file that it was
sealed with (secret_key_file, or --key); --file describes one of another name, or on other nodes. It is never bootstrapped
empty, even if the restore fails.

--from-snapshot takes the data of an etcd that cke does not manage: a file of "etcdctl snapshot save", or the data directory of a
stopped member. The file is checked, stored as a full in the target as CLUSTER.import, and restored from there.`,
		Example: `  ckecli restore --plan
  ckecli restore --revision 48211
  ckecli restore --from file:///mnt/copy --time 2026-11-20T08:00:00Z
  ckecli restore --from s3://backups/etcd?region=eu-west-1 --source-cluster prod --file rehearsal.yml
  ckecli restore --from-snapshot old.db --file prod.yml --from file:///srv/backups --plan`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRestore(cmd, a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.backups.target, "from", "", "`URL` of the backups (default: the target of the cluster in the store)")
	f.StringVar(&o.backups.cluster, "source-cluster", "", "`name` of the cluster in the target, if it is another one")
	f.StringVarP(&o.file, "file", "f", "", "cluster `file` of a cluster that is not in the store yet")
	f.StringVar(&o.snapshot, "from-snapshot", "", "snapshot `file` of etcdctl, or the data directory of a stopped member")
	f.BoolVar(&o.skipHash, "skip-hash-check", false, "with --from-snapshot, accept a member/snap/db that was copied from a stopped etcd, which has no hash")
	o.backups.addScratch(cmd)
	f.BoolVar(&o.cancel, "cancel", false, "cancel a restore of which no member was started")
	must(cmd.RegisterFlagCompletionFunc("from", cobra.NoFileCompletions))
	must(cmd.RegisterFlagCompletionFunc("source-cluster", cobra.NoFileCompletions))
	o.backups.addCredentials(cmd)
	o.backups.addKeys(cmd)
	o.point.addFlags(cmd)
	f.StringArrayVar(&o.accept, "accept", nil, "accept what `ID` names in a refusal because of the identities beside the backups: no such member serves; may be repeated")
	must(cmd.RegisterFlagCompletionFunc("accept", cobra.NoFileCompletions))
	addIgnoreHash(cmd, &o.ignoreHash)
	o.addFlags(a, cmd)
	return cmd
}

func runRestore(cmd *cobra.Command, a *app, o restoreOptions) error {
	ctx := cmd.Context()
	at, err := o.point.at(cmd, a.now())
	if err != nil {
		return err
	}
	if o.cancel && o.plan {
		return usageError{errors.New("--cancel and --plan cannot be used together"), cmd.CommandPath()}
	}
	if err := o.checkImport(cmd); err != nil {
		return err
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	if o.cancel {
		return runCancelRestore(ctx, a, s)
	}
	r := restoring{app: a, store: s, options: o.orderOptions, order: cke.RestoreOrder{Accepted: o.accept}}
	if o.snapshot != "" {
		if r.imports, err = openImport(ctx, o); err != nil {
			return err
		}
		defer r.imports.close()
	}
	if err := r.choose(ctx, o); err != nil {
		return err
	}
	r.order.Lineage, r.order.Revision, r.order.Time, r.order.Trust, r.order.IgnoreHash = at.Lineage, at.Revision, at.Time, o.backups.trust, o.ignoreHash
	look := r.look
	if r.imports != nil {
		look = r.lookImport
	}
	if err := look(ctx, o.backups, at); err != nil {
		return err
	}
	for _, file := range o.backups.keys {
		text, err := a.readFile(ctx, file)
		if err != nil {
			return err
		}
		r.asked.Key = append(append(r.asked.Key, text...), '\n')
	}
	return r.run(ctx, fmt.Sprintf("restoring %s", r.cluster))
}

func runCancelRestore(ctx context.Context, a *app, s store) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskCancelRestore, "", ""), done: func(_ cke.Record, took string) string {
		return fmt.Sprintf("%s continues as it was (took %s)", cluster, took)
	}})
}

// restoring is an order in the making.
type restoring struct {
	app     *app
	store   store
	options orderOptions
	cluster string
	spec    cke.Cluster // wanted, with defaults
	order   cke.RestoreOrder
	asked   storage.RestoreAsked
	// sshKeys are keys of nodes that lay beside the backups, by node; "" for all.
	sshKeys map[string][]byte
	plan    restorePlan
	// lent are the signing keys that follow from what --key names: they are shown, and not trusted.
	lent []string
	// signed: what lies beside the backups is signed by a key that is trusted.
	signed bool
	// imports is the data that is stored in the target first; nil: none.
	imports *importing
}

// choose finds the cluster that is meant: one in the store, or one that is to be declared.
func (r *restoring) choose(ctx context.Context, o restoreOptions) error {
	var err error
	if o.file != "" {
		return r.declareFile(ctx, o)
	}
	r.cluster = r.app.cluster
	if names, listErr := r.store.Clusters(ctx); listErr != nil {
		return listErr
	} else if r.cluster == "" && len(names) == 0 && o.backups.target != "" {
		r.cluster = o.backups.cluster // of a blank store: the one whose backups they are
	} else if r.cluster == "" {
		if r.cluster, err = onlyCluster(names); err != nil {
			return err
		}
	}
	spec, err := r.store.Spec(ctx, r.cluster)
	declares := r.cluster == "" || errors.Is(err, cke.ErrNotFound) && o.backups.target != ""
	if declares && r.imports != nil {
		return r.imports.undeclared(r.cluster)
	}
	if declares {
		return r.declareEscrow(ctx, o)
	}
	if err != nil {
		return err
	}
	r.spec, r.order.ShownGeneration = spec.Wanted(), spec.Generation
	r.from(o.backups)
	if r.order.Target == "" {
		return noTarget(r.cluster)
	}
	return nil
}

func noTarget(cluster string) error {
	return refused(&cke.Error{Code: cke.CodeTarget, What: "cluster " + cluster + " has no backup target", Unchanged: true,
		Facts: []string{"name one with --from URL"}})
}

// from says whose backups are meant.
func (r *restoring) from(o backupOptions) {
	r.order.Target, r.order.Source = o.target, o.cluster
	if r.order.Target == "" {
		r.order.Target = r.spec.Backup.Target
	}
	if r.order.Source == "" {
		r.order.Source = r.cluster
	}
	if r.imports != nil {
		r.order.Source = backup.ImportName(r.cluster)
	}
}

// run shows the plan, asks for confirmation, hands the order over and follows the work.
func (r *restoring) run(ctx context.Context, what string) error {
	a := r.app
	r.order.Without, r.order.Destroyed = r.options.without, r.options.destroyed
	r.planNodes(ctx)
	if r.options.plan {
		return a.show(r.plan.view())
	}
	if err := r.plan.write(a.stderr, a.colour(a.stderr)); err != nil {
		return err
	}
	if err := a.confirmName(ctx, what, r.cluster, r.options.confirm, "add --confirm "+r.cluster); err != nil {
		return err
	}
	begun := a.now()
	if err := r.storeImport(ctx); err != nil {
		return err
	}
	t := a.newTask(cke.TaskRestore, "", "")
	t.Restore = &r.order
	newest, err := follow.NewestRecord(ctx, r.store, r.cluster)
	if err != nil {
		return err
	}
	if err := r.ask(ctx, t); err != nil {
		return err
	}
	if r.options.noWait {
		return a.showTask(taskDone{Cluster: r.cluster, Task: t.ID}, t.ID)
	}
	tell, err := r.follow(ctx, t, newest)
	if err != nil {
		return err
	}
	st, err := r.followOpen(ctx, t, newest, tell)
	if err != nil {
		return err
	}
	took := a.now().Sub(begun)
	line := fmt.Sprintf("%s is restored: %s (took %s)", r.cluster, st.Summary, term.Took(took))
	return a.showTask(taskDone{Cluster: r.cluster, Task: t.ID, Took: took.Seconds()}, line)
}

// ask hands the order over. A cluster in the store needs a leader, so that nothing happens long after it was meant.
func (r *restoring) ask(ctx context.Context, t cke.Task) error {
	if r.asked.Declare == nil {
		if _, err := r.store.Leader(ctx, r.cluster); errors.Is(err, cke.ErrNotFound) {
			return follow.NobodyTakes(r.cluster)
		} else if err != nil {
			return err
		}
	}
	if r.asked.Declare != nil && len(r.sshKeys) <= storage.MostDeclaredKeys { // without them no node answers, and the order would be refused
		r.asked.Declare.SSHKeys, r.sshKeys = r.sshKeys, nil
	}
	if err := r.store.AskRestore(ctx, r.cluster, t, r.asked); err != nil {
		return detached(ctx, err, "it is not known whether the leader was asked", r.app.again(r.cluster, "history"))
	}
	for node, key := range r.sshKeys {
		if err := r.store.SetSSHKey(ctx, r.cluster, node, key); err != nil {
			return err
		}
	}
	return nil
}

// follow follows the order until it is on record, or was refused.
func (r *restoring) follow(ctx context.Context, t cke.Task, newest int64) (*follow.Narrator, error) {
	w := &follow.Task{Store: r.store, Cluster: r.cluster, ID: t.ID, After: newest}
	f := r.app.newFollower(r.store, r.cluster, newest)
	f.About, f.Declared = w.About(), follow.DeclaredStill(r.cluster)
	f.Asked = func(q cke.Requests) error { return w.Asked(ctx, q) }
	f.Recorded = w.Recorded
	_, err := f.Until(ctx, func(cke.Status) bool { return false })
	if err != nil && !follow.Over(w.Last) {
		return nil, detached(ctx, err, "the restore of "+r.cluster+" is asked for, and cke continues with it", r.app.again(r.cluster, "history -f"))
	}
	f.Tell.Record(w.Last)
	if w.Last.State == cke.RecordCompleted {
		return f.Tell, nil
	}
	if id, again := r.store.Identity(ctx, r.cluster); again == nil && id.Incarnation != nil && id.Incarnation.Restore != nil && id.Incarnation.Restore.ID == t.ID {
		return f.Tell, nil // it failed after it was on record, and continues
	}
	failed := taskFailure(w.Last)
	if err := r.store.WithdrawRestore(ctx, r.cluster, t.ID); err != nil {
		fmt.Fprintf(r.app.stderr, "warning: the key that was lent is still in the store, sealed: %v\n", err)
	}
	return nil, failed
}

// followOpen follows the work until the restored members serve. What was shown before is not shown again.
func (r *restoring) followOpen(ctx context.Context, t cke.Task, newest int64, tell *follow.Narrator) (cke.Status, error) {
	f := r.app.newFollower(r.store, r.cluster, newest)
	f.Tell = tell
	f.About = func(s cke.Status) bool { return s.Health == cke.HealthRestoring }
	f.Declared = follow.DeclaredStill(r.cluster)
	restored, calledOff := "", false
	var since []cke.Record // the records since the order, the newest first
	st, err := f.Until(ctx, func(s cke.Status) bool {
		if restored == "" {
			id, err := r.store.Identity(ctx, r.cluster)
			switch inc := id.Incarnation; {
			case err != nil || inc == nil:
			case inc.Restore == nil || inc.Restore.ID != t.ID: // the record that says why ends after that
				records, err := r.store.Records(ctx, r.cluster, 0)
				since = slices.DeleteFunc(records, func(rec cke.Record) bool { return rec.ID <= newest })
				calledOff = err == nil && !slices.ContainsFunc(since, endsRestore)
				return calledOff
			case inc.State == cke.Formed:
				restored = inc.ID
			}
		}
		return restored != "" && s.Incarnation == restored && slices.Contains([]cke.Health{cke.HealthReady, cke.HealthUpdating, cke.HealthDegraded}, s.Health)
	})
	if err == nil && calledOff {
		return st, notRestored(r.cluster, since, r.app.again(r.cluster, "history"))
	}
	return st, detached(ctx, err, "the restore of "+r.cluster+" is under way, and cke continues with it", r.app.again(r.cluster, "history -f"))
}

// endsRestore reports whether an operation runs that may end a restore.
func endsRestore(r cke.Record) bool {
	return r.State == cke.RecordRunning && (r.Operation == op.Restore{}.Name() || r.Operation == op.CancelRestore{}.Name())
}

// notRestored is why a restore that was on record replaced nothing, by the records since, the newest first.
func notRestored(cluster string, records []cke.Record, history string) error {
	e := &cke.Error{Code: cke.CodeCannot, What: "the restore of " + cluster + " was canceled", Facts: []string{"the history shows why"}, Try: history}
	for _, r := range records {
		switch {
		case r.Operation == op.CancelRestore{}.Name() && r.State == cke.RecordCompleted:
			e.Facts = []string{r.Reason}
			return e
		case r.Operation == op.Restore{}.Name() && r.Task == "" && r.Refusal != nil:
			return taskFailure(r)
		}
	}
	return e
}

// lostText shows how far back a restore goes.
func lostText(present, restored int64, at time.Time) string {
	switch {
	case restored > 0 && present-restored >= cke.RevisionBump:
		return "what was written after it is lost; the cluster was restored since, so revisions do not show how much that is"
	case restored > 0 && present > restored:
		return cke.Plural(present-restored, "revision after it is lost", "revisions after it are lost")
	case restored > 0 && present > 0:
		return "nothing is lost as far as is known"
	case !at.IsZero():
		return "what was written later is lost"
	}
	return "what was written later is lost; it is not known now how much that is"
}

func (p restorePlan) view() view {
	return view{data: p, names: p.nodeNames(), table: func(w io.Writer, colour, _ bool) error { return p.write(w, colour) }}
}
