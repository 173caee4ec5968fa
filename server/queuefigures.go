package server

import (
	"cke"
	"cke/server/strategy"
)

// skippedEntry is the state, as metrics have it, of an entry that failed and that no other one waits for.
const skippedEntry = "skipped"

// queueMetrics are those of a queue.
func queueMetrics(k cke.QueueKind) []metric {
	kind := string(k)
	of := func(s cke.Status) cke.QueueStatus { // one that was never used is empty
		if q := s.Queue(k); q != nil {
			return *q
		}
		return cke.QueueStatus{}
	}
	return []metric{
		{gauge, kind + "_queue_entries", "How many nodes of the " + kind + " queue are in the state; one that failed and was skipped is in the state skipped.", []string{"cluster", "state"}, func(_ *strategy.Input, s cke.Status, add add) {
			count := map[string]int{skippedEntry: 0}
			for _, state := range k.States() {
				count[string(state)] = 0
			}
			for _, e := range of(s).Entries {
				if e.Skipped {
					count[skippedEntry]++
				} else {
					count[string(e.State)]++
				}
			}
			for state, n := range count {
				add(float64(n), state)
			}
		}},
		one(kind+"_queue_enabled", "1 while "+kind+"s are started, 0 while the queue is disabled.", func(_ *strategy.Input, s cke.Status) float64 { return truth(!of(s).Disabled) }),
		one(kind+"_queue_oldest_seconds", "For how long the oldest entry of the "+kind+" queue has been in it; 0 while it is empty.", func(_ *strategy.Input, s cke.Status) float64 {
			oldest := 0.0
			for _, e := range of(s).Entries {
				oldest = max(oldest, s.ObservedAt.Sub(e.AddedAt).Seconds())
			}
			return oldest
		}),
		{counter, kind + "s_total", "The " + kind + "s that ended with the result: done, failed, canceled, or undeclared where the node left the cluster file.", []string{"cluster", "result"}, func(_ *strategy.Input, s cke.Status, add add) {
			for _, result := range cke.EntryResults() {
				add(float64(of(s).Counts[result]), string(result))
			}
		}},
		one(kind+"_seconds", "How long the last "+kind+" took that left the queue, from its last command until its member was in sync; 0: none has.", func(_ *strategy.Input, s cke.Status) float64 {
			if last := of(s).Last; last != nil {
				return last.Took().Seconds()
			}
			return 0
		}),
	}
}
