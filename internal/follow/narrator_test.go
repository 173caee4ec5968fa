package follow

import (
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/internal/term"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// at is so many seconds after noon.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

// failed is a bootstrap that failed.
func failed() cke.Record {
	return cke.Record{ID: 1, Cluster: "prod", Operation: "bootstrap", Targets: []string{"cp1", "cp2", "cp3"}, Reason: "no member has data", State: cke.RecordFailed,
		Error: "cp3: image: no space left on device", Code: cke.CodeDiskFull, StartedAt: at(-3600), EndedAt: at(-3592.5), Generation: 1, Host: "boot-1", Term: 12,
		Steps: []cke.StepRecord{
			{Name: "image", Node: "cp1", StartedAt: at(-3600), EndedAt: at(-3598)},
			{Name: "image", Node: "cp3", StartedAt: at(-3600), EndedAt: at(-3592.5), Error: "no space left on device"}}}
}

// running is a bootstrap under way.
func running() cke.Record {
	return cke.Record{ID: 3, Cluster: "prod", Operation: "resume-bootstrap", Targets: []string{"cp1", "cp2", "cp3"}, Reason: "the founding was interrupted", State: cke.RecordRunning,
		StartedAt: at(-12), Generation: 2, Host: "boot-2", Term: 13, Steps: []cke.StepRecord{
			{Name: "image", Node: "cp1", StartedAt: at(-12), EndedAt: at(-11.9)},
			{Name: "image", Node: "cp2", StartedAt: at(-12), Progress: "42 of 63 MB"},
			{Name: "certificate-authorities", StartedAt: at(-12), EndedAt: at(-11.95)}}}
}

func TestNarrator_TellsEachThingOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		size func() (int, int)
	}{{"plain", nil}, {"terminal", func() (int, int) { return 100, 30 }}} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			now := noon
			n := NewNarrator(term.NewLive(&b, tc.size), false, func() time.Time { return now })
			n.NoLeader("prod")
			n.NoLeader("prod")
			waiting := cke.Status{Reason: "bootstrap failed once and is tried again in 1s", Health: cke.HealthForming, Problems: []cke.Problem{
				{Code: cke.CodeDiskFull, Node: "cp3", Message: "image: no space left on device", Remedy: "Free space."},
				{Code: cke.CodeUnreachable, Node: "cp2", Message: "dial: connection refused"}}}
			n.Status(waiting)
			n.Status(waiting)
			waiting.Reason = "bootstrap failed once and is tried again in 0.5s"
			waiting.Problems = waiting.Problems[:1]
			n.Status(waiting)

			n.Record(failed())
			n.Record(failed())
			r := running()
			n.Record(r)
			n.Status(cke.Status{Operation: &cke.OperationStatus{ID: 3, State: cke.RecordRunning}, Reason: r.Reason})
			now = now.Add(11 * time.Second)
			n.Tick()
			r.Steps[1].EndedAt, r.Steps[1].Note = now, "all is stored, up to revision 6"
			r.State, r.EndedAt = cke.RecordCompleted, now
			n.Record(r)
			n.Status(cke.Status{Reason: "members are electing a leader"})
			n.End()
			golden.Compare(t, "testdata/narrator-"+tc.name+".txt", strings.ReplaceAll(b.String(), "\x1b", "^["))
		})
	}
}
