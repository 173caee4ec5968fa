package words_test

import (
	"testing"

	"cke"
	"cke/internal/words"
)

func TestQueue_InALine(t *testing.T) {
	entry := func(node string, state cke.EntryState, waits string) cke.EntryStatus {
		return cke.EntryStatus{Entry: cke.Entry{Node: node, State: state}, Waits: waits}
	}
	for _, row := range []struct {
		queue *cke.QueueStatus
		want  string
	}{
		{nil, ""},
		{&cke.QueueStatus{Disabled: true}, ""},
		{&cke.QueueStatus{Entries: []cke.EntryStatus{entry("cp1", cke.EntryQueued, "x"), entry("cp2", cke.EntryRebooting, "it does not answer"), entry("cp3", cke.EntryQueued, ""), entry("cp4", cke.EntryLeased, "")}},
			"cp2 rebooting (it does not answer) · cp4 leased · 2 queued"},
		{&cke.QueueStatus{Disabled: true, Entries: []cke.EntryStatus{entry("cp1", cke.EntryQueued, "")}}, "1 queued; the queue is disabled"},
	} {
		if got := words.Queue(row.queue); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
