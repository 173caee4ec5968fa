// Command ckecli tells cke what people want and people what cke sees and does. It talks to the store, not to a
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

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	// The first signal detaches in good order; the second ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return newApp(os.Stdin, os.Stdout, os.Stderr, os.Getenv, time.Now, openStore).run(ctx, os.Args[1:])
}
