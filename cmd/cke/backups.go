package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/semaphore"

	"cke"
	"cke/backup"
	"cke/backup/keep"
	"cke/backup/target"
	"cke/server"
	"cke/storage"
)

// lastDeltaLimit is how long the target may take to store the last changes once the daemon is to end, or no longer leads
// the cluster. All that ends has stopLimit.
const lastDeltaLimit = 2 * time.Second

// backupsOf returns what takes the backups of a cluster during one term.
func backupsOf(store *storage.Store, config cke.Config, host string, log *slog.Logger) func(*term, cke.Authority) (server.Backups, error) {
	turn := semaphore.NewWeighted(1)
	return func(lead *term, authority cke.Authority) (server.Backups, error) {
		cluster := lead.Cluster()
		return keep.New(keep.Config{
			Cluster: cluster,
			Open: func(ctx context.Context, url string) (keep.Target, error) {
				c, err := targetCredentials(ctx, store, cluster, url)
				if err != nil {
					return nil, err
				}
				return target.Open(ctx, url, c)
			},
			Credentials: func() int64 { return lead.state.Load().BackupCredentialsRevision },
			TLS: func(ctx context.Context) (*tls.Config, error) {
				return authority.ClientTLS(ctx, lead.state.Load().Identity.Authorities)
			},
			Ordered:  func(ctx context.Context) error { return backup.Ordered(ctx, store, cluster) },
			Escrow:   func(ctx context.Context) (cke.Escrow, error) { return store.Escrow(ctx, cluster) },
			Identity: func(ctx context.Context) (age.Identity, error) { return store.KeyIdentity(ctx) },
			Guard:    lead.Check,
			Writer:   host,
			Term:     lead.Number(),
			Scratch:  config.Backup.ScratchDir,
			Turn:     turn,
			Shutdown: lastDeltaLimit,
			Now:      time.Now,
			Log:      log,
		}), nil
	}
}

// targetCredentials are those in the store for a target in S3, if there are any; else those of the environment and of the
// provider's files.
func targetCredentials(ctx context.Context, store *storage.Store, cluster, url string) (target.Credentials, error) {
	if !strings.HasPrefix(url, "s3:") {
		return target.Credentials{}, nil
	}
	c, err := store.BackupCredentials(ctx, cluster)
	if errors.Is(err, cke.ErrNotFound) {
		return target.Credentials{}, nil
	}
	return target.Credentials{AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken}, err
}
