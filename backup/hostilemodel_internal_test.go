package backup

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cke"
)

// pastWorld is the truth about a lineage: how far each delta goes, what users each full has, and which objects are of no use.
type pastWorld struct {
	ends  map[string]int64
	users map[string]int
	dead  map[string]bool // deltas that cannot be read
	bad   map[string]string
	all   []Object
	name  string
}

func randomWorld(r *rand.Rand, name string, now *time.Time) *pastWorld {
	w := &pastWorld{ends: map[string]int64{}, users: map[string]int{}, dead: map[string]bool{}, bad: map[string]string{}, name: name}
	users := 0
	put := func(p Place) {
		w.all = append(w.all, Object{Name: p.Name(), Size: 1, ModTime: *now})
	}
	full := func(revision int64) {
		*now = now.Add(time.Duration(1+r.IntN(3000)) * time.Second)
		begun := now.Add(time.Duration(r.IntN(1200)-600) * time.Second)
		if r.IntN(15) == 0 {
			begun = now.Add(3 * time.Hour)
		}
		if r.IntN(4) == 0 {
			users++
		}
		p := FullPlace("prod", name, revision, begun)
		if _, there := w.users[p.Name()]; there {
			return
		}
		put(p)
		w.users[p.Name()] = users
		if r.IntN(6) == 0 {
			w.bad[p.Name()] = "damaged"
		}
	}
	revision := int64(1)
	for range 1 + r.IntN(3) {
		full(revision)
		if r.IntN(3) == 0 {
			full(revision)
		}
		stream := revision + 1
		for i := range 1 + r.IntN(7) {
			n := int64(1 + r.IntN(4))
			p := DeltaPlace("prod", name, stream, int64(i), revision+1)
			if r.IntN(14) > 0 { // else it is missing
				put(p)
				w.ends[p.Name()] = revision + n
				w.dead[p.Name()] = hostileDead && r.IntN(25) == 0
			}
			for r.IntN(3) == 0 {
				full(revision + int64(r.IntN(int(n)+1)))
			}
			revision, *now = revision+n, now.Add(time.Minute)
		}
		if r.IntN(3) == 0 {
			full(revision)
		}
		if r.IntN(2) == 0 {
			revision += int64(1 + r.IntN(5))
		}
	}
	return w
}

// lineage is what a prune reads of what is left.
func (w *pastWorld) lineage(gone map[string]bool, read map[string]bool) Lineage {
	l := Lineage{Name: w.name, useless: map[string]string{}}
	all := slices.SortedFunc(slices.Values(w.all), func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	for _, o := range all {
		if !gone[o.Name] {
			l.add(o)
		}
	}
	l.order()
	for i := range l.Streams {
		st := &l.Streams[i]
		st.Last = st.First - 1
		for _, d := range slices.Backward(st.Deltas) {
			if !w.dead[d.Name()] {
				st.Last = w.ends[d.Name()]
				break
			}
			st.Damage = &DamagedError{Object: d.Name(), Err: damaged("dead")}
		}
		st.ends = map[string]int64{}
		for _, d := range st.Deltas {
			if read[d.Name()] && !w.dead[d.Name()] {
				st.ends[d.Name()] = w.ends[d.Name()]
			}
		}
	}
	slices.SortStableFunc(l.Fulls, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), cmp.Compare(w.users[a.Name()], w.users[b.Name()]))
	})
	for _, f := range l.Fulls {
		if w.bad[f.Name()] != "" {
			l.useless[f.Name()] = w.bad[f.Name()]
		}
	}
	return l
}

// restorable are the revisions that deltas hold and that can be restored, each with the newest full that leads there.
func (w *pastWorld) restorable(gone map[string]bool, fulls bool) map[int64]Entry {
	l := w.lineage(gone, nil)
	out := map[int64]Entry{}
	for _, f := range l.Fulls {
		if w.bad[f.Name()] != "" {
			continue
		}
		if _, held := out[f.Revision]; held || fulls {
			out[f.Revision] = f
		}
		for i := range l.Streams {
			st := &l.Streams[i]
			if st.First > f.Revision+1 {
				continue
			}
			for _, d := range st.Deltas {
				if w.ends[d.Name()] <= f.Revision {
					continue
				}
				if w.dead[d.Name()] {
					break
				}
				for r := max(d.Revision, f.Revision+1); r <= w.ends[d.Name()]; r++ {
					out[r] = f
				}
			}
		}
	}
	return out
}

func planOf(worlds []*pastWorld, gone map[string]bool, verified map[string]*Verified, p cke.Retention, now time.Time) (PrunePlan, []Lineage) {
	read := map[string]bool{}
	var plan PrunePlan
	var ls []Lineage
	for range 2 {
		ls = nil
		for _, w := range worlds {
			ls = append(ls, w.lineage(gone, read))
		}
		plan = PlanPrune(ls, verified, p, now)
		del := named(plan.Delete)
		for _, l := range ls {
			for _, st := range l.Streams {
				for j, d := range st.Deltas {
					if del[d.Name()] || j > 0 && del[st.Deltas[j-1].Name()] {
						read[d.Name()] = true
					}
				}
			}
		}
	}
	return plan, ls
}

func TestPlanPrune_HostileModel(t *testing.T) {
	users, deletes, partial := 0, 0, 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 7))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		worlds := []*pastWorld{randomWorld(r, "a1b2", &now)}
		if r.IntN(3) == 0 {
			worlds = append(worlds, randomWorld(r, "c3d4", &now))
		}
		verified := map[string]*Verified{}
		for _, w := range worlds {
			l := w.lineage(nil, nil)
			pick := func() string { return l.Fulls[r.IntN(len(l.Fulls))].ID() }
			if r.IntN(4) > 0 {
				verified[w.name] = &Verified{Full: pick(), HashProved: pick()}
			}
		}
		policy := cke.Retention{Last: 1 + r.IntN(2), Hourly: r.IntN(2) * r.IntN(4)}
		if r.IntN(3) == 0 {
			policy.Within = cke.Duration(time.Duration(r.IntN(200)) * time.Minute)
		}
		if r.IntN(5) == 0 {
			policy.MaxAge = cke.Duration(time.Duration(60+r.IntN(400)) * time.Minute)
		}
		gone := map[string]bool{}
		for round := range 3 {
			before := map[string]map[int64]Entry{}
			for _, w := range worlds {
				before[w.name] = w.restorable(gone, false)
			}
			plan, ls := planOf(worlds, gone, verified, policy, now)
			if round > 0 && len(plan.Delete) > 0 {
				t.Errorf("seed %d round %d: a second prune deletes %v", seed, round, plan.Delete)
			}
			for _, d := range plan.Delete {
				gone[d.Name], deletes = true, deletes+1
			}
			for li, w := range worlds {
				i := li
				v := verified[w.name]
				after := w.restorable(gone, true)
				strict := w.restorable(gone, false)
				from := int64(1 << 60)
				for _, f := range ls[i].Fulls {
					if v != nil && (v.Full == f.ID() || v.HashProved == f.ID()) {
						from = min(from, f.Revision)
					}
				}
				for _, k := range plan.Keep {
					if k.PointInTime && k.Full.Lineage == w.name {
						from = min(from, k.Full.Revision)
					}
				}
				for rev, b := range before[w.name] {
					if rev <= from {
						continue
					}
					a, ok := after[rev]
					if !ok && slices.ContainsFunc(plan.Keep, func(k Kept) bool { // the delta is led to from a full within it
						return slices.ContainsFunc(ls[i].Streams, func(st Stream) bool {
							return slices.ContainsFunc(st.Deltas, func(d Entry) bool {
								return d.Revision <= rev && rev < k.Full.Revision && k.Full.Revision <= w.ends[d.Name()] && !gone[d.Name()]
							})
						})
					}) {
						partial++
						continue
					}
					if !ok {
						dump(t, w, ls[i], gone)
						t.Fatalf("seed %d round %d %s: revision %d (from %d on all is kept) is lost: was from %s; %+v", seed, round, w.name, rev, from, b.ID(), plan)
					}
					if a.Revision == b.Revision && w.users[a.Name()] < w.users[b.Name()] {
						users++
						if users < 0 {
							t.Logf("seed %d round %d: users of revision %d are older: %s, were %s; %+v", seed, round, rev, a.ID(), b.ID(), plan.Keep)
						}
					}
				}
				l := w.lineage(gone, nil)
				for i := range l.Streams {
					for _, d := range l.Streams[i].Deltas {
						was := false
						for rev := range before[w.name] {
							was = was || d.Revision <= rev && rev <= w.ends[d.Name()]
						}
						is := false
						for rev := range strict {
							is = is || d.Revision <= rev && rev <= w.ends[d.Name()]
						}
						if was && !is {
							dump(t, w, ls[li], gone)
							t.Fatalf("seed %d round %d: kept delta %s became useless: %+v", seed, round, d.Name(), plan)
						}
					}
				}
			}
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	t.Logf("%d revisions within a delta before the full that leads to it are lost", partial)
	t.Logf("%d deleted, %d revisions with older users of the same revision", deletes, users)
}
const hostileDead = false

func dump(t *testing.T, w *pastWorld, l Lineage, gone map[string]bool) {
	for _, f := range l.Fulls {
		t.Logf("full %d %s %s gone %t %v users %d", f.Revision, f.ID(), l.useless[f.Name()], gone[f.Name()], f.ModTime, w.users[f.Name()])
	}
	for _, st := range l.Streams {
		for _, d := range st.Deltas {
			t.Logf("stream %d first %d last %d: delta %d to %d seq %d dead %t gone %t", st.Stream, st.First, st.Last, d.Revision, w.ends[d.Name()], d.Sequence, w.dead[d.Name()], gone[d.Name()])
		}
	}
}

// The newest full is damaged: what stays as the newest of its incarnation, whatever its age, is the newest that is sound.
func TestPlanPrune_TheNewestFullThatStaysIsSound(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	l := Lineage{Name: "a1b2"}
	for i := range int64(2) {
		at := now.Add(time.Duration(i-10) * time.Hour)
		l.Fulls = append(l.Fulls, Entry{Place: FullPlace("prod", l.Name, 1+i, at), ModTime: at})
	}
	l.useless = map[string]string{l.Fulls[1].Name(): "damaged"}
	for _, p := range []cke.Retention{{MaxAge: cke.Duration(time.Hour)}, {Last: 1, MaxAge: cke.Duration(time.Hour)}} {
		plan := PlanPrune([]Lineage{l}, nil, p, now)
		if named(plan.Delete)[l.Fulls[0].Name()] {
			t.Errorf("%+v: the only sound full is deleted: %+v", p, plan)
		}
	}
}
