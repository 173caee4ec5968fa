package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"time"

	"cke"
	"cke/ui"
)

// pageStore is what the status page reads of a fleet. Like the real store it decodes what it returns.
type pageStore struct {
	f *fleet
	// statuses are encoded, by cluster.
	statuses map[string][]byte
}

func newPageStore(f *fleet) (pageStore, error) {
	s := pageStore{f, map[string][]byte{}}
	for _, c := range f.clusters {
		text, err := json.Marshal(c.world.Store().Status())
		if err != nil {
			return s, err
		}
		s.statuses[c.name] = text
	}
	return s, nil
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
	return decoded(s.f.of(name).world.Store().Spec())
}

func (s pageStore) SpecLog(ctx context.Context, name string) ([]cke.Spec, error) {
	spec, err := s.Spec(ctx, name)
	return []cke.Spec{spec}, err
}

// Status returns a status that was stored just now: an older one is shown as such.
func (s pageStore) Status(_ context.Context, name string) (st cke.Status, err error) {
	err = json.Unmarshal(s.statuses[name], &st)
	st.ObservedAt = time.Now()
	return st, err
}

// observedAt is the time of the observation in a status.
var observedAt = regexp.MustCompile(`"observedAt":"[^"]*"`)

// Statuses returns them as they were stored just now.
func (s pageStore) Statuses(context.Context) (map[string][]byte, error) {
	texts, now := map[string][]byte{}, time.Now().UTC().Format(`"observedAt":"`+time.RFC3339Nano+`"`)
	for name, text := range s.statuses {
		at := observedAt.FindIndex(text)
		texts[name] = slices.Concat(text[:at[0]], []byte(now), text[at[1]:])
	}
	return texts, nil
}

func (s pageStore) Identity(_ context.Context, name string) (cke.Identity, error) {
	return decoded(s.f.of(name).world.Store().Identity())
}

func (s pageStore) RequestsOf(context.Context, string) (cke.Requests, error) {
	return cke.Requests{}, nil
}

func (s pageStore) Leader(context.Context, string) (cke.Leader, error) { return cke.Leader{}, nil }

func (s pageStore) Records(_ context.Context, name string, _ int) ([]cke.Record, error) {
	return decoded(s.f.of(name).world.Store().Records())
}

func (s pageStore) Record(context.Context, string, int64) (cke.Record, error) {
	return cke.Record{}, cke.ErrNotFound
}

func (s pageStore) Changes(context.Context, string) <-chan struct{} { return nil }

// assets finds the addresses of style and script in a page.
var assets = regexp.MustCompile(`/ui/[^"]*`)

// benchPage measures the status page of 100 simulated clusters, as a browser gets it: compressed, and read anew each time.
func benchPage(ctx context.Context, _ *host) ([]figure, error) {
	const clusters, times = 100, 10
	const fresh = 600 * time.Millisecond // for longer no list is shown from what was read
	f, err := newFleet(ctx, clusters, nil)
	defer f.stop()
	if err != nil {
		return nil, err
	}
	f.stop()
	store, err := newPageStore(f)
	if err != nil {
		return nil, err
	}
	page := ui.New(ctx, ui.Config{Store: func() (ui.Store, error) { return store, nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Handler()
	// get returns an answer, and the processor time that it took.
	get := func(path, accept string) (text string, ms float64) {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", accept)
		start := usedCPU()
		if page.ServeHTTP(w, r); w.Code != http.StatusOK {
			err = fmt.Errorf("%s: %d", path, w.Code)
		}
		return w.Body.String(), (usedCPU() - start).Seconds() * 1000
	}
	// weigh returns the size of a page with style and script.
	weigh := func(path, accept string) (kB float64) {
		plain, _ := get(path, "")
		for _, path := range append([]string{path}, assets.FindAllString(plain, -1)...) {
			text, _ := get(path, accept)
			kB += float64(len(text)) / 1000
		}
		return kB
	}
	plain, list, one := weigh("/", ""), weigh("/", "gzip"), weigh("/clusters/c0", "gzip")
	var read, rendered, oneTook float64
	for range times {
		time.Sleep(fresh)
		_, first := get("/", "gzip")
		_, again := get("/", "gzip")
		_, ms := get("/clusters/c0", "gzip")
		read, rendered, oneTook = read+first/times, rendered+again/times, oneTook+ms/times
	}
	served := httptest.NewServer(page)
	defer served.Close()
	open, err1 := openList(ctx, page)
	if err1 != nil {
		return nil, err1
	}
	return []figure{
		{name: "page: list of 100 clusters, uncompressed", value: plain, unit: "kB"},
		{name: "page: list of 100 clusters, as sent", value: list, unit: "kB", target: 60},
		{name: "page: list of 100 clusters, rendered", value: rendered, unit: "ms", target: 20},
		{name: "page: list of 100 clusters, with reading", value: read, unit: "ms"},
		{name: "page: list of 100 clusters, open: share of a core above none", value: open, unit: "%", target: 0.1},
		{name: "page: one cluster, as sent", value: one, unit: "kB", target: 60},
		{name: "page: one cluster, with reading", value: oneTook, unit: "ms", target: 10}, // every 10 s: 0.1 % of a core
	}, err
}

// openList returns what share of a core the open list uses in this process above none, in %: the mean of measuredTimes.
func openList(ctx context.Context, page http.Handler) (share float64, err error) {
	served := httptest.NewServer(page)
	defer served.Close()
	used := func() (time.Duration, error) {
		runtime.GC() // what is left of before is not collected meanwhile
		start := usedCPU()
		err := pause(ctx, openFor)
		return usedCPU() - start, err
	}
	for range measuredTimes {
		closed, err := used()
		if err != nil {
			return 0, err
		}
		watching, close := context.WithCancel(ctx)
		if _, err = watch(watching, served.URL+"/events", 1); err != nil {
			close()
			return 0, err
		}
		open, err := used()
		close()
		if err != nil {
			return 0, err
		}
		share += 100 * (open - closed).Seconds() / openFor.Seconds() / measuredTimes
	}
	return share, nil
}
