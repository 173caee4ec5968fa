package ui_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"cke"
	"cke/plan"
	"cke/server/strategy"
)

// What comes next is the plan: its operations in their order, numbered, each with what can be lost before, during and after it.
func TestPage_NextIsThePlanWithItsNumbers(t *testing.T) {
	w := newWorld()
	c := scene("prod", 3, func(in *strategy.Input) {
		for i := range in.Spec.Nodes {
			in.Spec.Nodes[i].Zone = fmt.Sprintf("rack%d", i+1)
		}
		for i := range in.Identity.Joins { // an argument was changed, so each member is restarted
			in.Identity.Joins[i].Etcd.ExtraArgs = nil
		}
	})
	w.clusters["prod"] = c
	spec := c.log[0]
	want := plan.Make(t.Context(), strategy.InputFrom(spec, c.identity, c.requests, *c.status))
	if want.Operations < 3 {
		t.Fatalf("the plan has %d operations: %+v", want.Operations, want)
	}
	_, body := get(t, page(t, w), "/clusters/prod")
	_, next, found := strings.Cut(body, `<ol class="next">`)
	next, _, _ = strings.Cut(next, "</ol>")
	if !found {
		t.Fatalf("nothing comes next:\n%s", text(body))
	}
	items := strings.Split(next, "<li")[1:]
	if len(items) != len(want.Steps) {
		t.Fatalf("%d steps, want %d:\n%s", len(items), len(want.Steps), text(next))
	}
	numbers := 0
	for i, step := range want.Steps {
		said := text("<li" + items[i])
		if step.Kind == plan.KindWait {
			if strings.Contains(items[i], `class="no">`) || !strings.Contains(said, step.Reason) {
				t.Errorf("%d: %q, want the wait %q", i, said, step.Reason)
			}
			continue
		}
		numbers++
		begins := fmt.Sprintf("%d%s %s", numbers, step.Operation, strings.Join(step.Targets, " "))
		ends := fmt.Sprintf("members that can be lost before, during and after it: %szones %s", step.Tolerance, step.Zones)
		if !strings.HasPrefix(said, begins) || !strings.HasSuffix(said, ends) {
			t.Errorf("%d: %q, want %q … %q", i, said, begins, ends)
		}
		if step.Tolerance == nil || !regexp.MustCompile(`^\d+ → \d+ → \d+$`).MatchString(step.Tolerance.String()) {
			t.Errorf("%d: the tolerance is %s", i, step.Tolerance)
		}
	}
	has(t, "prod", body, want.Sum(), "In the end: "+want.End.Summary, "how many members can be lost before, during and after it, and how many zones")
	if h := c.status.Health; h != cke.HealthUpdating {
		t.Errorf("the fixture is %s", h)
	}
}
