package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"cke"
	"cke/server"
	"cke/storage"
)

// storeConfig turns the configuration file into the store's terms.
func storeConfig(c cke.Config, log *slog.Logger) storage.Config {
	s := storage.Config{
		Endpoints: c.Store.Endpoints, Prefix: c.Store.Prefix,
		TLS:      storage.TLS{CAFile: c.Store.TLS.CAFile, CertFile: c.Store.TLS.CertFile, KeyFile: c.Store.TLS.KeyFile},
		Username: c.Store.Username, PasswordFile: c.Store.PasswordFile,
		SecretKeyFile: c.SecretKeyFile, SessionTTL: time.Duration(c.SessionTTL), Log: log,
	}
	if c.Store.IsEmbedded() {
		s.Embedded.DataDir = c.Store.Embedded.DataDir
	}
	return s
}

// daemonStore is the store as the daemon needs it.
type daemonStore struct {
	*storage.Store
	host string
	// seat is what comes with a term.
	seat func(*term) server.Seat
}

var _ server.Store = daemonStore{}

// Campaign implements server.Store.
func (s daemonStore) Campaign(ctx context.Context, cluster string) (server.Seat, error) {
	lead, err := s.lead(ctx, cluster)
	if err != nil {
		return server.Seat{}, err
	}
	return s.seat(lead), nil
}

// seats returns what comes with a term in a store: nodes, authority, backups and snapshots.
func seats(store *storage.Store, config cke.Config, host string, metrics *server.Metrics, log *slog.Logger) func(*term) server.Seat {
	connect, backups, snapshots := connector(store, config, metrics, log), backupsOf(store, config, host, log), snapshotsOf(store, config, log)
	inventory := inventoryOf(store, metrics, log)
	return func(lead *term) server.Seat {
		return server.Seat{
			Term:      lead,
			Connect:   func() (server.Nodes, cke.Authority, error) { return connect(lead) },
			Backups:   func(authority cke.Authority) (server.Backups, error) { return backups(lead, authority) },
			Inventory: func() server.Inventory { return inventory(lead) },
			Commands:  commands(config.Commands),
			Snapshots: func(nodes server.Nodes) (cke.Snapshots, error) { return snapshots(lead, nodes) },
		}
	}
}

// lead blocks until this daemon leads the cluster or ctx ends.
func (s daemonStore) lead(ctx context.Context, cluster string) (*term, error) {
	t, err := s.Store.Campaign(ctx, cluster, s.host)
	if err != nil {
		return nil, err
	}
	lead := &term{Term: t, store: s.Store, leader: cke.Leader{Host: s.host, Term: t.Number(), Since: time.Now().UTC()}, changed: make(chan struct{}, 1)}
	lead.state.Store(&storage.ClusterState{})
	first := make(chan struct{})
	known := sync.OnceFunc(func() { close(first) })
	s.Store.FollowCluster(t.Context(), cluster, func(state storage.ClusterState) {
		lead.follow(state)
		known()
	})
	select {
	case <-first: // host keys are known before any node is dialled
	case <-t.Done(): // it has ended already
	case <-ctx.Done(): // the term has no time to begin
	}
	return lead, nil
}

// term is a storage.Term with what the loop reads beside it.
type term struct {
	*storage.Term
	store   *storage.Store
	leader  cke.Leader
	changed chan struct{}
	// state is the latest that the store told; never nil.
	state atomic.Pointer[storage.ClusterState]
}

var _ server.Term = (*term)(nil)

// follow turns changes in the store into wake-ups.
func (t *term) follow(state storage.ClusterState) {
	t.state.Store(&state)
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// Status implements server.Term.
func (t *term) Status(ctx context.Context) (cke.Status, error) {
	return t.store.Status(ctx, t.Cluster())
}

// Leader implements server.Term.
func (t *term) Leader() cke.Leader { return t.leader }

// Changed implements server.Term.
func (t *term) Changed() <-chan struct{} { return t.changed }

// Requests implements server.Term.
func (t *term) Requests() cke.Requests { return t.state.Load().Asked() }

// ResignRequested implements server.Term.
func (t *term) ResignRequested() bool { return t.state.Load().ResignRequested(t.Number()) }
