package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"cke"
	"cke/storage"
)

// hostKeys are the host keys that nodes are known by.
type hostKeys interface {
	HostKeys(ctx context.Context, cluster string) (map[string]string, error)
	OfferedHostKey(ctx context.Context, cluster, address string) (storage.OfferedKey, error)
	AcceptHostKey(ctx context.Context, cluster, address, line string) error
}

// acceptOptions are the options of `node accept-key`.
type acceptOptions struct {
	yes         bool
	fingerprint string
}

func newNodeAcceptKeyCommand(a *app) *cobra.Command {
	var o acceptOptions
	cmd := &cobra.Command{
		Use:   "accept-key NODE",
		Short: "Accept the host key that a node shows in place of the known one",
		Long: `A node that shows another host key than the known one was reinstalled, or is another machine. cke does not connect
to it until you accept the new key. Compare the fingerprint with the one on the node:

  ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub`,
		Args: arguments(1, 1), ValidArgsFunction: first(a.completeNodes()),
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runAcceptKey(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&o.fingerprint, "fingerprint", "", "do not ask; accept only a key with this fingerprint, as `SHA256:…`")
	return cmd
}

func runAcceptKey(ctx context.Context, a *app, s interface {
	specs
	hostKeys
}, node string, o acceptOptions) error {
	cluster, spec, err := a.theSpec(ctx, s)
	if err != nil {
		return err
	}
	n, err := declaredNode(spec, node)
	if err != nil {
		return err
	}
	pinned, err := s.HostKeys(ctx, cluster)
	if err != nil {
		return err
	}
	known := cmp.Or(n.SSH.HostKey, pinned[n.Address])
	offered, err := s.OfferedHostKey(ctx, cluster, n.Address)
	if errors.Is(err, cke.ErrNotFound) {
		return refused(noOtherKey(n, known, a.again(cluster, "node list")))
	}
	if err != nil {
		return err
	}
	shows := fmt.Sprintf("another host key than the known one:\n  known    %s", fingerprint(known))
	if known == "" {
		shows = "a host key, and none is known of it:"
	}
	fmt.Fprintf(a.stderr, "%s (%s) shows %s\n  offered  %s, first seen %s ago\n", n.Name(), n.Address, shows, fingerprint(offered.Line), a.ago(offered.SeenAt))
	if n.SSH.HostKey != "" {
		return refused(&cke.Error{Code: cke.CodeHostKey, What: "the cluster file says which host key " + n.Name() + " has", Unchanged: true,
			Facts: []string{"offered  " + offered.Line}, Try: "write the offered key as ssh.host_key of the node, and: ckecli cluster set FILE"})
	}
	if err := a.confirmKey(ctx, n, offered, o); err != nil {
		return err
	}
	if err := s.AcceptHostKey(ctx, cluster, n.Address, offered.Line); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "%s is known by the offered key from now on; cke connects to it by itself.\n", n.Name())
	return nil
}

// noOtherKey is the refusal where there is nothing to accept.
func noOtherKey(n cke.Node, known, try string) *cke.Error {
	e := &cke.Error{Code: cke.CodeHostKey, What: n.Name() + " has shown no other host key than the known one", Facts: []string{"known    " + fingerprint(known)}, Unchanged: true, Try: try}
	if known == "" {
		e.What, e.Facts = n.Name()+" has shown no host key yet", []string{"the first one that it shows is trusted"}
	}
	return e
}

func (a *app) confirmKey(ctx context.Context, n cke.Node, offered storage.OfferedKey, o acceptOptions) error {
	what := "accepting the host key of " + n.Name()
	shown := fingerprint(offered.Line)
	switch {
	case o.fingerprint != "" && !sameFingerprint(offered.Line, o.fingerprint):
		return &cke.Error{Code: cke.CodeConfirm, What: what + ": it has another fingerprint than the one given", Unchanged: true,
			Facts: []string{"offered  " + shown, "given    " + o.fingerprint}}
	case o.fingerprint != "" || o.yes:
		return nil
	}
	return a.confirmYes(ctx, what, "Is this the key of the machine?", "ckecli node accept-key "+n.Name()+" --yes")
}

// fingerprint is a key's fingerprint and type, as ssh-keygen -l prints them.
func fingerprint(line string) string {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return "unreadable: " + line
	}
	return ssh.FingerprintSHA256(key) + " (" + key.Type() + ")"
}

func sameFingerprint(line, given string) bool {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	return err == nil && ssh.FingerprintSHA256(key) == given
}
