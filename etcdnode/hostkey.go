package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"cke"
)

// HostKeys remembers the host keys of nodes, by the nodes' addresses. A line is "ssh-ed25519 AAAA…", as in
// authorized_keys. A key in the cluster file takes precedence.
type HostKeys interface {
	// Pinned returns the key that the node must present. It is called often and must not wait.
	Pinned(address string) (line string, ok bool)
	// Pin stores the key of a node at its first connection, which is used only if Pin returns nil.
	Pin(ctx context.Context, address, line string) error
	// Offered records another key than the pinned one, for the operator to accept.
	Offered(ctx context.Context, address, line string)
}

// hostKeyCheck pins the host key of one node for one attempt to connect.
type hostKeyCheck struct {
	node   cke.Node
	pinned ssh.PublicKey // nil: the node is seen for the first time
	shown  ssh.PublicKey // what the node showed
}

// pinnedKey returns the key that the node must show; empty: none is known yet.
func (f *Fleet) pinnedKey(n cke.Node) string {
	if n.SSH.HostKey != "" {
		return n.SSH.HostKey
	}
	if f.config.HostKeys == nil {
		return ""
	}
	line, _ := f.config.HostKeys.Pinned(n.Address)
	return line
}

func (f *Fleet) hostKeyCheck(n cke.Node, line string) (*hostKeyCheck, error) {
	if line == "" {
		if f.config.HostKeys == nil {
			return nil, &cke.Error{Code: cke.CodeHostKey, What: fmt.Sprintf("no host key of %s is known, and there is nowhere to store one", n.Name())}
		}
		return &hostKeyCheck{node: n}, nil
	}
	return pinnedKeyCheck(n, line)
}

// pinnedKeyCheck requires the host key of this line.
func pinnedKeyCheck(n cke.Node, line string) (*hostKeyCheck, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, &cke.Error{Code: cke.CodeHostKey, What: fmt.Sprintf("the pinned host key of %s is not a valid key: %q", n.Name(), shorten(line, 60)),
			Try: "ckecli node accept-key " + n.Name(), Err: err}
	}
	return &hostKeyCheck{node: n, pinned: key}, nil
}

// algorithms are the ones that make a host with several keys show the pinned one; before the first sight, in the
// order of preference.
func (c *hostKeyCheck) algorithms() []string {
	if c.pinned == nil {
		return []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	if t := c.pinned.Type(); t != ssh.KeyAlgoRSA {
		return []string{t}
	}
	return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
}

// errHostKey ends a handshake with a host that shows another key than the pinned one.
var errHostKey = errors.New("host key mismatch")

// verify implements ssh.HostKeyCallback.
func (c *hostKeyCheck) verify(_ string, _ net.Addr, key ssh.PublicKey) error {
	c.shown = key
	if c.pinned != nil && string(c.pinned.Marshal()) != string(key.Marshal()) {
		return errHostKey
	}
	return nil
}

// mismatch is the problem of a node that shows another key.
func (c *hostKeyCheck) mismatch() *cke.Error {
	shown := "no key of that kind"
	if c.shown != nil {
		shown = fmt.Sprintf("%s (%s)", ssh.FingerprintSHA256(c.shown), c.shown.Type())
	}
	return &cke.Error{
		Code: cke.CodeHostKey, What: fmt.Sprintf("the host key of %s has changed", c.node.Name()),
		Facts: []string{fmt.Sprintf("pinned %s (%s)", ssh.FingerprintSHA256(c.pinned), c.pinned.Type()), "shown " + shown},
		Try:   "ckecli node accept-key " + c.node.Name(),
	}
}

// keyLine is a public key as HostKeys keeps it.
func keyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}
