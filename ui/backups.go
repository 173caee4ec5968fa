package ui

import (
	"html/template"
	"slices"
	"strings"
	"time"

	"cke"
)

// timeline is what can be restored, on an axis of time; places are of a thousand.
type timeline struct {
	clock
	Start time.Time
	// Fulls are the fulls that the status and the history name.
	Fulls []int
	// From and To bound the moments that can be restored for certain; To 0: none can.
	From, To int
	// Hole is where changes are missing, up to Until; Until 0: nowhere.
	Hole, Until int
	// Drill is the place of the last restore drill; negative: there was none, or it was before the axis.
	Drill int
	// Since and Newest are the moments at From and To.
	Since, Newest time.Time
	all           bool // everything that was written is stored
}

// End is the newest moment that can be restored.
func (t timeline) End() template.HTML {
	if t.all {
		return t.Seen(t.Newest)
	}
	return t.Ago(t.Newest)
}

// Bounds of the axis.
const (
	leastAxis = time.Hour
	mostAxis  = 7 * 24 * time.Hour
)

// Timeline lays the backups out; nil: nothing is known of any.
func (f facts) Timeline() *timeline {
	b := f.S.Backup
	if b == nil || !b.Known || b.Full.Revision == 0 {
		return nil
	}
	fulls := append([]time.Time{b.Full.At}, b.Fulls...)
	for _, r := range f.Records {
		if r.Backup != nil && r.Backup.Kind == "full" {
			fulls = append(fulls, r.Backup.At)
		}
	}
	first := slices.MinFunc(fulls, time.Time.Compare)
	if v := b.Verified; v != nil && v.At.Before(first) {
		first = v.At
	}
	length := min(max(f.Now.Sub(first)*21/20, leastAxis), mostAxis)
	t := timeline{clock: f.clock, Start: f.Now.Add(-length), Drill: -1}
	place := func(at time.Time) int { return min(max(int(float64(at.Sub(t.Start))/float64(length)*1000), 0), 1000) }
	for _, at := range fulls {
		if at.After(t.Start) {
			t.Fulls = append(t.Fulls, place(at))
		}
	}
	slices.Sort(t.Fulls)
	t.Fulls = slices.Compact(t.Fulls)
	t.Since, t.Newest = b.Full.At, b.Full.At
	if b.Connected && !b.Since.IsZero() && b.Since.Before(t.Since) {
		t.Since = b.Since
	}
	if b.Connected {
		t.Newest = maxTime(b.Time, b.Full.At)
	}
	if t.all = allStored(b); t.all {
		t.Newest = maxTime(t.Newest, f.S.ObservedAt)
	}
	t.From, t.To = place(t.Since), max(place(t.Newest), place(t.Since)+4)
	if b.Problem != nil || !b.Connected {
		since := t.Newest
		if p := b.Problem; p != nil && b.Connected {
			since = maxTime(since, p.Since)
		}
		t.Hole, t.Until = place(since), 1000
	}
	if v := b.Verified; v != nil && v.At.After(t.Start) {
		t.Drill = place(v.At)
	}
	return &t
}

// allStored reports whether the target holds all that was written.
func allStored(b *cke.BackupStatus) bool {
	return b.Known && b.Connected && !b.Resuming && b.Problem == nil && b.LagRevisions == 0
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// HoleWidth is the width of the hole.
func (t timeline) HoleWidth() int { return max(t.Until-t.Hole, 6) }

// HoleAt is where the hole starts.
func (t timeline) HoleAt() int { return min(t.Hole, 994) }

// Width is the width of the band.
func (t timeline) Width() int { return t.To - t.From }

// Troubles are the failures of work on backups that no problem names.
func (f facts) Troubles() (all []cke.BackupTrouble) {
	b := f.S.Backup
	if b == nil {
		return nil
	}
	for _, t := range []*cke.BackupTrouble{b.Problem, b.Lost} {
		if t != nil {
			all = append(all, *t)
		}
	}
	shown := func(t cke.BackupTrouble) bool {
		return slices.ContainsFunc(f.S.Problems, func(p cke.Problem) bool { return strings.Contains(p.Message, t.Message) })
	}
	return slices.DeleteFunc(append(all, b.Troubles...), shown)
}
