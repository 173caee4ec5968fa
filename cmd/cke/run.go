package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync/atomic"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"github.com/cybozu-go/well"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"cke"
	"cke/backup"
	"cke/clusterfile"
	"cke/server"
	"cke/storage"
	"cke/storage/embedded"
)

// retryEvery is the pause before something that was in the way is tried again.
const retryEvery = time.Second

// run works until a signal ends it. Nothing in the configuration, the store or the key file makes it end: it waits and
// says for what.
func run(o options, explicit bool, log *slog.Logger) error {
	if err := stopAtOnce(); err != nil {
		return err
	}
	well.Go(func(ctx context.Context) error {
		p := &process{log: log, waits: newWaiting(log), load: func() (cke.Config, error) { return loadConfig(o, explicit) }}
		p.progress.Leading = p.waits.leading
		go p.waits.watchdog(ctx, p.progress.Stalled)
		defer context.AfterFunc(ctx, func() { stopInTime(log) })()
		config := p.configured(ctx, o)
		if ctx.Err() != nil {
			return nil
		}
		p.metrics = server.NewMetrics(version, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		page := p.page(ctx) // not the context below: that ends when HTTP is served
		well.Go(func(ctx context.Context) error { return p.serveHTTP(ctx, config, page) })
		for ctx.Err() == nil {
			p.until(ctx, func() error {
				config, err := p.load() // anew: what was in the way may be what it says
				if err != nil {
					return err
				}
				return p.serve(ctx, config, o)
			})
		}
		return nil
	})
	if err := well.Wait(); err != nil && !well.IsSignaled(err) {
		return err
	}
	log.Info("stopped")
	return nil
}

// stopAtOnce makes well act on a signal without the five seconds that it leaves servers behind a load balancer.
func stopAtOnce() error {
	const delay = "CANCELLATION_DELAY_SECONDS"
	if _, set := os.LookupEnv(delay); set {
		return nil
	}
	return os.Setenv(delay, "0")
}

// stopLimit is when the process exits after a signal at the latest. All waits on the way out are bounded; this is for what
// nobody thought of. To be killed at any moment is nothing new to cke.
var stopLimit = 4800 * time.Millisecond

func stopInTime(log *slog.Logger) {
	notify(log, sd.SdNotifyStopping)
	time.AfterFunc(stopLimit, func() {
		log.Error("stopping takes too long; cke exits without waiting for the rest")
		os.Exit(1)
	})
}

// configured waits for a configuration that can be used.
func (p *process) configured(ctx context.Context, o options) cke.Config {
	config, err := p.load()
	if err == nil {
		return config
	}
	p.waits.say(err)
	defer p.serveHealth(o)()
	p.until(ctx, func() (err error) {
		config, err = p.load()
		return err
	})
	return config
}

func loadConfig(o options, explicit bool) (cke.Config, error) {
	config, err := clusterfile.LoadConfig(o.config, explicit)
	if err != nil {
		return config, err
	}
	if o.dataDir != "" {
		if !config.Store.IsEmbedded() {
			return config, &cke.Error{Code: cke.CodeConfig, What: "--data-dir is for the embedded store, and " + o.config + " names endpoints"}
		}
		config.Store.Embedded.DataDir = o.dataDir
	}
	if o.http != "" {
		config.HTTP.Listen = o.http
	}
	return config, clusterfile.CheckConfig(config)
}

// hostName is what users know this host by.
func hostName(o options) (string, error) {
	if o.hostName != "" {
		return o.hostName, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read this host's name: %w", err)
	}
	return host, nil
}

// process is the running daemon.
type process struct {
	log     *slog.Logger
	waits   *waiting
	metrics *server.Metrics
	// progress is that of all loops.
	progress server.Progress
	// samples are those of all clusters that this daemon leads.
	samples server.Samples
	// load reads the configuration as it is now.
	load func() (cke.Config, error)
	// store is set while the store can be used.
	store atomic.Pointer[storage.Store]
}

// until tries again and again until try succeeds or ctx ends, and says what it waits for.
func (p *process) until(ctx context.Context, try func() error) {
	for {
		err := try()
		if err == nil || ctx.Err() != nil {
			return
		}
		p.waits.say(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryEvery):
		}
	}
}

// serve opens the store and leads clusters until ctx ends or the store fails.
func (p *process) serve(ctx context.Context, config cke.Config, o options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	host, err := hostName(o)
	if err != nil {
		return err
	}
	if err := backup.SweepScratchBelow(config.Backup.ScratchDir); err != nil {
		p.log.Warn("files that killed processes left in the scratch directory were not removed", "error", err)
	}
	sc := storeConfig(config, p.log)
	sc.Requested = p.metrics.StoreRequest
	if config.Store.IsEmbedded() {
		etcd, err := embedded.Start(ctx, sc.Embedded.DataDir, p.log, func(holder string) {
			p.waits.say(fmt.Errorf("another cke holds %s (%s); this one takes over when that one exits", sc.Embedded.DataDir, holder))
		})
		if err != nil {
			return err
		}
		defer func() {
			if err := etcd.Close(); err != nil {
				p.log.Warn("store not closed cleanly", "error", err)
			}
		}()
		go func() {
			select {
			case err := <-etcd.Failed():
				cancel(fmt.Errorf("the embedded store failed: %w", err))
			case <-ctx.Done():
			}
		}()
	}
	store, err := storage.Open(ctx, sc)
	if err != nil {
		return err
	}
	defer func() {
		p.store.Store(nil)
		if err := store.Close(); err != nil {
			p.log.Warn("store not closed cleanly", "error", err)
		}
	}()
	p.store.Store(store)
	p.until(ctx, func() error { // an older cke leads nobody, until the schema or the program is another one
		if _, err := store.Schema(ctx); err != nil {
			return err
		}
		return store.MayWrite()
	})
	if err := p.openSecrets(ctx, store, config); err != nil {
		return err
	}
	p.waits.over()
	store.Attend(cke.Daemon{Host: host, Version: version})
	go p.sweep(ctx, store, config.Backup.ScratchDir)
	d := &server.Daemon{
		Store: daemonStore{store, host, seats(store, config, host, p.metrics, p.log)},
		Probe: time.Duration(config.ProbeInterval), Now: time.Now, Log: p.log, Metrics: p.metrics, Progress: &p.progress, Samples: &p.samples,
		Fleet: store.WatchFleet,
	}
	if err := d.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return context.Cause(ctx)
}

// sweepEvery is how often a daemon looks for files of restores that ended while another one led.
const sweepEvery = time.Hour

func (p *process) sweep(ctx context.Context, store *storage.Store, scratch string) {
	for {
		if err := sweepSnapshots(ctx, store, scratch); err != nil && ctx.Err() == nil {
			p.log.Warn("files of completed restores were not removed", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}

// errReconfigured sends serve back to its beginning.
var errReconfigured = errors.New("the configuration has changed and is read again")

// openSecrets waits for the key file. The store stays open meanwhile: ckecli needs no key for most of what it does.
func (p *process) openSecrets(ctx context.Context, store *storage.Store, config cke.Config) error {
	var changed error
	p.until(ctx, func() error {
		err := store.OpenSecrets(ctx)
		if err == nil {
			return nil
		}
		if now, loadErr := p.load(); loadErr == nil && !reflect.DeepEqual(now, config) {
			changed = errReconfigured
			return nil
		}
		return err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return changed
}
