package backup

import (
	"fmt"
	"math"
	"path"
	"slices"
)

// A prune promises that of the revisions from a full on whose deltas stay, all can be restored afterward that could be before. Fulls
// that no rule keeps may go because one that stays leads, by deltas that stay, to all that they lead to. It does so only as far as these
// are whole, which is found out by reading them.

// mostRevision is after all revisions.
const mostRevision = math.MaxInt64 - 1

// lead is the revisions that can be restored from a full.
type lead struct {
	full Entry
	Span
	run    int     // the index of the run that it leads on by
	deltas []Entry // of that run
}

// leads returns what can be restored from a full, as far as is known: without the deltas that are broken, or that do not stay. stays has all deltas, by
// run; nil: all stay. Of several runs it is by the one that goes furthest so.
func (l *Lineage) leads(f Entry, stays [][]bool) lead {
	c := l.chain(f)
	best := lead{full: f, Span: Span{f.Revision, f.Revision}, run: -1}
	for run := range l.Streams {
		st := &l.Streams[run]
		deltas, last := st.after(f.Revision), st.Last
		switch {
		case st.First > f.Revision+1 || st.First < 1 || len(deltas) == 0:
			continue
		case len(c.Deltas) > 0 && deltas[0].Place == c.Deltas[0].Place:
			deltas, last = c.Deltas, c.Last
		case l.unsigned(f):
			continue // others have no limit for it
		}
		from := slices.IndexFunc(st.Deltas, func(d Entry) bool { return d.Place == deltas[0].Place })
		to := lead{full: f, Span: Span{f.Revision, f.Revision}, run: run}
		for i, d := range deltas {
			if l.isBroken(d) || stays != nil && !stays[run][from+i] {
				break
			}
			to.deltas, to.To = deltas[:i+1], last
			if i+1 < len(deltas) {
				to.To = min(last, deltas[i+1].Revision-1)
			}
		}
		to.To = max(to.To, f.Revision)
		if best.run < 0 || to.To > best.To {
			best = to
		}
	}
	return best
}

func (l *Lineage) isBroken(d Entry) bool { return len(l.broken) > 0 && l.broken[d.Name()] != nil }

// keepLeading keeps fulls that nothing else keeps, until all revisions that are promised can be restored from what stays that can be restored at all:
// where changes are missing, a delta is broken, or a full is of no use, the newest full that leads to them. Of several fulls of one revision that is the
// last. The deltas that lead from them to there are needed then.
func (l *Lineage) keepLeading(reasons map[string]*keeping, promised spans, needed [][]bool, need func(from Entry, to int64)) {
	sound := l.sound()
	all := make([]lead, len(sound))
	var can, stay, unbroken spans
	whole := *l
	whole.broken = nil
	for i, f := range sound {
		all[i] = l.leads(f, nil)
		can.add(all[i].Span)
		if len(reasons[f.Name()].why) > 0 {
			stay.add(l.leads(f, needed).Span)
			unbroken.add(whole.leads(f, needed).Span)
		}
	}
	for lost := can.in(promised).without(stay); len(lost) > 0; {
		at, best := lost[0].From, -1
		for i, a := range all {
			if a.From <= at && at <= a.To && (best < 0 || a.To >= all[best].To) {
				best = i
			}
		}
		f, why := sound[best], "leads to deltas that are kept"
		if is := l.brokenBefore(at); is != "" && len(spans{{at, at}}.in(unbroken)) > 0 {
			why = "leads to what others do not, because " + is
		}
		reasons[f.Name()].add(why, false)
		need(f, at)
		to := max(at, l.leads(f, needed).To)
		for len(lost) > 0 && lost[0].To <= to {
			lost = lost[1:]
		}
		if len(lost) > 0 {
			lost[0].From = max(lost[0].From, to+1)
		}
	}
}

// brokenBefore says of the last broken delta before a revision what it is; "": there is none.
func (l *Lineage) brokenBefore(revision int64) string {
	var last Entry
	for i := range l.Streams {
		for _, d := range l.Streams[i].Deltas {
			if d.Revision <= revision && d.Revision >= last.Revision && l.isBroken(d) {
				last = d
			}
		}
	}
	if last.Revision == 0 {
		return ""
	}
	is := "damaged"
	if !IsDamage(l.broken[last.Name()]) {
		is = "missing"
	}
	return fmt.Sprintf("delta %s is %s", path.Base(last.Name()), is)
}

func (p *PrunePlan) promise(lineage string, promised spans) {
	if p.promised == nil {
		p.promised = map[string]spans{}
	}
	p.promised[lineage] = promised
}

// unproved returns what is not known to be whole of that on whose account something of a lineage goes: fulls that lead to what is promised, and that
// others led to that go; and the deltas between such a full and another one that goes. proved reports of which that is known.
func (l *Lineage) unproved(plan PrunePlan, proved func(e Entry) bool) (unread []Entry) {
	gone, stays, loses := named(plan.Delete), make([][]bool, len(l.Streams)), false
	for i := range l.Streams {
		for _, d := range l.Streams[i].Deltas {
			stays[i] = append(stays[i], !gone[d.Name()])
			loses = loses || gone[d.Name()]
		}
	}
	var kept []lead
	for _, f := range l.Fulls {
		loses = loses || gone[f.Name()]
	}
	if !loses {
		return nil
	}
	asked := map[string]bool{}
	known := func(e Entry) bool { return proved(e) || asked[e.Name()] }
	ask := func(e Entry) {
		if !known(e) {
			asked[e.Name()] = true
			unread = append(unread, e)
		}
	}
	for _, k := range slices.Backward(plan.Keep) {
		if k.PointInTime && k.Full.Lineage == l.Name {
			ask(k.Full) // the newest
			break
		}
	}
	for _, f := range l.sound() {
		if !gone[f.Name()] {
			kept = append(kept, l.leads(f, stays))
		}
	}
	read := make([]int, len(kept)) // how many of their deltas were asked for
	for _, f := range l.sound() {
		led := l.leads(f, nil)
		rest := spans{led.Span}.in(plan.promised[l.Name])
		if i := slices.IndexFunc(kept, func(k lead) bool { return k.full == f }); i >= 0 {
			rest = rest.without(spans{kept[i].Span})
		}
		for len(rest) > 0 {
			at, best := rest[0].From, -1
			for i, k := range kept {
				if k.From <= at && at <= k.To && (best < 0 || known(k.full) || !known(kept[best].full)) {
					best = i
				}
			}
			if best < 0 {
				rest = rest.without(spans{{at, at}})
				continue
			}
			k := kept[best]
			ask(k.full)
			to := f.Revision // f needs those after it, too, unless it leads on by others
			if k.run != led.run && led.run >= 0 {
				to = rest[0].To
			}
			for ; k.From <= to && read[best] < len(k.deltas) && k.deltas[read[best]].Revision <= to; read[best]++ {
				ask(k.deltas[read[best]])
			}
			rest = rest.without(spans{k.Span})
		}
	}
	return unread
}

// brokenThatStay are the deltas that stay and are known to be broken.
func brokenThatStay(lineages []Lineage, going []Removal) (stay []Removal) {
	gone := named(going)
	for i := range lineages {
		for _, e := range lineages[i].entries() {
			if lineages[i].isBroken(e) && !gone[e.Name()] {
				stay = append(stay, Removal{e.Name(), e.Size, lineages[i].broken[e.Name()].Error()})
			}
		}
	}
	return stay
}

// replaces returns errUnread and what is to be read before a full may be deleted on request: the newest one that takes its place and, unless force is
// set, the deltas by which one before it leads to the same revisions. ErrOnlyFull: these are damaged.
func (l *Lineage) replaces(name string, force bool, known *Whole) (unread []Entry, err error) {
	rest := l.instead(name)
	if len(rest) == 0 {
		return nil, nil
	}
	if newest := rest[len(rest)-1]; !known.proved(newest) {
		unread = append(unread, newest)
	}
	if !force && l.useless[name] == "" {
		judged := []Lineage{*l}
		known.judge(judged)
		asked := l.Fulls[slices.IndexFunc(l.Fulls, func(f Entry) bool { return f.Name() == name })]
		var by, does spans
		var before lead
		for _, f := range rest {
			does.add(judged[0].leads(f, nil).Span)
			led := l.leads(f, nil)
			if by.add(led.Span); f.Revision <= asked.Revision && asked.Revision <= led.To {
				before = led
			}
		}
		if lost := (spans{judged[0].leads(asked, nil).Span}).in(by).without(does); len(lost) > 0 {
			return nil, fmt.Errorf("%s is %w that leads to revisions %s: %s", asked.ID(), ErrOnlyFull, lost[0], judged[0].brokenBefore(lost[0].From))
		}
		if len(before.deltas) > 0 && !known.proved(before.full) && before.full.Name() != rest[len(rest)-1].Name() {
			unread = append(unread, before.full)
		}
		for _, d := range before.deltas {
			if d.Revision <= asked.Revision && !known.proved(d) {
				unread = append(unread, d)
			}
		}
	}
	if len(unread) > 0 {
		return unread, errUnread
	}
	return nil, nil
}
