package lab

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"

	"cke"
)

// newKey returns a key pair: the private part as an OpenSSH file, the public part as "ssh-ed25519 AAAA…".
func newKey(comment string) (private []byte, public string, err error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", err
	}
	block, err := ssh.MarshalPrivateKey(priv, comment)
	if err != nil {
		return nil, "", err
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(block), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), nil
}

// ensureKey makes a key pair in path and path.pub unless it is there, and returns the public part.
func ensureKey(path, comment string) (string, error) {
	public, err := os.ReadFile(path + ".pub")
	if err == nil {
		return strings.TrimSpace(string(public)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	private, pub, err := newKey(comment)
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	// The public part last: where it is, both are.
	if err := writeFile(path, private, 0o600); err != nil {
		return "", err
	}
	return pub, writeFile(path+".pub", []byte(pub+" "+comment+"\n"), 0o644)
}

// hostKey returns a node's private host key and its public part; fresh makes a new one.
func (l *Lab) hostKey(node string, fresh bool) (private []byte, public string, err error) {
	path := l.path("host_" + node)
	if fresh {
		if err := os.Remove(path + ".pub"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, "", err
		}
	}
	if public, err = ensureKey(path, node); err != nil {
		return nil, "", err
	}
	public = strings.Join(strings.Fields(public)[:2], " ")
	private, err = os.ReadFile(path)
	return private, public, err
}

// authorizedKeys is the file that lets the lab's two keys in.
func (l *Lab) authorizedKeys() (string, error) {
	full, err := ensureKey(l.path("key"), "cke-lab "+l.name)
	if err != nil {
		return "", err
	}
	restricted, err := ensureKey(l.path("restricted_key"), "cke-lab "+l.name+", restricted")
	if err != nil {
		return "", err
	}
	return full + "\n" + cke.KeyOptions + " " + restricted + "\n", nil
}

// KnownHosts is the path of a known_hosts file with the nodes' host keys.
func (l *Lab) KnownHosts() string { return l.path("known_hosts") }

// knownHosts is the file that "cke-lab ssh" checks host keys against.
func knownHosts(s state) string {
	var b strings.Builder
	for _, n := range s.Nodes {
		fmt.Fprintf(&b, "%s,%s %s\n", n.Name, n.Address, n.HostKey)
	}
	return b.String()
}

// prepareKeys makes the lab's key pairs.
func (l *Lab) prepareKeys() error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	_, err := l.authorizedKeys()
	return err
}
