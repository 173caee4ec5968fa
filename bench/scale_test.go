package main

import (
	"context"
	"testing"
	"time"
)

// A fleet is founded by loops as in a daemon, looked at within the time that 1,000 clusters may take, and small.
func TestFleet_IsCheap(t *testing.T) {
	clusters := 1000
	if testing.Short() {
		clusters = 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s, err := measureScale(ctx, clusters)
	if err != nil {
		t.Fatal(err)
	}
	if s.round > 10*time.Second || s.memory > 1 {
		t.Errorf("%d clusters: a round takes %v, each takes %.2f MiB", clusters, s.round, s.memory)
	}
	t.Logf("%d clusters: a round takes %v, each takes %.2f MiB", clusters, s.round, s.memory)
}
