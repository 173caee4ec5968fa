// Package fleet runs hundreds of nodes in this process, for measurements of a daemon with many clusters: each has a loopback
// address of its own with a real SSH server, an engine that speaks Docker's API through it, and members that answer over TLS
// as etcd does. It costs a daemon what real nodes cost it: see cketest, which its nodes pass.
package fleet

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
)

// User is who logs in to the nodes.
const User = "cke"

// Fleet is many nodes. Make it with New.
type Fleet struct {
	// KeyPEM is the private key that all nodes accept.
	KeyPEM []byte
	Nodes  []*Node

	mu     sync.Mutex
	groups map[uint64]*group // by cluster id
	most   int               // handshakes at once, at all nodes
	now    int
}

// Network is tried so often: another process may use the same addresses.
const networkTries = 20

// New starts n nodes. Close them.
func New(n int) (*Fleet, error) {
	signer, key, err := newKey()
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		f := &Fleet{KeyPEM: key, groups: map[uint64]*group{}}
		network := 16 + mathrand.N(200)
		for i := range n {
			var node *Node
			if node, err = f.newNode(fmt.Sprintf("n%03d", i+1), fmt.Sprintf("127.%d.%d.%d", network, i/250, i%250+1), signer.PublicKey()); err != nil {
				break
			}
			f.Nodes = append(f.Nodes, node)
		}
		if err == nil {
			return f, nil
		}
		f.Close()
		if !errors.Is(err, syscall.EADDRINUSE) || try == networkTries {
			return nil, err
		}
	}
}

func newKey() (ssh.Signer, []byte, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, User)
	if err != nil {
		return nil, nil, err
	}
	return signer, pem.EncodeToMemory(block), nil
}

// Close stops all nodes and their members.
func (f *Fleet) Close() {
	var wg sync.WaitGroup
	for _, n := range f.Nodes {
		wg.Go(n.close)
	}
	wg.Wait()
}

// Cut breaks every connection to every node and member, as a switch that restarts does.
func (f *Fleet) Cut() {
	for _, n := range f.Nodes {
		n.cut()
	}
}

// Asked reports whether each node and each member was asked since a time, and how many nodes still miss that.
func (f *Fleet) Asked(since time.Time) (all bool, left int) {
	for _, n := range f.Nodes {
		if !n.engine.askedSince(since) {
			left++
		}
	}
	return left == 0, left
}

// MostHandshakes is how many handshakes were under way at once, at all nodes, since it was asked last.
func (f *Fleet) MostHandshakes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := f.most
	f.most = f.now
	return most
}

func (f *Fleet) handshake(by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += by
	f.most = max(f.most, f.now)
}

// Declared is the node as a cluster file has it.
func (n *Node) Declared() cke.Node {
	return cke.Node{Address: n.Address, Hostname: n.Name, User: User, ControlPlane: true, SSH: cke.SSH{Port: n.port, HostKey: n.hostKey}}
}

// free reports whether nothing listens on a port of an address.
func free(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}
