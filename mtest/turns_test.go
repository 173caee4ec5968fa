package mtest_test

import (
	"strings"
	"testing"
	"time"

	"cke"
)

func TestOutOfTurn_BearsSilenceAndNothingElse(t *testing.T) {
	// Each operation is "name target steps end": the end is ok, the code of its failure, or overlaps.
	for name, tt := range map[string]struct{ did, wrong string }{
		"one after the other":                   {"restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", ""},
		"refused before it stopped":             {"restart-member n1 stop REFUSED; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", ""},
		"found stopped":                         {"restart-member n1 stop SILENT; start-members n1 serve ok; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", ""},
		"slow to serve":                         {"restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve SILENT", ""},
		"twice without need":                    {"restart-member n1 stop,start,serve ok; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", "once"},
		"another one while one is down":         {"restart-member n1 stop SILENT; restart-member n2 stop,start,serve ok; restart-member n1 stop,start,serve ok; restart-member n3 stop,start,serve ok", "may be down"},
		"two at a time":                         {"restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve overlaps; restart-member n3 stop,start,serve ok", "began before"},
		"one was left out":                      {"restart-member n1 stop,start,serve ok; restart-member n3 stop,start,serve ok", "once"},
		"the leader was not last":               {"restart-member n3 stop,start,serve ok; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok", "n3 last"},
		"started though nothing took it down":   {"start-members n1 serve ok; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", "start-members n1"},
		"failed for another reason than a lull": {"restart-member n1 try BROKEN; restart-member n1 stop,start,serve ok; restart-member n2 stop,start,serve ok; restart-member n3 stop,start,serve ok", "failed"},
		"nothing was done":                      {"", "once"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := strings.Join(outOfTurn(recordsOf(tt.did), "restart-member", []string{"n1", "n2", "n3"}, "n3"), "; ")
			if (wrong == "") != (tt.wrong == "") || !strings.Contains(wrong, tt.wrong) {
				t.Errorf("got %q, want %q", wrong, tt.wrong)
			}
		})
	}
}

// A refusal is on record by what was asked for, not by the operation that would have done it.
func TestTurnedDown_KnowsRefusalsAndSilence(t *testing.T) {
	for _, tt := range []struct {
		record cke.Record
		want   bool
	}{
		{cke.Record{Operation: "drain", State: cke.RecordFailed, Code: cke.CodeCannot, Refused: true}, true},
		{cke.Record{Operation: "drain-node", State: cke.RecordFailed, Code: cke.CodeQuorum}, true},
		{cke.Record{Operation: "drain-node", State: cke.RecordFailed, Code: cke.CodeDataMissing}, false},
		{cke.Record{Operation: "drain-node", State: cke.RecordInterrupted}, false},
		{cke.Record{Operation: "drain-node", State: cke.RecordCompleted}, false},
		{cke.Record{Operation: "restart-member", State: cke.RecordFailed, Code: cke.CodeQuorum}, false},
	} {
		if got := turnedDown(tt.record); got != tt.want {
			t.Errorf("%+v: %v", tt.record, got)
		}
	}
}

func recordsOf(text string) (all []cke.Record) {
	at := time.Now()
	for line := range strings.SplitSeq(text, "; ") {
		words := strings.Fields(line)
		if len(words) != 4 {
			continue
		}
		r := cke.Record{ID: int64(len(all) + 1), Operation: words[0], Targets: []string{words[1]}, State: cke.RecordCompleted, StartedAt: at, EndedAt: at.Add(time.Second)}
		for step := range strings.SplitSeq(words[2], ",") {
			r.Steps = append(r.Steps, cke.StepRecord{Name: step})
		}
		switch words[3] {
		case "ok":
		case "overlaps":
			r.StartedAt = at.Add(-time.Minute)
		case "SILENT":
			r.State, r.Code = cke.RecordFailed, cke.CodeMemberSilent
		case "BROKEN":
			r.State, r.Code = cke.RecordFailed, cke.CodeOptions
		default:
			r.State, r.Code = cke.RecordFailed, cke.CodeQuorum
		}
		all, at = append(all, r), at.Add(time.Minute)
	}
	return all
}
