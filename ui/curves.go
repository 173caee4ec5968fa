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
	// Until is when the value was last known, End the place of that time; zero and empty: it is known now.
	Until time.Time
	End   string
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
		f.curve("database", size, false, ofMembers(func(s cke.Sample) float64 { return float64(s.DBSize) })),
		f.curve("entries behind, slowest", count, false, ofMembers(func(s cke.Sample) float64 { return float64(s.Lag) })),
		f.curve("raft entries", rate, false, ofMembers(func(s cke.Sample) float64 { return s.Entries })),
		f.curve("observation", took, false, func(s cke.Sample) float64 { return float64(s.Took) }),
	}
	if f.S.Tolerance <= 0 && !f.row().healthy() {
		all[0].Class = "warn"
	}
	if all[0].Until.IsZero() { // a sample has the least of half a minute
		all[0].Now = count(float64(f.S.Tolerance))
		if f.Health() == cke.HealthUnknown {
			all[0].Now = "unknown"
		}
	}
	for i, c := range all {
		if one := singular[c.Label]; one != "" && c.Now == "1" {
			all[i].Label = one
		}
	}
	return all
}

// singular are the labels of curves behind the number one.
var singular = map[string]string{"more members can be lost": "more member can be lost", "entries behind, slowest": "entry behind, slowest"}

// ofMembers is a value that members report; none where no member answered.
func ofMembers(value func(cke.Sample) float64) func(cke.Sample) float64 {
	return func(s cke.Sample) float64 {
		if s.DBSize == 0 {
			return math.NaN()
		}
		return value(s)
	}
}

// curve draws one value of the samples. Of those that share a point the worst is drawn: the least if low, else the most.
func (f facts) curve(label string, text func(float64) string, low bool, value func(cke.Sample) float64) curve {
	points, at := [curvePoints]float64{}, [curvePoints]float64{}
	for i := range points {
		points[i] = math.NaN()
	}
	place := func(t time.Time) float64 { // of a thousand
		return min(max(1000-1000*float64(f.Now.Sub(t))/float64(curveTime), 0), 1000)
	}
	least, most := math.Inf(1), math.Inf(-1)
	var last cke.Sample // that has the value
	for _, s := range f.Samples {
		v := value(s)
		if math.IsNaN(v) {
			continue
		}
		last, least, most = s, min(least, v), max(most, v)
		i := min(int(place(s.At)*curvePoints/1000), curvePoints-1)
		if at[i] = place(s.At); math.IsNaN(points[i]) || low == (v < points[i]) {
			points[i] = v
		}
	}
	if last.At.IsZero() {
		return curve{Label: label, Now: "-", Range: "not seen"}
	}
	var path strings.Builder
	bottom := min(least, 0)
	for i, v := range points {
		if math.IsNaN(v) {
			continue
		}
		y := curveHeight - 3 - (curveHeight-6)*(v-bottom)/max(most-bottom, 1e-9)
		if i == 0 || math.IsNaN(points[i-1]) {
			fmt.Fprintf(&path, "M%.0f %.1f", max(at[i]-8, 0), y) // so that a point alone is seen, too
		}
		fmt.Fprintf(&path, "L%.0f %.1f", at[i], y)
	}
	c := curve{Label: label, Now: text(value(last)), Path: path.String(), Range: text(least) + " to " + text(most)}
	if newest := f.Samples[len(f.Samples)-1]; f.Past() || last != newest || f.Now.Sub(last.At) > curveOld {
		c.Now, c.Until, c.End = "-", last.At, fmt.Sprintf("%.0f", place(last.At))
	}
	if text(least) == text(most) {
		c.Range = "always " + text(most)
	}
	return c
}

// NoCurves says where the curves are that this daemon does not have.
func (f facts) NoCurves() string {
	where := "The daemon that leads the cluster keeps curves in memory"
	switch host := f.S.Leader.Host; {
	case !f.Led:
		where += ", and none leads it now"
	case f.Past():
		where += ", and it reports nothing now"
	case host != "":
		where += ": open the page of " + host
	}
	return where + "."
}
