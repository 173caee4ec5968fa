package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/pki"
)

func newAuthCommand(a *app) *cobra.Command {
	return newGroup("auth", "", "Turn etcd's own authentication on and off", newAuthStatusCommand(a), newAuthEnableCommand(a), newAuthDisableCommand(a))
}

func newAuthStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show whether authentication is on, and whether it admits cke", Args: arguments(0, 0),
		Long: `Ask a member whether etcd's authentication is on, and whether cke's own user has the role root. It needs the secret key
file, and changes nothing.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return runAuthStatus(ctx, a, s) }),
	}
}

// authTold is the state of authentication as `etcd auth status` writes it for programs.
type authTold struct {
	Cluster string `json:"cluster"`
	User    string `json:"user"`
	cke.AuthState
}

func runAuthStatus(ctx context.Context, a *app, s store) error {
	return a.askMember(ctx, s, func(ctx context.Context, cluster string, fleet *etcdnode.Fleet, url string) error {
		st, err := fleet.Auth(ctx, url)
		if err != nil {
			return err
		}
		return a.showLine(authTold{cluster, cke.EtcdUser, st}, cluster, authText(st))
	})
}

// askMember asks one member after the other of the formed cluster, with cke's own certificate, until one has answered.
func (a *app) askMember(ctx context.Context, s store, ask func(ctx context.Context, cluster string, fleet *etcdnode.Fleet, url string) error) error {
	cluster, id, err := a.theIdentity(ctx, s)
	if err != nil {
		return err
	}
	if !isFormed(id) {
		return refused(&cke.Error{Code: cke.CodeUnformed, What: fmt.Sprintf("cluster %s is not formed", cluster), Unchanged: true, Try: "ckecli status"})
	}
	authority := pki.New(s.Secrets(cluster), cluster, a.now)
	fleet := etcdnode.New(etcdnode.Config{ClientTLS: func(ctx context.Context) (*tls.Config, error) {
		return authority.ClientTLS(ctx, id.Authorities)
	}})
	defer fleet.Close()
	var failed []error
	for _, j := range cke.Chosen(id.Joins) {
		err := ask(ctx, cluster, fleet, j.ClientURL())
		if err == nil || cke.CodeOf(err) == cke.CodeAuth {
			return err
		}
		failed = append(failed, fmt.Errorf("%s: %w", j.Node.Name(), err))
	}
	return fmt.Errorf("no member of %s answers: %w", cluster, errors.Join(failed...))
}

func authText(st cke.AuthState) string {
	switch {
	case st.Enabled && st.Admitted:
		return "authentication is on, and user " + cke.EtcdUser + " has the role root"
	case st.Enabled:
		return "authentication is on, and refuses " + cke.EtcdUser + ": see `ckecli help " + string(cke.CodeAuth) + "`"
	}
	return "authentication is off"
}

// authOptions are the options of `etcd auth enable` and `etcd auth disable`.
type authOptions struct{ yes, noWait bool }

func newAuthEnableCommand(a *app) *cobra.Command {
	return a.authCommand(&cobra.Command{
		Use: "enable", Short: "Turn authentication on, with a user for cke",
		Long: `Turn etcd's authentication on. First cke sets up two users without passwords, both with the role root, and reads them back
over another connection: root, which etcd requires, and cke, the name in cke's own certificate. You manage all other users and
roles: the name in a client certificate is its user. From then on a client whose user is missing, or has no role that permits
what it does, is refused; so set them up first.`,
	}, cke.AuthOn, "Clients without a user and a role are refused from then on. Turn authentication of %s on?", "authentication of %s is on, and admits cke (took %s)")
}

func newAuthDisableCommand(a *app) *cobra.Command {
	return a.authCommand(&cobra.Command{
		Use: "disable", Short: "Turn authentication off",
		Long: "Turn etcd's authentication off. Users and roles are kept. From then on every client with a certificate of the cluster may do everything.",
	}, cke.AuthOff, "Every client with a certificate of the cluster may do everything from then on. Turn authentication of %s off?", "authentication of %s is off (took %s)")
}

func (a *app) authCommand(cmd *cobra.Command, subject, question, done string) *cobra.Command {
	var o authOptions
	cmd.Args = arguments(0, 0)
	cmd.RunE = a.onStore(func(ctx context.Context, s store, _ []string) error {
		cluster, err := a.theCluster(ctx, s)
		if err != nil {
			return err
		}
		if !o.yes {
			if err := a.confirmYes(ctx, "a change of authentication", fmt.Sprintf(question, cluster), "ckecli etcd auth "+subject+" --yes"); err != nil {
				return err
			}
		}
		return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskAuth, "", subject), noWait: o.noWait,
			done: func(_ cke.Record, took string) string { return fmt.Sprintf(done, cluster, took) }})
	})
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
	return cmd
}
