package backup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
)

// PrunePlan says what a retention keeps and what it deletes. Nothing in it depends on the store's state later on.
type PrunePlan struct {
	Keep   []Kept    `json:"keep"`
	Delete []Removal `json:"delete"`
}

// Kept is a full that stays, and why.
type Kept struct {
	Full    Entry    `json:"full"`
	Reasons []string `json:"reasons"`
	// PointInTime: the deltas after it stay too.
	PointInTime bool `json:"pointInTime"`
}

// Removal is an object to be deleted, and why.
type Removal struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Reason string `json:"reason"`
}

// PlanPrune decides what a retention deletes. It is pure: the same store, policy and time give the same plan.
//
// A full stays if it is one of the last ones, or the newest of one of the last hours, days, weeks (from Monday) or
// months (UTC) that have any. From the oldest of the last ones on, all deltas stay: any revision can be restored there.
// The newest full of every lineage that has any, and the one that was last verified, stay with all that their chains
// need. The zero Retention deletes nothing. now only keeps what is dated in the future from pushing real backups out.
func PlanPrune(lineages []Lineage, verified map[string]*Verified, r cke.Retention, now time.Time) PrunePlan {
	var plan PrunePlan
	if r == (cke.Retention{}) {
		r.Last = 1 << 30
	}
	r.Last = max(r.Last, 1)
	reasons := keepReasons(lineages, r, now)
	for i := range lineages {
		l := &lineages[i]
		l.pruneInto(&plan, reasons, verified[l.Name])
	}
	return plan
}

// keepReasons returns why each full of all lineages is kept, by name.
func keepReasons(lineages []Lineage, r cke.Retention, now time.Time) map[string][]string {
	var fulls []Entry
	for _, l := range lineages {
		fulls = append(fulls, l.Fulls...)
	}
	slices.SortFunc(fulls, func(a, b Entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Revision, a.Revision), cmp.Compare(b.Name(), a.Name()))
	})
	reasons := map[string][]string{}
	rules := []struct {
		what  string
		count int
		slot  func(t time.Time) string
	}{
		{"last", r.Last, nil},
		{"hourly", r.Hourly, func(t time.Time) string { return t.Format("2006-01-02 15") }},
		{"daily", r.Daily, func(t time.Time) string { return t.Format("2006-01-02") }},
		{"weekly", r.Weekly, func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprintf("%d week %d", y, w) }},
		{"monthly", r.Monthly, func(t time.Time) string { return t.Format("2006-01") }},
	}
	for _, rule := range rules {
		left, slot := rule.count, ""
		for _, f := range fulls {
			if left == 0 {
				break
			}
			// A full from the future, written by a clock that was wrong, stays without using up a place.
			if f.Time.After(now.Add(time.Hour)) {
				reasons[f.Name()] = []string{"dated in the future"}
				continue
			}
			name := f.Name()
			if rule.slot != nil {
				if name = rule.slot(f.Time.UTC()); name == slot {
					continue
				}
			}
			slot = name
			left--
			why := rule.what
			if rule.slot != nil {
				why += " " + slot
			}
			reasons[f.Name()] = append(reasons[f.Name()], why)
		}
	}
	return reasons
}

// pruneInto enters one lineage into a plan.
func (l *Lineage) pruneInto(plan *PrunePlan, reasons map[string][]string, v *Verified) {
	// Revisions of which the deltas are needed, from a full's up to another's.
	type span struct{ from, to int64 }
	var spans []span
	for i, f := range l.Fulls {
		why := slices.Clone(reasons[f.Name()])
		pit := slices.Contains(why, "last") || slices.Contains(why, "dated in the future")
		if i == len(l.Fulls)-1 {
			why, pit = append(why, "newest of its lineage"), true
		}
		if v != nil && v.Full == f.ID() {
			why = append(why, "verified "+v.At.UTC().Format(time.RFC3339))
			spans = append(spans, span{f.Revision, v.Revision})
		}
		if len(why) == 0 {
			plan.Delete = append(plan.Delete, Removal{f.Name(), f.Size, "no rule keeps it"})
			continue
		}
		if pit {
			spans = append(spans, span{f.Revision, 1<<63 - 1})
		}
		plan.Keep = append(plan.Keep, Kept{f, why, pit})
	}
	if len(l.Fulls) == 0 {
		return // the full of these deltas may still be on its way
	}
	for _, st := range l.Streams {
		for i, d := range st.Deltas {
			last := st.Last
			if i+1 < len(st.Deltas) {
				last = st.Deltas[i+1].Revision - 1
			}
			needed := slices.ContainsFunc(spans, func(s span) bool { return last > s.from && d.Revision <= s.to })
			// Unreadable, or on its way: judged by its first revision alone, and kept when in doubt.
			if !needed && last < d.Revision {
				needed = slices.ContainsFunc(spans, func(s span) bool { return d.Revision >= s.from })
			}
			if !needed {
				plan.Delete = append(plan.Delete, Removal{d.Name(), d.Size, "no full that is kept needs it"})
			}
		}
	}
}
