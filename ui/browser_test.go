//go:build browser

package ui_test

import (
	"context"
	_ "embed"
	"flag"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cke/internal/chromium"
	"cke/ui"
)

var update = flag.Bool("update", false, "write the pictures of docs/images")

//go:embed audit_test.js
var audit string

// host serves a page at one address, and can be stopped and started like a daemon.
type host struct {
	t       *testing.T
	config  ui.Config
	address string
	server  *http.Server
	stop    context.CancelFunc
	refuses atomic.Bool // event streams, as if there were too many
}

// runs lets the clock run from noon on.
func (w *world) runs(c ui.Config) ui.Config {
	w.start = time.Now()
	c.Now = func() time.Time { return noon.Add(time.Since(w.start)) }
	return c
}

func newHost(t *testing.T, w *world) *host {
	h := &host{t: t, config: w.runs(config(w)), address: "127.0.0.1:0"}
	h.up()
	t.Cleanup(h.down)
	return h
}

func (h *host) up() {
	h.t.Helper()
	l, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	h.stop, h.server = stop, &http.Server{}
	page := ui.New(ctx, h.config).Handler()
	h.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.refuses.Load() && strings.HasSuffix(r.URL.Path, "/events") {
			http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
			return
		}
		page.ServeHTTP(w, r)
	})
	go h.server.Serve(l) //nolint: it ends with down
}

func (h *host) down() {
	h.stop()
	h.server.Close()
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	chromium.Close()
	os.Exit(code)
}

// tabLimit bounds a test in a tab.
const tabLimit = 15 * time.Minute

func newTab(t *testing.T) *chromium.Tab { return chromium.New(t, tabLimit) }
