package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/cybozu-go/well"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"cke"
	"cke/server"
	"cke/storage"
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
		p := &process{log: log, waits: newWaiting(log)}
		go p.waits.watchdog(ctx)
		config := p.configured(ctx, o, explicit)
		if ctx.Err() != nil {
			return nil
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		p.metrics = server.NewMetrics(registry)
		well.Go(func(ctx context.Context) error { return p.serveHTTP(ctx, config, registry) })
		for ctx.Err() == nil {
			p.until(ctx, func() error {
				config, err := loadConfig(o, explicit) // anew: what was in the way may be what it says
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

// configured waits for a configuration that can be used.
func (p *process) configured(ctx context.Context, o options, explicit bool) cke.Config {
	config, err := loadConfig(o, explicit)
	if err == nil {
		return config
	}
	p.waits.say(err)
	defer p.serveHealth(o)()
	p.until(ctx, func() (err error) {
		config, err = loadConfig(o, explicit)
		return err
	})
	return config
}

func loadConfig(o options, explicit bool) (cke.Config, error) {
	config, err := cke.LoadConfig(o.config, explicit)
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
	return config, config.Validate()
}

// hostName is what people know this host by.
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
	sc := storeConfig(config, p.log)
	if config.Store.IsEmbedded() {
		sc.Embedded.Waiting = func(holder string) {
			p.waits.say(fmt.Errorf("another cke holds %s (%s); this one takes over when it ends", sc.Embedded.DataDir, holder))
		}
		embedded, err := storage.StartEmbedded(ctx, sc)
		if err != nil {
			return err
		}
		defer func() {
			if err := embedded.Close(); err != nil {
				p.log.Warn("store not closed well", "error", err)
			}
		}()
		go func() {
			select {
			case err := <-embedded.Failed():
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
			p.log.Warn("store not closed well", "error", err)
		}
	}()
	if err := store.OpenSecrets(ctx); err != nil {
		return err
	}
	p.store.Store(store)
	p.waits.over()
	host, err := hostName(o)
	if err != nil {
		return err
	}
	d := &server.Daemon{
		Store: daemonStore{store, host}, Connect: connector(store, config, p.log),
		Probe: time.Duration(config.ProbeInterval), Now: time.Now, Log: p.log, Metrics: p.metrics,
	}
	if err := d.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return context.Cause(ctx)
}
