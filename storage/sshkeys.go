package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/crypto/ssh"

	"cke"
)

// SSHKeyInfo describes a stored SSH key without the key.
type SSHKeyInfo struct {
	// Cluster and Node name what the key is for; no node: the whole cluster; neither: all clusters.
	Cluster string `json:"cluster,omitempty"`
	Node    string `json:"node,omitempty"`
	// Fingerprint is "SHA256:…", as ssh-keygen -l prints it.
	Fingerprint string `json:"fingerprint"`
	// PublicKey is the line for authorized_keys on the nodes.
	PublicKey string    `json:"publicKey"`
	SetAt     time.Time `json:"setAt"`
}

type sshKey struct {
	SSHKeyInfo
	Age []byte `json:"age"`
}

// SetSSHKey seals a private key: for a node (by cke.Node.Name), for a cluster (no node), or for all clusters
// (neither). It replaces an existing one, and does not need the key file. CodeSSHKey: the key cannot be used, as one
// with a passphrase.
func (s *Store) SetSSHKey(ctx context.Context, cluster, node string, pem []byte) error {
	if err := checkKeyName(cluster, node); err != nil {
		return err
	}
	tried := "set the SSH key of " + keyName(cluster, node)
	if cluster != "" {
		if err := s.room(ctx, s.keys.sshKeys(cluster), s.keys.sshKey(cluster, node), keptHostKeys, "SSH keys of "+cluster); err != nil {
			return s.fail(tried, err)
		}
	}
	op, err := s.sealSSHKey(ctx, cluster, node, pem)
	if err != nil {
		return err
	}
	return s.putOf(ctx, cluster, tried, op)
}

// sealSSHKey returns what puts a sealed private key.
func (s *Store) sealSSHKey(ctx context.Context, cluster, node string, pem []byte) (clientv3.Op, error) {
	tried := "set the SSH key of " + keyName(cluster, node)
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		e := &cke.Error{Code: cke.CodeSSHKey, What: tried, Err: err, Unchanged: true}
		var locked *ssh.PassphraseMissingError
		if errors.As(err, &locked) {
			e.Facts, e.Try = []string{"it is protected by a passphrase, which the daemon cannot enter"}, "ckecli ssh-key set FILE"
		}
		return clientv3.Op{}, e
	}
	key := s.keys.sshKey(cluster, node)
	b, err := s.seal(ctx, key, pem)
	if err != nil {
		return clientv3.Op{}, s.fail(tried, err)
	}
	pub := signer.PublicKey()
	return put(key, sshKey{Age: b, SSHKeyInfo: SSHKeyInfo{Cluster: cluster, Node: node, SetAt: time.Now().UTC(),
		Fingerprint: ssh.FingerprintSHA256(pub), PublicKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))}})
}

// SSHKey returns the private key to log in to a node with: its own, else the cluster's, else that of all clusters.
// Without node or cluster it is the next one of these.
// ErrNotFound, with CodeNoSSHKey: there is none.
func (s *Store) SSHKey(ctx context.Context, cluster, node string) ([]byte, error) {
	if err := checkKeyName(cluster, node); err != nil {
		return nil, err
	}
	tried := "read the SSH key of " + keyName(cluster, node)
	keys := []string{s.keys.sshKey(cluster, node), s.keys.sshKey(cluster, ""), s.keys.sshKey("", "")}
	for _, key := range slices.Compact(keys) {
		var k sshKey
		_, err := s.get(ctx, key, &k)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, s.fail(tried, err)
		}
		pem, err := s.unseal(ctx, key, k.Age)
		return pem, s.fail(tried, err)
	}
	return nil, &cke.Error{Code: cke.CodeNoSSHKey, What: "there is no SSH key for " + keyName(cluster, node),
		Try: "ckecli ssh-key set FILE", Err: cke.ErrNotFound}
}

// SSHKeys describes all stored SSH keys: that of all clusters first, then by cluster and node.
func (s *Store) SSHKeys(ctx context.Context) ([]SSHKeyInfo, error) {
	tried := "list SSH keys"
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	ranges := []keyRange{one(s.keys.globalSSHKey())}
	for _, c := range clusters {
		ranges = append(ranges, under(s.keys.sshKeys(c)))
	}
	var infos []SSHKeyInfo
	for _, r := range ranges {
		keys, err := list[sshKey](ctx, s, r)
		if err != nil {
			return nil, s.fail(tried, err)
		}
		for _, k := range keys {
			infos = append(infos, k.SSHKeyInfo)
		}
	}
	return infos, nil
}

// DeleteSSHKey deletes a key. ErrNotFound: there is none. ErrConflict: a declared node would be left without any.
func (s *Store) DeleteSSHKey(ctx context.Context, cluster, node string) error {
	if err := checkKeyName(cluster, node); err != nil {
		return err
	}
	tried := "delete the SSH key of " + keyName(cluster, node)
	infos, err := s.SSHKeys(ctx)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(infos), func(i SSHKeyInfo) bool { return i.Cluster == cluster && i.Node == node })
	if len(left) == len(infos) {
		return fmt.Errorf("%s: %w", tried, cke.ErrNotFound)
	}
	clusters := []string{cluster}
	if cluster == "" {
		if clusters, err = s.Clusters(ctx); err != nil {
			return err
		}
	}
	for _, c := range clusters {
		spec, err := s.Spec(ctx, c)
		if err != nil {
			return err
		}
		for _, n := range spec.Cluster.Nodes {
			if hasSSHKey(infos, c, n) && !hasSSHKey(left, c, n) {
				return &cke.Error{Code: cke.CodeConflict, Unchanged: true, Err: cke.ErrConflict, Try: "ckecli ssh-key set FILE",
					What: fmt.Sprintf("%s: it is in use by node %s of %s", tried, n.Name(), c), Facts: []string{"there is no other key for that node"}}
			}
		}
	}
	_, err = s.txn(ctx, nil, []clientv3.Op{clientv3.OpDelete(s.keys.sshKey(cluster, node))})
	return s.fail(tried, err)
}

// hasSSHKey reports whether a node finds a key among infos.
func hasSSHKey(infos []SSHKeyInfo, cluster string, n cke.Node) bool {
	return slices.ContainsFunc(infos, func(i SSHKeyInfo) bool {
		return i.Cluster == "" || i.Cluster == cluster && (i.Node == "" || i.Node == n.Name())
	})
}

func checkKeyName(cluster, node string) error {
	if cluster == "" && node == "" {
		return nil
	}
	return checkName(cluster)
}

func keyName(cluster, node string) string {
	switch {
	case cluster == "":
		return "all clusters"
	case node == "":
		return cluster
	default:
		return "node " + node + " of " + cluster
	}
}
