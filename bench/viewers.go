package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"cke/mtest/rig"
)

const (
	// openFor is how long a daemon is watched while pages are open.
	openFor = 60 * time.Second
	// manyViewers look at one cluster.
	manyViewers = 200
	// measuredTimes is how often the daemon is watched with none and with one: one page costs less than two such figures differ.
	measuredTimes = 3
	// beatsWithin is how many events each open page gets at least while it is open: the daemon says every two seconds that it is there.
	beatsWithin = 25
)

// benchViewers measures what open pages of a cluster cost its daemon, above what it uses while none is open.
func benchViewers(ctx context.Context, h *host) ([]figure, error) {
	f, err := h.found(ctx, "viewers")
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
	shares := map[int]float64{} // the means
	for range measuredTimes {
		for _, viewers := range []int{0, 1} {
			share, err := shareWith(ctx, f, viewers)
			if err != nil {
				return nil, err
			}
			shares[viewers] += share / measuredTimes
		}
	}
	if shares[manyViewers], err = shareWith(ctx, f, manyViewers); err != nil {
		return nil, err
	}
	return []figure{
		{name: "no open page: share of a core", value: shares[0], unit: "%"},
		{name: "an open page: share of a core above that", value: shares[1] - shares[0], unit: "%", target: 0.1},
		{name: "200 viewers of a cluster: share of a core above that", value: shares[manyViewers] - shares[0], unit: "%", target: 5},
	}, nil
}

// shareWith returns what share of a core the daemon uses while the page of the cluster is open in so many browsers.
func shareWith(ctx context.Context, f founded, viewers int) (float64, error) {
	ctx, close := context.WithCancel(ctx)
	defer close()
	events, err := watch(ctx, "http://"+f.HTTP+"/clusters/"+f.Cluster+"/events", viewers)
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, settleFor); err != nil { // all have the page
		return 0, err
	}
	before := events.Load()
	share, err := coreShare(ctx, f.daemon.Pid(), openFor)
	if got, want := events.Load()-before, int64(viewers*beatsWithin); err == nil && got < want {
		err = fmt.Errorf("%d open pages got %d events, want at least %d", viewers, got, want)
	}
	return share, err
}

// watch opens an event stream so many times, until ctx is done. It counts the events.
func watch(ctx context.Context, url string, viewers int) (*atomic.Int64, error) {
	events := &atomic.Int64{}
	for range viewers {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		if answer.StatusCode != http.StatusOK {
			answer.Body.Close()
			return nil, fmt.Errorf("%s: %s", url, answer.Status)
		}
		go func() {
			defer answer.Body.Close()
			for buffer := make([]byte, 64<<10); ; {
				n, err := answer.Body.Read(buffer)
				if err != nil { // io.EOF, or the end of ctx
					return
				}
				events.Add(int64(bytes.Count(buffer[:n], []byte("\n\n")))) // each event ends so
			}
		}()
	}
	return events, nil
}
