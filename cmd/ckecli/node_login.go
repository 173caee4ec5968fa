package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/term"

	"cke"
	"cke/etcdnode"
)

// passwordTries is how often a password is asked for, as ssh does.
const passwordTries = 3

// operatorSigners are the keys that the operator logs in with: that of the file, then those of the ssh-agent.
func (a *app) operatorSigners(ctx context.Context, file string) ([]ssh.Signer, func(), error) {
	var own []ssh.Signer
	if file != "" {
		pem, err := a.readFile(ctx, file)
		if err != nil {
			return nil, nil, err
		}
		signer, err := ssh.ParsePrivateKey(pem)
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			var phrase string
			if phrase, err = a.askSecret(ctx, "Passphrase of "+file); err == nil {
				signer, err = ssh.ParsePrivateKeyWithPassphrase(pem, []byte(phrase))
			}
		}
		if err != nil {
			return nil, nil, &cke.Error{Code: cke.CodeSSHKey, What: "the key in " + file + " cannot be used", Unchanged: true, Err: err,
				Try: "load it into an ssh-agent, or give another one with --identity"}
		}
		own = append(own, signer)
	}
	held, release, err := etcdnode.AgentSigners(ctx, a.getenv("SSH_AUTH_SOCK"))
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: the ssh-agent does not answer: %v\n", err)
	}
	return slices.Concat(own, held), release, nil
}

// operatorHostKey returns the host key that a node has to show: the known one, else the one that it shows, if the operator
// confirms it.
func (a *app) operatorHostKey(ctx context.Context, t authorizeTarget) (line string, err error) {
	n := t.node
	if line = n.SSH.HostKey; line == "" {
		if line, err = etcdnode.ShownHostKey(ctx, n); err != nil {
			return "", err
		}
	}
	switch {
	case t.fingerprint != "" && !sameFingerprint(line, t.fingerprint):
		return "", &cke.Error{Code: cke.CodeHostKey, What: "the host key of " + n.Name() + " has another fingerprint than the one given",
			Facts: []string{"its key " + fingerprint(line), "given " + t.fingerprint}, Unchanged: true,
			Try: "compare it with that of `ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub` on the node; another one is that of another machine"}
	case t.fingerprint != "" || n.SSH.HostKey != "":
		return line, nil
	}
	fmt.Fprintf(a.stderr, "%s shows a host key, and none is known of it:\n  shown  %s\n", n.SSHAddress(), fingerprint(line))
	return line, a.confirmYes(ctx, "the host key of "+n.Name(), "Is this the key of the machine?",
		"get the fingerprint on the node, and give it as --host-key "+n.Address+"=SHA256:…")
}

// addKey logs in with the operator's keys, else with a password, and adds the line.
func (a *app) addKey(ctx context.Context, n cke.Node, signers []ssh.Signer, line string, o authorizeOptions) (etcdnode.KeyChange, error) {
	replace := func(others []string) error {
		fmt.Fprintf(a.stderr, "authorized_keys of %s on %s has cke's key with other options:\n  %s\n", n.User, n.Name(), strings.Join(others, "\n  "))
		if o.replace {
			return nil
		}
		return a.confirmYes(ctx, "replacing the line on "+n.Name(), "Replace it by the line that permits only what cke needs?", "ckecli node authorize "+n.Address+" --replace")
	}
	err := error(&cke.Error{Code: cke.CodeSSHAuth, What: "there is no key to log in to " + n.Name() + " with as " + n.User})
	if len(signers) > 0 {
		var change etcdnode.KeyChange
		change, err = etcdnode.Login{Node: n, Signers: signers}.AddKey(ctx, line, replace)
		if cke.CodeOf(err) != cke.CodeSSHAuth {
			return change, err
		}
	}
	for try := 0; try < passwordTries && cke.CodeOf(err) == cke.CodeSSHAuth && a.interactive(); try++ {
		password, asked := a.askSecret(ctx, fmt.Sprintf("Password of %s on %s", n.User, n.Name()))
		if asked != nil || password == "" {
			break
		}
		var change etcdnode.KeyChange
		if change, err = (etcdnode.Login{Node: n, Password: password}).AddKey(ctx, line, replace); err == nil {
			return change, nil
		}
	}
	return "", err
}

// askSecret reads one line that the terminal does not show. Ctrl-C and --timeout end the waiting.
func (a *app) askSecret(ctx context.Context, question string) (string, error) {
	if !a.interactive() {
		return "", errors.New("it needs a passphrase, and there is no terminal to ask on")
	}
	fd := int(a.stdin.(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	fmt.Fprint(a.stderr, question+": ")
	go func() {
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case got := <-answered:
		fmt.Fprintln(a.stderr)
		return string(got.text), got.err
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return "", errors.Join(ctx.Err(), term.Restore(fd, before)) // the reading ends with the process
	}
}
