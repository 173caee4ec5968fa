package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"cke/internal/term"
	"cke/plan"
)

func (a *app) planView(p planned) view {
	return view{data: p, names: []string{p.Hash}, table: func(w io.Writer, colour, wide bool) error {
		return renderPlan(w, p, colour, wide)
	}}
}

// renderPlan writes a plan for users: the sum first, then each step, then how it ends.
func renderPlan(w io.Writer, p planned, colour, wide bool) error {
	if p.stale() {
		why := "the leader has reported nothing since"
		if !p.Led {
			why = "no daemon leads it now"
		}
		fmt.Fprintf(w, "%s\n\n", term.Paint(colour, term.Alarm, term.Clean(fmt.Sprintf("This plan starts from %s as it was %s ago: %s.", p.Cluster, term.Age(p.age()), why))))
	}
	fmt.Fprintf(w, "%s  %s     %s\n\n", term.Paint(colour, term.Bold, term.Clean(p.Cluster)), term.Paint(colour, planStyle(p.Plan), term.Clean(p.Sum())), planSource(p))
	if len(p.Steps) > 0 {
		if err := stepTable(p.Plan, wide).Write(w, colour); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return planFacts(p, wide).Write(w, colour)
}

// planStyle is the style of the sum of a plan.
func planStyle(p plan.Plan) term.Style {
	switch {
	case p.Operations == 0 && p.Outcome == plan.Converged:
		return term.Green
	case p.Outcome == plan.Blocked, p.Outcome == plan.Endless:
		return term.Yellow
	case p.Outcome == plan.Deleted:
		return term.Red
	case p.LeastTolerance != nil && *p.LeastTolerance < 0:
		return term.Yellow
	}
	return term.Plain
}

// planSource says what the plan leads to, and what it starts from.
func planSource(p planned) string {
	text := fmt.Sprintf("revision %d", p.Revision)
	switch {
	case p.StoredRevision == 0:
		return text + ", not stored yet"
	case p.StoredRevision != p.Revision:
		text = fmt.Sprintf("revision %d after %d", p.Revision, p.StoredRevision)
	}
	return fmt.Sprintf("%s, seen %s ago", text, term.Age(p.age()))
}

// stepTable has a row for every operation and every wait.
func stepTable(p plan.Plan, wide bool) *term.Table {
	header := []string{"#", "OPERATION", "NODES", "TOLERANCE", "REASON"}
	zones := slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Zones != nil })
	if zones {
		header = slices.Insert(header, 4, "ZONES")
	}
	if wide {
		header = append(header, "HELD", "TASK")
	}
	t := term.NewTable(header...)
	for _, s := range p.Steps {
		held := ""
		if s.Held {
			held = "held"
		}
		row := []term.Cell{term.Text(""), term.Text(s.After()), term.Text(""), term.Text(""), term.Text(s.Reason), term.Text(held)}
		if s.Kind == plan.KindOperation {
			style := term.Plain
			if s.Error != "" {
				style = term.Red
			}
			row = []term.Cell{term.Textf("%d", s.Number), term.Text(s.Operation), term.Text(strings.Join(s.Targets, ", ")), toleranceCell(*s.Tolerance),
				term.Styled(style, s.Why()), term.Text(held), term.Text(s.Task)}
		}
		if zones {
			row = slices.Insert(row, 4, zonesCell(s.Zones))
		}
		t.Add(row...)
	}
	return t
}

// toleranceCell is the tolerance before, during and after an operation.
func toleranceCell(t plan.Tolerance) term.Cell {
	style := term.Plain
	if t.Gap() {
		style = term.Yellow
	}
	return term.Styled(style, t.String())
}

// zonesCell is how many zones can be lost before, during and after an operation; nil: of a wait.
func zonesCell(z *plan.Zones) term.Cell {
	if z == nil {
		return term.Text("")
	}
	return term.Text(z.String())
}

// planFacts are the labeled lines below the steps.
func planFacts(p planned, wide bool) *term.Labels {
	l := &term.Labels{}
	label := "Changes"
	for _, c := range p.Changes {
		l.Add(label, term.Text(c))
		label = ""
	}
	if len(p.Assumed) > 0 {
		l.Add("Assumed", term.Text(strings.Join(p.Assumed, ", ")+": never observed; assumed to answer and to be blank"))
	}
	if p.Held != "" {
		l.Add("Held", term.Styled(term.Yellow, fmt.Sprintf("from #%d on: waits for %s", firstHeld(p.Plan), p.Held)))
	}
	if nodes := p.Interrupts(); nodes != nil {
		l.Add("Interrupts", term.Styled(term.Yellow, fmt.Sprintf("service, while %s restarts; confirm that (--yes)", strings.Join(nodes, ", then "))))
	}
	end := term.Text(p.End.Summary)
	switch p.Outcome {
	case plan.Converged:
		end = term.Styled(term.Green, p.End.Summary)
	case plan.Blocked, plan.Endless:
		l.Add("Waits", term.Styled(term.Yellow, p.Reason))
		for _, b := range p.Blockers {
			if b.Remedy != "" {
				l.Add("", term.Text("→ "+b.Remedy))
			}
		}
	}
	l.Add("In the end", end)
	if wide && p.Afterwards != "" {
		l.Add("Afterward", term.Text(p.Afterwards))
	}
	l.Add("Plan", term.Text(p.Hash))
	return l
}

func firstHeld(p plan.Plan) int {
	for _, s := range p.Steps {
		if s.Held && s.Kind == plan.KindOperation {
			return s.Number
		}
	}
	return 0
}
