// Command bench measures on real nodes how fast cke is, and prints one line for each figure: name, value, unit, target, and
// pass or short. Ratios are taken against a peer or a floor in the same run.
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
		return fmt.Sprintf("%-50s %10.3f %-6s %s %-8s %s", f.name, f.value, f.unit, "  ", "-", "peer")
	}
	verdict, sign := "pass", "<="
	if f.more {
		sign = ">="
	}
	if f.more && f.value < f.target || !f.more && f.value > f.target {
		verdict = "short"
	}
	return fmt.Sprintf("%-50s %10.3f %-6s %s %-8g %s", f.name, f.value, f.unit, sign, f.target, verdict)
}

// bench is one measurement; it returns its figures.
type bench struct {
	name string
	// nodes: it needs them and the programs.
	nodes bool
	run   func(ctx context.Context, h *host) ([]figure, error)
}

// host is what measurements share: three nodes and the programs.
type host struct {
	lab  *lab.Lab
	dir  string
	bin  string
	runs int
	// built: the programs are in bin.
	built bool
}

func benches() []bench {
	return []bench{
		{"bootstrap", true, benchBootstrap}, {"recovery", true, benchRecovery}, {"planned changes", true, benchPlanned}, {"replacement", true, benchReplacement}, {"idle", true, benchIdle},
		{"viewers", true, benchViewers}, {"package", true, benchPackage}, {"reboots", true, benchReboots}, {"exchange", true, benchExchange}, {"backup", false, benchBackup},
		{"scale", false, benchScale}, {"page", false, benchPage}, {"metrics", false, benchMetrics}, {"inventory", false, benchInventory}, {"choose", false, benchChoose}, {"proof", false, benchProof},
		{"fleet", false, benchFleet}, {"neighbors", false, benchNeighbors},
		{"backup of four times as much", false, benchBackup4}, {"backup of many events", false, benchManyDeltas},
	}
}

func main() {
	runs := flag.Int("runs", 30, "how many times to measure the bootstrap")
	var names []string
	for _, b := range benches() {
		names = append(names, b.name)
	}
	only := flag.String("only", "", "run only measurements whose name contains `TEXT`: "+strings.Join(names, ", "))
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
	defer func() {
		if err := h.down(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, "remove the lab:", err)
		}
	}()
	for _, b := range benches() {
		if !strings.Contains(b.name, only) {
			continue
		}
		if err := h.prepare(ctx, b); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "Measure", b.name)
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

// prepare gives a measurement fresh nodes if it needs them; programs and lab are made for the first that does.
func (h *host) prepare(ctx context.Context, b bench) error {
	if !b.nodes {
		return nil
	}
	if h.lab != nil {
		return h.lab.Reset(ctx)
	}
	if err := h.build(ctx); err != nil {
		return err
	}
	var err error
	if h.lab, err = lab.Open(h.dir, "bench-"+fmt.Sprint(os.Getpid())); err != nil {
		return err
	}
	h.lab.Progress = lab.NewProgress(os.Stderr)
	defer func() { h.lab.Progress = nil }()
	return h.lab.Up(ctx, lab.UpOptions{Nodes: 3, Etcd: []string{rig.EtcdVersion}})
}

// build builds the programs, once.
func (h *host) build(ctx context.Context) error {
	if h.built {
		return nil
	}
	fmt.Fprintln(os.Stderr, "Build the programs")
	h.built = true
	return rig.Build(ctx, h.bin, "-trimpath", "-ldflags=-s -w")
}

func (h *host) down(ctx context.Context) error {
	if h.lab == nil {
		return nil
	}
	defer h.lab.Close()
	return h.lab.Down(ctx)
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
