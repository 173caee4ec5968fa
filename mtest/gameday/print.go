package gameday

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
	"cke/mtest/rig"
)

// printer prints one line for each event: its time, its kind, and what happened. Its methods may be called side by
// side.
type printer struct {
	color bool

	writing sync.Mutex
	w       io.Writer

	mu       sync.Mutex
	shown    string          // what was printed of the last status
	problems map[string]bool // those that were printed since the last fault, by code and node
	records  map[int64]bool  // those that were printed; true: with their end
}

func newPrinter(w io.Writer, color bool) *printer {
	return &printer{w: w, color: color, problems: map[string]bool{}, records: map[int64]bool{}}
}

// styles of the kinds of events.
var styles = map[string]term.Style{
	"break": term.Red, "revert": term.Yellow, "whole": term.Green, "cke": term.Bold, "error": term.Alarm, "problem": term.Dim, "status": term.Dim,
}

// clock is how times are written.
const clock = "15:04:05"

func (p *printer) print(kind, text string) {
	p.writing.Lock()
	defer p.writing.Unlock()
	fmt.Fprintf(p.w, "%s  %s  %s\n", time.Now().Format(clock), term.Paint(p.color, styles[kind], term.Pad(kind, 7)), term.Clean(text))
}

// printStatus prints a status whose summary differs from the last one, and each kind of problem of a node once for each
// fault.
func (p *printer) printStatus(st cke.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shown := string(st.Health) + ": " + st.Summary; shown != p.shown {
		p.shown = shown
		p.print("status", shown)
	}
	for _, problem := range st.Problems {
		if key := string(problem.Code) + " " + problem.Node; !p.problems[key] {
			p.problems[key] = true
			p.print("problem", words.Problem(problem))
		}
	}
}

// printBreak prints a fault. Problems after it are printed again, each once.
func (p *printer) printBreak(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.problems)
	p.print("break", text)
}

// printRecord prints what an operation does when it starts, and how it ended.
func (p *printer) printRecord(r cke.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended, known := p.records[r.ID]
	if !known {
		p.print("cke", words.Heading(r)+": "+r.Reason)
	}
	p.records[r.ID] = ended || !r.EndedAt.IsZero()
	if ended || r.EndedAt.IsZero() {
		return
	}
	text := fmt.Sprintf("#%d %s after %s", r.ID, r.Outcome(), term.Took(r.Took(time.Now())))
	if r.Error != "" {
		text += ": " + r.Error
	}
	p.print("cke", text)
}

func (p *printer) printWhole(h Happened) {
	p.print("whole", fmt.Sprintf("READY %s after %s%s; longest time without an acknowledged write: %s",
		term.Took(h.Whole.Sub(h.At)), h.Fault, on(h.Nodes), silence(h.Silence)))
}

// silence writes a time without an acknowledged write; the shortest ones are not measured.
func silence(d time.Duration) string {
	if d < rig.SilenceLeast {
		return "<" + term.Took(rig.SilenceLeast)
	}
	return term.Took(d)
}

// Write prints the verdict: a table of the faults, and the figures.
func (v Verdict) Write(w io.Writer, color bool) error {
	faults := term.NewTable("TIME", "FAULT", "NODE", "FOR", "READY AFTER", "NO WRITE FOR", "CKE")
	for _, h := range v.Faults {
		ready, held := term.Styled(term.Red, "never"), ""
		if !h.Whole.IsZero() {
			ready = term.Text(term.Took(h.Whole.Sub(h.At)))
		}
		if !h.Over.IsZero() {
			held = term.Took(h.Over.Sub(h.At))
		}
		var did []string
		for _, r := range h.Records {
			did = append(did, fmt.Sprintf("#%d %s%s", r.ID, r.Operation, unlessCompleted(r)))
		}
		faults.Add(term.Text(h.At.Format(clock)), term.Text(h.Fault), term.Text(strings.Join(h.Nodes, ", ")), term.Text(held),
			ready, term.Text(silence(h.Silence)), term.Text(strings.Join(did, ", ")))
	}
	var figures term.Labels
	figures.Add("Verdict", v.sentence())
	switch v.Lost {
	case Unknown:
		figures.Add("Writes", term.Styled(term.Red, fmt.Sprintf("%d acknowledged; how many are lost is not known", v.Load.Acked)))
	case 0:
		figures.Add("Writes", term.Textf("%d acknowledged, 0 lost: each was read back through every member", v.Load.Acked))
	default:
		figures.Add("Writes", term.Styled(term.Alarm, fmt.Sprintf("%d acknowledged, %d LOST", v.Load.Acked, v.Lost)))
	}
	if v.Lost == 0 {
		figures.Add("Registers", term.Textf("%d calls, linearizable (%d without an answer)", v.Load.Calls, v.Load.Unknown))
		figures.Add("Members", term.Textf("equal data: HashKV %d at revision %d", v.Load.Hash, v.Load.Revision))
	}
	figures.Add("Silence", term.Textf("%s was the longest time without an acknowledged write", silence(v.Silence)))
	figures.Add("cke", term.Text(v.did()))
	if v.Err != nil {
		label := "Problem"
		for line := range strings.Lines(v.Err.Error()) {
			figures.Add(label, term.Styled(term.Red, line))
			label = ""
		}
	}
	if len(v.Faults) > 0 {
		fmt.Fprintln(w)
		if err := faults.Write(w, color); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return figures.Write(w, color)
}

func (v Verdict) sentence() term.Cell {
	switch {
	case v.Passed():
		return term.Styled(term.Green, "PASSED: no acknowledged write was lost, and the cluster is READY")
	case v.Lost > 0:
		return term.Styled(term.Alarm, "FAILED: acknowledged writes were lost")
	case !v.Whole:
		return term.Styled(term.Red, fmt.Sprintf("FAILED: the cluster is %s, not READY as declared", v.Health))
	}
	return term.Styled(term.Red, "FAILED: not everything could be done and checked")
}

// did counts operations: "3 start-members, 1 replace; 1 replace failed".
func (v Verdict) did() string {
	count := map[string]int{}
	var names []string
	for _, r := range v.Records {
		name := r.Operation + unlessCompleted(r)
		if count[name] == 0 {
			names = append(names, name)
		}
		count[name]++
	}
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", count[name], name)
	}
	if len(names) == 0 {
		return "no operation was necessary"
	}
	return strings.Join(names, ", ")
}

func unlessCompleted(r cke.Record) string {
	if r.State == cke.RecordCompleted {
		return ""
	}
	return " (" + r.Outcome() + ")"
}
