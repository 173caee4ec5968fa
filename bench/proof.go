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
	"strconv"
	"time"
)

// proofSchedules is how many random schedules of faults the proof plays, proofTime how long they may take.
const (
	proofSchedules = 100_000
	proofTime      = 5 * time.Minute
)

var failedSeed = regexp.MustCompile(`(?m)^\s*random_test\.go:\d+: seed \d+:$`)

// benchProof plays random schedules that no run before has played. Each that fails says how it is replayed.
func benchProof(ctx context.Context, h *host) ([]figure, error) {
	program := filepath.Join(h.dir, "proof.test")
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./sim").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the proof: %w: %s", err, out)
	}
	first := time.Now().Unix() * proofSchedules
	fmt.Fprintf(os.Stderr, "Schedules from seed %d on\n", first)
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestCluster_KeepsItsPromisesInRandomSchedules$", "-test.timeout=30m", "-go-on",
		"-schedules="+strconv.Itoa(proofSchedules), "-first="+strconv.FormatInt(first, 10))
	// Short lives make much garbage and keep little.
	cmd.Env = append(os.Environ(), "GOGC=400")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	failed := len(failedSeed.FindAll(out.Bytes(), -1))
	if failed > 0 || err != nil {
		os.Stderr.Write(out.Bytes())
	}
	var exit *exec.ExitError
	if err != nil && (failed == 0 || !errors.As(err, &exit)) {
		return nil, fmt.Errorf("play the schedules: %w", err)
	}
	return []figure{
		{name: "proof: schedules that keep every promise", value: float64(proofSchedules - failed), unit: "", target: proofSchedules, more: true},
		{name: "proof: schedules", value: proofSchedules / took.Seconds(), unit: "1/s", target: proofSchedules / proofTime.Seconds(), more: true},
	}, nil
}
