package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// Escrow returns what is stored beside the cluster's backups, from one revision of the store. No key file is needed.
// ErrNotFound: there is no such cluster.
func (s *Store) Escrow(ctx context.Context, cluster string) (cke.Escrow, error) {
	e := cke.Escrow{Format: cke.EscrowFormat, Cluster: cluster, HostKeys: map[string]string{}}
	if err := checkName(cluster); err != nil {
		return e, err
	}
	tried := "read what is kept beside the backups of " + cluster
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	var reads []clientv3.Op
	for _, r := range []keyRange{one(s.keys.sealedWith()), one(s.keys.globalSSHKey()), under(s.keys.cluster(cluster)), under(s.keys.secrets(cluster))} {
		reads = append(reads, clientv3.OpGet(r.start, r.options()...))
	}
	resp, err := s.client.Txn(ctx).Then(reads...).Commit()
	if err != nil {
		return e, s.fail(tried, err)
	}
	var identity []*mvccpb.KeyValue
	declared := false
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			key := string(kv.Key)
			declared = declared || key == s.keys.spec(cluster)
			if below(key, s.keys.identity(cluster)) {
				identity = append(identity, kv)
			} else if err := s.keep(&e, key, kv.Value); err != nil {
				return e, fmt.Errorf("%s: %w", tried, err)
			}
		}
	}
	if !declared {
		return e, noCluster(cluster)
	}
	if e.Identity, _, err = s.decodeIdentity(cluster, identity); err != nil {
		return e, fmt.Errorf("%s: %w", tried, err)
	}
	e.Identity.Freeze, e.Identity.Compared = nil, nil
	return e, nil
}

// keep takes one document into an escrow, if it belongs there.
func (s *Store) keep(e *cke.Escrow, key string, value []byte) error {
	add := func(name string, age []byte) {
		e.Secrets = append(e.Secrets, cke.SealedSecret{Name: name, Key: key, Age: age})
	}
	switch of := s.keys.sshKeys(e.Cluster); {
	case key == s.keys.sealedWith():
		var m sealedWith
		err := decode(key, value, &m)
		e.SealedWith = m.Recipient
		return err
	case below(key, s.keys.secrets(e.Cluster)):
		var v sealed
		err := decode(key, value, &v)
		if !isLent(v.Name) {
			add(v.Name, v.Age)
		}
		return err
	case key == s.keys.globalSSHKey(), below(key, of):
		var k sshKey
		err := decode(key, value, &k)
		name := "ssh-key"
		if node, is := strings.CutPrefix(key, of+"nodes/"); is {
			if node, err := url.PathUnescape(node); err == nil {
				name += "/" + node
			}
		}
		// The cluster's own key comes after that of all clusters, and is the one that counts.
		if i := len(e.Secrets) - 1; i >= 0 && name == "ssh-key" && e.Secrets[i].Name == name {
			e.Secrets = e.Secrets[:i]
		}
		add(name, k.Age)
		return err
	case below(key, s.keys.hostKeys(e.Cluster)):
		var k hostKey
		err := decode(key, value, &k)
		e.HostKeys[k.Address] = k.Line
		return err
	}
	return nil
}

// OpenSealed opens a secret of an escrow with a key file. CodeSecret, as a *cke.Error: the file is missing, or is not
// the one that sealed the escrow.
func OpenSealed(keyFile string, e cke.Escrow, secret cke.SealedSecret) ([]byte, error) {
	s := &Store{keyFile: keyFile}
	id, err := s.identityFor(sealedWith{Recipient: e.SealedWith})
	if err != nil {
		return nil, err
	}
	return openEnvelope(id, secret.Key, secret.Age)
}

// openEnvelope undoes seal for the value of a key.
func openEnvelope(id age.Identity, key string, b []byte) ([]byte, error) {
	broken := func(err error) ([]byte, error) {
		return nil, &cke.Error{Code: cke.CodeSecret, What: "unseal " + key, Err: err, Unchanged: true}
	}
	r, err := age.Decrypt(bytes.NewReader(b), id)
	if err != nil {
		return broken(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		return broken(err)
	}
	var e envelope
	if err := json.Unmarshal(plain, &e); err != nil {
		return broken(errors.New("it does not contain a secret")) // the cause could quote it
	}
	if e.Key != key {
		return broken(fmt.Errorf("it was sealed as %s and moved here", e.Key))
	}
	return e.Value, nil
}

// KeyIdentity returns the key file's own key, which also opens backups that were encrypted for it.
func (s *Store) KeyIdentity(ctx context.Context) (age.Identity, error) {
	m, err := s.marker(ctx)
	if err != nil {
		return nil, s.fail("read what the store is sealed with", err)
	}
	return s.identityFor(m)
}
