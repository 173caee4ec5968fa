package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cke/internal/golden"
	"cke/plan"
)

// TestPlans makes the plans of the stories in testdata: a cluster as it was observed, a file, and what would be done.
// `go test ./plan -run Plans -update` writes them anew.
func TestPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { tell(t, file) })
	}
}

func tell(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	given, _, _ := strings.Cut(string(b), "----\n")
	var s *scene
	for line := range strings.Lines(given) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "founded":
			version := "3.6.16"
			if len(words) > 2 {
				version = words[2]
			}
			s = founded(number(t, words[1]), version)
		case words[0] == "unfounded":
			s = unfounded(number(t, words[1]))
		default:
			s.obey(t, words)
		}
	}
	p := plan.Make(t.Context(), s.Input)
	if again := plan.Make(t.Context(), s.Input); again.Hash != p.Hash {
		t.Error("the same plan has another hash when it is made again")
	}
	golden.Compare(t, file, given+"----\n"+written(p))
}

var randomID = regexp.MustCompile(`\b[0-9a-f]{12}\b`)

// written is a plan in lines.
func written(p plan.Plan) string {
	var b strings.Builder
	for _, s := range p.Steps {
		held := ""
		if s.Held {
			held = "held "
		}
		if s.Kind == plan.KindWait {
			fmt.Fprintf(&b, "%safter %s: %s\n", held, time.Duration(s.Seconds*float64(time.Second)), s.Reason)
			continue
		}
		zones := ""
		if s.Zones != nil {
			zones = ", zones " + s.Zones.String()
		}
		fmt.Fprintf(&b, "%s%d %s %s  tolerance %d, %d, %d%s: %s\n", held, s.Number, s.Operation, strings.Join(s.Targets, " "), s.Tolerance.Before, s.Tolerance.During, s.Tolerance.After, zones, s.Reason)
		if s.Error != "" {
			fmt.Fprintf(&b, "  fails [%s]: %s\n", s.Code, s.Error)
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", p.Outcome, p.Reason)
	if p.Held != "" {
		fmt.Fprintf(&b, "held: %s\n", p.Held)
	}
	if p.Assumed != nil {
		fmt.Fprintf(&b, "assumed: %s\n", strings.Join(p.Assumed, " "))
	}
	for _, q := range p.Blockers {
		fmt.Fprintf(&b, "blocker %s %s: %s\n", q.Code, q.Node, q.Message)
	}
	if p.Quorum != nil {
		e := p.Quorum.Error()
		fmt.Fprintf(&b, "%s %s\n  %s\n  %s\n", e.Code, e.What, strings.Join(e.Facts, "\n  "), e.Try)
	}
	fmt.Fprintf(&b, "end: %s %s\n", p.End.Health, p.End.Summary)
	return randomID.ReplaceAllString(b.String(), "id")
}
