// Command ckecli declares clusters and requests operations, and shows what cke observes and does. It uses the store, not a
// daemon, so it works on every management host.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // schedules name time zones, and a host may have none
)

func main() { os.Exit(run(openStore)) }

// run returns the exit code.
func run(open opener) int {
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Getenv, time.Now, open)
	ctx, stop := a.untilTold()
	defer stop()
	return a.run(ctx, os.Args[1:])
}

// untilTold ends with the first signal, which detaches in good order; the second ends the process at once. While an editor
// has the terminal an interrupt is the editor's, as Ctrl-G is in Emacs.
func (a *app) untilTold() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan os.Signal, 4)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range told {
			if s != os.Interrupt || !a.editing.Load() {
				signal.Stop(told)
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(told)
		close(told)
		cancel()
	}
}
