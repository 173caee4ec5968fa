package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/server"
)

// What systemd gets to know: which clusters are led, and that a loop makes no progress, whatever the others do.
func TestProgress_ReportsWhatIsLedAndWhichLoopStalls(t *testing.T) {
	govern(t, func(c *country) {
		pass(10 * server.StallLimit)
		if got := c.progress.Stalled(time.Now()); got != nil {
			t.Errorf("%q stall, though they work", got)
		}
		if got := c.leading(); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("leads %q", got)
		}

		release := make(chan struct{})
		c.stage("one").change(func() { c.stage("one").look = func() { <-release } })
		pass(server.StallLimit)
		if got := c.progress.Stalled(time.Now()); got != nil {
			t.Errorf("%q stall before the limit", got)
		}
		pass(probe)
		if got := c.progress.Stalled(time.Now()); !slices.Equal(got, []string{"one"}) {
			t.Errorf("%q stall", got)
		}
		c.stage("one").change(func() { c.stage("one").look = nil })
		close(release)
		pass(probe)
		if got := c.progress.Stalled(time.Now()); got != nil {
			t.Errorf("%q stall, though they work again", got)
		}

		// A term that is over is no loop that stalls.
		c.campaign = func(ctx context.Context, cluster string) error { <-ctx.Done(); return ctx.Err() }
		c.stage("two").led().end(cke.ErrDeposed)
		pass(2 * server.StallLimit)
		if got := fmt.Sprint(c.leading(), c.progress.Stalled(time.Now())); got != "[one] []" {
			t.Errorf("leads and stalls: %s", got)
		}
	}, "one", "two")
}

// A store that does not answer is no fault of a loop: each round fails in time.
func TestProgress_GoesOnWhileTheStoreFails(t *testing.T) {
	govern(t, func(c *country) {
		c.stage("one").change(func() {
			c.stage("one").storeDo = func(_ context.Context, call string) error {
				time.Sleep(5 * time.Second)
				return cke.ErrUnreachable
			}
		})
		pass(5 * server.StallLimit)
		if got := c.progress.Stalled(time.Now()); got != nil {
			t.Errorf("%q stall", got)
		}
	}, "one")
}

// pass lets time pass and everything settle.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
