package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// eventCost is what the death of one member costs: seconds of CPU, and KiB written, above what the daemon uses meanwhile anyway.
func (s *site) eventCost(ctx context.Context, idle siteCost) (cpu, written float64, err error) {
	const during = 20 * time.Second
	pid := s.daemon.Pid()
	cpu0, err := cpuTime(pid)
	if err != nil {
		return 0, 0, err
	}
	written0, err := writtenBytes(pid)
	if err != nil {
		return 0, 0, err
	}
	if !s.fleet.Nodes[1].Kill(s.clusters[0].Name) {
		return 0, 0, errors.New("no member runs on the second node")
	}
	if err := pause(ctx, during); err != nil {
		return 0, 0, err
	}
	cpu1, err := cpuTime(pid)
	if err != nil {
		return 0, 0, err
	}
	written1, err := writtenBytes(pid)
	return (cpu1 - cpu0).Seconds() - idle.share/100*during.Seconds(), float64(written1-written0)/1024 - idle.written*1024*during.Hours(), err
}

// benchNeighbors measures what clusters on the same three nodes cost: that of each is to grow with them, not with their square.
func benchNeighbors(ctx context.Context, h *host) ([]figure, error) {
	var figures []figure
	var each, event, kib [2]float64
	counts := [2]int{10, 50}
	for i, n := range counts {
		s, err := h.newSite(ctx, n, true)
		if err != nil {
			return nil, err
		}
		c, err := s.idle(ctx)
		if err == nil {
			event[i], kib[i], err = s.eventCost(ctx, c)
		}
		dropped := s.dropped()
		s.close()
		if err != nil {
			return nil, err
		}
		each[i] = c.share / float64(n)
		what := fmt.Sprintf("%d clusters on 3 nodes: ", n)
		figures = append(figures,
			figure{name: what + "share of a core", value: c.share, unit: "%"},
			figure{name: what + "memory", value: c.rss, unit: "MiB"},
			figure{name: what + "goroutines", value: c.goroutines},
			figure{name: what + "written in an hour", value: c.written, unit: "MiB"},
			figure{name: what + "a dead member: processor time", value: event[i] * 1000, unit: "ms"},
			figure{name: what + "a dead member: written", value: kib[i], unit: "KiB"},
			figure{name: what + "connections that sshd dropped", value: float64(dropped)})
	}
	return append(figures, figure{name: "50 clusters on 3 nodes: each against 10", value: each[1] / each[0], unit: "ratio", target: 1.3}), nil
}
