package main

import (
	"context"
	"time"

	"cke"
	"cke/storage"
)

// store is what ckecli needs of the store. Its contract is that of storage.Store.
type store interface {
	specs
	tellings
	leadership
	fleets
	schemas
	pauses
	sshKeys
	hostKeys
	identities
	backupSecrets
	restores
	tasks
	rests
	inventories
	queues
	Close() error
}

// specs is what users want.
type specs interface {
	Clusters(ctx context.Context) ([]string, error)
	Spec(ctx context.Context, cluster string) (cke.Spec, error)
	SpecLog(ctx context.Context, cluster string) ([]cke.Spec, error)
	Import(ctx context.Context, i storage.Imported, by string, at time.Time) (cke.Spec, error)
	SetSpec(ctx context.Context, cluster string, c cke.Cluster, source []byte, by string, opts storage.SetOptions) (cke.Spec, error)
	RequestDelete(ctx context.Context, cluster, by string, destroyed ...cke.Destroyed) error
	DeleteDeclaration(ctx context.Context, cluster, by string, destroyed ...cke.Destroyed) error
	CancelDelete(ctx context.Context, cluster string) error
	RequestApply(ctx context.Context, cluster, by string, interrupt bool) (generation int64, err error)
	WatchCluster(ctx context.Context, cluster string) <-chan storage.ClusterState
}

// tellings are what leaders report.
type tellings interface {
	Status(ctx context.Context, cluster string) (cke.Status, error)
	WatchStatus(ctx context.Context, cluster string) <-chan cke.Status
	Records(ctx context.Context, cluster string, n int) ([]cke.Record, error)
	Record(ctx context.Context, cluster string, id int64) (cke.Record, error)
	WatchRecords(ctx context.Context, cluster string, after int64) <-chan cke.Record
}

// opener connects to the store that a configuration names; it may return before the store has answered.
type opener func(ctx context.Context, c cke.Config) (store, error)

// openStore connects to the store that the configuration names.
func openStore(ctx context.Context, c cke.Config) (store, error) {
	return storage.Open(ctx, storeConfig(c))
}

func storeConfig(c cke.Config) storage.Config {
	return storage.Config{
		Endpoints:     c.Store.Endpoints,
		Prefix:        c.Store.Prefix,
		TLS:           storage.TLS(c.Store.TLS),
		Username:      c.Store.Username,
		PasswordFile:  c.Store.PasswordFile,
		Embedded:      storage.EmbeddedConfig{DataDir: c.Store.Embedded.DataDir},
		SecretKeyFile: c.SecretKeyFile,
	}
}
