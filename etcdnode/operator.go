package etcdnode

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"cke"
)

// Login is how an operator logs in to a node, with means of their own, to let cke in.
type Login struct {
	// Node has the user and the host key that is required.
	Node     cke.Node
	Signers  []ssh.Signer
	Password string // empty: none
}

// ShownHostKey returns the host key that a node shows, as HostKeys keeps it. It does not log in. Of several keys it is the one
// that cke would pin. CodeUnreachable: sshd does not answer.
func ShownHostKey(ctx context.Context, n cke.Node) (string, error) {
	a := newAttempt(ctx, nil, allowed(dialLimit))
	defer a.end()
	check := &hostKeyCheck{node: n}
	err := lookAtHostKey(a, n, check)
	if check.shown == nil {
		return "", explainHandshake(a, n, check, cmp.Or(context.Cause(a.ctx), err))
	}
	return keyLine(check.shown), nil
}

// AddKey puts a line with a public key into the user's authorized_keys, which it replaces as a whole. Lines with the same key
// and other options are removed if replace, which is called with them, returns nil; its error is returned. CodeSSHAuth: sshd
// refused the login. The file is never damaged, whatever the error.
func (l Login) AddKey(ctx context.Context, line string, replace func(others []string) error) (KeyChange, error) {
	client, err := l.dial(ctx)
	if err != nil {
		return "", err
	}
	defer client.Close()
	old, err := readKeys(ctx, client)
	if err != nil {
		return "", l.failed("read", err)
	}
	text, change, others, err := withKey(old, line)
	if err != nil || change == KeyPresent {
		return change, err
	}
	if len(others) > 0 {
		if err := replace(others); err != nil {
			return "", err
		}
	}
	if _, err := run(ctx, client, fmt.Sprintf("sh -c '%s' sh %s %s", writeScript, digestOf(old), digestOf(text)), text); err != nil {
		return "", l.failed("write", err)
	}
	return change, nil
}

func (l Login) failed(do string, err error) error {
	return &cke.Error{What: fmt.Sprintf("cannot %s ~/.ssh/authorized_keys of %s on %s", do, l.Node.User, l.Node.Name()), Err: err}
}

// dial connects and logs in, within operatorLimit.
func (l Login) dial(ctx context.Context) (*ssh.Client, error) {
	n := l.Node
	check, err := pinnedKeyCheck(n, n.SSH.HostKey)
	if err != nil {
		return nil, err
	}
	a := newAttempt(ctx, nil, allowed(operatorLimit))
	defer a.end()
	conn, err := (&net.Dialer{Timeout: allowed(dialLimit)}).DialContext(a.ctx, "tcp", n.SSHAddress())
	if err != nil {
		return nil, explainHandshake(a, n, check, err)
	}
	stop := context.AfterFunc(a.ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, n.SSHAddress(), &ssh.ClientConfig{
		User: n.User, Auth: l.methods(), HostKeyCallback: check.verify, HostKeyAlgorithms: check.algorithms(), ClientVersion: clientVersion,
	})
	cause := context.Cause(a.ctx)
	if !stop() || err != nil {
		conn.Close()
		if errors.Is(cause, context.DeadlineExceeded) {
			return nil, unreachable(n, fmt.Errorf("no login in %s", allowed(operatorLimit)))
		}
		return nil, explainHandshake(a, n, check, cmp.Or(cause, err))
	}
	return ssh.NewClient(c, channels, requests), nil
}

// methods are the ways to log in. sshd asks for a password in one of two ways.
func (l Login) methods() (all []ssh.AuthMethod) {
	if len(l.Signers) > 0 {
		all = append(all, ssh.PublicKeys(l.Signers...))
	}
	if l.Password != "" {
		all = append(all, ssh.Password(l.Password), ssh.KeyboardInteractive(func(_, _ string, questions []string, echo []bool) ([]string, error) {
			answers := make([]string, len(questions))
			for i := range answers {
				if echo[i] {
					return nil, errors.New("sshd asks for more than a password")
				}
				answers[i] = l.Password
			}
			return answers, nil
		}))
	}
	return all
}

// The commands on the node are quoted for every shell: no line breaks, single quotes or exclamation marks. A login script of the
// user may write to stdout, so the file follows a mark and its digest.
const keysMark = "cke-authorized-keys "

var (
	readScript = strings.Join([]string{
		`set -eu`, `cd`, `f=.ssh/authorized_keys`, `if test -e "$f"; then :; else f=/dev/null; fi`,
		`sum=$(sha256sum < "$f")`, `echo "` + keysMark + `${sum%% *}"`, `cat "$f"`,
	}, "; ")
	// writeScript gets the digests of the file that was read and of the one that it gets on stdin. A connection that breaks
	// leaves the old file, and what another program wrote meanwhile is not lost.
	writeScript = strings.Join([]string{
		`set -eu`, `umask 077`, `cd`, `mkdir -p .ssh`, `f=.ssh/authorized_keys`, `old=/dev/null`,
		`if test -e "$f"; then f=$(readlink -f "$f"); old=$f; fi`,
		`new=$(mktemp "$f.XXXXXX")`, `trap "rm -f \"\$new\"" EXIT`, `cat > "$new"`,
		`sum=$(sha256sum < "$new")`, `if test "${sum%% *}" = "$2"; then :; else echo "it did not arrive as a whole" >&2; exit 1; fi`,
		`sum=$(sha256sum < "$old")`, `if test "${sum%% *}" = "$1"; then :; else echo "another program changed it meanwhile" >&2; exit 1; fi`,
		`mv -f "$new" "$f"`,
	}, "; ")
)

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readKeys returns the user's authorized_keys; nothing: there is no file.
func readKeys(ctx context.Context, client *ssh.Client) ([]byte, error) {
	out, err := run(ctx, client, fmt.Sprintf("sh -c '%s'", readScript), nil)
	if err != nil {
		return nil, err
	}
	_, rest, found := bytes.Cut(out, []byte(keysMark))
	digest, text, _ := bytes.Cut(rest, []byte("\n"))
	if !found || digestOf(text) != string(digest) {
		return nil, errors.New("the login does not run commands as given: is it limited to one command?")
	}
	return text, nil
}

// mostKeys bounds authorized_keys, in bytes.
const mostKeys = 1 << 20

// run runs a command on the node, within operatorLimit. Its error says what the command wrote to stderr.
func run(ctx context.Context, client *ssh.Client, command string, stdin []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, allowed(operatorLimit))
	defer cancel()
	defer context.AfterFunc(ctx, func() { client.Close() })()
	s, err := client.NewSession()
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	defer s.Close()
	stdout, stderr := &capped{room: mostKeys}, &capped{room: mostSaid}
	s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(stdin), stdout, stderr
	err = s.Run(command)
	switch words := strings.Join(strings.Fields(stderr.String()), " "); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && words != "":
		return nil, errors.New(words)
	case err != nil:
		return nil, err
	case stdout.room < 0:
		return nil, fmt.Errorf("the command writes more than %d bytes", mostKeys)
	}
	return stdout.Bytes(), nil
}

// capped keeps the start of what is written to it; room < 0: there was more.
type capped struct {
	bytes.Buffer
	room int
}

var _ io.Writer = (*capped)(nil)

// Write implements io.Writer, and never fails: the command would not end.
func (b *capped) Write(p []byte) (int, error) {
	if b.room >= 0 {
		b.Buffer.Write(p[:min(len(p), b.room)])
		b.room -= len(p)
	}
	return len(p), nil
}
