package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"google.golang.org/grpc"

	"cke"
)

// What bounds the embedded etcd.
const (
	embeddedQuota = 4 << 30 // bytes
	// embeddedHistory is how long overwritten values are kept. Nobody reads them: watches that fall behind list again.
	embeddedHistory = "1m"
	// embeddedDefragMiB is how much free space in the database is worth a defragmentation at start.
	embeddedDefragMiB = 64
	// The only member need not wait for others: it elects itself within 100 ms.
	embeddedTickMs, embeddedElectionMs = 20, 100
)

// Embedded is an etcd inside this process. It listens on a unix socket in its data directory and on nothing else.
type Embedded struct {
	etcd *embed.Etcd
	grpc *grpc.Server
	lock *os.File
	log  *slog.Logger

	serving sync.WaitGroup
	close   sync.Once
	failed  chan error
}

// StartEmbedded runs the store of this host. It returns when the store serves; connect with Open and the same Config.
//
// While another process holds the data directory it waits, tells Config.Embedded.Waiting and the log, and gives up
// when ctx ends. Every session of former processes ends here: nobody but the holder of the data directory can have one.
func StartEmbedded(ctx context.Context, c Config) (*Embedded, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if !c.IsEmbedded() {
		return nil, &cke.Error{Code: cke.CodeConfig, What: "the store is not embedded: endpoints are configured"}
	}
	dir, err := filepath.Abs(c.Embedded.DataDir)
	if err != nil {
		return nil, err
	}
	e, err := startEmbedded(ctx, c, dir)
	if err != nil {
		return nil, &cke.Error{Code: cke.CodeStore, What: "start the store in " + dir, Err: err}
	}
	return e, nil
}

func startEmbedded(ctx context.Context, c Config, dir string) (*Embedded, error) {
	if err := ownDir(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(ctx, dir, func(holder string) {
		c.Log.Warn("the store's data directory is held, waiting", "holder", holder, "data_dir", dir)
		if c.Embedded.Waiting != nil {
			c.Embedded.Waiting(holder)
		}
	})
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	e := &Embedded{lock: lock, log: c.Log, failed: make(chan error, 1)}
	if err := e.start(ctx, embeddedConfig(dir, c.Log), dir); err != nil {
		e.Close()
		return nil, err
	}
	c.Log.Info("store started", "data_dir", dir, "took", time.Since(begun).Round(time.Millisecond))
	return e, nil
}

// ownDir makes dir and shuts others out of it: it holds the socket that everything can be asked through.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() == 0o700 {
		return err
	}
	return os.Chmod(dir, 0o700)
}

func embeddedConfig(dir string, log *slog.Logger) *embed.Config {
	// Written into the member list and never listened on: the only member has nobody to talk to.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, socketName)}

	cfg := embed.NewConfig()
	cfg.Name = "cke"
	cfg.Dir = dir
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	cfg.EnableGRPCGateway = false
	cfg.TickMs, cfg.ElectionMs = embeddedTickMs, embeddedElectionMs
	cfg.QuotaBackendBytes = embeddedQuota
	cfg.AutoCompactionMode = embed.CompactorModePeriodic
	cfg.AutoCompactionRetention = embeddedHistory
	cfg.BootstrapDefragThresholdMegabytes = embeddedDefragMiB
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapToSlog(log, serverLevel))
	return cfg
}

func (e *Embedded) start(ctx context.Context, cfg *embed.Config, dir string) (err error) {
	if e.etcd, err = embed.StartEtcd(cfg); err != nil {
		return err
	}
	select {
	case <-e.etcd.Server.ReadyNotify():
	case <-e.etcd.Server.StopNotify():
		return errors.New("etcd stopped while starting")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := tidy(ctx, e.etcd.Server, e.log); err != nil {
		return err
	}
	l, err := listenSocket(dir)
	if err != nil {
		return err
	}
	e.grpc = v3rpc.Server(e.etcd.Server, nil, nil)
	e.serving.Go(func() { e.serve(l) })
	return nil
}

func (e *Embedded) serve(l net.Listener) {
	if err := e.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		e.failed <- fmt.Errorf("serve the store: %w", err)
	}
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
	if len(server.Alarms()) == 0 || server.Backend().Size() > embeddedQuota*9/10 {
		return nil
	}
	for _, a := range server.Alarms() {
		log.Warn("the store had run full and has room again", "alarm", a.Alarm.String())
	}
	_, err = c.AlarmDisarm(ctx, noAlarm())
	return err
}

// Failed delivers an error when the store ends by itself.
func (e *Embedded) Failed() <-chan error { return e.failed }

// Close ends the store. Clients lose their connections at once.
func (e *Embedded) Close() error {
	e.close.Do(func() {
		if e.grpc != nil {
			e.grpc.Stop()
		}
		e.serving.Wait()
		if e.etcd != nil {
			e.etcd.Close()
		}
		e.lock.Close()
	})
	return nil
}
