package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// proofSchedules is how many random schedules of faults the proof plays, proofRate how many a second at least.
const (
	proofSchedules = 100_000
	proofRate      = 150
)

var failedSeed = regexp.MustCompile(`(?m)^\s*random_test\.go:\d+: seed \d+:$`)

// benchProof plays random schedules that no run before has played, in one process for each core: a schedule keeps only one busy.
// Each that fails says how it is replayed.
func benchProof(ctx context.Context, h *host) ([]figure, error) {
	program := filepath.Join(h.dir, "proof.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./sim").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the proof: %w: %s", err, out)
	}
	cores := runtime.NumCPU()
	share := (proofSchedules + cores - 1) / cores
	first := int(time.Now().Unix()) * proofSchedules
	fmt.Fprintf(os.Stderr, "Schedules from seed %d on\n", first)
	began := time.Now()
	failed := make([]int, cores)
	var all errgroup.Group
	for i := range cores {
		all.Go(func() (err error) {
			failed[i], err = playSchedules(ctx, program, first+i*share, min(share, proofSchedules-i*share))
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, fmt.Errorf("play the schedules: %w", err)
	}
	took, lost := time.Since(began), 0
	for _, n := range failed {
		lost += n
	}
	return []figure{
		{name: "proof: schedules that keep every promise", value: float64(proofSchedules - lost), unit: "", target: proofSchedules, more: true},
		{name: "proof: schedules", value: proofSchedules / took.Seconds(), unit: "1/s", target: proofRate, more: true},
	}, nil
}

// playSchedules plays some schedules in a process, and returns how many of them failed.
func playSchedules(ctx context.Context, program string, first, n int) (failed int, err error) {
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestCluster_KeepsItsPromisesInRandomSchedules$", "-test.timeout=60m", "-go-on",
		"-schedules="+strconv.Itoa(n), "-first="+strconv.Itoa(first))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err = cmd.Run()
	failed = len(failedSeed.FindAll(out.Bytes(), -1))
	if failed > 0 || err != nil {
		os.Stderr.Write(out.Bytes())
	}
	var exit *exec.ExitError
	if failed > 0 && errors.As(err, &exit) {
		err = nil
	}
	return failed, err
}
