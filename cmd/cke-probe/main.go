// Command cke-probe observes a node from inside. `ckecli preflight` runs it there for some seconds, in a container.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"cke/preflight/probe"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var task probe.Task
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "cke-probe runs on nodes for `ckecli preflight`; its argument is a task in JSON")
		os.Exit(64)
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &task); err != nil {
		fmt.Fprintf(os.Stderr, "%q is not a task: %v\n", os.Args[1], err)
		os.Exit(64)
	}
	if err := json.NewEncoder(os.Stdout).Encode(probe.Run(ctx, task)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
