package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// sealed is a secret as it is stored.
type sealed struct {
	Name string `json:"name"`
	// Age is an age file that contains an envelope.
	Age []byte `json:"age"`
}

// envelope ties a secret to its key in the store, so that a sealed value put elsewhere does not open.
type envelope struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// keyPatience is how long a daemon that has just started to serve the store may take to make its key.
const keyPatience = 2 * time.Second

// markerSoon is marker, and waits for a daemon that has just started. ErrNotFound: none has made a key.
func (s *Store) markerSoon(ctx context.Context) (sealedWith, error) {
	patience := time.NewTimer(keyPatience)
	defer patience.Stop()
	for {
		m, err := s.marker(ctx)
		if !errors.Is(err, cke.ErrNotFound) {
			return m, err
		}
		select {
		case <-time.After(keyPatience / 40):
		case <-patience.C:
			return m, err
		case <-ctx.Done():
			return m, ctx.Err()
		}
	}
}

// seal needs no private key: what the store is sealed with is written in it.
func (s *Store) seal(ctx context.Context, key string, value []byte) ([]byte, error) {
	m, err := s.markerSoon(ctx)
	if errors.Is(err, cke.ErrNotFound) {
		return nil, &cke.Error{Code: cke.CodeSecret, What: "the store has no key to seal secrets with yet", Unchanged: true,
			Facts: []string{"the first start of a cke daemon creates it"}, Try: "systemctl start cke"}
	}
	if err != nil {
		return nil, s.fail("read what the store is sealed with", err)
	}
	to, err := age.ParseX25519Recipient(m.Recipient)
	if err != nil {
		return nil, fmt.Errorf("seal for %q: %w", m.Recipient, err)
	}
	plain, err := json.Marshal(envelope{Key: key, Value: value})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// unseal needs the key file.
func (s *Store) unseal(ctx context.Context, key string, b []byte) ([]byte, error) {
	m, err := s.marker(ctx)
	if err != nil {
		return nil, s.fail("read what the store is sealed with", err)
	}
	id, err := s.identityFor(m)
	if err != nil {
		return nil, err
	}
	return openEnvelope(id, key, b)
}

// Secrets returns the sealed values of one cluster. Reading needs the key file, creating does not.
func (s *Store) Secrets(cluster string) cke.Secrets { return secrets{s, cluster} }

type secrets struct {
	s       *Store
	cluster string
}

var _ cke.Secrets = secrets{}

// Secret implements cke.Secrets.
func (c secrets) Secret(ctx context.Context, name string) ([]byte, error) {
	if err := checkName(c.cluster); err != nil {
		return nil, err
	}
	tried := fmt.Sprintf("read secret %s of %s", name, c.cluster)
	key := c.s.keys.secret(c.cluster, name)
	var v sealed
	if _, err := c.s.get(ctx, key, &v); err != nil {
		return nil, c.s.fail(tried, err)
	}
	b, err := c.s.unseal(ctx, key, v.Age)
	return b, c.s.fail(tried, err)
}

// CreateSecret implements cke.Secrets.
func (c secrets) CreateSecret(ctx context.Context, name string, value []byte) error {
	if err := checkName(c.cluster); err != nil {
		return err
	}
	tried := fmt.Sprintf("create secret %s of %s", name, c.cluster)
	key := c.s.keys.secret(c.cluster, name)
	b, err := c.s.seal(ctx, key, value)
	if err != nil {
		return c.s.fail(tried, err)
	}
	op, err := put(key, sealed{Name: name, Age: b})
	if err != nil {
		return err
	}
	resp, err := c.s.txn(ctx, []clientv3.Cmp{absent(key), present(c.s.keys.spec(c.cluster))}, []clientv3.Op{op},
		clientv3.OpGet(key, clientv3.WithCountOnly()))
	if err != nil {
		return c.s.fail(tried, err)
	}
	if resp.Succeeded {
		return nil
	}
	if resp.Responses[0].GetResponseRange().Count == 0 {
		return noCluster(c.cluster)
	}
	return fmt.Errorf("%s: %w", tried, cke.ErrConflict)
}
