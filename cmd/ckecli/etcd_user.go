package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/internal/term"
)

func newUserCommand(a *app) *cobra.Command {
	return newGroup("user", "", "Manage tenants: users of etcd with keys of their own",
		newUserListCommand(a), newUserAddCommand(a), newUserGrantCommand(a), newUserRevokeCommand(a), newUserRemoveCommand(a))
}

// userKeys are the flags that name keys.
func userKeys(cmd *cobra.Command, o *cke.UserOrder) {
	cmd.Flags().StringVar(&o.Prefix, "prefix", "", "all keys with this `prefix`")
	cmd.Flags().StringVar(&o.Key, "key", "", "this `key` alone")
}

func newUserAddCommand(a *app) *cobra.Command {
	o := cke.UserOrder{Action: cke.UserAdd}
	return a.grantingCommand(&cobra.Command{
		Use: "add NAME", Short: "Add a user that may use the keys with a prefix, or one key",
		Long: `Add a user to etcd, without a password: a client is this user if NAME is the common name of its certificate, as that of
` + "`ckecli etcd issue NAME`" + `. It may use the keys with a prefix, or one key, and no others. It has an effect only while
etcd's authentication is on. Repeated with the same keys, it changes nothing.`,
	}, &o, "%s may use %s of %s (took %s)")
}

func newUserGrantCommand(a *app) *cobra.Command {
	o := cke.UserOrder{Action: cke.UserGrant}
	return a.grantingCommand(&cobra.Command{
		Use: "grant NAME", Short: "Let a user use more keys, or the same keys with other rights",
		Long: "Let a user that cke manages use more keys: those with a prefix, or one key. Given for the same prefix or key again, with or\nwithout --read-only, it replaces the rights.",
	}, &o, "%s may use %s of %s (took %s)")
}

func (a *app) grantingCommand(cmd *cobra.Command, o *cke.UserOrder, done string) *cobra.Command {
	userKeys(cmd, o)
	cmd.Flags().BoolVar(&o.ReadOnly, "read-only", false, "permit only reads")
	cmd.Flags().BoolVar(&o.Shared, "shared", false, "accept that other tenants use these keys, too")
	return a.userCommand(cmd, o, nil, func(cluster, took string) string {
		return fmt.Sprintf(done, o.Name, o.Grant(), cluster, took)
	})
}

func newUserRevokeCommand(a *app) *cobra.Command {
	o := cke.UserOrder{Action: cke.UserRevoke}
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "Withdraw what was granted for a prefix or a key",
		Long: "Withdraw the rights of a user that cke manages to a prefix or a key, given as it was granted. Others remain.",
	}
	userKeys(cmd, &o)
	return a.userCommand(cmd, &o, nil, func(cluster, took string) string {
		return fmt.Sprintf("%s may no longer use %s of %s (took %s)", o.Name, o.Grant().KeyRange, cluster, took)
	})
}

func newUserRemoveCommand(a *app) *cobra.Command {
	o := cke.UserOrder{Action: cke.UserRemove}
	yes := false
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, Short: "Remove a user; its keys are kept",
		Long: `Remove a user that cke manages, with its role. Its keys are kept. Certificates with its name remain valid until they expire,
but while authentication is on, etcd refuses them, since there is no such user. They are accepted again if a user of
the same name is added. A watch that is open continues until its connection ends.`,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm")
	ask := func(ctx context.Context, cluster string) error {
		if yes {
			return nil
		}
		return a.confirmYes(ctx, "the removal of a user", fmt.Sprintf("Clients with a certificate for %s are refused from then on. Remove user %s of %s?", o.Name, o.Name, cluster),
			"ckecli etcd user remove "+o.Name+" --yes")
	}
	return a.userCommand(cmd, &o, ask, func(cluster, took string) string {
		return fmt.Sprintf("user %s of %s is removed; its keys are kept (took %s)", o.Name, cluster, took)
	})
}

// userCommand completes a command that changes the user in its argument. ask, if it is not nil, asks for confirmation.
func (a *app) userCommand(cmd *cobra.Command, o *cke.UserOrder, ask func(ctx context.Context, cluster string) error, done func(cluster, took string) string) *cobra.Command {
	noWait := false
	cmd.Args = arguments(1, 1)
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		o.Name = args[0]
		if err := o.Check(); err != nil {
			return usageError{err, cmd.CommandPath()}
		}
		return nil
	}
	cmd.RunE = a.onStore(func(ctx context.Context, s store, _ []string) error {
		cluster, err := a.theCluster(ctx, s)
		if err != nil {
			return err
		}
		if ask != nil {
			if err := ask(ctx, cluster); err != nil {
				return err
			}
		}
		t := a.newTask(cke.TaskUser, "", "")
		t.User = o
		err = a.runTask(ctx, s, taskRun{cluster: cluster, task: t, noWait: noWait, done: func(_ cke.Record, took string) string { return done(cluster, took) }})
		if err == nil && !noWait {
			_ = a.askMember(ctx, s, func(ctx context.Context, _ string, fleet *etcdnode.Fleet, url string) error { // without the key file the note is left out
				st, err := fleet.Auth(ctx, url)
				if err == nil && !st.Enabled {
					fmt.Fprintln(a.stderr, authOffNote)
				}
				return err
			})
		}
		return err
	})
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it is asked for")
	return cmd
}

const authOffNote = "Authentication is off: every client with a certificate of the cluster may do everything until `ckecli etcd auth enable`."

func newUserListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List etcd's users, and what they may use", Args: arguments(0, 0),
		Long: `Ask a member which users etcd has, and what they may use. Users that cke does not manage are listed as well; cke never changes
them. It needs the secret key file, and changes nothing.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error { return runUserList(ctx, a, s) }),
	}
}

// listedUser is a user as `etcd user list` writes it for programs.
type listedUser struct {
	Name string `json:"name"`
	// Manager is "cke" for users that cke manages; empty: an operator has added it.
	Manager string        `json:"manager,omitempty"`
	Roles   []string      `json:"roles"`
	Grants  []listedGrant `json:"grants"`
}

type listedGrant struct {
	Role  string `json:"role"`
	Keys  string `json:"keys"`
	Read  bool   `json:"read"`
	Write bool   `json:"write"`
	what  cke.Grant
}

func runUserList(ctx context.Context, a *app, s store) error {
	var u cke.EtcdUsers
	var st cke.AuthState
	err := a.askMember(ctx, s, func(ctx context.Context, _ string, fleet *etcdnode.Fleet, url string) (err error) {
		if st, err = fleet.Auth(ctx, url); err == nil {
			u, err = fleet.Users(ctx, url)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !st.Enabled {
		fmt.Fprintln(a.stderr, authOffNote)
	}
	all := listUsers(u)
	var names []string
	for _, l := range all {
		names = append(names, l.Name)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("USER", "MANAGED BY", "KEYS", "RIGHTS", "ROLE")
		for _, l := range all {
			for i, g := range append(l.Grants, listedGrant{}) {
				switch {
				case g.Role != "":
					t.Add(term.Text(l.Name), term.Text(l.Manager), term.Text(g.what.KeyRange.String()), term.Text(g.what.Rights()), term.Text(g.Role))
				case i == 0:
					t.Add(term.Text(l.Name), term.Text(l.Manager), term.Text(""), term.Text(""), term.Text(strings.Join(l.Roles, ", ")))
				}
			}
		}
		return t.Write(w, colour)
	}})
}

func listUsers(u cke.EtcdUsers) []listedUser {
	all := []listedUser{}
	for _, name := range slices.Sorted(maps.Keys(u.Users)) {
		l := listedUser{Name: name, Roles: append([]string{}, u.Users[name]...), Grants: []listedGrant{}}
		if managed, _ := u.Tenant(name); managed || name == cke.EtcdUser {
			l.Manager = "cke"
		}
		for _, role := range l.Roles {
			for _, g := range u.Roles[role] {
				l.Grants = append(l.Grants, listedGrant{role, g.KeyRange.String(), g.Read, g.Write, g})
			}
			if role == cke.EtcdRoot {
				every := cke.Grant{KeyRange: cke.KeyRange{Key: "\x00", End: "\x00"}, Read: true, Write: true}
				l.Grants = append(l.Grants, listedGrant{role, every.KeyRange.String(), true, true, every})
			}
		}
		all = append(all, l)
	}
	return all
}
