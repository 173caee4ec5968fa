package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
	"cke/storage"
)

// sshKeys are the keys that cke logs in to nodes with.
type sshKeys interface {
	SSHKey(ctx context.Context, cluster, node string) ([]byte, error)
	SetSSHKey(ctx context.Context, cluster, node string, pem []byte) error
	SSHKeys(ctx context.Context) ([]storage.SSHKeyInfo, error)
	DeleteSSHKey(ctx context.Context, cluster, node string) error
}

func newSSHKeyCommand(a *app) *cobra.Command {
	return newGroup("ssh-key", groupEtcd, "Give cke the keys to log in to nodes with",
		newSSHKeySetCommand(a), newSSHKeyListCommand(a), newSSHKeyDeleteCommand(a))
}

const sshKeyScope = `Without --cluster the key is for all clusters; with it, for that cluster; with --node, for that node alone.
The narrowest key is used. CKECLI_CLUSTER does not narrow a key.`

func newSSHKeySetCommand(a *app) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "set FILE|-",
		Short: "Seal a private key in the store",
		Long:  "Seal a private key in the store, in place of the one that was there. It must have no passphrase.\n\n" + sshKeyScope,
		Args:  arguments(1, 1),
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runSSHKeySet(ctx, a, s, args[0], node)
		}),
	}
	cmd.Flags().StringVar(&node, "node", "", "only for this node, by `name` or address")
	must(cmd.RegisterFlagCompletionFunc("node", a.completeNodes()))
	return cmd
}

// keyScope returns the cluster and the node's name that a key is for.
func (a *app) keyScope(ctx context.Context, s specs, node string) (cluster, name string, err error) {
	if node == "" {
		return a.clusterFlag, "", nil
	}
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return "", "", err
	}
	n, err := declaredNode(spec, node)
	return cluster, n.Name(), err
}

// declaredNode returns the node of this name or address.
func declaredNode(spec cke.Spec, name string) (cke.Node, error) {
	c := spec.Wanted()
	if n, ok := c.Node(name); ok {
		return n, nil
	}
	return cke.Node{}, &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s declares no node %s", c.Name, name),
		Facts: []string{"declared: " + commaList(c.Nodes, cke.Node.Name)}, Unchanged: true, Try: "ckecli node list"}
}

func commaList[T any](all []T, name func(T) string) string {
	text := ""
	for i, v := range all {
		if i > 0 {
			text += ", "
		}
		text += name(v)
	}
	return text
}

func runSSHKeySet(ctx context.Context, a *app, s interface {
	sshKeys
	specs
}, file, node string) error {
	pem, err := a.readFile(ctx, file)
	if err != nil {
		return err
	}
	cluster, name, err := a.keyScope(ctx, s, node)
	if err != nil {
		return err
	}
	if err := s.SetSSHKey(ctx, cluster, name, pem); err != nil {
		return err
	}
	infos, err := s.SSHKeys(ctx)
	if err != nil {
		return err
	}
	for _, i := range infos {
		if i.Cluster == cluster && i.Node == name {
			fmt.Fprintf(a.stderr, "Sealed for %s. Its line for authorized_keys on the nodes:\n", keyFor(i))
			return a.showLine(i, i.Fingerprint, cke.KeyOptions+" "+i.PublicKey)
		}
	}
	return nil
}

func keyFor(i storage.SSHKeyInfo) string {
	switch {
	case i.Cluster == "":
		return "all clusters"
	case i.Node == "":
		return "cluster " + i.Cluster
	}
	return "node " + i.Node + " of " + i.Cluster
}

func newSSHKeyListCommand(a *app) *cobra.Command {
	return a.listing("List the keys, without their secrets", func(ctx context.Context, a *app, s store) error { return runSSHKeyList(ctx, a, s) })
}

func runSSHKeyList(ctx context.Context, a *app, s sshKeys) error {
	infos, err := s.SSHKeys(ctx)
	if err != nil {
		return err
	}
	all, names := inScope(a, infos, func(i storage.SSHKeyInfo) (string, string) { return i.Cluster, i.Fingerprint })
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, wide bool) error {
		if len(all) == 0 {
			fmt.Fprintln(a.stderr, "There is no SSH key yet. Set one with: ckecli ssh-key set FILE")
			return nil
		}
		header := []string{"CLUSTER", "NODE", "FINGERPRINT", "SET"}
		if wide {
			header = append(header, "PUBLIC KEY")
		}
		t := term.NewTable(header...)
		for _, i := range all {
			t.Add(term.Text(orAll(i.Cluster)), term.Text(orAll(i.Node)), term.Text(i.Fingerprint),
				term.Text(a.ago(i.SetAt)+" ago"), term.Text(i.PublicKey))
		}
		return t.Write(w, colour)
	}})
}

func orAll(s string) string {
	if s == "" {
		return "all"
	}
	return s
}

func newSSHKeyDeleteCommand(a *app) *cobra.Command {
	var node string
	cmd := &cobra.Command{
		Use:   "delete",
		Short: "Delete a key that is not in use",
		Long:  "Delete a key. A key is in use, and not deleted, while a declared node cannot be reached without it.\n\n" + sshKeyScope,
		Args:  arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runSSHKeyDelete(ctx, a, s, node)
		}),
	}
	cmd.Flags().StringVar(&node, "node", "", "the key of this node, by `name` or address")
	must(cmd.RegisterFlagCompletionFunc("node", a.completeNodes()))
	return cmd
}

func runSSHKeyDelete(ctx context.Context, a *app, s interface {
	sshKeys
	specs
}, node string) error {
	cluster, name := a.clusterFlag, node
	if node != "" {
		var err error
		if cluster, err = a.theCluster(ctx, s); err != nil {
			return err
		}
		if spec, err := s.Spec(ctx, cluster); err == nil {
			if n, ok := spec.Cluster.Node(node); ok {
				name = n.Name()
			}
		}
	}
	which := keyFor(storage.SSHKeyInfo{Cluster: cluster, Node: name})
	none := &cke.Error{Code: cke.CodeNoSSHKey, What: "there is no SSH key for " + which, Unchanged: true, Try: "ckecli ssh-key list"}
	return a.deletedSecret(s.DeleteSSHKey(ctx, cluster, name), none, fmt.Sprintf("The SSH key for %s is deleted.", which))
}
