package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"cke"
	"cke/internal/term"
)

// dryResult is what `cluster set --dry-run` writes for programs.
type dryResult struct {
	Cluster string `json:"cluster"`
	// Revision is the one that the file would be stored as.
	Revision int64    `json:"revision"`
	Changed  bool     `json:"changed"`
	Diff     []string `json:"diff"`
	// Plan is what would be done; nil: there is no observation of the cluster yet.
	Plan *planned `json:"plan,omitempty"`
}

// runSetDry shows what `cluster set` would store, and stores nothing.
func runSetDry(ctx context.Context, a *app, s planStore, e edition, o setOptions) error {
	c := e.cluster
	now, err := s.Spec(ctx, c.Name)
	if err != nil && !errors.Is(err, cke.ErrNotFound) {
		return err
	}
	switch {
	case now.Deleting():
		return &cke.Error{Code: cke.CodeConflict, What: "cluster " + c.Name + " is being deleted", Unchanged: true}
	case o.ifRevision != nil && *o.ifRevision != now.Generation:
		return &cke.Error{Code: cke.CodeConflict, What: fmt.Sprintf("cluster %s has revision %d, not %d", c.Name, now.Generation, *o.ifRevision),
			Unchanged: true, Try: a.again(c.Name, "cluster get")}
	}
	old := []byte{}
	if now.Generation > 0 {
		if old, err = cke.MarshalCluster(now.Wanted()); err != nil {
			return err
		}
	}
	wanted, err := cke.MarshalCluster(e.after(now).Wanted())
	if err != nil {
		return err
	}
	r := dryResult{Cluster: c.Name, Revision: now.Generation, Diff: []string{}}
	if string(old) != string(wanted) {
		r.Revision, r.Changed = now.Generation+1, true
		r.Diff = diff(split(old), split(wanted))
	}
	var refusal error
	if r.Plan, refusal = a.checkPlan(ctx, s, e, &o); r.Plan == nil && refusal != nil {
		return refusal
	}
	if err := a.showDry(r); err != nil {
		return err
	}
	return refusal
}

// showDry writes what would be stored and done.
func (a *app) showDry(r dryResult) error {
	return a.show(view{data: r, names: []string{r.Cluster}, table: func(w io.Writer, colour, wide bool) error {
		if !r.Changed {
			_, err := fmt.Fprintf(w, "%s: revision %d says the same already\n", r.Cluster, r.Revision)
			return err
		}
		writeDiff(w, r.Diff, colour)
		_, err := fmt.Fprintf(w, "%s: would be stored as revision %d; nothing was stored\n", r.Cluster, r.Revision)
		if r.Plan == nil || err != nil {
			return err
		}
		fmt.Fprintln(w)
		return renderPlan(w, *r.Plan, colour, wide)
	}})
}

// writeDiff writes the lines of a diff.
func writeDiff(w io.Writer, lines []string, colour bool) {
	for _, line := range lines {
		style := term.Plain
		switch line[0] {
		case '+':
			style = term.Green
		case '-':
			style = term.Red
		}
		fmt.Fprintln(w, term.Paint(colour, style, line))
	}
}

func split(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// diffContext is how many unchanged lines stand around a change.
const diffContext = 3

// diff returns the lines of a and b with "-", "+" or " " before them; unchanged lines far from a change are left out.
// Its cost is the product of both lengths, which suits files that users write.
func diff(a, b []string) []string {
	common := make([][]int, len(a)+1) // length of the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var all []string
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, " "+a[i])
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			all = append(all, "-"+a[i])
			i++
		default:
			all = append(all, "+"+b[j])
			j++
		}
	}
	return nearChanges(all)
}

func nearChanges(all []string) []string {
	keep := make([]bool, len(all))
	for i, line := range all {
		if line[0] == ' ' {
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(all)-1, i+diffContext); k++ {
			keep[k] = true
		}
	}
	var out []string
	for i, line := range all {
		if keep[i] {
			out = append(out, line)
		} else if i > 0 && keep[i-1] || i == 0 {
			out = append(out, " …")
		}
	}
	return out
}
