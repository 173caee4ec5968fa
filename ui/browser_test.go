//go:build browser

package ui_test

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

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

// browser is a tab of a headless Chromium, which fails the test for every error on its console.
type browser struct {
	t      *testing.T
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

// chromium starts the program once for all tests.
var chromium = sync.OnceValue(func() context.Context {
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("force-device-scale-factor", "1"))...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		panic("Chromium does not start: " + err.Error())
	}
	return ctx
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	_ = chromedp.Cancel(chromium())
	os.Exit(code)
}

func newBrowser(t *testing.T) *browser {
	ctx, cancel := chromedp.NewContext(chromium())
	ctx, late := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(func() { late(); cancel() })
	b := &browser{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(e any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := e.(type) {
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		case *runtime.EventExceptionThrown:
			b.errors = append(b.errors, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			b.errors = append(b.errors, fmt.Sprintf("console: %s", e.Type))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// console returns what was on the console since it was asked.
func (b *browser) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.errors
	b.errors = nil
	return was
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	answer, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// look sets width and theme.
func (b *browser) look(width int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// eval returns the value of an expression.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// until waits until an expression is true, and returns how long that took.
func (b *browser) until(limit time.Duration, expression string) time.Duration {
	b.t.Helper()
	start := time.Now()
	for !eval[bool](b, expression) {
		if time.Since(start) > limit {
			b.t.Fatalf("not within %s: %s\n%s", limit, expression, eval[string](b, "document.body.innerText"))
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(start)
}

const live = `["Live", "Connected"].includes(document.querySelector("#live").textContent)`

// open opens a page and waits until it is live.
func (b *browser) open(url string) {
	b.t.Helper()
	b.run(chromedp.Navigate(url))
	if eval[bool](b, `!!document.body.dataset.events`) {
		b.until(10*time.Second, live)
	}
}
