package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"cke/mtest/rig"
)

// idleFor is how long the idle daemon is watched, after settleFor.
const (
	idleFor   = 60 * time.Second
	settleFor = 10 * time.Second
)

// benchIdle measures what a daemon costs while nothing happens: without a cluster, and with a ready one of three nodes.
func benchIdle(ctx context.Context, h *host) ([]figure, error) {
	alone, err := h.idleAlone(ctx)
	if err != nil {
		return nil, err
	}
	f, err := h.found(ctx, "idle")
	if err != nil {
		return nil, err
	}
	defer f.daemon.Kill()
	if _, err := f.Await(ctx, "a ready cluster", rig.Ready); err != nil {
		return nil, err
	}
	if err := pause(ctx, settleFor); err != nil {
		return nil, err
	}
	share, err := coreShare(ctx, f.daemon.Pid(), idleFor)
	if err != nil {
		return nil, err
	}
	rss, err := residentMiB(f.daemon.Pid())
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "idle daemon, no cluster: share of a core", value: alone, unit: "%", target: 0.5},
		{name: "idle daemon, 3 nodes: share of a core", value: share, unit: "%", target: 0.6},
		{name: "idle daemon, 3 nodes: resident memory", value: rss, unit: "MiB", target: 80},
	}, nil
}

// idleAlone returns how many hundredths of a core a daemon without a cluster uses.
func (h *host) idleAlone(ctx context.Context) (float64, error) {
	_, d, err := h.start(ctx, "alone")
	if err != nil {
		return 0, err
	}
	defer d.Kill()
	if err := pause(ctx, settleFor); err != nil {
		return 0, err
	}
	return coreShare(ctx, d.Pid(), idleFor)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// coreShare watches a process, and returns how many hundredths of a core it used.
func coreShare(ctx context.Context, pid int, during time.Duration) (float64, error) {
	before, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := pause(ctx, during); err != nil {
		return 0, err
	}
	after, err := cpuTime(pid)
	return 100 * (after - before).Seconds() / time.Since(began).Seconds(), err
}

// cpuTime is user plus system time of a process. Source: proc(5); a tick is 10 ms on every Linux port that Go has.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// residentMiB is the resident memory of a process.
func residentMiB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmRSS", pid)
}
