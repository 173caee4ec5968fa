package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"cke"
	"cke/sabakan"
	"cke/sabakan/sabakantest"
)

// benchInventory measures a read of all machines of a real sabakan with its etcd on this machine.
func benchInventory(ctx context.Context, h *host) ([]figure, error) {
	const machines, times = 1000, 21
	dir := filepath.Join(h.dir, "inventory")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	server, err := sabakantest.Start(ctx, dir, sabakantest.Wide)
	if err != nil {
		return nil, err
	}
	defer server.Close()
	var hosts []cke.Host
	for i := range machines {
		hosts = append(hosts, cke.Host{ID: fmt.Sprintf("machine-%04d", i), Role: "cs", Rack: i / 25,
			Labels: map[string]string{"machine-type": "big", "datacenter": "dc1", "product": "R640"}})
	}
	if err := server.Register(ctx, hosts...); err != nil {
		return nil, err
	}
	source, err := sabakan.NewServer(server.URL)
	if err != nil {
		return nil, err
	}
	source.Within = time.Minute // a read that is too slow is a figure, too
	var took []time.Duration
	for range times {
		start := time.Now()
		list, err := source.Hosts(ctx)
		if err != nil {
			return nil, err
		}
		if len(list.Hosts) != machines {
			return nil, fmt.Errorf("%d machines were read, want %d", len(list.Hosts), machines)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return []figure{
		{name: "inventory: read 1,000 machines of sabakan: median", value: median(took).Seconds(), unit: "s", target: 0.5},
		{name: "inventory: read 1,000 machines of sabakan: slowest", value: took[len(took)-1].Seconds(), unit: "s"},
	}, nil
}
