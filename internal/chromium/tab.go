//go:build browser

// Package chromium drives a headless Chromium in tests.
package chromium

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Void is the result of what has none.
type Void = chromedp.Void

// program starts Chromium once for all tests.
var program = sync.OnceValue(func() context.Context {
	ctx, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("force-device-scale-factor", "1"))...)
	ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx); err != nil {
		panic("Chromium does not start: " + err.Error())
	}
	return ctx
})

// Close ends Chromium. No tab may be made after that.
func Close() { _ = chromedp.Cancel(program()) }

// Tab is a tab of Chromium. It is closed with its test.
type Tab struct {
	t      *testing.T
	ctx    context.Context
	mu     sync.Mutex
	errors []string
}

// New makes a tab that works for as long as limit. Chromium is started with the first one: see Close.
func New(t *testing.T, limit time.Duration) *Tab {
	ctx, cancel := chromedp.NewContext(program())
	ctx, late := context.WithTimeout(ctx, limit)
	t.Cleanup(func() { late(); cancel() })
	b := &Tab{t: t, ctx: ctx}
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

// Console returns what was on the console since it was asked.
func (b *Tab) Console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.errors
	b.errors = nil
	return was
}

// Run performs actions.
func (b *Tab) Run(actions ...chromedp.Action[Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// Call sends a command of the protocol.
func Call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	answer, err := chromedp.Call(b.ctx, command, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer
}

// Look sets width and theme.
func (b *Tab) Look(width int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 500})
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// Eval returns the value of an expression.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

// Until waits until an expression is true, and returns how long that took.
func (b *Tab) Until(limit time.Duration, expression string) time.Duration {
	b.t.Helper()
	start := time.Now()
	for !Eval[bool](b, expression) {
		if time.Since(start) > limit {
			b.t.Fatalf("not within %s: %s\n%s", limit, expression, Eval[string](b, "document.body.innerText"))
		}
		<-time.After(20 * time.Millisecond)
	}
	return time.Since(start)
}

// Live is the expression that the status page is connected.
const Live = `["Live", "Connected"].includes(document.querySelector("#live").textContent)`

// liveLimit bounds the wait for a page that was opened. The machine may be busy with other tests.
const liveLimit = time.Minute

// Open opens a page and waits until it is live.
func (b *Tab) Open(url string) {
	b.t.Helper()
	b.Run(chromedp.Navigate(url))
	if Eval[bool](b, `!!document.body.dataset.events`) {
		b.Until(liveLimit, Live)
	}
}

// Shot writes a picture of what is visible, or of the whole page.
func (b *Tab) Shot(file string, whole bool) {
	b.t.Helper()
	take := chromedp.CaptureScreenshot()
	if whole {
		take = chromedp.FullScreenshot(100)
	}
	png, err := chromedp.Run(b.ctx, take)
	if err != nil {
		b.t.Fatal(err)
	}
	err = os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, png, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
