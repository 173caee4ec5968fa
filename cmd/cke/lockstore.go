package main

import (
	"context"

	"cke"
	"cke/server"
)

// lockStore is the store as FleetLock needs it; it may not be open yet.
type lockStore struct{ p *process }

var _ server.FleetLockStore = lockStore{}

// Clusters implements server.FleetLockStore.
func (l lockStore) Clusters(ctx context.Context) ([]string, error) {
	s, err := l.p.opened()
	if err != nil {
		return nil, err
	}
	return s.Clusters(ctx)
}

// Spec implements server.FleetLockStore.
func (l lockStore) Spec(ctx context.Context, cluster string) (cke.Spec, error) {
	s, err := l.p.opened()
	if err != nil {
		return cke.Spec{}, err
	}
	return s.Spec(ctx, cluster)
}

// Identity implements server.FleetLockStore.
func (l lockStore) Identity(ctx context.Context, cluster string) (cke.Identity, error) {
	s, err := l.p.opened()
	if err != nil {
		return cke.Identity{}, err
	}
	return s.Identity(ctx, cluster)
}

// Leader implements server.FleetLockStore.
func (l lockStore) Leader(ctx context.Context, cluster string) (cke.Leader, error) {
	s, err := l.p.opened()
	if err != nil {
		return cke.Leader{}, err
	}
	return s.Leader(ctx, cluster)
}

// RequestsOf implements server.FleetLockStore.
func (l lockStore) RequestsOf(ctx context.Context, cluster string) (cke.Requests, error) {
	s, err := l.p.opened()
	if err != nil {
		return cke.Requests{}, err
	}
	return s.RequestsOf(ctx, cluster)
}

// EditQueue implements server.FleetLockStore.
func (l lockStore) EditQueue(ctx context.Context, cluster string, kind cke.QueueKind, by string, edit func(cke.Queue) (cke.Queue, error)) error {
	s, err := l.p.opened()
	if err != nil {
		return err
	}
	return s.EditQueue(ctx, cluster, kind, by, edit)
}

// Changed implements server.FleetLockStore.
func (l lockStore) Changed(ctx context.Context, cluster string) <-chan struct{} {
	changed := make(chan struct{})
	s, err := l.p.opened()
	if err != nil {
		close(changed)
		return changed
	}
	go func() {
		defer close(changed)
		for range s.WatchCluster(ctx, cluster) {
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	return changed
}
