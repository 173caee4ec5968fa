package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/words"
	"cke/quorum"
)

// rotateOptions are the options of `ca rotate` and `ca finish`.
type rotateOptions struct{ yes, noWait bool }

func newCARotateCommand(a *app) *cobra.Command {
	var o rotateOptions
	cmd := &cobra.Command{
		Use: "rotate peer|server|client", Short: "Replace a certificate authority", Args: arguments(1, 1), ValidArgsFunction: completeAuthorities,
		Long: `Replace a certificate authority of a cluster, in three phases that keep members and clients trusting each other:

  1  a next one is made; every member is restarted, and trusts both
  2  certificates are issued by the next one
  3  every member is restarted, and no longer trusts the former one; its key is removed

Members are restarted as for any change: one at a time, the leader last, each only while all others serve. The next phase
waits for a member that is down. For the server and the client authority cke cannot know when the clients of the cluster are
ready; it waits for ` + "`ckecli ca finish`" + `. A cluster of one or two members does not serve while one
is restarted: confirm that, or give --yes.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			name, err := authorityName(args[0])
			if err != nil {
				return err
			}
			return runCARotate(ctx, a, s, name, o)
		}),
	}
	o.flags(cmd)
	return cmd
}

func (o *rotateOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "confirm")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return once it is asked for")
}

func runCARotate(ctx context.Context, a *app, s store, name cke.AuthorityName, o rotateOptions) error {
	cluster, st, err := a.statusOf(ctx, s)
	if err != nil {
		return err
	}
	if n := voters(st); n > 0 && n <= 2 && !o.yes {
		question := fmt.Sprintf("%s has %d of %d members that a quorum needs: it does not serve while one is restarted. Continue?", cluster, n, quorum.Of(n))
		if err := a.confirmYes(ctx, "replacing an authority of "+cluster, question, fmt.Sprintf("ckecli ca rotate %s --yes", name)); err != nil {
			return err
		}
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskRotate, "", string(name)), noWait: o.noWait,
		done: func(_ cke.Record, took string) string {
			switch name {
			case cke.ServerAuthority:
				return fmt.Sprintf("every member of %s is ready for the next server authority (took %s); give clients what `%s` writes, then: %s",
					cluster, took, a.again(cluster, "ca get server"), a.again(cluster, "ca finish server"))
			case cke.ClientAuthority:
				return fmt.Sprintf("client certificates of %s are issued by the next authority (took %s); give clients new ones (`%s`), then: %s",
					cluster, took, a.again(cluster, "etcd issue NAME"), a.again(cluster, "ca finish client"))
			}
			return fmt.Sprintf("the %s authority of %s is replaced (took %s)", name, cluster, took)
		}})
}

func newCAFinishCommand(a *app) *cobra.Command {
	var o rotateOptions
	cmd := &cobra.Command{
		Use: "finish server|client", Short: "Confirm that clients are ready for the next authority", Args: arguments(1, 1), ValidArgsFunction: completeAuthorities,
		Long: `Confirm that all clients of a cluster are ready for the next phase of a replacement:

  server  they trust both server authorities; members will show certificates of the next one
  client  they have certificates of the next client authority; members will stop trusting the former one

Clients that are not ready are cut off: confirm that, or give --yes.`,
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			name, err := authorityName(args[0])
			if err != nil {
				return err
			}
			return runCAFinish(ctx, a, s, name, o)
		}),
	}
	o.flags(cmd)
	return cmd
}

func runCAFinish(ctx context.Context, a *app, s store, name cke.AuthorityName, o rotateOptions) error {
	cluster, id, err := a.theIdentity(ctx, s)
	if err != nil {
		return err
	}
	r := id.Authorities.Of(name)
	if !id.Authorities.WaitsForPerson(name) {
		why := &cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("the %s authority of %s is not being replaced", name, cluster), Unchanged: true, Try: a.again(cluster, "ca list")}
		if r.Next != nil {
			why.What = fmt.Sprintf("the replacement of the %s authority of %s does not wait for a confirmation now", name, cluster)
			why.Facts = []string{fmt.Sprintf("phase %d of 3: %s", r.Phase.Number(), words.Phase(r.Phase))}
		}
		return refused(why)
	}
	if !o.yes {
		question := fmt.Sprintf("Clients of %s that do not trust the next server authority yet are cut off. Continue?", cluster)
		if name == cke.ClientAuthority {
			question = fmt.Sprintf("Clients of %s whose certificates are of the former client authority are cut off. Continue?", cluster)
		}
		if err := a.confirmYes(ctx, "finishing the replacement of an authority of "+cluster, question, fmt.Sprintf("ckecli ca finish %s --yes", name)); err != nil {
			return err
		}
	}
	return a.runTask(ctx, s, taskRun{cluster: cluster, task: a.newTask(cke.TaskFinish, "", fmt.Sprintf("%s %s", name, r.Phase)), noWait: o.noWait,
		done: func(_ cke.Record, took string) string {
			return fmt.Sprintf("the replacement of the %s authority of %s continues by itself (took %s); see %s", name, cluster, took, a.again(cluster, "ca list"))
		}})
}
