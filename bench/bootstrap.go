package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

// benchBootstrap compares `ckecli cluster set` up to a write through each of three members over TLS with three
// parallel `ssh … docker run` manually, without TLS, up to the same. The two alternate.
func benchBootstrap(ctx context.Context, h *host) ([]figure, error) {
	var ours, hand []time.Duration
	for i := range h.runs {
		d, err := h.byHand(ctx)
		if err != nil {
			return nil, fmt.Errorf("manually, run %d: %w", i, err)
		}
		hand = append(hand, d)
		if err := h.lab.Reset(ctx); err != nil {
			return nil, err
		}
		if d, err = h.byCke(ctx, i); err != nil {
			return nil, fmt.Errorf("by cke, run %d: %w", i, err)
		}
		ours = append(ours, d)
		if err := h.lab.Reset(ctx); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "  run %2d: cke %s, manually %s\n", i+1, ours[i].Round(time.Millisecond), hand[i].Round(time.Millisecond))
	}
	slices.Sort(ours)
	slices.Sort(hand)
	return []figure{
		{name: "bootstrap, 3 members, TLS: median", value: median(ours).Seconds(), unit: "s", target: 1.2},
		{name: "bootstrap, 3 members, TLS: slowest", value: ours[len(ours)-1].Seconds(), unit: "s", target: 3},
		{name: "bootstrap, manually without TLS: median", value: median(hand).Seconds(), unit: "s"},
		{name: "bootstrap, cke / manually", value: median(ours).Seconds() / median(hand).Seconds(), unit: "ratio", target: 1.5},
	}, nil
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

// byCke measures from the start of `ckecli cluster set` to its end, plus the writes through each member. The issue of
// the client certificate for these writes, which needs the formed cluster, is not counted.
func (h *host) byCke(ctx context.Context, i int) (time.Duration, error) {
	r, d, err := h.start(ctx, fmt.Sprintf("boot%d", i))
	if err != nil {
		return 0, err
	}
	defer d.Kill()
	path, err := r.WriteSpec(r.Spec(3))
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := r.Do(ctx, "cluster", "set", path); err != nil {
		return 0, fmt.Errorf("%w; log: %s", err, d.LogText())
	}
	took := time.Since(began)
	tls, err := r.ClientTLS(ctx)
	if err != nil {
		return 0, err
	}
	var clients []*clientv3.Client
	for _, n := range h.lab.Nodes()[:3] {
		c, err := rig.Client("https://"+n.Address+":2379", tls)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	began = time.Now()
	if err := putThroughAll(ctx, clients); err != nil {
		return 0, err
	}
	return took + time.Since(began), nil
}

// byHand starts three members with three parallel ssh commands.
func (h *host) byHand(ctx context.Context) (time.Duration, error) {
	nodes := h.lab.Nodes()[:3]
	var clients []*clientv3.Client
	for _, n := range nodes {
		c, err := rig.Client("http://"+n.Address+":2379", nil)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		g.Go(func() error { return h.runByHand(gctx, n, "new") })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	if err := putThroughAll(ctx, clients); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// runByHand starts the member of a node, of a cluster that is new or existing, without TLS.
func (h *host) runByHand(ctx context.Context, n lab.Node, state string) error {
	var initial []string
	for _, n := range h.lab.Nodes()[:3] {
		initial = append(initial, fmt.Sprintf("%s=http://%s:2380", n.Name, n.Address))
	}
	run := fmt.Sprintf("docker run -d --name etcd --network host -v etcd:/var/lib/etcd gcr.io/etcd-development/etcd:v%s etcd --name %s --data-dir /var/lib/etcd"+
		" --listen-client-urls http://%[3]s:2379,http://127.0.0.1:2379 --advertise-client-urls http://%[3]s:2379"+
		" --listen-peer-urls http://%[3]s:2380 --initial-advertise-peer-urls http://%[3]s:2380"+
		" --initial-cluster %[4]s --initial-cluster-token bench --initial-cluster-state %[5]s",
		rig.EtcdVersion, n.Name, n.Address, strings.Join(initial, ","), state)
	out, err := exec.CommandContext(ctx, "ssh", "-i", n.KeyFile, "-p", fmt.Sprint(n.Port), "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile="+h.lab.KnownHosts(), "-o", "StrictHostKeyChecking=yes", n.User+"@"+n.Address, run).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh %s: %w: %s", n.Name, err, out)
	}
	return nil
}

// putThroughAll writes through every member at once and returns when all have acknowledged.
func putThroughAll(ctx context.Context, clients []*clientv3.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range clients {
		g.Go(func() error { return rig.PutThrough(ctx, c, "bench/"+filepath.Base(c.Endpoints()[0]), "1") })
	}
	return g.Wait()
}
