// Command cke-probe observes a node from inside. `ckecli preflight` and the daemon run it there for a moment, in a container.
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
		fmt.Fprintln(os.Stderr, "cke-probe runs on nodes for cke and `ckecli preflight`; its argument is `boot`, or a task in JSON")
		os.Exit(64)
	}
	if os.Args[1] == "boot" {
		boot, err := probe.ReadBoot("/proc")
		report(boot, err)
		return
	}
	if err := json.Unmarshal([]byte(os.Args[1]), &task); err != nil {
		fmt.Fprintf(os.Stderr, "%q is not a task: %v\n", os.Args[1], err)
		os.Exit(64)
	}
	report(probe.Run(ctx, task), nil)
}

// report writes what was found.
func report(found any, err error) {
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
