package words_test

import (
	"testing"

	"cke"
	"cke/internal/words"
)

func TestReboots_InALine(t *testing.T) {
	entry := func(node string, state cke.RebootState, waits string) cke.RebootStatus {
		return cke.RebootStatus{Reboot: cke.Reboot{Node: node, State: state}, Waits: waits}
	}
	for _, row := range []struct {
		queue *cke.RebootsStatus
		want  string
	}{
		{nil, ""},
		{&cke.RebootsStatus{Disabled: true}, ""},
		{&cke.RebootsStatus{Entries: []cke.RebootStatus{entry("cp1", cke.RebootQueued, "x"), entry("cp2", cke.RebootRebooting, "it does not answer"), entry("cp3", cke.RebootQueued, ""), entry("cp4", cke.RebootLeased, "")}},
			"cp2 rebooting (it does not answer) · cp4 leased · 2 queued"},
		{&cke.RebootsStatus{Disabled: true, Entries: []cke.RebootStatus{entry("cp1", cke.RebootQueued, "")}}, "1 queued; the queue is disabled"},
	} {
		if got := words.Reboots(cke.Status{Reboots: row.queue}); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}
