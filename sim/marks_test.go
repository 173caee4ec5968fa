package sim_test

import (
	"bufio"
	"cmp"
	_ "embed"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	"cke"
	"cke/server/strategy"
	"cke/sim"
)

var marksFile = flag.String("marks", "", "write how often random schedules reached each situation to this file")

// reachable is how many random schedules have to reach every situation.
const reachable = 20_000

// reached counts over all random schedules of this run.
var reached = &marks{counts: map[mark]int{}}

// operations are those that random schedules run, under the names in their records.
var operations = strings.Fields(`abandon-bootstrap add-member adopt adopt-member advance-authority allow-writes auth begin-recovery begin-restore bootstrap
	cancel-restore change-address change-user clean-up compare compare-data defragment delete-cluster disable-authentication disarm drain drain-for-reboot drain-for-repair drain-node
	enable-authentication end-finding end-membership finish-authority finish-restore freeze hibernate keep-running mark-ended move-leader note-reboot note-repair note-returned promote-member purge purge-volume reboot-node reclaim record-start repair-node
	remove-member renew-certificates replace restart-member restore resume-bootstrap rotate-authority start-changed
	start-members stop-apart stop-stray undelete undelete-volume unfreeze`)

// mark is a situation: something that happened, and while what was under way.
type mark struct{ kind, what, during string }

func (m mark) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", m.kind, m.what, m.during), ": ")
}

// marks counts situations. A nil one counts nothing.
type marks struct {
	mu     sync.Mutex
	counts map[mark]int
}

func (m *marks) add(what mark, n int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what] += n
}

// decision counts the rule that decided, and those that were held back.
func (m *marks) decision(d strategy.Decision) {
	if d.Rule != "" {
		m.add(mark{"rule", d.Rule, "decides"}, 1)
	}
	for _, rule := range d.Held {
		m.add(mark{"rule", rule, "is held back"}, 1)
	}
}

// mark counts a fault, or what becomes of a call, while an operation is under way and while any of its steps is.
func (s *stage) mark(kind, what string) {
	if s.marks == nil {
		return
	}
	operation, step := s.Store().Running()
	s.marks.add(mark{kind, what, operation}, 1)
	if step != "" && kind == "call" {
		s.marks.add(mark{"step", operation + " " + step, what}, 1)
	}
}

// notice counts what a world noticed by itself.
func (m *marks) notice(w *sim.World) {
	for s, n := range w.Marks() {
		m.add(mark{"situation", string(s), ""}, n)
	}
}

// unreached says of situations that schedules do not reach why they do not: "mark: reason" in each line, where * stands for anything.
//
//go:embed testdata/marks/unreached.txt
var unreached string

// expected are the situations that schedules have to reach: each rule, each fault and each fate of a call in each operation and
// in each step that was ever under way, and whatever the world notices by itself.
func (m *marks) expected() []mark {
	var all []mark
	for _, rule := range strategy.Rules() {
		all = append(all, mark{"rule", rule, "decides"})
	}
	for _, s := range sim.Situations() {
		all = append(all, mark{"situation", string(s), ""})
	}
	for _, what := range besideMarks {
		all = append(all, mark{"beside", what, ""})
	}
	for _, e := range inventoryEvents {
		all = append(all, mark{"inventory", e.name, ""})
	}
	for _, s := range inventoryStops {
		all = append(all, mark{"inventory", stopMark(s), ""})
	}
	for _, cause := range cke.InventoryCauses() {
		all = append(all, mark{"inventory", string(cause), ""})
	}
	steps := map[string]bool{}
	for k := range m.counts {
		if k.kind == "step" {
			steps[k.what] = true
		}
	}
	for _, operation := range operations {
		for _, e := range events {
			all = append(all, mark{"fault", e.name, operation})
		}
	}
	for v := sim.Refuse; v <= sim.Freeze; v++ {
		all = append(all, mark{"agent", v.String(), ""})
		for _, operation := range operations {
			all = append(all, mark{"call", v.String(), operation})
		}
		for step := range steps {
			all = append(all, mark{"step", step, v.String()})
		}
	}
	return all
}

// missing are the expected situations that were not reached and have no reason, and the reasons that are not needed.
func (m *marks) missing() (missing, needless []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var excuses [][]string // what stands between the stars
	var lines []string
	for s := bufio.NewScanner(strings.NewReader(unreached)); s.Scan(); {
		if line := s.Text(); line != "" && !strings.HasPrefix(line, "#") {
			what, _, _ := strings.Cut(line, " # ")
			excuses = append(excuses, strings.Split(strings.TrimSpace(what), "*"))
			lines = append(lines, line)
		}
	}
	used := make([]bool, len(excuses))
	for _, k := range m.expected() {
		if m.counts[k] > 0 {
			continue
		}
		excused := false
		for i, e := range excuses {
			if matches(k.String(), e) {
				used[i], excused = true, true
			}
		}
		if !excused {
			missing = append(missing, k.String())
		}
	}
	for i, u := range used {
		if !u {
			needless = append(needless, lines[i])
		}
	}
	slices.Sort(missing)
	return missing, needless
}

// matches reports whether a text consists of these parts with anything between them.
func matches(text string, parts []string) bool {
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for i, p := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(text, p)
		}
		at := strings.Index(text, p)
		if at < 0 {
			return false
		}
		text = text[at+len(p):]
	}
	return text == ""
}

// check fails where so many schedules never reached a situation that has no reason.
func (m *marks) check(t *testing.T, schedules uint64) {
	t.Helper()
	if *marksFile != "" {
		if err := os.WriteFile(*marksFile, []byte(m.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
	if schedules < reachable {
		return
	}
	missing, needless := m.missing()
	t.Logf("%d situations reached, %d not", len(m.counts), len(missing))
	if missing != nil {
		t.Errorf("never reached:\n%s", strings.Join(missing, "\n"))
	}
	if needless != nil {
		t.Logf("reached, although testdata/marks/unreached.txt has a reason why not:\n%s", strings.Join(needless, "\n"))
	}
}

// String is a table, the rarest situation first.
func (m *marks) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(m.counts), func(a, b mark) int {
		return cmp.Or(cmp.Compare(m.counts[a], m.counts[b]), cmp.Compare(a.String(), b.String()))
	})
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, k := range keys {
		fmt.Fprintf(w, "%d\t%s\n", m.counts[k], k)
	}
	_ = w.Flush()
	return b.String()
}
