package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"cke"
)

// signers returns what may prove who we are to a node: the key of the Keys callback, then those of an ssh-agent.
// Call release when the login is over. CodeNoSSHKey: there is none; CodeSSHKey: the key cannot be used.
func (f *Fleet) signers(ctx context.Context, n cke.Node) (signers []ssh.Signer, release func(), err error) {
	release = func() {}
	if f.config.Keys != nil {
		pem, err := f.config.Keys(ctx, n)
		switch {
		case err == nil:
			signer, err := parseKey(pem)
			if err != nil {
				return nil, release, &cke.Error{Code: cke.CodeSSHKey, What: fmt.Sprintf("the SSH key for %s cannot be used", n.Name()),
					Try: "ckecli ssh-key set FILE", Err: err}
			}
			signers = append(signers, signer)
		case !errors.Is(err, cke.ErrNotFound):
			return nil, release, fmt.Errorf("read the SSH key for %s: %w", n.Name(), err)
		}
	}
	held, release := f.agentSigners(ctx)
	signers = append(signers, held...)
	if len(signers) == 0 {
		return nil, release, &cke.Error{Code: cke.CodeNoSSHKey, What: fmt.Sprintf("there is no SSH key to log in to %s with", n.Name()),
			Try: "ckecli ssh-key set FILE"}
	}
	return signers, release, nil
}

// agentSigners returns the keys of a running ssh-agent; one that does not answer counts as none.
func (f *Fleet) agentSigners(ctx context.Context) ([]ssh.Signer, func()) {
	nothing := func() {}
	if f.config.AgentSocket == "" {
		return nil, nothing
	}
	conn, err := (&net.Dialer{Timeout: allowed(AgentLimit)}).DialContext(ctx, "unix", f.config.AgentSocket)
	if err != nil {
		f.log.Debug("no ssh-agent", "socket", f.config.AgentSocket, "error", err)
		return nil, nothing
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	limit := time.AfterFunc(allowed(AgentLimit), func() { conn.Close() })
	signers, err := agent.NewClient(conn).Signers()
	if !limit.Stop() {
		signers, err = nil, os.ErrDeadlineExceeded
	}
	if err != nil {
		f.log.Debug("ssh-agent does not answer", "error", err)
	}
	return signers, func() {
		stop()
		conn.Close()
	}
}

func parseKey(pem []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return nil, errors.New("a passphrase protects it: set a key without one, or put it into an ssh-agent")
	}
	return signer, err
}
