package strategy

import (
	"fmt"
	"sync"

	"cke"
)

// spoke has the names of the rules of phases and duties that had something to say.
var spoke sync.Map

// heard is called with what a rule says, if it says anything; Asked sets it.
var heard func(r rule, v verdict)

func init() {
	for _, list := range [][]rule{phases, duties} {
		for i, r := range list {
			list[i].judge = func(in *Input) verdict {
				v := r.judge(in)
				if v.given() {
					spoke.Store(r.name, true)
					if heard != nil {
						heard(r, v)
					}
				}
				return v
			}
		}
	}
}

// Silent names the rules that have had nothing to say yet.
func Silent() (names []string) {
	for _, name := range Rules() {
		if _, is := spoke.Load(name); !is {
			names = append(names, name)
		}
	}
	return names
}

// Asked lists the rules that have something to say of an input, as far as Decide asks them: what each answers, and what becomes of it. No other
// decision may be made meanwhile.
func Asked(in Input) (d Decision, lines []string) {
	in.noteStarts()
	heard = func(r rule, v verdict) {
		d := v.now(&in)
		answer := map[kind]string{acts: "act", waits: "wait", notes: "note"}[v.kind]
		switch {
		case v.Operation != nil && d.Operation == nil:
			answer += fmt.Sprintf(" %s %v, held back", v.Operation.Name(), v.Operation.Targets())
		case v.Operation != nil:
			answer += fmt.Sprintf(" %s %v", v.Operation.Name(), v.Operation.Targets())
		}
		lines = append(lines, fmt.Sprintf("%s: %s: %s", r.name, answer, d.Reason))
	}
	defer func() { heard = nil }()
	if d = Decide(in); d.Rule == "" {
		lines = append(lines, "no rule decides")
	}
	return d, lines
}

// QueueOrder are the queued entries in their turn.
func QueueOrder(in Input) []cke.Entry { return in.queueOrder() }
