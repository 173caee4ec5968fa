package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
)

// explainHandshake turns a failed attempt to connect into a problem with a code.
func explainHandshake(a *attempt, n cke.Node, check *hostKeyCheck, err error) error {
	var noAlgorithm *ssh.AlgorithmNegotiationError
	var network *net.OpError
	switch {
	case check.pinned != nil && (errors.Is(err, errHostKey) || errors.As(err, &noAlgorithm) && noAlgorithm.What == "host key"):
		if check.shown == nil {
			_ = lookAtHostKey(a, n, check)
		}
		return check.mismatch()
	case check.shown != nil && loginRefused(err):
		return &cke.Error{Code: cke.CodeSSHAuth, What: fmt.Sprintf("%s refused the SSH login of user %s", n.Name(), n.User)}
	case errors.Is(err, context.DeadlineExceeded):
		return unreachable(n, fmt.Errorf("no answer in %s", allowed(dialLimit)))
	case errors.As(err, &network):
		return unreachable(n, network.Err)
	case errors.Is(err, io.EOF):
		return unreachable(n, errors.New("sshd closed the connection"))
	}
	return unreachable(n, err)
}

// loginRefused recognizes a login that was refused, also of an agent with more keys than sshd hears. x/crypto/ssh and
// OpenSSH tell it in words only.
func loginRefused(err error) bool {
	text := err.Error()
	return strings.Contains(text, "unable to authenticate") || strings.Contains(text, "Too many authentication failures")
}

// lookAtHostKey learns which key a host shows that no longer has one of the pinned kind. It never logs in.
func lookAtHostKey(a *attempt, n cke.Node, check *hostKeyCheck) error {
	firstSight := hostKeyCheck{node: n}
	a.give()
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "tcp", n.SSHAddress())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(a.ctx, func() { conn.Close() })()
	_, _, _, err = ssh.NewClientConn(attemptConn{conn, a}, n.SSHAddress(), &ssh.ClientConfig{
		User: n.User, HostKeyAlgorithms: firstSight.algorithms(), ClientVersion: clientVersion,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			check.shown = key
			return errHostKey
		},
	})
	return err
}

// unreachable is the problem of a node whose sshd does not answer. errors.Is: cke.ErrUnreachable.
func unreachable(n cke.Node, err error) *cke.Error {
	return &cke.Error{Code: cke.CodeUnreachable, What: fmt.Sprintf("sshd at %s cannot be reached", n.SSHAddress()),
		Err: noAnswerError{err}}
}

// noAnswerError is a cke.ErrUnreachable that does not say so twice.
type noAnswerError struct{ error }

func (e noAnswerError) Is(target error) bool { return target == cke.ErrUnreachable }
func (e noAnswerError) Unwrap() error        { return e.error }

// explain turns an error of a call on the node's engine into one with a code, and finds out who did not answer: the
// engine, or the node.
func (s *session) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	if len(err.Error()) > mostSaid {
		err = briefError{err}
	}
	var coded *cke.Error
	if errors.As(err, &coded) {
		return err
	}
	var refused *ssh.OpenChannelError
	var deposed fenceError
	switch {
	case errors.As(err, &deposed):
		err = deposed.error
	case errors.Is(err, cke.ErrNotFound), errors.Is(err, cke.ErrConflict), errors.Is(err, cke.ErrDataMissing), errors.Is(err, cke.ErrDeposed):
	case errors.As(err, &refused):
		return forwardRefused(s.node, refused)
	case errors.Is(err, context.DeadlineExceeded):
		if trouble := s.diagnose(what); trouble != nil {
			return trouble
		}
		return &cke.Error{Code: cke.CodeEngine, What: fmt.Sprintf("%s on %s took too long", what, s.node.Name()),
			Facts: []string{"the Docker engine answers, but slowly"}, Err: err}
	case unusable(err):
		return &cke.Error{Code: cke.CodeAnswer, What: fmt.Sprintf("the answer of the Docker engine on %s cannot be used (%s)", s.node.Name(), what), Err: err}
	case hungUp(err) && s.isEnding(), s.ended() != nil:
		return unreachable(s.node, wrap(what, s.ended()))
	case errors.Is(err, context.Canceled):
	case noSpace(err):
		return &cke.Error{Code: cke.CodeDiskFull, What: fmt.Sprintf("no room on the disk of %s: %s failed", s.node.Name(), what), Err: err}
	case hungUp(err):
		return &cke.Error{Code: cke.CodeEngine, What: fmt.Sprintf("the Docker engine on %s closed the connection (%s)", s.node.Name(), what)}
	}
	return fmt.Errorf("%s on %s: %w", what, s.node.Name(), err)
}

// mostSaid bounds, in bytes, what an error of an engine says: it becomes part of records and of the status.
const mostSaid = 4 << 10

// briefError is an error that says less.
type briefError struct{ error }

func (e briefError) Error() string { return shorten(e.error.Error(), mostSaid) }
func (e briefError) Unwrap() error { return e.error }

// hungUp recognizes a stream that the other side closed.
func hungUp(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }

func engineHangs(n cke.Node, what string, since time.Time) *cke.Error {
	return &cke.Error{Code: cke.CodeEngine, What: fmt.Sprintf("the Docker engine on %s does not answer (%s)", n.Name(), what),
		Facts: []string{"SSH works", "silent since " + since.UTC().Format(time.RFC3339)}}
}

func forwardRefused(n cke.Node, refused *ssh.OpenChannelError) *cke.Error {
	return &cke.Error{Code: cke.CodeForward, What: fmt.Sprintf("sshd on %s did not open %s", n.Name(), engineSocket), Err: refused}
}

// noSpaceText is how a full disk is reported, by etcd and by the engine, which has no other sign of it.
const noSpaceText = "no space left on device"

// noSpace recognizes a full disk.
func noSpace(err error) bool { return strings.Contains(err.Error(), noSpaceText) }

// remedy is the way out of a node's problem, in one line.
func remedy(code cke.Code, n cke.Node) string {
	switch code {
	case cke.CodeUnreachable:
		return fmt.Sprintf("check power, network and sshd of %s; cke continues by itself once it answers", n.Name())
	case cke.CodeSSHAuth:
		return fmt.Sprintf("put cke's public key into the authorized_keys of %s on %s with `ckecli node authorize %s`, or set the right key with `ckecli ssh-key set`", n.User, n.Name(), n.Login())
	case cke.CodeHostKey:
		if n.SSH.HostKey != "" {
			return fmt.Sprintf("if the change is intended: write the new key as ssh.host_key of %s into the cluster file, and run `ckecli cluster set FILE`; `ckecli node accept-key %s` shows the key", n.Name(), n.Name())
		}
		return fmt.Sprintf("if the change is intended: run `ckecli node accept-key %s`", n.Name())
	case cke.CodeEngine:
		return fmt.Sprintf("on %s: `systemctl status docker`; restart it if it hangs", n.Name())
	case cke.CodeForward:
		return fmt.Sprintf("on %s: check that Docker runs (`systemctl status docker`), that user %s may open %s, and that its key's line allows port forwarding", n.Name(), n.User, engineSocket)
	}
	e, _ := cke.Explain(code)
	return e.WayOut
}

// problemOf makes a problem of an error, as nodes show it.
func problemOf(n cke.Node, err error, since time.Time) *cke.Problem {
	code := cke.CodeOf(err)
	return &cke.Problem{Code: code, Node: n.Name(), Message: err.Error(), Remedy: remedy(code, n), Since: since}
}

// shorten cuts text to n bytes for a message.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
