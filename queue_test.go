package cke_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
)

// full is a queue of as many nodes as it holds, all of which failed with as much output as is stored.
func full(t *testing.T) cke.Queue {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var nodes []cke.Node
	for i := range 1000 {
		nodes = append(nodes, cke.Node{Hostname: fmt.Sprintf("rack-%03d.example.com", i), Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250)})
	}
	q, err := cke.Queue{}.Add(nodes, cke.Entry{Reason: strings.Repeat("new kernel ", 20), By: "ann@boot-1"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	for i := range q.Entries {
		r := &q.Entries[i]
		r.To(cke.EntryFailed, noon.Add(time.Duration(i)*time.Second))
		r.Attempt, r.StartedAt, r.CommandEndedAt, r.Boot = 3, noon, noon, cke.Boot{Kernel: strings.Repeat("k", 36), Init: "1234567"}
		r.Error, r.Output = strings.Repeat("no power ", 40), strings.Repeat("\x1b<&>", cke.MaxStoredOutput/4)
	}
	return q
}

// The document always fits into a request of the store. What the commands of the newest entries wrote stays longest.
func TestQueue_FitsIntoTheStore(t *testing.T) {
	q := full(t)
	doc, err := q.Encode()
	if err != nil || len(doc) > 1_400_000 {
		t.Fatalf("%d bytes: %v", len(doc), err)
	}
	var stored cke.Queue
	if err := json.Unmarshal(doc, &stored); err != nil || len(stored.Entries) != 1000 {
		t.Fatalf("%d entries: %v", len(stored.Entries), err)
	}
	if first, last := stored.Entries[0], stored.Entries[999]; first.Output != "" || last.Output == "" || last.Error == "" || q.Entries[0].Output == "" {
		t.Errorf("left are %d bytes of the oldest, %d of the newest", len(first.Output), len(last.Output))
	}
	for i := range q.Entries {
		q.Entries[i].Error = strings.Repeat("<", 400)
	}
	if doc, err := q.Encode(); err != nil || len(doc) > 1_400_000 {
		t.Errorf("%d bytes: %v", len(doc), err)
	}
	q.Entries = q.Entries[:10]
	if doc, _ := q.Encode(); json.Unmarshal(doc, &stored) != nil || stored.Entries[0].Output != q.Entries[0].Output {
		t.Error("what fits is changed")
	}
}

func TestQueue_RefusesWhatWouldNotFit(t *testing.T) {
	node := []cke.Node{{Hostname: "cp1", Address: "10.9.9.9"}}
	if _, err := (cke.Queue{}).Add(node, cke.Entry{Reason: strings.Repeat("x", 301)}, time.Now()); err == nil || !strings.Contains(err.Error(), "the reason has 301 bytes") {
		t.Error(err)
	}
	q := full(t)
	q.Entries = q.Entries[:999]
	for i := range q.Entries {
		q.Entries[i].Reason = strings.Repeat("<", 300)
	}
	if _, err := q.Add(node, cke.Entry{}, time.Now()); err == nil || !strings.Contains(err.Error(), "the reboot queue would have") {
		t.Error(err)
	}
}

// An entry that is retried starts anew, but for its attempts: no number of one returns, and the last one still counts.
func TestQueue_ARetryCountsOn(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	q, err := cke.Queue{Kind: cke.RepairQueue}.Add([]cke.Node{{Hostname: "n1", Address: "10.0.0.1"}}, cke.Entry{On: "dead"}, noon)
	if err != nil {
		t.Fatal(err)
	}
	r := &q.Entries[0]
	r.To(cke.EntryFailed, noon)
	r.Step, r.Earlier, r.Attempt, r.StartedAt, r.CommandEndedAt, r.Boot = 1, 2, 3, noon, noon, cke.Boot{Init: "1"}
	if !r.Tried() {
		t.Error("no attempt")
	}
	q, err = q.Retry([]string{"n1"}, noon.Add(time.Hour))
	if r := q.Entries[0]; err != nil || r.State != cke.EntryQueued || r.Step != 0 || r.Tries() != 0 || r.Tried() || r.Attempt != 3 || !r.StartedAt.Equal(noon) || r.Boot.Known() || !r.CommandEndedAt.IsZero() {
		t.Errorf("%v %+v", err, r)
	}
}

// Entries that leave without a start take no place of one that was started: limits count those.
func TestQueue_TheHistoryKeepsStarts(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	node := cke.Node{Hostname: "n1", Address: "10.0.0.1"}
	q := cke.Queue{Kind: cke.RepairQueue}
	leave := func(n int, started bool) {
		for range n {
			var err error
			now = now.Add(time.Second)
			if q, err = q.Add([]cke.Node{node}, cke.Entry{On: "dead"}, now); err != nil {
				t.Fatal(err)
			}
			if started {
				q.Entries[0].StartedAt = now
			}
			if q, err = q.Cancel([]string{"n1"}, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func() (started, others int) {
		for _, e := range q.History {
			if e.StartedAt.IsZero() {
				others++
			} else {
				started++
			}
		}
		return started, others
	}
	leave(60, true)
	leave(200, false)
	if started, others := count(); started != 60 || others != 40 || !q.History[99].EndedAt.Equal(now) {
		t.Errorf("%d started, %d others", started, others)
	}
	leave(70, true)
	if started, others := count(); started != 100 || others != 0 || !q.History[99].EndedAt.Equal(now) {
		t.Errorf("%d started, %d others", started, others)
	}
}

// What is queued or failed leaves the queue when it is canceled. What is under way stays in it, and is watched to its end.
func TestQueue_CancelInEveryState(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, kind := range []cke.QueueKind{cke.RebootQueue, cke.RepairQueue} {
		for _, state := range kind.States() {
			r := cke.Entry{ID: "a", Node: "n1", Address: "10.0.0.1", State: state, Attempt: 2, StartedAt: noon.Add(-time.Minute), Error: "no power"}
			if kind == cke.RepairQueue {
				r.On = "dead"
			}
			before := cke.Queue{Kind: kind, Entries: []cke.Entry{r, {ID: "b", Node: "n2", Address: "10.0.0.2", State: cke.EntryQueued, On: r.On}}}
			q, err := before.Cancel([]string{"n1"}, noon)
			if err != nil {
				t.Fatal(err)
			}
			if before.Entries[0].Canceled || len(before.Entries) != 2 || q.Entries[len(q.Entries)-1].ID != "b" {
				t.Errorf("%s, %s: %+v", kind, state, q)
			}
			if r.Active() {
				if len(q.Entries) != 2 || !q.Entries[0].Canceled || q.Entries[0].State != state || q.History != nil {
					t.Errorf("%s, %s: %+v", kind, state, q)
				}
				continue
			}
			if len(q.Entries) != 1 || len(q.History) != 1 || q.History[0].Result != cke.EntryCanceled || q.History[0].Attempts != 2 || q.Counts[cke.EntryCanceled] != 1 {
				t.Errorf("%s, %s: %+v", kind, state, q)
			}
		}
	}
}
