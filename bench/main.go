// Command bench measures what cke promises to be fast at, on real nodes, and prints one line for each figure:
// name, value, unit, target, and pass or short. Ratios are taken against a peer or a floor in the same run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

// figure is one measured line.
type figure struct {
	name  string
	value float64
	unit  string
	// target is 0 for what others are measured against.
	target float64
	// more: the value should be at least the target, instead of at most.
	more bool
}

func (f figure) String() string {
	if f.target == 0 {
		return fmt.Sprintf("%-44s %10.3f %-6s %s %-8s %s", f.name, f.value, f.unit, "  ", "-", "peer")
	}
	verdict, sign := "pass", "<="
	if f.more {
		sign = ">="
	}
	if f.more && f.value < f.target || !f.more && f.value > f.target {
		verdict = "short"
	}
	return fmt.Sprintf("%-44s %10.3f %-6s %s %-8g %s", f.name, f.value, f.unit, sign, f.target, verdict)
}

// bench is one measurement; it returns its figures.
type bench struct {
	name string
	run  func(ctx context.Context, h *host) ([]figure, error)
}

// host is what measurements share: three nodes and the programs.
type host struct {
	lab  *lab.Lab
	dir  string
	bin  string
	runs int
}

func main() {
	runs := flag.Int("runs", 30, "how often the bootstrap is measured")
	only := flag.String("only", "", "run only measurements whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := measure(ctx, *runs, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, runs int, only string) error {
	dir, err := os.MkdirTemp("", "cke-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h := &host{dir: dir, bin: filepath.Join(dir, "bin"), runs: runs}
	fmt.Fprintln(os.Stderr, "Build the programs")
	if err := rig.Build(ctx, h.bin, "-trimpath", "-ldflags=-s -w"); err != nil {
		return err
	}
	h.lab, err = lab.Open(dir, "bench-"+fmt.Sprint(os.Getpid()))
	if err != nil {
		return err
	}
	defer h.lab.Close()
	defer func() {
		if err := h.lab.Down(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "remove the lab:", err)
		}
	}()
	h.lab.Progress = lab.NewProgress(os.Stderr)
	if err := h.lab.Up(ctx, lab.UpOptions{Nodes: 3, Etcd: []string{rig.EtcdVersion}}); err != nil {
		return err
	}
	h.lab.Progress = nil
	for _, b := range []bench{{"bootstrap", benchBootstrap}, {"recovery", benchRecovery}, {"idle", benchIdle}} {
		if !strings.Contains(b.name, only) {
			continue
		}
		fmt.Fprintln(os.Stderr, "Measure", b.name)
		if err := h.lab.Reset(ctx); err != nil {
			return err
		}
		figures, err := b.run(ctx, h)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, f := range figures {
			fmt.Println(f)
		}
	}
	return nil
}

// start makes a management host with a running daemon that can log in to the nodes.
func (h *host) start(ctx context.Context, name string) (*rig.Rig, *rig.Daemon, error) {
	dir := filepath.Join(h.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	r, err := rig.New(dir, h.bin, h.lab, name)
	if err != nil {
		return nil, nil, err
	}
	d, err := r.StartDaemon(ctx, "cke", "--log-level", "info")
	if err != nil {
		return nil, nil, err
	}
	return r, d, r.SetSSHKey(ctx)
}
