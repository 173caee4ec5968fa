package backup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cke"
)

// hourly makes a lineage with a full every hour up to now, ten revisions apart, and a delta after each.
func hourly(n int, now time.Time) Lineage {
	l := Lineage{Name: "l"}
	st := Stream{Stream: 11, First: 11}
	for i := range n {
		at := now.Add(time.Duration(i-n+1) * time.Hour)
		l.Fulls = append(l.Fulls, Entry{Place: FullPlace("c", "l", int64(10*i+10), at)})
		st.Deltas = append(st.Deltas, Entry{Place: DeltaPlace("c", "l", 11, int64(i), int64(10*i+11))})
	}
	st.Last = int64(10*n + 10)
	l.Streams = []Stream{st}
	return l
}

func kept(p PrunePlan) (fulls []string) {
	for _, k := range p.Keep {
		fulls = append(fulls, fmt.Sprintf("%s (%s)", k.Full.Time.Format("02 15h"), strings.Join(k.Reasons, ", ")))
	}
	return fulls
}

func TestPlanPrune_Rules(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	l := hourly(24*60, now)
	plan := PlanPrune([]Lineage{l}, nil, cke.Retention{Last: 3, Hourly: 6, Daily: 3, Weekly: 2, Monthly: 2}, now)
	want := []string{
		"31 23h (monthly 2026-10)",
		"08 23h (daily 2026-11-08, weekly 2026 week 45)",
		"09 23h (daily 2026-11-09)",
		"10 00h (hourly 2026-11-10 00)",
		"10 01h (hourly 2026-11-10 01)",
		"10 02h (hourly 2026-11-10 02)",
		"10 03h (last, hourly 2026-11-10 03)",
		"10 04h (last, hourly 2026-11-10 04)",
		"10 05h (last, hourly 2026-11-10 05, daily 2026-11-10, weekly 2026 week 46, monthly 2026-11, newest of its incarnation)",
	}
	if got := kept(plan); !slices.Equal(got, want) {
		t.Errorf("kept\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	deltas := 0
	for _, d := range plan.Delete {
		if strings.Contains(d.Name, "/delta/") {
			deltas++
		}
	}
	if deltas != len(l.Fulls)-3 {
		t.Errorf("%d of %d deltas are deleted", deltas, len(l.Fulls))
	}
}

func TestPlanPrune_ZeroRetentionDeletesNothing(t *testing.T) {
	now := time.Now()
	if plan := PlanPrune([]Lineage{hourly(50, now)}, nil, cke.Retention{}, now); len(plan.Delete) != 0 {
		t.Errorf("%d objects", len(plan.Delete))
	}
}

func TestPlanPrune_ClockInTheFutureDoesNotPushRealBackupsOut(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	l := hourly(10, now)
	for i := range 3 {
		l.Fulls = append(l.Fulls, Entry{Place: FullPlace("c", "l", int64(200+i), now.AddDate(10, 0, i))})
	}
	plan := PlanPrune([]Lineage{l}, nil, cke.Retention{Last: 2}, now)
	if got := kept(plan); len(got) != 5 {
		t.Errorf("%q", got)
	}
}

// A full that a wrong clock dated in the future leads on as far as the next full: which deltas stay after that one is not for its date to say.
func TestPlanPrune_AFullOfTheFutureKeepsDeltasUpToTheNextOne(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		future, useless []int // fulls, of ten
		deltas          []int64
	}{
		"one":                     {[]int{3}, nil, []int64{3, 8, 9}},
		"the next one is damaged": {[]int{3}, []int{4}, []int64{3, 4, 8, 9}},
		"two":                     {[]int{2, 3}, nil, []int64{2, 3, 8, 9}},
		"none follows":            {[]int{2, 8, 9}, nil, []int64{2, 6, 7, 8, 9}},
		"only damaged ones do":    {[]int{4}, []int{5, 6, 7, 8, 9}, []int64{2, 3, 4, 5, 6, 7, 8, 9}},
	} {
		l := hourly(10, now)
		l.useless = map[string]string{}
		for _, i := range tc.future {
			l.Fulls[i] = Entry{Place: FullPlace("c", "l", l.Fulls[i].Revision, now.AddDate(10, 0, i))}
		}
		for _, i := range tc.useless {
			l.useless[l.Fulls[i].Name()] = "damaged"
		}
		plan := PlanPrune([]Lineage{l}, nil, cke.Retention{Last: 2}, now)
		gone := named(plan.Delete)
		var left []int64
		for _, d := range l.Streams[0].Deltas {
			if !gone[d.Name()] {
				left = append(left, d.Sequence)
			}
		}
		if !slices.Equal(left, tc.deltas) {
			t.Errorf("%s: deltas %v stay, want %v", name, left, tc.deltas)
		}
		for _, i := range tc.future {
			if gone[l.Fulls[i].Name()] {
				t.Errorf("%s: full %d is deleted", name, i)
			}
		}
	}
}

// While no backup is written none gets too old, also where one is dated in the future.
func TestAgeAt_IsNoLaterThanTheNewestBackup(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	l := hourly(3, now.AddDate(-1, 0, 0))
	for ahead, want := range map[time.Duration]time.Time{0: now, 30 * time.Minute: now, 48 * time.Hour: now.AddDate(-1, 0, 0)} {
		with := l
		with.Fulls = append(slices.Clone(l.Fulls), Entry{Place: FullPlace("c", "l", 100, now.Add(ahead))})
		if got := ageAt([]Lineage{with}, now); !got.Equal(want) {
			t.Errorf("ages count from %s with a full dated %s ahead, want %s", got, ahead, want)
		}
	}
}

// Requirement of retention by age: each rule by itself and together with counts.
func TestPlanPrune_ByAge(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	hours := func(n int) cke.Duration { return cke.Duration(time.Duration(n) * time.Hour) }
	for name, tc := range map[string]struct {
		rule   cke.Retention
		fulls  int // hourly ones, up to now
		want   []string
		deltas int // that stay
	}{
		"AgeAlone": {cke.Retention{MaxAge: hours(2)}, 48, []string{
			"10 03h (within 2h)", "10 04h (within 2h)", "10 05h (last, within 2h, newest of its incarnation)"}, 3},
		"WithinKeepsItsBase": {cke.Retention{Within: cke.Duration(90 * time.Minute)}, 48, []string{
			"10 03h (base of what is within 1h30m)", "10 04h (within 1h30m)", "10 05h (last, within 1h30m, newest of its incarnation)"}, 3},
		"WithinAddsToCounts": {cke.Retention{Last: 1, Daily: 2, Within: hours(1)}, 48, []string{
			"09 23h (daily 2026-11-09)", "10 03h (base of what is within 1h)", "10 04h (within 1h)",
			"10 05h (last, daily 2026-11-10, within 1h, newest of its incarnation)"}, 3},
		"AgeEndsCounts": {cke.Retention{Last: 1, Daily: 7, MaxAge: hours(48)}, 24 * 5, []string{
			"08 23h (daily 2026-11-08)", "09 23h (daily 2026-11-09)", "10 05h (last, daily 2026-11-10, newest of its incarnation)"}, 1},
		"AgeEndsLast": {cke.Retention{Last: 10, MaxAge: hours(1)}, 24, []string{
			"10 04h (last)", "10 05h (last, newest of its incarnation)"}, 2},
		"AllYounger": {cke.Retention{MaxAge: hours(1000)}, 3, []string{
			"10 03h (within 1000h)", "10 04h (within 1000h)", "10 05h (last, within 1000h, newest of its incarnation)"}, 3},
	} {
		l := hourly(tc.fulls, now)
		plan := PlanPrune([]Lineage{l}, nil, tc.rule, now)
		if got := kept(plan); !slices.Equal(got, tc.want) {
			t.Errorf("%s: kept\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
		gone := 0
		for _, d := range plan.Delete {
			if strings.Contains(d.Name, "/delta/") {
				gone++
			}
		}
		if left := tc.fulls - gone; left != tc.deltas {
			t.Errorf("%s: %d deltas stay, want %d", name, left, tc.deltas)
		}
	}
}

// However old: the newest of a lineage and what was last verified stay, and what goes for its age is said to.
func TestPlanPrune_AgeNeverTakesTheLastOnes(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	l := hourly(4, now.AddDate(-1, 0, 0))
	v := &Verified{Full: l.Fulls[1].ID(), Revision: l.Fulls[1].Revision + 5, At: now}
	plan := PlanPrune([]Lineage{l}, map[string]*Verified{"l": v}, cke.Retention{Last: 3, MaxAge: cke.Duration(24 * time.Hour)}, now)
	want := []string{"10 03h (verified 2026-11-10T05:00:00Z)", "10 05h (newest of its incarnation)"}
	if got := kept(plan); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	for _, d := range plan.Delete {
		if strings.Contains(d.Name, "/full/") && d.Reason != "older than 24h" {
			t.Errorf("%+v", d)
		}
	}
	if len(plan.Delete) != 3 { // two fulls, and the deltas before the verified one
		t.Errorf("%+v", plan.Delete)
	}
}

// Whatever the policy: what stays can be restored, the newest stays, and pruning again deletes nothing more.
func TestPlanPrune_NeverBreaksWhatItKeeps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
		r := cke.Retention{
			Last: rapid.IntRange(0, 5).Draw(rt, "last"), Hourly: rapid.IntRange(0, 30).Draw(rt, "hourly"),
			Daily: rapid.IntRange(0, 9).Draw(rt, "daily"), Weekly: rapid.IntRange(0, 4).Draw(rt, "weekly"), Monthly: rapid.IntRange(0, 3).Draw(rt, "monthly"),
			Within: cke.Duration(rapid.Int64Range(0, 90).Draw(rt, "within")) * cke.Duration(time.Hour),
			MaxAge: cke.Duration(rapid.Int64Range(0, 180).Draw(rt, "max age")) * cke.Duration(time.Hour),
		}
		l := hourly(rapid.IntRange(1, 200).Draw(rt, "fulls"), now)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		l.Fulls = slices.DeleteFunc(l.Fulls, func(e Entry) bool { return e.Revision > 10 && rng.IntN(3) == 0 })
		for i, ahead := 0, rapid.SampledFrom([]int{0, 0, 2, 10}).Draw(rt, "ahead"); i < len(l.Fulls) && ahead > 0; i++ {
			if rng.IntN(ahead) == 0 {
				l.Fulls[i].Place = FullPlace("c", "l", l.Fulls[i].Revision, now.AddDate(1, 0, rng.IntN(9)))
			}
		}
		v := &Verified{Full: l.Fulls[rng.IntN(len(l.Fulls))].ID()}
		for _, f := range l.Fulls {
			if f.ID() == v.Full {
				v.Revision = f.Revision + rng.Int64N(30)
			}
		}
		v.Revision = min(v.Revision, l.Streams[0].Last)
		plan := PlanPrune([]Lineage{l}, map[string]*Verified{"l": v}, r, now)
		gone := map[string]bool{}
		for _, d := range plan.Delete {
			gone[d.Name] = true
		}
		after := Lineage{Name: "l"}
		for _, f := range l.Fulls {
			if !gone[f.Name()] {
				after.Fulls = append(after.Fulls, f)
			}
		}
		var left []Entry
		for _, d := range l.Streams[0].Deltas {
			if !gone[d.Name()] {
				left = append(left, d)
			}
		}
		if len(left) > 0 {
			after.Streams = new(Lineage).runs(left)
			for i := range after.Streams {
				st := &after.Streams[i]
				st.Last = st.Deltas[len(st.Deltas)-1].Revision + 9
			}
			after.Streams[len(after.Streams)-1].Last = l.Streams[0].Last
		}
		reach := func(full string) int64 {
			for _, c := range after.Chains() {
				if c.Full.ID() == full {
					return c.Last
				}
			}
			return 0
		}
		if got := reach(v.Full); got < v.Revision {
			rt.Errorf("what was verified reaches %d, needs %d", got, v.Revision)
		}
		for _, k := range plan.Keep {
			if got := reach(k.Full.ID()); k.PointInTime && got != l.Streams[0].Last {
				rt.Errorf("%s reaches %d, needs %d", k.Full.ID(), got, l.Streams[0].Last)
			}
		}
		for i, f := range l.Fulls { // what a wrong clock dated leads on as far as the next one that it did not
			next := slices.IndexFunc(l.Fulls[i+1:], func(g Entry) bool { return !g.Time.After(now) })
			want := l.Streams[0].Last
			if next >= 0 {
				want = l.Fulls[i+1+next].Revision
			}
			if f.Time.After(now) && reach(f.ID()) < want {
				rt.Errorf("%s of a wrong clock reaches %d, needs %d", f.ID(), reach(f.ID()), want)
			}
		}
		if newest := l.Fulls[len(l.Fulls)-1]; gone[newest.Name()] {
			rt.Errorf("the newest full is deleted")
		}
		if again := PlanPrune([]Lineage{after}, map[string]*Verified{"l": v}, r, now); len(again.Delete) > 0 {
			rt.Errorf("pruning again deletes %v", again.Delete)
		}
	})
}

// The last drill restored the newest state (revision 35) from an older full (20), since the newest (30) was wrong: one member gives wrong snapshots. The
// daemon takes another full at once (40), as a rule from the same member, and prunes after it, before any drill has looked at it. What leads from the full
// that was proved to what came after the drill goes, on the strength of a full from the same source as the one that was just found wrong.
func TestPlanPrune_KeepsWhatFollowsTheFullThatADrillFellBackOn(t *testing.T) {
	now := time.Date(2026, 11, 10, 5, 0, 0, 0, time.UTC)
	l := Lineage{Name: "l", useless: map[string]string{}}
	st := Stream{Stream: 11, First: 11, Last: 45}
	for i, revision := range []int64{20, 30, 40} {
		l.Fulls = append(l.Fulls, Entry{Place: FullPlace("c", "l", revision, now.Add(time.Duration(i-3)*time.Hour))})
	}
	for i := range 7 { // 11-15, 16-20, … 41-45
		st.Deltas = append(st.Deltas, Entry{Place: DeltaPlace("c", "l", 11, int64(i), int64(5*i+11))})
	}
	l.Streams = []Stream{st}
	l.useless[l.Fulls[1].Name()] = "found wrong by a restore drill, does not count"
	v := &Verified{Full: l.Fulls[0].ID(), Revision: 35, At: now.Add(-90 * time.Minute), HashChecked: true, Wrong: []string{l.Fulls[1].ID()}}
	if v.PassedOver() == "" {
		t.Fatal("nothing was passed over")
	}
	plan := PlanPrune([]Lineage{l}, map[string]*Verified{"l": v}, cke.Retention{Last: 1}, now)
	for _, d := range plan.Delete {
		if p, _ := ParsePlace(d.Name); p.Kind == KindDelta && p.Revision > 20 {
			t.Errorf("%s goes: from the full that a drill proved nothing leads to the newest state any more", d.Name)
		}
	}
}
