package storage

import (
	"sync"
	"testing"
	"time"
)

func TestStore_ReportsHowLongEachRequestTook(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	var mu sync.Mutex
	requests := map[string]int{}
	c.Requested = func(method string, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		requests[method]++
		if took <= 0 || took > limit {
			t.Errorf("%s took %s", method, took)
		}
	}
	s := openStore(t, c)
	mu.Lock()
	before := requests["Txn"]
	mu.Unlock()
	setCluster(t, s, "prod")
	mu.Lock()
	defer mu.Unlock()
	if requests["Txn"] <= before {
		t.Errorf("requests: %v, and %d transactions before one more", requests, before)
	}
}
