package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

// curve is one of the curves of the last 24 hours.
type curve struct {
	// Label says what it shows, Now what the newest value is, Range which values there were.
	Label, Now, Range, Class string
	// Path is the curve, 1000 wide and 48 high; it has a gap where nothing was sampled.
	Path string
}

const (
	curveTime = 24 * time.Hour
	// curveOld is the age from which the newest sample is not shown as the present: another daemon leads.
	curveOld = 2 * time.Minute
	// curvePoints is how many points a curve has, curveHeight how high it is.
	curvePoints, curveHeight = 120, 48.0
)

// Curves are drawn from the samples that this daemon has.
func (f facts) Curves() []curve {
	size := func(v float64) string { return term.Size(int64(v)) }
	count := func(v float64) string {
		if v < 0 {
			return "none"
		}
		return fmt.Sprintf("%.0f", v)
	}
	took := func(v float64) string { return term.Took(time.Duration(v)) }
	rate := func(v float64) string {
		if v >= 10 {
			return fmt.Sprintf("%.0f/s", v)
		}
		return fmt.Sprintf("%.1f/s", v)
	}
	all := []curve{
		f.curve("more members can be lost", count, true, func(s cke.Sample) float64 { return float64(s.Tolerance) }),
		f.curve("database", size, false, func(s cke.Sample) float64 { return float64(s.DBSize) }),
		f.curve("entries behind, slowest", count, false, func(s cke.Sample) float64 { return float64(s.Lag) }),
		f.curve("raft entries", rate, false, func(s cke.Sample) float64 { return s.Entries }),
		f.curve("observation", took, false, func(s cke.Sample) float64 { return float64(s.Took) }),
	}
	if f.S.Tolerance <= 0 && !f.row().healthy() {
		all[0].Class = "warn"
	}
	return all
}

// curve draws one value of the samples. Of those that share a point the worst is drawn: the least if low, else the most.
func (f facts) curve(label string, text func(float64) string, low bool, value func(cke.Sample) float64) curve {
	points := [curvePoints]float64{}
	for i := range points {
		points[i] = math.NaN()
	}
	start := f.Now.Add(-curveTime)
	least, most := math.Inf(1), math.Inf(-1)
	for _, s := range f.Samples {
		v := value(s)
		least, most = min(least, v), max(most, v)
		i := int(float64(s.At.Sub(start)) / float64(curveTime) * curvePoints)
		if i = min(max(i, 0), curvePoints-1); math.IsNaN(points[i]) || low == (v < points[i]) {
			points[i] = v
		}
	}
	var path strings.Builder
	bottom := min(least, 0)
	for i, v := range points {
		if math.IsNaN(v) {
			continue
		}
		y := curveHeight - 3 - (curveHeight-6)*(v-bottom)/max(most-bottom, 1e-9)
		x := float64(i) * 1000 / (curvePoints - 1)
		if i == 0 || math.IsNaN(points[i-1]) {
			fmt.Fprintf(&path, "M%.0f %.1f", max(x-8, 0), y) // so that a point alone is seen, too
		}
		fmt.Fprintf(&path, "L%.0f %.1f", x, y)
	}
	last := f.Samples[len(f.Samples)-1]
	c := curve{Label: label, Now: text(value(last)), Path: path.String(), Range: text(least) + " to " + text(most)}
	if f.Now.Sub(last.At) > curveOld {
		c.Now = "-"
	}
	if text(least) == text(most) {
		c.Range = "always " + text(most)
	}
	return c
}
