package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// BackupCredentials give access to a cluster's backup target in S3.
type BackupCredentials struct {
	AccessKey    string `json:"accessKey"`
	SecretKey    string `json:"secretKey"`
	SessionToken string `json:"sessionToken,omitempty"`
}

// BackupCredentialsInfo describes stored credentials without their secret part.
type BackupCredentialsInfo struct {
	// Cluster is the cluster whose targets they are for; empty: those of all clusters.
	Cluster string `json:"cluster,omitempty"`
	// AccessKey is the public half.
	AccessKey string    `json:"accessKey"`
	SetAt     time.Time `json:"setAt"`
}

type backupCredentials struct {
	BackupCredentialsInfo
	Age []byte `json:"age"`
}

// SetBackupCredentials seals credentials for the backup target of a cluster, or of all clusters (""), and replaces
// existing ones. Sealing does not need the key file.
func (s *Store) SetBackupCredentials(ctx context.Context, cluster string, c BackupCredentials) error {
	if err := checkKeyName(cluster, ""); err != nil {
		return err
	}
	tried := "set the backup credentials of " + keyName(cluster, "")
	if c.AccessKey == "" || c.SecretKey == "" {
		return &cke.Error{Code: cke.CodeConfig, What: tried + ": access key or secret key is missing", Unchanged: true}
	}
	plain, err := json.Marshal(c)
	if err != nil {
		return err
	}
	key := s.keys.backupCredentials(cluster)
	b, err := s.seal(ctx, key, plain)
	if err != nil {
		return s.fail(tried, err)
	}
	op, err := put(key, backupCredentials{Age: b, BackupCredentialsInfo: BackupCredentialsInfo{Cluster: cluster, AccessKey: c.AccessKey, SetAt: time.Now().UTC()}})
	if err != nil {
		return err
	}
	return s.putOf(ctx, cluster, tried, op)
}

// BackupCredentials returns the credentials for the backup target of a cluster: its own, else those of all clusters.
// ErrNotFound: there are none. Reading needs the key file.
func (s *Store) BackupCredentials(ctx context.Context, cluster string) (BackupCredentials, error) {
	if err := checkName(cluster); err != nil {
		return BackupCredentials{}, err
	}
	tried := "read the backup credentials of " + cluster
	for _, key := range []string{s.keys.backupCredentials(cluster), s.keys.globalBackupCredentials()} {
		var v backupCredentials
		_, err := s.get(ctx, key, &v)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return BackupCredentials{}, s.fail(tried, err)
		}
		plain, err := s.unseal(ctx, key, v.Age)
		if err != nil {
			return BackupCredentials{}, s.fail(tried, err)
		}
		var c BackupCredentials
		if err := json.Unmarshal(plain, &c); err != nil {
			return c, errors.New(tried + ": their format is unknown") // the cause could quote them
		}
		return c, nil
	}
	return BackupCredentials{}, fmt.Errorf("%s: %w", tried, cke.ErrNotFound)
}

// ListBackupCredentials describes all stored credentials: those of all clusters first, then by cluster.
func (s *Store) ListBackupCredentials(ctx context.Context) ([]BackupCredentialsInfo, error) {
	clusters, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	var infos []BackupCredentialsInfo
	for _, cluster := range append([]string{""}, clusters...) {
		var v backupCredentials
		_, err := s.get(ctx, s.keys.backupCredentials(cluster), &v)
		if errors.Is(err, cke.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, s.fail("list backup credentials", err)
		}
		infos = append(infos, v.BackupCredentialsInfo)
	}
	return infos, nil
}

// DeleteBackupCredentials deletes credentials. ErrNotFound: there are none. ErrConflict: the backup section of a
// cluster would be left without any.
func (s *Store) DeleteBackupCredentials(ctx context.Context, cluster string) error {
	if err := checkKeyName(cluster, ""); err != nil {
		return err
	}
	tried := "delete the backup credentials of " + keyName(cluster, "")
	infos, err := s.ListBackupCredentials(ctx)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, i := range infos {
		has[i.Cluster] = true
	}
	if !has[cluster] {
		return fmt.Errorf("%s: %w", tried, cke.ErrNotFound)
	}
	users := []string{cluster}
	if cluster == "" {
		if users, err = s.Clusters(ctx); err != nil {
			return err
		}
	}
	var asRead []clientv3.Cmp // what the judgement rests on
	for _, user := range users {
		spec, revision, err := s.spec(ctx, user)
		if errors.Is(err, cke.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		asRead = append(asRead, clientv3.Compare(clientv3.ModRevision(s.keys.spec(user)), "=", revision))
		if !strings.HasPrefix(spec.Cluster.Backup.Target, "s3:") {
			continue
		}
		other := user
		if cluster != "" {
			other = ""
		}
		if !has[other] {
			return &cke.Error{Code: cke.CodeConflict, Unchanged: true, Err: cke.ErrConflict, Try: "ckecli backup credentials set FILE",
				What: fmt.Sprintf("%s: they are in use by the backup section of %s", tried, user), Facts: []string{"no other credentials are stored for it"}}
		}
		asRead = append(asRead, present(s.keys.backupCredentials(other)))
	}
	resp, err := s.txn(ctx, asRead, []clientv3.Op{clientv3.OpDelete(s.keys.backupCredentials(cluster))})
	if err != nil {
		return s.fail(tried, err)
	}
	if !resp.Succeeded {
		return &cke.Error{Code: cke.CodeConflict, What: tried + ": a cluster was changed meanwhile", Unchanged: true, Err: cke.ErrConflict, Try: "ckecli backup credentials delete"}
	}
	return nil
}
