package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"cke/storage"
	"cke/ui"
)

// page is the status page. Its event streams end with ctx.
func (p *process) page(ctx context.Context) http.Handler {
	return ui.New(ctx, ui.Config{Version: version, Now: time.Now, Log: p.log, Curves: p.samples.Of, Store: func() (ui.Store, error) {
		store, err := p.opened()
		return pageStore{store}, err
	}}).Handler()
}

// opened returns the store, or what it waits for.
func (p *process) opened() (*storage.Store, error) {
	store := p.store.Load()
	if store == nil {
		h := p.waits.health()
		if h.Waiting == "" {
			h.Waiting = "the daemon has just started"
		}
		return nil, errors.New("the store is not open: " + h.Waiting)
	}
	return store, nil
}

// pageStore is the store as the status page reads it.
type pageStore struct{ *storage.Store }

// Changes follows the cluster file and requests, the status and the records of a cluster.
func (s pageStore) Changes(ctx context.Context, cluster string) <-chan struct{} {
	changes := make(chan struct{}, 1)
	var wg sync.WaitGroup
	wg.Go(func() { announce(changes, s.WatchCluster(ctx, cluster)) })
	wg.Go(func() { announce(changes, s.WatchStatus(ctx, cluster)) })
	wg.Go(func() { announce(changes, s.WatchRecords(ctx, cluster, s.newest(ctx, cluster))) })
	go func() {
		wg.Wait()
		close(changes)
	}()
	return changes
}

// newest is the id of the newest record but one: the newest may be under way.
func (s pageStore) newest(ctx context.Context, cluster string) int64 {
	records, err := s.Records(ctx, cluster, 1)
	if err != nil || len(records) == 0 {
		return 0
	}
	return records[0].ID - 1
}

// announce says that something has changed, and does not wait for whom it concerns.
func announce[T any](changes chan<- struct{}, from <-chan T) {
	for range from {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
}

// impatient drops clients that do not read what they asked for, as an event stream whose browser is gone.
type impatient struct{ net.Listener }

// writeLimit bounds how long a client may take to read what fits into no buffer any more.
var writeLimit = 10 * time.Second

func (l impatient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return impatientConn{c}, nil
}

type impatientConn struct{ net.Conn }

func (c impatientConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

var _ ui.Store = pageStore{}
