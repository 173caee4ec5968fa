package backup

import (
	"cmp"
	"fmt"
	"slices"
)

// Span is a run of revisions, including From and To.
type Span struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

func (s Span) String() string {
	if s.From == s.To {
		return fmt.Sprint(s.From)
	}
	return fmt.Sprintf("%d to %d", s.From, s.To)
}

// spans is a set of revisions: sorted runs that do not touch.
type spans []Span

// add takes a run in.
func (s *spans) add(run Span) {
	if run.From > run.To {
		return
	}
	all := append(slices.Clone(*s), run)
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	joined := all[:1]
	for _, next := range all[1:] {
		if last := &joined[len(joined)-1]; next.From <= last.To+1 {
			last.To = max(last.To, next.To)
			continue
		}
		joined = append(joined, next)
	}
	*s = joined
}

// without returns the runs of s that are not in other.
func (s spans) without(other spans) (left spans) {
	for _, run := range s {
		for _, o := range other {
			if o.To < run.From || o.From > run.To {
				continue
			}
			left.add(Span{run.From, o.From - 1})
			run.From = o.To + 1
		}
		left.add(run)
	}
	return left
}

// in returns the runs of s that are in other, too.
func (s spans) in(other spans) spans { return s.without(s.without(other)) }

// held are the revisions that what is listed holds, or would hold if nothing of it were missing. Deltas that never were of use are
// left out: those that the first full of their stream made superfluous.
func (l *Lineage) held() (held spans) {
	for _, f := range l.Fulls {
		held.add(Span{f.Revision, f.Revision})
	}
	for i := range l.Streams {
		st := &l.Streams[i]
		if n := st.unled(l.Fulls); n < len(st.Deltas) {
			held.add(Span{st.Deltas[n].Revision, st.Last})
		}
		if st.Damage != nil {
			held.add(Span{st.Last + 1, st.until - 1})
		}
	}
	for _, s := range l.Strays {
		held.add(Span{s.First, s.Last})
		held.add(s.base)
	}
	return held
}
