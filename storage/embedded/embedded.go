// Package embedded is the store's etcd inside the daemon. Package storage connects to it.
package embedded

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"

	"cke"
	"cke/storage/internal/local"
)

// What bounds the etcd.
const (
	quota = 4 << 30 // bytes
	// history is how long overwritten values are kept. Nobody reads them: watches that fall behind list again.
	history = "1m"
	// defragMiB is how much free space in the database is worth a defragmentation at start.
	defragMiB = 64
	// snapshot is after how many writes the log before them may go; logs of its files, 64 MB each, stay
	// all the same.
	snapshot, logs = 2500, 2
	// catchUp is how many log entries stay in memory for other members; there are none.
	catchUp = 100
	// The only member hears from no other, and does not wait for a tick to lead, so ticks only cost an idle daemon. A lease lasts
	// at least one and a half election timeouts; that of a former process is revoked at start.
	tickMs, electionMs = 500, 2500
	// commitEvery is how often what was written is moved from the log, which is on disk before a write is answered, to the
	// database. After a crash it is read from the log.
	commitEvery = time.Second
	// campaignEvery is how often the only member is asked to lead as it starts: it cannot before it has applied its own addition.
	campaignEvery = 2 * time.Millisecond
)

// Store is an etcd inside this process. It listens only on a unix socket in its data directory.
type Store struct {
	etcd *embed.Etcd
	grpc *grpc.Server
	dir  string
	lock *os.File // held as long as the store runs
	log  *slog.Logger

	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	failed  chan error
}

// Start runs the store of this host in a data directory, and returns when it serves.
//
// While another process holds the directory it waits, reports the holder to waiting and the log, and gives up when ctx
// is done. It revokes every session of former processes: only the holder of the data directory can have one.
func Start(ctx context.Context, dir string, log *slog.Logger, waiting func(holder string)) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e, err := open(ctx, dir, log, waiting)
	if err != nil {
		return nil, &cke.Error{Code: cke.CodeStore, What: "start the store in " + dir, Err: err}
	}
	return e, nil
}

func open(ctx context.Context, dir string, log *slog.Logger, waiting func(holder string)) (*Store, error) {
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, dir, func(holder string) {
		log.Warn("another process holds the store's data directory, waiting", "holder", holder, "data_dir", dir)
		waiting(holder)
	})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	e := &Store{dir: dir, lock: lock, log: log, closing: make(chan struct{}), failed: make(chan error, 2)}
	if err := e.start(ctx, configuration(dir, log)); err != nil {
		e.Close()
		return nil, err
	}
	log.Info("store started", "data_dir", dir, "took", time.Since(begun).Round(time.Millisecond))
	return e, nil
}

// ownDir makes dir and shuts others out of it: it holds the socket that everything can be asked through. A directory
// that holds anything else than a store, as the data of another etcd, is left alone.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours := func(e os.DirEntry) bool { return e.Name() == lockName }
	if len(entries) > 0 && !slices.ContainsFunc(entries, ours) {
		return fmt.Errorf("the directory is not empty and was not created by cke: configure another one or, if it contains cke's store, create an empty file %s in it", lockName)
	}
	return os.Chmod(dir, 0o700)
}

func configuration(dir string, log *slog.Logger) *embed.Config {
	// Written into the member list and never listened on: the only member has nobody to talk to.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, local.SocketName)}

	cfg := embed.NewConfig()
	cfg.Name = "cke"
	cfg.Dir = dir
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.EnableGRPCGateway = false
	cfg.TickMs, cfg.ElectionMs = tickMs, electionMs
	cfg.SnapshotCount, cfg.MaxWalFiles = snapshot, logs
	cfg.SnapshotCatchUpEntries = catchUp
	cfg.QuotaBackendBytes = quota
	cfg.BackendBatchInterval = commitEvery
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = history
	cfg.BootstrapDefragThresholdMegabytes = defragMiB
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(local.ZapToSlog(log, local.ServerLevel))
	return cfg
}

func (e *Store) start(ctx context.Context, cfg *embed.Config) (err error) {
	if e.etcd, err = embed.StartEtcd(cfg); err != nil {
		return err
	}
	if err := lead(ctx, e.etcd.Server); err != nil {
		return err
	}
	if err := tidy(ctx, e.etcd.Server, e.log); err != nil {
		return err
	}
	l, err := local.Listen(e.dir)
	if err != nil {
		return err
	}
	e.grpc = v3rpc.Server(e.etcd.Server, nil, nil)
	e.wg.Go(func() {
		if err := e.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			e.failed <- fmt.Errorf("serve the store: %w", err)
		}
	})
	e.wg.Go(func() {
		select {
		case <-e.closing:
		case <-e.etcd.Server.StopNotify():
			e.failed <- errors.New("the embedded etcd stopped")
		}
	})
	return nil
}

// lead returns once the only member leads and serves. It campaigns at once, as a member does that another one hands leadership to.
// Source: etcd-io/raft, MsgTimeoutNow.
func lead(ctx context.Context, server *etcdserver.EtcdServer) error {
	again := time.NewTicker(campaignEvery)
	defer again.Stop()
	self := uint64(server.MemberID())
	for {
		select {
		case <-server.ReadyNotify():
			return nil
		case <-server.StopNotify():
			return errors.New("etcd stopped while starting")
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
		if mayCampaign() {
			campaign := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: new(self), To: new(self)}
			if err := server.Process(ctx, campaign); err != nil {
				return fmt.Errorf("ask the store to lead: %w", err)
			}
		}
	}
}

// mayCampaign reports whether raft has taken note that every entry on record is applied. Before that it may search a campaigning
// member's log for entries that etcd has dropped already, which ends the process. Without a leader no entry is added.
// etcd publishes the status of raft for the process, which runs one etcd; without it the next election is waited for.
func mayCampaign() bool {
	published, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	s, ok := published.Value().(raft.Status)
	return ok && s.RaftState == raft.StateFollower && s.Applied > 0 && s.Applied == s.GetCommit()
}

// tidy ends the sessions of former processes and gives a store that had run full another chance.
func tidy(ctx context.Context, server *etcdserver.EtcdServer, log *slog.Logger) error {
	c := v3client.New(server)
	defer c.Close()
	leases, err := c.Leases(ctx)
	if err != nil {
		return fmt.Errorf("list former sessions: %w", err)
	}
	for _, l := range leases.Leases {
		if _, err := c.Revoke(ctx, l.ID); err != nil {
			return fmt.Errorf("end a former session: %w", err)
		}
	}
	for _, a := range server.Alarms() {
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE {
			if err := makeRoom(ctx, c, server, log); err != nil {
				return fmt.Errorf("free space in a full store: %w", err)
			}
		}
	}
	return nil
}

// makeRoom drops all history and gives the freed space back; with enough of it the store takes writes again.
func makeRoom(ctx context.Context, c *clientv3.Client, server *etcdserver.EtcdServer, log *slog.Logger) error {
	if _, err := c.Compact(ctx, server.KV().Rev(), clientv3.WithCompactPhysical()); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return err
	}
	if err := server.Backend().Defrag(); err != nil {
		return err
	}
	if size := server.Backend().Size(); size > quota*9/10 {
		log.Error("the store is full and accepts no writes", "bytes", size, "quota", int64(quota))
		return nil
	}
	log.Warn("the store was full and accepts writes again")
	_, err := c.AlarmDisarm(ctx, &clientv3.AlarmMember{Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: uint64(server.MemberID())})
	return err
}

// Failed delivers an error if the store stops by itself.
func (e *Store) Failed() <-chan error { return e.failed }

// Close stops the store. Clients lose their connections at once.
func (e *Store) Close() error {
	var err error
	e.once.Do(func() {
		close(e.closing)
		if e.grpc != nil {
			e.grpc.Stop()
		}
		e.wg.Wait()
		if e.etcd != nil {
			e.etcd.Close()
		}
		// While the lock is held, the socket is ours.
		err = os.Remove(filepath.Join(e.dir, local.SocketName))
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		err = errors.Join(err, e.lock.Close())
	})
	return err
}
