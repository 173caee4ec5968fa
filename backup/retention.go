package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
)

// PrunePlan lists what a retention keeps and what it deletes. It does not depend on later states of the store.
type PrunePlan struct {
	Keep []Kept `json:"keep"`
	// Delete is what is to be deleted; from Prune, what was.
	Delete []Removal `json:"delete"`
	// Held is what was to be deleted and stays, because the target protects it, or because something that stays needs it.
	Held []Removal `json:"held,omitempty"`
	// Failed is what could not be deleted, and why.
	Failed []Removal `json:"failed,omitempty"`
	// Failing are the incarnations of which nothing is deleted, because the last drill failed or no full is intact.
	Failing []string `json:"failing,omitempty"`
	// Others are the incarnations of which nothing is deleted, because they are not the caller's.
	Others []string `json:"others,omitempty"`
	// Signed are the incarnations of which nothing is deleted, because only keys that are not trusted here signed them.
	Signed []UnknownSigner `json:"signed,omitempty"`
	// Damaged are deltas that stay, and that were read and are damaged or missing.
	Damaged []Removal `json:"damaged,omitempty"`

	promised map[string]spans // the revisions of which all stay that can be restored, by lineage
}

// Kept is a full that stays, and why.
type Kept struct {
	Full    Entry    `json:"full"`
	Reasons []string `json:"reasons"`
	// PointInTime means that the deltas after it stay too.
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
// A full stays if it is one of the last ones, or the newest of one of the last hours, days, weeks (from Monday) or months
// (UTC) that have any. From the oldest of the last ones on, all deltas stay: any revision can be restored there. The same
// holds from the newest full on that was started before the time Within. None of these rules keeps what is older than
// MaxAge; if there is no other rule, everything younger stays.
//
// The newest full of every incarnation that has any, the one that was last verified, and the one that a hash last proved,
// stay with all that their chains need, whatever their age, and so do all deltas after the latter two: no drill has
// tested the fulls that were taken since. Of the revisions from a full on whose deltas stay, all stay that can be restored:
// where changes are missing, or a delta or a full is damaged, so does the newest full that leads on there. Of several fulls of
// one revision, the one with the newest users and roles stays if another one does for its later date. Fulls that cannot be
// restored do not count. If the last drill of an incarnation failed, everything of it stays.
//
// The zero Retention deletes nothing. A full that is dated after now does not displace real backups: it stays, with the
// deltas up to the next full that is not.
func PlanPrune(lineages []Lineage, verified map[string]*Verified, r cke.Retention, now time.Time) PrunePlan {
	var plan PrunePlan
	switch r {
	case cke.Retention{}:
		r.Last = 1 << 30
	case cke.Retention{MaxAge: r.MaxAge}:
		r.Within = r.MaxAge
	}
	r.Last = max(r.Last, 1)
	reasons := keepReasons(lineages, r, now)
	for i := range lineages {
		l := &lineages[i]
		if l.failing != "" {
			plan.Failing = append(plan.Failing, l.Name)
		}
		l.pruneInto(&plan, reasons, verified[l.Name], r, now)
	}
	return plan
}

// keeping is why a full is kept.
type keeping struct {
	why   []string
	pit   bool // with the deltas after it
	ahead bool // it is dated in the future: with the deltas up to the next full that is not
}

func (k *keeping) add(why string, pit bool) { k.why, k.pit = append(k.why, why), k.pit || pit }

// keepReasons returns why each full of all lineages is kept, by name.
func keepReasons(lineages []Lineage, r cke.Retention, now time.Time) map[string]*keeping {
	reasons := map[string]*keeping{}
	var fulls []Entry
	for _, l := range lineages {
		for _, f := range l.Fulls {
			reasons[f.Name()] = &keeping{}
			switch {
			case l.failing != "":
				reasons[f.Name()].add(l.failing, true)
			case l.useless[f.Name()] != "":
				// It stays, to be examined, without using up a place.
				if !older(f, r.MaxAge, now) {
					reasons[f.Name()].add(l.useless[f.Name()], false)
				}
			case f.Time.After(now.Add(aheadLimit)):
				// Written by a clock that was wrong: it stays without using up a place.
				reasons[f.Name()].add("dated in the future", false)
				reasons[f.Name()].ahead = true
			case !older(f, r.MaxAge, now):
				fulls = append(fulls, f)
			}
		}
	}
	slices.SortFunc(fulls, func(a, b Entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(b.Revision, a.Revision), cmp.Compare(b.Name(), a.Name()))
	})
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
			reasons[f.Name()].add(why, rule.slot == nil)
		}
	}
	if r.Within > 0 {
		keepWithin(reasons, fulls, r.Within, now)
	}
	for _, l := range lineages { // of those that count for the rules
		counts := slices.DeleteFunc(slices.Clone(l.Fulls), func(f Entry) bool { return !slices.Contains(fulls, f) })
		keepUsers(reasons, counts, func(f, last Entry) bool { return f.Time.After(last.Time) })
	}
	return reasons
}

// keepUsers keeps, of several fulls of one revision, by revision, the one with the newest users and roles, which is the last, if another one is kept
// instead, as far as instead says.
func keepUsers(reasons map[string]*keeping, fulls []Entry, instead func(f, last Entry) bool) {
	for from, to := 0, 0; from < len(fulls); from = to {
		to = from + 1
		for to < len(fulls) && fulls[to].Revision == fulls[from].Revision {
			to++
		}
		last := fulls[to-1]
		kept := func(f Entry) bool { return reasons[f.Name()].why != nil && instead(f, last) }
		if reasons[last.Name()].why == nil && slices.ContainsFunc(fulls[from:to-1], kept) {
			reasons[last.Name()].add("newest users and roles of its revision", false)
		}
	}
}

// sound are the fulls that are not known to be of no use.
func (l *Lineage) sound() []Entry {
	return slices.DeleteFunc(slices.Clone(l.Fulls), func(f Entry) bool { return l.useless[f.Name()] != "" })
}

// keepWithin keeps the fulls, newest first, that were started within a time, and of each lineage the one before these: the
// revisions of that time from before the first of them are restored from it.
func keepWithin(reasons map[string]*keeping, fulls []Entry, within cke.Duration, now time.Time) {
	based := map[string]bool{}
	for _, f := range fulls {
		switch {
		case !older(f, within, now):
			reasons[f.Name()].add("within "+spanText(within), true)
		case !based[f.Lineage]:
			based[f.Lineage] = true
			reasons[f.Name()].add("base of what is within "+spanText(within), true)
		}
	}
}

// older reports whether a full was started longer ago than an age; zero is no age.
func older(f Entry, age cke.Duration, now time.Time) bool {
	return age > 0 && f.Time.Before(now.Add(-time.Duration(age)))
}

// spanText is a span of time in hours and what is left, as users write it in the cluster file.
func spanText(d cke.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// pruneInto enters one lineage into a plan.
func (l *Lineage) pruneInto(plan *PrunePlan, reasons map[string]*keeping, v *Verified, r cke.Retention, now time.Time) {
	needed := make([][]bool, len(l.Streams)) // deltas, by run
	for i := range l.Streams {
		needed[i] = make([]bool, len(l.Streams[i].Deltas))
	}
	need := func(from Entry, to int64) { // all that lead from a full to a revision
		for i := range l.Streams {
			st := &l.Streams[i]
			for j, d := range st.Deltas {
				needed[i][j] = needed[i][j] || d.Revision <= to && st.mayPass(j, from) && !(st.unread(j) && l.resumed(st, from))
			}
		}
	}
	var promised spans
	keep := func(from Entry, to int64) {
		need(from, to)
		promised.add(Span{from.Revision, to - 1})
	}
	newest := len(l.Fulls) - 1
	for newest > 0 && l.useless[l.Fulls[newest].Name()] != "" {
		newest--
	}
	for i, f := range l.Fulls {
		k := reasons[f.Name()]
		if i == newest {
			k.add("newest of its incarnation", true)
		}
		if v != nil && (v.Full == f.ID() || v.HashProved == f.ID()) {
			why := "proved by a hash"
			if v.Full == f.ID() {
				why = "verified " + v.At.UTC().Format(time.RFC3339)
			}
			k.add(why, false)
			keep(f, mostRevision)
		}
		if len(k.why) == 0 {
			continue
		}
		if to := l.leadsTo(i, reasons); k.ahead && !k.pit {
			keep(f, to)
			if k.pit = to == mostRevision; !k.pit {
				k.add(fmt.Sprintf("with its deltas up to revision %d", to), false)
			}
		}
		if k.pit {
			keep(f, mostRevision)
		}
	}
	keepUsers(reasons, l.sound(), func(_, _ Entry) bool { return true }) // whatever the rules and their dates say
	l.keepLeading(reasons, promised, needed, need)
	for _, f := range l.Fulls {
		if k := reasons[f.Name()]; len(k.why) > 0 {
			plan.Keep = append(plan.Keep, Kept{f, k.why, k.pit})
			continue
		}
		why := "no rule keeps it"
		if older(f, r.MaxAge, now) {
			why = "older than " + spanText(r.MaxAge)
		}
		plan.Delete = append(plan.Delete, Removal{f.Name(), f.Size, why})
	}
	if len(l.Fulls) == 0 || l.failing != "" {
		return // the full of these deltas may still be on its way, or all of them are needed
	}
	plan.promise(l.Name, promised)
	for i := range l.Streams {
		for j, d := range l.Streams[i].Deltas {
			if !needed[i][j] {
				plan.Delete = append(plan.Delete, Removal{d.Name(), d.Size, "no full that is kept needs it"})
			}
		}
	}
}

// leadsTo is the revision of the first full after one that counts for the rules; mostRevision: there is none. By the order of revisions the one is
// older, so where no rule keeps the deltas after the later full, none would keep them for the one if its date were right.
func (l *Lineage) leadsTo(i int, reasons map[string]*keeping) int64 {
	for _, f := range l.Fulls[i+1:] {
		if f.Revision > l.Fulls[i].Revision && l.useless[f.Name()] == "" && !reasons[f.Name()].ahead {
			return f.Revision
		}
	}
	return mostRevision
}

// lastOf is the newest revision in one of the run's deltas, as a listing tells it, or as its own header does where that was read and goes further: anybody
// can put a next name there.
func (st *Stream) lastOf(i int) int64 {
	last := st.Last
	if i+1 < len(st.Deltas) {
		last = st.Deltas[i+1].Revision - 1
	}
	return max(last, st.ends[st.Deltas[i].Name()])
}

// unread reports whether it is not known where one of the run's deltas ends: it is the last one, and cannot be read.
func (st *Stream) unread(i int) bool { return st.lastOf(i) < st.Deltas[i].Revision }

// mayPass reports whether one of the run's deltas may have changes that a full lacks. Where its end is not known, because it cannot be
// read, only a full that was started after it was stored has them all for certain. When one was started that is dated later than it was stored
// itself is not known.
func (st *Stream) mayPass(i int, f Entry) bool {
	d, last := st.Deltas[i], st.lastOf(i)
	if st.unread(i) {
		return !f.Time.After(d.ModTime.Add(clockLimit)) || f.Time.After(f.ModTime.Add(clockLimit))
	}
	return last > f.Revision
}

// bases returns what is needed to restore from a delta: the full that it leads on from, and the deltas between them.
func (l *Lineage) bases(delta string) []string {
	for _, st := range l.Streams {
		i := slices.IndexFunc(st.Deltas, func(d Entry) bool { return d.Name() == delta })
		if i < 0 {
			continue
		}
		base := -1
		none := len(l.useless) == len(l.Fulls)
		for j, f := range l.Fulls {
			if !none && l.useless[f.Name()] != "" {
				continue
			}
			// The newest full before it; else, for the first delta of a stream, the first full that its changes lead on from.
			before := f.Revision < st.Deltas[i].Revision
			if before && f.Revision+1 >= st.First || !before && base < 0 && f.Revision < st.lastOf(i) {
				base = j
			}
		}
		if base < 0 {
			return nil // it is in no chain
		}
		names := []string{l.Fulls[base].Name()}
		for j := range i {
			if st.lastOf(j) > l.Fulls[base].Revision {
				names = append(names, st.Deltas[j].Name())
			}
		}
		return names
	}
	return nil
}
