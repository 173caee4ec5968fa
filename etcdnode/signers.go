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
	signers, release, err := AgentSigners(ctx, f.config.AgentSocket)
	if err != nil {
		f.log.Debug("ssh-agent does not answer", "socket", f.config.AgentSocket, "error", err)
	}
	return signers, release
}

// AgentSigners returns the keys of the ssh-agent that listens on a socket; empty: there is none. Call release, which is
// never nil, when the login is over.
func AgentSigners(ctx context.Context, socket string) (signers []ssh.Signer, release func(), err error) {
	if socket == "" {
		return nil, func() {}, nil
	}
	conn, err := (&net.Dialer{Timeout: allowed(agentLimit)}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, func() {}, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	limit := time.AfterFunc(allowed(agentLimit), func() { conn.Close() })
	signers, err = agent.NewClient(conn).Signers()
	if !limit.Stop() {
		signers, err = nil, os.ErrDeadlineExceeded
	}
	return signers, func() {
		stop()
		conn.Close()
	}, err
}

func parseKey(pem []byte) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKey(pem)
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) {
		return nil, errors.New("it is protected by a passphrase: set a key without one, or load it into an ssh-agent")
	}
	return signer, err
}
