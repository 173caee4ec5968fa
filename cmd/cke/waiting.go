package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"cke"
	"cke/server"
)

// waiting is what keeps the daemon from its work, told once in the log, to systemd, and at /health.
type waiting struct {
	log *slog.Logger

	ready sync.Once

	mu    sync.Mutex
	why   string
	code  cke.Code // empty: why has none
	leads []string // clusters
}

func newWaiting(log *slog.Logger) *waiting { return &waiting{log: log, why: "starting"} }

// started notifies systemd that the start is over: the store answers, or it is known what is waited for, which is in STATUS.
func (w *waiting) started() {
	w.ready.Do(func() { notify(w.log, sd.SdNotifyReady) })
}

// say notes what is waited for.
func (w *waiting) say(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == err.Error() {
		return
	}
	w.why, w.code = err.Error(), ""
	attrs := []any{"for", w.why}
	if code := cke.CodeOf(err); code != cke.CodeInternal {
		w.code = code
		attrs = append(attrs, "code", code)
	}
	w.log.Error("waiting", attrs...)
	w.started()
	notify(w.log, "STATUS=waiting: "+strings.ReplaceAll(w.why, "\n", "; ")) // a line is an assignment
}

// over notes that nothing is waited for.
func (w *waiting) over() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.why, w.code = "", ""
	w.started()
	w.serving()
}

// leading notes which clusters are led.
func (w *waiting) leading(clusters []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leads = clusters
	if w.why == "" {
		w.serving()
	}
}

// mostNamed is how many clusters systemd's status names: it is a line.
const mostNamed = 10

func (w *waiting) serving() {
	leads := "no cluster"
	if n := len(w.leads); n > mostNamed {
		leads = fmt.Sprintf("%d clusters: %s, …", n, strings.Join(w.leads[:mostNamed], ", "))
	} else if n > 0 {
		leads = strings.Join(w.leads, ", ")
	}
	notify(w.log, "STATUS=serving; leads "+leads)
}

func (w *waiting) health() server.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == "" {
		return server.Health{Status: "ok"}
	}
	return server.Health{Status: "waiting", Waiting: w.why, Code: w.code}
}

// watchdog notifies systemd that the daemon makes progress, if the unit asks for it. While loops stall it does not, and
// systemd kills the daemon and starts it again: another daemon, or the next one, leads their clusters.
func (w *waiting) watchdog(ctx context.Context, stalled func(now time.Time) []string) {
	interval, err := sd.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		return
	}
	tick := time.NewTicker(interval / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if clusters := stalled(time.Now()); len(clusters) > 0 {
				w.log.Error("fault in cke: loops make no progress; the watchdog restarts the daemon", "clusters", clusters, "for longer than", server.StallLimit)
				continue
			}
			notify(w.log, sd.SdNotifyWatchdog)
		}
	}
}

// notify is silent when systemd did not start this process.
func notify(log *slog.Logger, state string) {
	if _, err := sd.SdNotify(false, state); err != nil {
		log.Debug("systemd not notified", "error", err)
	}
}
