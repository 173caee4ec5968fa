package main

import (
	"context"
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

	mu   sync.Mutex
	why  string
	code cke.Code // empty: why has none
}

func newWaiting(log *slog.Logger) *waiting { return &waiting{log: log, why: "starting"} }

// started tells systemd that the start is over: the store answers, or it is known what is waited for, which is in STATUS.
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
	notify(w.log, "STATUS=serving")
}

func (w *waiting) health() server.Health {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == "" {
		return server.Health{Status: "ok"}
	}
	return server.Health{Status: "waiting", Waiting: w.why, Code: w.code}
}

// watchdog tells systemd that the process lives, if the unit asks for it.
func (w *waiting) watchdog(ctx context.Context) {
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
