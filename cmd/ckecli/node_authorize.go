package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"cke"
	"cke/etcdnode"
	"cke/internal/term"
	"cke/internal/words"
	"cke/preflight"
)

// authorizeOptions are the options of `node authorize`.
type authorizeOptions struct {
	identity       string
	hostKeys       []string
	replace, print bool
}

// authorizing is what `node authorize` needs of the store.
type authorizing interface {
	specs
	sshKeys
	hostKeys
}

func newNodeAuthorizeCommand(a *app) *cobra.Command {
	var o authorizeOptions
	cmd := &cobra.Command{
		Use:   "authorize [USER@]ADDRESS[:PORT]…",
		Short: "Let cke in: put its key on nodes through your own login",
		Long: `Put the line with cke's public key into authorized_keys on each node, and prove it with a login of cke that reaches the
Docker engine. The line permits that and no more. The login is yours: with the keys of your ssh-agent, with --identity, or
with a password, which is asked for on a terminal and not stored. The user is root, or that of a declared node.

The host key has to be the one that cke knows. If it knows none, the key is shown for you to compare, or has to be that of
--host-key. On the node, this shows it:

  ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub`,
		Example: "  ckecli node authorize root@10.0.0.11 root@10.0.0.12 root@10.0.0.13\n  ckecli node authorize --print",
		Args: func(cmd *cobra.Command, args []string) error {
			least := 1
			if o.print {
				least = 0
			}
			return arguments(least, -1)(cmd, args)
		},
		ValidArgsFunction: a.completeNodes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			nodes, err := authorizeTargets(args, o.hostKeys)
			if err != nil {
				return usageError{err, cmd.CommandPath()}
			}
			return a.onStore(func(ctx context.Context, s store, _ []string) error {
				return runNodeAuthorize(ctx, a, s, nodes, o)
			})(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.identity, "identity", "i", "", "private key `file` to log in with")
	f.StringArrayVar(&o.hostKeys, "host-key", nil, "do not ask; accept only a host key with this fingerprint, as `[ADDRESS=]SHA256:…`; may be repeated")
	f.BoolVar(&o.replace, "replace", false, "do not ask before lines with cke's key and other options are replaced")
	f.BoolVar(&o.print, "print", false, "print the line and log in nowhere")
	must(cmd.MarkFlagFilename("identity"))
	return cmd
}

// authorizeTarget is a node that cke is to be let in to.
type authorizeTarget struct {
	node cke.Node
	// fingerprint is that of --host-key; empty: none was given.
	fingerprint string
	// pem is the private key that cke uses on the node.
	pem []byte
}

// authorizeTargets reads the arguments and the values of --host-key.
func authorizeTargets(args, hostKeys []string) ([]authorizeTarget, error) {
	var all []authorizeTarget
	for _, arg := range args {
		n, err := userAtAddress(arg)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(n.Address); err != nil && strings.Contains(n.Address, ":") {
			host, port, err := net.SplitHostPort(n.Address)
			if err != nil {
				return nil, fmt.Errorf("%q is no address: %w", arg, err)
			}
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil || number == 0 {
				return nil, fmt.Errorf("%q: invalid port %q: want a number from 1 to 65535", arg, port)
			}
			n.Address, n.SSH.Port = host, int(number)
		}
		if n.Address == "" {
			return nil, fmt.Errorf("%q has no address", arg)
		}
		all = append(all, authorizeTarget{node: n})
	}
	for _, value := range hostKeys {
		address, fingerprint, found := strings.Cut(value, "=")
		if !found {
			address, fingerprint = "", value
		}
		switch i := slices.IndexFunc(all, func(t authorizeTarget) bool { return t.node.Address == address }); {
		case !strings.HasPrefix(fingerprint, "SHA256:"):
			return nil, fmt.Errorf("--host-key: invalid value %q: want SHA256:…, as ssh-keygen -l shows it", value)
		case i >= 0:
			all[i].fingerprint = fingerprint
		case address == "" && len(all) == 1:
			all[0].fingerprint = fingerprint
		default:
			return nil, fmt.Errorf("--host-key: invalid value %q: want ADDRESS=SHA256:… with the address of one of the nodes", value)
		}
	}
	return all, nil
}

// userAtAddress reads [USER@]ADDRESS.
func userAtAddress(arg string) (n cke.Node, err error) {
	n.Address = arg
	if i := strings.LastIndex(arg, "@"); i >= 0 {
		if n.User, n.Address = arg[:i], arg[i+1:]; n.User == "" {
			err = fmt.Errorf("%q has an empty user", arg)
		}
	}
	return n, err
}

// authorizedNode is a node as `node authorize` writes it for programs.
type authorizedNode struct {
	Node    string `json:"node"`
	Address string `json:"address"`
	User    string `json:"user"`
	// Result is an etcdnode.KeyChange, or failed.
	Result string `json:"result"`
	// EngineVersion is that of the Docker engine, which cke reached with its own key.
	EngineVersion string `json:"engineVersion,omitempty"`
	// HostKey is the host key that was required.
	HostKey string       `json:"hostKey,omitempty"`
	Problem *cke.Problem `json:"problem,omitempty"`
}

const authorizeFailed = "failed"

func runNodeAuthorize(ctx context.Context, a *app, s authorizing, targets []authorizeTarget, o authorizeOptions) error {
	if o.print && len(targets) == 0 {
		targets = []authorizeTarget{{}}
	}
	for i := range targets {
		if err := a.completeTarget(ctx, s, &targets[i]); err != nil {
			return err
		}
	}
	if o.print {
		return a.printLines(targets)
	}
	signers, release, err := a.operatorSigners(ctx, o.identity)
	if err != nil {
		return err
	}
	defer release()
	rows, names := []authorizedNode{}, []string{}
	failed, unconfirmed := 0, 0
	for _, t := range targets {
		fmt.Fprintf(a.stderr, "%s: logging in as %s\n", t.node.Name(), t.node.User)
		row := a.authorize(ctx, t, signers, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if row.Result == authorizeFailed {
			failed++
			if row.Problem.Code == cke.CodeConfirm {
				unconfirmed++
			}
		} else {
			names = append(names, row.Node)
		}
		rows = append(rows, row)
	}
	if err := a.show(view{data: rows, names: names, table: func(w io.Writer, colour, wide bool) error { return authorizedTable(w, rows, colour, wide) }}); err != nil {
		return err
	}
	switch {
	case failed == 0:
		return nil
	case failed == unconfirmed:
		return exitError(exitRefused)
	}
	return exitError(exitFailed)
}

// completeTarget adds to a target what is declared and known of the node, and cke's key for it.
func (a *app) completeTarget(ctx context.Context, s authorizing, t *authorizeTarget) error {
	clusters, err := []string{a.cluster}, error(nil)
	if a.cluster == "" {
		if clusters, err = s.Clusters(ctx); err != nil {
			return err
		}
	}
	given, of := t.node, a.cluster
	if len(clusters) == 1 {
		of = clusters[0] // a node that is to join it
	}
	var declaring []string
	for _, c := range clusters {
		spec, err := s.Spec(ctx, c)
		if errors.Is(err, cke.ErrNotFound) {
			continue // nodes are let in to before their cluster is declared
		}
		if err != nil {
			return err
		}
		n, ok := spec.Wanted().Node(given.Address)
		if !ok || given.Address == "" {
			continue
		}
		pinned, err := s.HostKeys(ctx, c)
		if err != nil {
			return err
		}
		n.User, n.SSH.Port = cmp.Or(given.User, n.User), cmp.Or(given.SSH.Port, n.SSH.Port)
		n.SSH.HostKey = cmp.Or(n.SSH.HostKey, pinned[n.Address])
		t.node, of, declaring = n, c, append(declaring, c)
	}
	if len(declaring) > 1 {
		return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("several clusters declare %s, and cke may use another key for each", given.Address),
			Facts: []string{strings.Join(declaring, ", ")}, Unchanged: true, Try: "name one with --cluster, or in CKECLI_CLUSTER"}
	}
	t.node.User, t.node.SSH.Port = cmp.Or(t.node.User, cke.DefaultSSHUser), cmp.Or(t.node.SSH.Port, cke.DefaultSSHPort)
	name := ""
	if len(declaring) == 1 {
		name = t.node.Name()
	}
	t.pem, err = s.SSHKey(ctx, of, name)
	return err
}

// line is what authorized_keys gets.
func (t authorizeTarget) line() (string, error) {
	signer, err := ssh.ParsePrivateKey(t.pem)
	if err != nil {
		return "", &cke.Error{Code: cke.CodeSSHKey, What: "cke's SSH key cannot be used", Err: err, Unchanged: true, Try: "ckecli ssh-key set FILE"}
	}
	return cke.KeyOptions + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))), nil
}

// printLines prints each line once.
func (a *app) printLines(targets []authorizeTarget) error {
	all := []string{}
	for _, t := range targets {
		line, err := t.line()
		if err != nil {
			return err
		}
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return a.show(view{data: all, names: all, table: func(w io.Writer, _, _ bool) error {
		_, err := io.WriteString(w, lines(all))
		return err
	}})
}

// authorize lets cke in to one node.
func (a *app) authorize(ctx context.Context, t authorizeTarget, signers []ssh.Signer, o authorizeOptions) authorizedNode {
	row := authorizedNode{Node: t.node.Name(), Address: t.node.Address, User: t.node.User, Result: authorizeFailed}
	fail := func(err error, remedy string) authorizedNode {
		var coded *cke.Error
		if remedy == "" && errors.As(err, &coded) {
			remedy = coded.Try
		}
		if e, ok := cke.Explain(cke.CodeOf(err)); ok && remedy == "" && e.Code != cke.CodeInternal {
			remedy = e.WayOut
		}
		row.Problem = &cke.Problem{Code: cke.CodeOf(err), Node: row.Node, Message: err.Error(), Remedy: remedy}
		return row
	}
	line, err := t.line()
	if err != nil {
		return fail(err, "")
	}
	if t.node.SSH.HostKey, err = a.operatorHostKey(ctx, t); err != nil {
		return fail(err, "")
	}
	row.HostKey = t.node.SSH.HostKey
	change, err := a.addKey(ctx, t.node, signers, line, o)
	switch {
	case cke.CodeOf(err) == cke.CodeSSHAuth:
		return fail(err, "log in with a key that the node accepts (ssh-agent, --identity FILE) or, on a terminal, with the password; or add the line of `ckecli node authorize --print` to ~/.ssh/authorized_keys yourself")
	case cke.CodeOf(err) == cke.CodeInternal && err != nil:
		return fail(err, "correct this on the node, or add the line of `ckecli node authorize --print` to ~/.ssh/authorized_keys yourself")
	case err != nil:
		return fail(err, "")
	}
	fleet := etcdnode.New(etcdnode.Config{Keys: func(context.Context, cke.Node) ([]byte, error) { return t.pem, nil }, Beside: true})
	defer fleet.Close()
	fleet.Update(cke.Cluster{Nodes: []cke.Node{t.node}}, cke.Identity{})
	for _, seen := range preflight.Observe(ctx, fleet).Nodes {
		if row.EngineVersion = seen.EngineVersion; seen.Problem != nil {
			p := *seen.Problem // the observation keeps its own
			p.Message = "the line is there, but cke cannot work: " + p.Message
			if p.Code == cke.CodeSSHAuth {
				p.Remedy = "check AuthorizedKeysFile, PubkeyAuthentication and AllowUsers in sshd_config, and that only " + row.User + " can write to its home and ~/.ssh"
			}
			row.Problem = &p
			return row
		}
	}
	row.Result = string(change)
	return row
}

func authorizedTable(w io.Writer, rows []authorizedNode, colour, wide bool) error {
	header := []string{"NODE", "USER", "RESULT", "ENGINE", "DETAIL"}
	if wide {
		header = append(header, "HOST KEY")
	}
	t := term.NewTable(header...)
	texts := map[string]term.Cell{
		string(etcdnode.KeyInstalled): term.Styled(term.Green, "installed"), string(etcdnode.KeyPresent): term.Styled(term.Green, "already there"),
		string(etcdnode.KeyReplaced): term.Styled(term.Green, "replaced"), authorizeFailed: term.Styled(term.Red, authorizeFailed),
	}
	for _, r := range rows {
		detail := ""
		if r.Problem != nil {
			detail = words.Problem(*r.Problem)
		}
		t.Add(term.Text(r.Node), term.Text(r.User), texts[r.Result], term.Text(r.EngineVersion), term.Text(detail), term.Text(r.HostKey))
	}
	if err := t.Write(w, colour); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Problem != nil && r.Problem.Remedy != "" {
			if _, err := fmt.Fprintf(w, "%s: %s\n", r.Node, term.Clean(r.Problem.Remedy)); err != nil {
				return err
			}
		}
	}
	return nil
}
