package plan

import (
	"fmt"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

// Sum is the plan in a line.
func (p Plan) Sum() string {
	if p.Operations == 0 {
		switch p.Outcome {
		case Converged:
			return "nothing to do"
		case Blocked:
			return "nothing can be done now"
		}
	}
	text := cke.Count(p.Operations, "operation")
	switch least := p.LeastTolerance; {
	case p.Outcome == Deleted:
		text += ", then the cluster is gone; volumes are kept"
	case least == nil:
	case *least < 0:
		text += ", with a gap: a cluster of one or two members does not serve while one is down"
	default:
		text += fmt.Sprintf(", tolerance never below %d", *least)
	}
	switch p.Outcome {
	case Blocked:
		text += ", then it waits"
	case Endless:
		text += ", and does not complete"
	}
	return text
}

// String returns the tolerance before, during and after an operation.
func (t Tolerance) String() string {
	number := func(n int) string {
		if n < 0 {
			return "none"
		}
		return fmt.Sprint(n)
	}
	during := number(t.During)
	if t.Gap() {
		during = "gap"
	}
	return fmt.Sprintf("%s → %s → %s", number(t.Before), during, number(t.After))
}

// After is how long a wait takes.
func (s Step) After() string {
	return strings.TrimSuffix("after "+term.Took(time.Duration(s.Seconds*float64(time.Second))), "0s")
}

// Why is the reason of a step, with the error that its operation would meet.
func (s Step) Why() string {
	if s.Error == "" {
		return s.Reason
	}
	return fmt.Sprintf("%s; it fails: %s [%s]", s.Reason, s.Error, s.Code)
}
