package backup

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cke"
)

// randomLineage is streams of deltas with changes missing between them, and fulls beside and between these, dated by clocks that differ.
func randomLineage(r *rand.Rand) (l Lineage, now time.Time) {
	l = Lineage{Name: "a1b2", useless: map[string]string{}}
	now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	full := func(revision int64) {
		now = now.Add(time.Duration(1+r.IntN(3000)) * time.Second)
		begun := now.Add(time.Duration(r.IntN(1200)-600) * time.Second)
		e := Entry{Place: FullPlace("prod", l.Name, revision, begun), ModTime: now}
		if l.Fulls = append(l.Fulls, e); r.IntN(6) == 0 {
			l.useless[e.Name()] = "damaged"
		}
	}
	revision := int64(1)
	for range 1 + r.IntN(3) {
		full(revision)
		if r.IntN(3) == 0 {
			full(revision)
		}
		st := Stream{Stream: revision + 1, First: revision + 1}
		for i := range 1 + r.IntN(6) {
			st.Deltas = append(st.Deltas, Entry{Place: DeltaPlace("prod", l.Name, st.Stream, int64(i), revision+1), ModTime: now})
			n := 1 + r.IntN(4)
			for r.IntN(3) == 0 {
				full(revision + int64(r.IntN(n+1)))
			}
			revision, now = revision+int64(n), now.Add(time.Minute)
		}
		st.Last = revision
		if r.IntN(3) == 0 {
			full(revision)
		}
		l.Streams = append(l.Streams, st)
		revision += int64(2 + r.IntN(5))
	}
	slices.SortStableFunc(l.Fulls, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Revision, b.Revision), r.IntN(3)-1) })
	return l, now
}

// led reports whether a sound full that is there leads to a delta, with all deltas between them.
func led(l *Lineage, st *Stream, i int, gone map[string]bool) bool {
	return slices.ContainsFunc(l.Fulls, func(f Entry) bool {
		if gone[f.Name()] || l.useless[f.Name()] != "" || st.First > f.Revision+1 || st.lastOf(i) <= f.Revision {
			return false
		}
		for j := range i + 1 {
			if st.lastOf(j) > f.Revision && gone[st.Deltas[j].Name()] {
				return false
			}
		}
		return true
	})
}

// Of random backups: whatever delta a prune keeps is of use if it was before, and of the fulls of one revision the last one is kept for it.
func TestPlanPrune_KeepsNoDeltaWithoutWhatLeadsToIt(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 3))
		l, now := randomLineage(r)
		pick := func() string { return l.Fulls[r.IntN(len(l.Fulls))].ID() }
		verified := map[string]*Verified{}
		if r.IntN(3) > 0 {
			verified[l.Name] = &Verified{Full: pick(), HashProved: pick()}
		}
		policy := cke.Retention{Last: 1 + r.IntN(2), Hourly: r.IntN(2) * r.IntN(4)}
		if r.IntN(3) == 0 {
			policy.Within = cke.Duration(time.Duration(r.IntN(200)) * time.Minute)
		}
		plan := PlanPrune([]Lineage{l}, verified, policy, now)
		gone := map[string]bool{}
		for _, d := range plan.Delete {
			gone[d.Name] = true
		}
		for i := range l.Streams {
			for j, d := range l.Streams[i].Deltas {
				if st := &l.Streams[i]; !gone[d.Name()] && led(&l, st, j, nil) && !led(&l, st, j, gone) {
					t.Fatalf("seed %d: %s is kept, and nothing leads to it any more: %+v", seed, d.Name(), plan)
				}
			}
		}
		for _, k := range plan.Keep {
			i := slices.IndexFunc(l.Fulls, func(f Entry) bool { return f == k.Full })
			later := slices.ContainsFunc(l.Fulls[i+1:], func(f Entry) bool { return f.Revision == k.Full.Revision && l.useless[f.Name()] == "" })
			if later && slices.Equal(k.Reasons, []string{"leads to deltas that are kept"}) {
				t.Fatalf("seed %d: %s is kept, and not the last of its revision: %+v", seed, k.Full.ID(), plan)
			}
		}
	}
}
