package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/internal/bundle"
	"cke/internal/scrub"
	"cke/pki"
	"cke/plan"
	"cke/preflight"
)

func newSupportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "support-bundle [FILE]", GroupID: groupSelf, Short: "Pack what is known of a cluster, without secrets, for support",
		Long: `Pack what is known of a cluster into FILE (.tar.gz, mode 0600; default: a name with cluster and time, here): status, plan,
history with its steps, cluster file and revisions, leader, tasks, configuration, versions, what each node and member says now,
the end of the members' logs, and the metrics of the daemon of this host.

What cannot be reached is a file that says why; neither a leader nor an answering store is needed. Keys, passwords and
credentials are left out, as are the values in extra_env and the comments in the cluster file. Names and addresses
of nodes are in it.`,
		Example: "  ckecli support-bundle\n  ckecli support-bundle --cluster prod /tmp/prod.tar.gz",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runSupport(cmd.Context(), a, file)
		},
	}
}

func runSupport(ctx context.Context, a *app, file string) error {
	w, err := a.source(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	r := bundle.List{File: file, Cluster: w.Cluster, MadeAt: a.now().UTC().Truncate(time.Second), MadeBy: a.whoami()}
	base := fmt.Sprintf("cke-support-%s-%s", cmp.Or(w.Cluster, "unknown"), r.MadeAt.Format("20060102-150405"))
	if r.File == "" {
		r.File = base + ".tar.gz"
	}
	if _, err := os.Lstat(r.File); err == nil {
		return &cke.Error{Code: cke.CodeConfirm, What: r.File + " already exists", Unchanged: true, Try: "another name"}
	}
	if info, err := os.Stat(filepath.Dir(r.File)); err != nil || !info.IsDir() {
		return refused(&cke.Error{What: "there is no directory " + filepath.Dir(r.File) + " to write the bundle to", Unchanged: true})
	}
	r.Entries = bundle.Gather(ctx, w.Parts())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	packed, err := bundle.Pack(base, r, w.Scrub)
	if err != nil {
		return fmt.Errorf("pack the bundle: %w", err)
	}
	if err := writeFile(r.File, 0o600, packed); err != nil {
		return fmt.Errorf("write %s: %w", r.File, err)
	}
	for _, e := range r.Entries {
		if e.Problem != "" {
			fmt.Fprintf(a.stderr, "missing: %s: %s\n", e.Name, e.Problem)
		}
	}
	return a.showLine(r, r.File, r.File)
}

// source finds out who can be asked. A store that does not answer is no error.
func (a *app) source(ctx context.Context) (*bundle.Source, error) {
	w := &bundle.Source{Cluster: a.cluster, Scrub: scrub.New(nil), Version: buildVersion(), Config: a.loadConfig, Changes: plan.Changes}
	s, err := a.connect(ctx)
	if err == nil {
		_, err = s.Clusters(ctx)
	}
	if err != nil {
		w.Away = err
		return w, ctx.Err()
	}
	if w.Cluster, err = a.theCluster(ctx, s); err != nil {
		return nil, err
	}
	if w.Log, err = s.SpecLog(ctx, w.Cluster); err != nil {
		return nil, err
	}
	w.Store, w.Spec, w.Scrub = s, w.Log[0], scrub.New(w.Log)
	identity, err := s.Identity(ctx, w.Cluster)
	if err != nil {
		return nil, err
	}
	w.Plan = func(ctx context.Context) (any, error) {
		return a.makePlan(ctx, s, &edition{cluster: w.Spec.Cluster})
	}
	keys, err := a.preflightKeys(ctx, s, w.Cluster, preflightOptions{})
	if err != nil {
		return nil, err
	}
	authority := pki.New(s.Secrets(w.Cluster), w.Cluster, a.now)
	w.Fleet = etcdnode.New(etcdnode.Config{
		Keys: keys.login, AgentSocket: a.getenv("SSH_AUTH_SOCK"), HostKeys: &preflight.HostKeys{Known: keys.pinned, Strict: true}, Beside: true,
		ClientTLS: func(ctx context.Context) (*tls.Config, error) {
			return authority.ClientTLS(ctx, identity.Authorities)
		},
	})
	w.Fleet.Update(w.Spec.Cluster, identity)
	w.Observe = sync.OnceValue(func() cke.Observation { return preflight.Observe(ctx, w.Fleet) })
	return w, nil
}
