package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// rebootSettle is the pause before the next machine with a member is rebooted; rebootInSync is how long a member that is back is to be in
// sync before its reboot is done.
const rebootSettle, rebootInSync = 2 * time.Second, 30 * time.Second

// powerCycles switches machines off and on, and notes when they are back: their sshd and engine answer.
const powerCycles = `#!/bin/sh
set -eu
lab() { %s --dir %s --name %s "$@"; }
lab kill "$CKE_NODE"
lab start "$CKE_NODE"
date +%%s.%%N >> %[4]s
`

// benchReboots measures how long cke itself takes from the return of a machine in the reboot queue until the next one is
// leased, beyond the pauses that are meant: five machines, three with members.
func benchReboots(ctx context.Context, h *host) ([]figure, error) {
	if err := h.lab.Up(ctx, lab.UpOptions{Nodes: 5, Etcd: []string{rig.EtcdVersion}}); err != nil {
		return nil, err
	}
	dir := filepath.Join(h.dir, "reboots")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	program, command, notes := filepath.Join(dir, "cke-lab"), filepath.Join(dir, "power-cycle"), filepath.Join(dir, "notes")
	if err := rig.BuildLab(ctx, program); err != nil {
		return nil, err
	}
	script := fmt.Sprintf(powerCycles, program, filepath.Dir(h.lab.Dir()), h.lab.Name(), notes)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
		return nil, err
	}
	r, err := rig.New(dir, h.bin, h.lab, "reboots")
	if err == nil {
		err = r.WriteConfig(map[string]any{"commands": map[string]any{"power-cycle": []string{command}}})
	}
	if err != nil {
		return nil, err
	}
	d, err := r.StartDaemon(ctx, "cke", "--log-level", "info")
	if err != nil {
		return nil, err
	}
	defer d.Kill()
	if err := r.SetSSHKey(ctx); err != nil {
		return nil, err
	}
	f := founded{Rig: r, daemon: d, file: r.Spec(5)}
	args := []string{"reboot-queue", "add"}
	for i := range f.file.Nodes {
		f.file.Nodes[i].ControlPlane = i < 3
		args = append(args, f.file.Nodes[i].Hostname)
	}
	f.file.Reboot = cke.RebootOptions{Command: "power-cycle", CommandTimeout: cke.Duration(time.Minute), BootTimeout: cke.Duration(time.Minute), Settle: cke.Duration(rebootSettle)}
	if err := f.apply(ctx); err != nil {
		return nil, err
	}
	for _, args := range [][]string{args, {"reboot-queue", "wait"}} {
		if _, err := r.Do(ctx, args...); err != nil {
			return nil, fmt.Errorf("%w; log: %s", err, d.LogText())
		}
	}
	records, err := r.Records(ctx, 0)
	if err != nil {
		return nil, err
	}
	var leased []time.Time
	for _, record := range slices.Backward(records) {
		if record.Operation == "drain-for-reboot" && record.State == cke.RecordCompleted {
			leased = append(leased, record.StartedAt)
		}
	}
	text, err := os.ReadFile(notes)
	if err != nil {
		return nil, err
	}
	back := strings.Fields(string(text))
	if len(back) != 5 || len(leased) != 5 {
		return nil, fmt.Errorf("five machines were back %d times, and leased %d times", len(back), len(leased))
	}
	var own []float64
	for i, waits := range []time.Duration{0, rebootSettle, rebootInSync + rebootSettle, rebootInSync + rebootSettle} { // two without a member come first
		seconds, err := strconv.ParseFloat(back[i], 64)
		if err != nil {
			return nil, err
		}
		own = append(own, float64(leased[i+1].UnixNano())/1e9-seconds-waits.Seconds())
	}
	slices.Sort(own)
	return []figure{
		{name: "reboots: from a machine's return to the next: median", value: own[len(own)/2], unit: "s"},
		{name: "reboots: from a machine's return to the next: slowest", value: own[len(own)-1], unit: "s", target: 3},
	}, nil
}
