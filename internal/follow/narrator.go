package follow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
	"cke/op"
)

// Narrator prints what the leader does, each thing once.
type Narrator struct {
	out    *term.Live
	colour bool
	now    func() time.Time

	records  map[int64]cke.Record
	told     map[stepKey]bool
	reason   string
	blockers map[string]cke.Problem
	still    time.Time // when running steps were last printed
	alone    bool      // it was printed that no daemon leads
}

// stepKey is a step of a record.
type stepKey struct {
	record int64
	step   int
}

// NewNarrator returns a narrator that writes to out and takes the time from now.
func NewNarrator(out *term.Live, colour bool, now func() time.Time) *Narrator {
	return &Narrator{out: out, colour: colour, now: now, records: map[int64]cke.Record{}, told: map[stepKey]bool{},
		blockers: map[string]cke.Problem{}, still: now()}
}

// every is how often Tick wants to be called.
func (n *Narrator) every() time.Duration {
	if n.out.Terminal() {
		return liveEvery
	}
	return stillEvery
}

func (n *Narrator) paint(s term.Style, text string) string { return term.Paint(n.colour, s, text) }

// Record prints what is new in a record. Records may come more than once and out of date.
func (n *Narrator) Record(r cke.Record) {
	before, known := n.records[r.ID]
	if known && !before.EndedAt.IsZero() {
		return
	}
	n.records[r.ID] = r
	if !known {
		n.reason, n.alone = "", false // what is waited for is printed again once the operation has ended
		clear(n.blockers)
		n.out.Print(n.paint(term.Bold, words.Heading(r)) + term.Clean(": "+r.Reason))
	}
	var ended []int
	for i, s := range r.Steps {
		if !s.EndedAt.IsZero() && !n.told[stepKey{r.ID, i}] {
			n.told[stepKey{r.ID, i}] = true
			ended = append(ended, i)
		}
	}
	slices.SortStableFunc(ended, func(a, b int) int { return r.Steps[a].EndedAt.Compare(r.Steps[b].EndedAt) })
	for _, i := range ended {
		n.out.Print(n.step(r, r.Steps[i]))
	}
	if !r.EndedAt.IsZero() {
		n.ending(r)
	}
	n.redraw()
}

// step is one line for a step that ended, with what it noted.
func (n *Narrator) step(r cke.Record, s cke.StepRecord) string {
	line := stepLine(r, s) + term.Took(s.EndedAt.Sub(s.StartedAt))
	switch {
	case s.Error != "":
		line += "  " + n.paint(words.OutcomeStyle(cke.RecordFailed, r.Refused), words.StepOutcome(r)+": "+term.Clean(s.Error))
	case s.Note != "":
		line += "  " + term.Clean(s.Note)
	}
	return line
}

func (n *Narrator) ending(r cke.Record) {
	took := term.Took(r.Took(n.now()))
	switch r.State {
	case cke.RecordCompleted:
		n.out.Print(fmt.Sprintf("#%d %s after %s", r.ID, n.paint(term.Green, "completed"), took))
	case cke.RecordInterrupted:
		n.out.Print(fmt.Sprintf("#%d %s after %s: %s", r.ID, n.paint(term.Yellow, "interrupted"), took, term.Clean(cmp.Or(r.Error, "the next leader continues"))))
	default:
		line := fmt.Sprintf("#%d %s after %s", r.ID, n.paint(words.OutcomeStyle(r.State, r.Refused), r.Outcome()), took)
		if !stepTold(r) && r.Error != "" {
			line += ": " + term.Clean(r.Error)
		}
		n.out.Print(line)
	}
}

// stepTold reports whether a failed step has shown the error of the record.
func stepTold(r cke.Record) bool {
	return slices.ContainsFunc(r.Steps, func(s cke.StepRecord) bool { return s.Error != "" })
}

// Status prints what is waited for while nothing is under way, once for every change.
func (n *Narrator) Status(s cke.Status) {
	n.alone = false
	if s.Operation != nil && s.Operation.State == cke.RecordRunning {
		if s.Operation.Type == (op.Backup{}).Name() { // it waits for the target for up to an hour
			n.problems(ofBackups(s))
			n.redraw()
		}
		return
	}
	if reason := steady(s.Reason); s.Reason != "" && reason != n.reason && len(n.running()) == 0 {
		n.reason = reason
		n.out.Print(n.paint(term.Yellow, "waiting:") + " " + term.Clean(s.Reason))
	}
	n.problems(s.Problems)
	n.redraw()
}

// ofBackups are the problems of a status that the backups have.
func ofBackups(s cke.Status) []cke.Problem {
	if s.Backup == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Problems), func(p cke.Problem) bool {
		told := func(t cke.BackupTrouble) bool { return t.Code == p.Code }
		return (s.Backup.Problem == nil || !told(*s.Backup.Problem)) && !slices.ContainsFunc(s.Backup.Troubles, told)
	})
}

// problems prints new problems with their remedies, and those that are gone.
func (n *Narrator) problems(now []cke.Problem) {
	present, kinds := map[string]cke.Problem{}, map[string]bool{}
	kind := func(p cke.Problem) string { return string(p.Code) + " " + p.Node }
	for _, p := range now {
		key := kind(p) + " " + steady(p.Message)
		present[key], kinds[kind(p)] = p, true
		if _, told := n.blockers[key]; told {
			continue
		}
		n.blockers[key] = p
		n.out.Print("  " + n.paint(term.Yellow, words.Problem(p)))
		if p.Remedy != "" {
			n.out.Print("    → " + term.Clean(p.Remedy))
		}
	}
	var gone []cke.Problem
	for key, p := range n.blockers {
		if _, still := present[key]; !still && !kinds[kind(p)] {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b cke.Problem) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Code, b.Code))
	})
	for _, p := range gone {
		n.out.Print("  " + n.paint(term.Green, "no longer: "+words.Problem(p)))
	}
	n.blockers = present
}

// NoLeader says, once, that no daemon leads a cluster.
func (n *Narrator) NoLeader(cluster string) {
	if n.alone || len(n.running()) > 0 {
		return
	}
	n.alone = true
	n.out.Print(n.paint(term.Yellow, "waiting:")+" no daemon leads "+term.Clean(cluster)+" [CKE108]",
		"    → Start cke on a management host; then the work starts.")
}

// Leaderless reports whether it was printed last that no daemon leads the cluster.
func (n *Narrator) Leaderless() bool { return n.alone }

// noStore says that the store is silent. The watches continue once it answers.
func (n *Narrator) noStore(err error) {
	n.out.Print(n.paint(term.Yellow, "waiting:") + " " + term.Clean(err.Error()))
}

// running are the records under way, oldest first.
func (n *Narrator) running() []cke.Record {
	var all []cke.Record
	for _, r := range n.records {
		if r.EndedAt.IsZero() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b cke.Record) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// unfinished is the lowest id from first on of a record whose end has not been printed.
func (n *Narrator) unfinished(first int64) int64 {
	for {
		r, known := n.records[first]
		if !known || r.EndedAt.IsZero() {
			return first
		}
		first++
	}
}

// Tick redraws how long running steps have taken; without a terminal it prints those that take long.
func (n *Narrator) Tick() {
	n.redraw()
	if n.out.Terminal() || n.now().Sub(n.still) < stillEvery {
		return
	}
	n.still = n.now()
	for _, line := range n.liveLines(stillEvery / 2) {
		n.out.Print(line)
	}
}

func (n *Narrator) redraw() {
	if n.out.Terminal() {
		n.out.Show(n.liveLines(0)...)
	}
}

// liveLines are the steps that have been under way for so long: those of one name in one line.
func (n *Narrator) liveLines(least time.Duration) []string {
	var all []string
	for _, r := range n.running() {
		var names []string
		nodes, since, progress := map[string][]string{}, map[string]time.Time{}, map[string]string{}
		for _, s := range r.Steps {
			if !s.EndedAt.IsZero() || n.now().Sub(s.StartedAt) < least {
				continue
			}
			if since[s.Name].IsZero() {
				names = append(names, s.Name)
				since[s.Name] = s.StartedAt
			}
			if s.Node != "" {
				nodes[s.Name] = append(nodes[s.Name], s.Node)
			}
			if s.Progress != "" {
				progress[s.Name] = s.Progress
			}
		}
		for _, name := range names {
			line := stepLine(r, cke.StepRecord{Name: name, Node: strings.Join(nodes[name], ", ")}) + term.Took(n.now().Sub(since[name])) + " …"
			if progress[name] != "" {
				line += "  " + term.Clean(progress[name])
			}
			all = append(all, line)
		}
	}
	return all
}

// End takes the changing lines off the screen.
func (n *Narrator) End() { n.out.Show() }
