package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"cke"
	"cke/storage/internal/local"
)

// Limits of what waits for the store.
const (
	// openLimit is how long Open searches for a store that does not answer.
	openLimit = 2 * time.Second
	// requestLimit is how long one request may take. Config.Patience goes before both.
	requestLimit = 5 * time.Second
	// keepAlive is how often a silent connection to an external etcd is tried, and how long it may stay silent
	// then. etcd ends connections that are tried more often than every 5 s.
	keepAlive, keepAliveLimit = 6 * time.Second, 4 * time.Second
)

// Store is a client of the store. It is safe for concurrent use.
type Store struct {
	client *clientv3.Client
	keys   schema
	ttl    time.Duration
	// patience is how long one request may take.
	patience time.Duration
	// farewell is how long the end of a session or candidacy may take to be told.
	farewell time.Duration
	keyFile  string
	log      *slog.Logger
	// where, user and remedy are for messages.
	where, user, remedy string

	// ctx ends with Close, and with it every goroutine in wg.
	ctx    context.Context
	stop   context.CancelCauseFunc
	mu     sync.Mutex // guards closed, and wg against growing after it
	closed bool
	wg     sync.WaitGroup

	sessions sessions
	horizon  horizon
	// period is how often a mirror asks whether the store is still the one that it has read.
	period time.Duration

	// schemaIs is the schema of the store when it was read last, schemaMod the mod revision of that.
	schemaIs, schemaMod atomic.Int64
}

// Open connects to the store that c names: an external etcd, or the socket of the daemon on this host. ctx bounds
// only the opening; a store that does not answer is a *cke.Error with CodeStore within 2 s.
func Open(ctx context.Context, c Config) (*Store, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	opening := cmp.Or(c.Patience, openLimit)
	ctx, cancel := context.WithTimeout(ctx, opening)
	defer cancel()
	s := &Store{keys: schema{c.Prefix}, period: horizonPeriod, ttl: c.SessionTTL, patience: cmp.Or(c.Patience, requestLimit), farewell: cmp.Or(c.Patience, revokeLimit), keyFile: c.SecretKeyFile, log: c.Log, where: c.where(), user: c.Username}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	cfg := clientv3.Config{
		DialTimeout:        opening,
		BackoffWaitBetween: 100 * time.Millisecond,
		Logger:             local.ZapToSlog(c.Log, local.ClientLevel),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: opening,
		})},
	}
	if c.Requested != nil {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(timed(c.Requested)))
	}
	if c.IsEmbedded() {
		s.remedy = "systemctl start cke"
		err = embeddedClient(ctx, c, &cfg)
	} else {
		err = externalClient(ctx, c, &cfg)
	}
	if err == nil {
		err = s.connect(ctx, cfg)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// timed reports how long each request took.
func timed(requested func(method string, took time.Duration)) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		began := time.Now()
		err := invoke(ctx, method, request, reply, conn, options...)
		requested(path.Base(method), time.Since(began))
		return err
	}
}

// connect makes the client and proves that the store answers.
func (s *Store) connect(ctx context.Context, cfg clientv3.Config) (err error) {
	// clientv3 logs in while it is made, bounded by DialTimeout only.
	life, end := context.WithCancel(context.Background())
	cfg.Context = life
	unhook := context.AfterFunc(ctx, end)
	s.client, err = clientv3.New(cfg)
	if err == nil {
		_, _, err = s.schema(ctx)
	}
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w (%v)", ctx.Err(), err) // err may well be the end of life
	}
	return s.fail("open the store", err)
}

// Close ends every watch and every term, lets others lead at once, and disconnects. What the caller does on nodes in
// a term must have ended before.
func (s *Store) Close() error {
	s.stop(fmt.Errorf("the store was closed: %w", cke.ErrDeposed))
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	s.wg.Wait()
	if again {
		return nil
	}
	if s.client == nil {
		return nil
	}
	s.sessions.close()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// spawn runs f, which ends when s.ctx does, and has Close wait for it. It does not when the store is closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Go(f)
	}
	return !s.closed
}
