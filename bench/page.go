package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"time"

	"cke"
	"cke/ui"
)

// pageStore is what the status page reads of a fleet. Like the real store it decodes what it returns.
type pageStore struct{ f *fleet }

func (s pageStore) of(name string) fleetCluster {
	for _, c := range s.f.clusters {
		if c.name == name {
			return c
		}
	}
	return fleetCluster{}
}

// decoded returns a value as it comes out of JSON.
func decoded[T any](v T) (out T, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(text, &out)
}

func (s pageStore) Clusters(context.Context) (names []string, err error) {
	for _, c := range s.f.clusters {
		names = append(names, c.name)
	}
	return names, nil
}

func (s pageStore) Spec(_ context.Context, name string) (cke.Spec, error) {
	return decoded(s.of(name).world.Store().Spec())
}

func (s pageStore) SpecLog(ctx context.Context, name string) ([]cke.Spec, error) {
	spec, err := s.Spec(ctx, name)
	return []cke.Spec{spec}, err
}

func (s pageStore) Status(_ context.Context, name string) (cke.Status, error) {
	return decoded(s.of(name).world.Store().Status())
}

func (s pageStore) Identity(_ context.Context, name string) (cke.Identity, error) {
	return decoded(s.of(name).world.Store().Identity())
}

func (s pageStore) RequestsOf(context.Context, string) (cke.Requests, error) {
	return cke.Requests{}, nil
}

func (s pageStore) Leader(context.Context, string) (cke.Leader, error) { return cke.Leader{}, nil }

func (s pageStore) Records(_ context.Context, name string, _ int) ([]cke.Record, error) {
	return decoded(s.of(name).world.Store().Records())
}

func (s pageStore) Record(context.Context, string, int64) (cke.Record, error) {
	return cke.Record{}, cke.ErrNotFound
}

func (s pageStore) Changes(context.Context, string) <-chan struct{} { return nil }

// benchPage measures the status page of 100 simulated clusters.
func benchPage(ctx context.Context, _ *host) ([]figure, error) {
	const clusters, times = 100, 20
	f, err := newFleet(ctx, clusters)
	defer f.stop()
	if err != nil {
		return nil, err
	}
	f.stop()
	page := ui.New(ctx, ui.Config{Store: func() (ui.Store, error) { return pageStore{f}, nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Handler()
	// get returns the size of an answer, with style and script.
	get := func(path string) (kB float64, err error) {
		for paths := []string{path}; len(paths) > 0; paths = paths[1:] {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, paths[0], nil))
			if w.Code != http.StatusOK {
				return 0, fmt.Errorf("%s: %d", paths[0], w.Code)
			}
			kB += float64(w.Body.Len()) / 1000
			for _, m := range regexp.MustCompile(`(?:href|src)="(/ui/[^"]*)"`).FindAllStringSubmatch(w.Body.String(), -1) {
				paths = append(paths, m[1])
			}
		}
		return kB, nil
	}
	timed := func(path string) (kB, ms float64, err error) {
		start := time.Now()
		for range times {
			if kB, err = get(path); err != nil {
				return 0, 0, err
			}
		}
		return kB, time.Since(start).Seconds() * 1000 / times, nil
	}
	list, listTook, err := timed("/")
	if err != nil {
		return nil, err
	}
	one, oneTook, err := timed("/clusters/c0")
	if err != nil {
		return nil, err
	}
	return []figure{
		{name: "page: list of 100 clusters, style and script", value: list, unit: "kB", target: 90},
		{name: "page: list of 100 clusters, on the server", value: listTook, unit: "ms", target: 100},
		{name: "page: one cluster, style and script", value: one, unit: "kB", target: 60},
		{name: "page: one cluster, on the server", value: oneTook, unit: "ms", target: 10}, // every 10 s: 0.1 % of a core
	}, nil
}
