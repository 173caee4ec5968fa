package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/follow"
	"cke/internal/golden"
	"cke/internal/term"
)

// records are a failed, an interrupted and a running bootstrap, newest first.
func records() []cke.Record {
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	targets := []string{"cp1", "cp2", "cp3"}
	return []cke.Record{
		{ID: 3, Cluster: "prod", Operation: "resume-bootstrap", Targets: targets, Reason: "the founding was interrupted", State: cke.RecordRunning,
			StartedAt: at(-12), Generation: 2, Host: "boot-2", Term: 13, Steps: []cke.StepRecord{
				{Name: "image", Node: "cp1", StartedAt: at(-12), EndedAt: at(-11.9)},
				{Name: "image", Node: "cp2", StartedAt: at(-12), Progress: "42 of 63 MB"},
				{Name: "certificate-authorities", StartedAt: at(-12), EndedAt: at(-11.95)},
				{Name: "final-backup", StartedAt: at(-12), EndedAt: at(-11.95), Note: "none could be made: no space left"}}},
		{ID: 2, Cluster: "prod", Operation: "bootstrap", Targets: targets, Reason: "no member has data", State: cke.RecordInterrupted, Error: "context canceled",
			StartedAt: at(-60), EndedAt: at(-58), Generation: 2, Host: "boot-1", Term: 12, Steps: []cke.StepRecord{
				{Name: "image", Node: "cp1", StartedAt: at(-60)}}},
		{ID: 1, Cluster: "prod", Operation: "bootstrap", Targets: targets, Reason: "no member has data", State: cke.RecordFailed,
			Error: "cp3: image: no space left on device", Code: cke.CodeDiskFull, StartedAt: at(-3600), EndedAt: at(-3592.5), Generation: 1, Host: "boot-1", Term: 12,
			Steps: []cke.StepRecord{
				{Name: "image", Node: "cp1", StartedAt: at(-3600), EndedAt: at(-3598)},
				{Name: "image", Node: "cp3", StartedAt: at(-3600), EndedAt: at(-3592.5), Error: "no space left on device"}}},
	}
}

func TestHistory_RendersRecordsAndSteps(t *testing.T) {
	a := renderer()
	var b bytes.Buffer
	for _, wide := range []bool{false, true} {
		if err := a.recordTable(records(), wide).Write(&b, false); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	golden.Compare(t, "testdata/history/table.txt", b.String())
	b.Reset()
	for _, r := range records() {
		if err := a.renderRecord(&b, r, false); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	golden.Compare(t, "testdata/history/records.txt", b.String())
}

// Nothing was tried and nothing is wrong: a wish that was turned down did not fail.
func TestHistory_TellsWhatWasRefused(t *testing.T) {
	a := renderer()
	r := cke.Record{ID: 4, Cluster: "prod", Operation: "replace", Targets: []string{"cp9"}, Reason: "refused; requested by ann@boot-1", State: cke.RecordFailed, Refused: true,
		Error: "check cp9: cp9 carries no member", Code: cke.CodeCannot, Refusal: &cke.Refusal{What: "cp9 carries no member", Unchanged: true}, StartedAt: noon, EndedAt: noon,
		Steps: []cke.StepRecord{{Name: "check", Node: "cp9", StartedAt: noon, EndedAt: noon, Error: "cp9 carries no member"}}}
	var b strings.Builder
	if err := a.recordTable([]cke.Record{r}, false).Write(&b, false); err != nil {
		t.Fatal(err)
	}
	contains(t, b.String(), "refused  replace    cp9      0s ago   0ms   refused; requested by ann@boot-1: cp9 carries no member\n")
	if err := a.renderRecord(&b, r, false); err != nil {
		t.Fatal(err)
	}
	follow.NewNarrator(term.NewLive(&b, nil), false, a.now).Record(r)
	contains(t, b.String(), "State      refused\n", "[CKE111]\n", "refused: cp9 carries no member\n", "#4 replace cp9: ", "refused: cp9 carries no member\n", "#4 refused after 0ms\n")
	if strings.Contains(b.String(), "failed") {
		t.Errorf("it is told as a failure:\n%s", b.String())
	}
}

func TestHistory_Since(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("c.yml", clusterFile))
	stdout, stderr := h.run(exitDone, "history", "--since", "2h")
	contains(t, stdout+stderr, "Nothing was done on prod since 2")
	_, stderr = h.run(exitUsage, "history", "--since", "yesterday")
	contains(t, stderr, `error: --since: invalid time "yesterday": want a time such as `)
	_, stderr = h.run(exitUsage, "history", "-f", "--since", "2h")
	contains(t, stderr, "use it without ID and -f")
	now := time.Now()
	l := h.lead("prod")
	for i, ended := range []time.Time{now.Add(-26 * time.Hour), now.Add(-time.Hour), {}} {
		r := cke.Record{Operation: []string{"bootstrap", "add-member", "restart"}[i], Reason: "r", State: cke.RecordCompleted, StartedAt: now.Add(-27 * time.Hour), EndedAt: ended}
		if _, err := l.term.AppendRecord(h.ctx(), r); err != nil {
			t.Fatal(err)
		}
	}
	stdout, _ = h.run(exitDone, "history", "--since", "2h", "-o", "name")
	if stdout != "3\n2\n" {
		t.Errorf("got %q", stdout)
	}
}

func TestUnknownFlag_NamesTheNearest(t *testing.T) {
	h := newHouse(t)
	_, stderr := h.run(exitUsage, "history", "--folow")
	contains(t, stderr, "error: unknown flag: --folow, did you mean --follow?\n")
	_, stderr = h.run(exitUsage, "status", "--clustr", "prod")
	contains(t, stderr, "did you mean --cluster?")
}
