package strategy_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/server/strategy"
)

// verbs change a scene: those with nodes take their numbers, as in "silent 2 3".
var verbs = map[string]func(s *scene, nodes ...int) *scene{
	"silent":     (*scene).silent,
	"stopped":    (*scene).stopped,
	"emptied":    (*scene).emptied,
	"wiped":      (*scene).wiped,
	"undeclared": (*scene).undeclared,
	"lost":       func(s *scene, _ ...int) *scene { return s.lost() },
	"running":    func(s *scene, _ ...int) *scene { return s.running() },
	"paused":     func(s *scene, _ ...int) *scene { return s.held() },
	"hibernated": func(s *scene, _ ...int) *scene { return s.hibernated() },
	"deleting":   func(s *scene, _ ...int) *scene { s.Deleting = true; return s },
	"partial":    func(s *scene, _ ...int) *scene { return s.partial() },
	"denied":     func(s *scene, _ ...int) *scene { return s.denied() },
	"foreign":    func(s *scene, _ ...int) *scene { return s.stranger("x") },
	"manual":     func(s *scene, _ ...int) *scene { s.Spec.Policies.Reconcile = cke.ReconcileManual; return s },
	"memory": func(s *scene, _ ...int) *scene { // more of it is declared
		s.Spec.Options.Etcd.Resources.Memory = 2 << 30
		for i := range s.Seen.Etcd.Endpoints {
			s.runs(i+1, s.Spec.Options.Etcd.Version)
		}
		return s
	},
	"kept":      func(s *scene, _ ...int) *scene { return s.kept() },
	"mute":      (*scene).mute,
	"left":      (*scene).left,
	"reverting": func(s *scene, _ ...int) *scene { return s.reverting() },
	"ended":     func(s *scene, _ ...int) *scene { return s.importEnded() },
	"drained":   each((*scene).drained),
	"unjoined":  each((*scene).unjoined),
	"learner":   each(func(s *scene, i int) *scene { return s.learner(i, true) }),
	"listed":    each(func(s *scene, i int) *scene { return s.learner(i, false) }),
	"expiring":  each(func(s *scene, i int) *scene { return s.worth(i, 20, "") }),
	"broken":    each(func(s *scene, i int) *scene { return s.worth(i, 300, "ca.crt is damaged") }),
	"apart":     each(func(s *scene, i int) *scene { s.Identity.Joins[i-1].Apart = true; return s }),
	"alone":     each(func(s *scene, i int) *scene { return s.ledBy(s.join(i).MemberID, i) }),
	"twice":     func(s *scene, _ ...int) *scene { return s.twice() },
	"failed": func(s *scene, nodes ...int) *scene { // what would be done next has failed so often, a second ago
		return s.failed(strategy.Decide(s.Input).Operation, nodes[0], time.Second)
	},
}

func each(f func(*scene, int) *scene) func(*scene, ...int) *scene {
	return func(s *scene, nodes ...int) *scene {
		for _, i := range nodes {
			s = f(s, i)
		}
		return s
	}
}

// starts make a scene of so many nodes.
var starts = map[string]func(n int) *scene{
	"blank":     blank,
	"formed":    formed,
	"forming":   func(n int) *scene { return forming(n, true) },
	"abandoned": abandoned,
	"awaiting":  awaiting,
	"imported":  imported,
}

// played reads a scene, as "formed 3; silent 2; emptied 3", and returns what each rule says that has anything to say.
func played(t *testing.T, text string) string {
	t.Helper()
	var s *scene
	for _, part := range strings.Split(text, ";") {
		words := strings.Fields(part)
		var nodes []int
		for _, w := range words[1:] {
			n, err := strconv.Atoi(w)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			nodes = append(nodes, n)
		}
		start, begins := starts[words[0]]
		change, changes := verbs[words[0]]
		switch {
		case begins && len(nodes) == 1:
			s = start(nodes[0])
		case changes && s != nil:
			s = change(s, nodes...)
		default:
			t.Fatalf("%q: %q is not understood", text, part)
		}
	}
	var b strings.Builder
	d, lines := strategy.Asked(s.Input)
	for _, line := range lines {
		fmt.Fprintln(&b, "  "+line)
	}
	what := "nothing"
	if d.Operation != nil {
		what = fmt.Sprintf("%s %v", d.Operation.Name(), d.Operation.Targets())
	}
	fmt.Fprintf(&b, "  => %s: %s\n", what, d.Reason)
	for _, p := range d.Blockers {
		fmt.Fprintf(&b, "     %s %s\n", p.Code, p.Node)
	}
	return b.String()
}

// Each line of the scenarios that is not indented is a scene; what follows it is written with -update.
func TestDecide_Scenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || files == nil {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var b strings.Builder
			for line := range strings.Lines(golden.Read(t, file)) {
				switch text := strings.TrimSuffix(line, "\n"); {
				case strings.HasPrefix(text, " "):
				case text == "" || strings.HasPrefix(text, "#"):
					fmt.Fprintln(&b, text)
				default:
					fmt.Fprintf(&b, "%s\n%s", text, played(t, text))
				}
			}
			golden.Compare(t, file, b.String())
		})
	}
}
