package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"cke/server"
)

// benchMetrics measures what a scrape of a daemon costs that leads 100 simulated clusters, as Prometheus asks for it: compressed.
func benchMetrics(ctx context.Context, _ *host) ([]figure, error) {
	const clusters, times = 100, 15
	metrics := server.NewMetrics("bench")
	f, err := newFleet(ctx, clusters, metrics)
	defer f.stop()
	if err != nil {
		return nil, err
	}
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	var took []time.Duration
	var last *httptest.ResponseRecorder
	for range times {
		last = httptest.NewRecorder()
		start := usedCPU()
		metrics.ServeHTTP(last, r)
		took = append(took, usedCPU()-start)
	}
	slices.Sort(took)
	sent := float64(last.Body.Len()) / 1000
	unpacked, err1 := gzip.NewReader(last.Body)
	if err1 != nil {
		return nil, fmt.Errorf("/metrics answers %d: %w", last.Code, err1)
	}
	text, err1 := io.ReadAll(unpacked)
	if n := strings.Count(string(text), "\ncke_leader{"); n != clusters {
		err1 = errors.Join(err1, fmt.Errorf("/metrics has %d clusters, want %d", n, clusters))
	}
	return []figure{
		{name: "metrics of 100 clusters: processor time", value: median(took).Seconds() * 1000, unit: "ms", target: 30},
		{name: "metrics of 100 clusters: series", value: float64(strings.Count(string(text), "\ncke_"))},
		{name: "metrics of 100 clusters: as sent", value: sent, unit: "kB"},
	}, err1
}
