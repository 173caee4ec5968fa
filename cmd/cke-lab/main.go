// Command cke-lab runs real nodes on one machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cke/mtest/lab"
)

// version is set by the linker.
var version = "dev"

// Exit codes, as everywhere in this project.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRootCommand().ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	os.Exit(exitCode(err, interrupted))
}

func exitCode(err error, interrupted bool) int {
	var usage usageError
	switch code, ok := lab.IsExit(err); {
	case err == nil:
		return 0
	case ok: // the command on the node has said why
		return code
	case errors.Is(err, errVerdict):
		return exitFailed
	case interrupted:
		fmt.Fprintln(os.Stderr, "cke-lab: interrupted")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "cke-lab: %v\nTry: cke-lab --help\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "cke-lab: %v\n", err)
		return exitFailed
	}
}
