package gameday

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/mtest/rig"
)

var threeNodes = []string{"n1", "n2", "n3"}

func deal(o Options, nodes []string, n int) (all []entry) {
	d := newDealer(o)
	for range n {
		all = append(all, d.next(nodes))
	}
	return all
}

func texts(all []entry) (lines []string) {
	for _, e := range all {
		lines = append(lines, e.text(cke.Status{})+" "+e.hold.String()+" "+e.pause.String())
	}
	return lines
}

func TestDealer_TheSameSeedGivesTheSameFaults(t *testing.T) {
	same := Options{Seed: 42}
	if d := cmp.Diff(texts(deal(same, threeNodes, 50)), texts(deal(same, threeNodes, 50))); d != "" {
		t.Error(d)
	}
	if slices.Equal(texts(deal(same, threeNodes, 50)), texts(deal(Options{Seed: 43}, threeNodes, 50))) {
		t.Error("two seeds give the same faults")
	}
}

func TestDealer_DealsEachFaultOncePerRound(t *testing.T) {
	for round := range slices.Chunk(deal(Options{Seed: 1}, threeNodes, 5*len(faults)), len(faults)) {
		var names []string
		for _, e := range round {
			names = append(names, e.fault.name)
		}
		want := Faults()
		slices.Sort(names)
		slices.Sort(want)
		if d := cmp.Diff(want, names); d != "" {
			t.Error(d)
		}
	}
	for _, e := range deal(Options{Faults: []string{"cut", "data"}}, threeNodes, 20) {
		if e.fault.name != "cut" && e.fault.name != "data" {
			t.Errorf("%s was not allowed", e.fault.name)
		}
	}
}

func TestDealer_TakesQuorumOnlyWhenAllowedAndNeverWithData(t *testing.T) {
	for _, beyond := range []bool{false, true} {
		taken := 0
		for _, e := range deal(Options{BeyondQuorum: beyond}, threeNodes, 500) {
			switch {
			case e.fault.daemon && len(e.nodes) == 0, !e.fault.daemon && len(e.nodes) == 1:
			case beyond && e.fault.silent && len(e.nodes) == 2 && e.nodes[0] != e.nodes[1]:
				taken++
			default:
				t.Errorf("%s on %v", e.fault.name, e.nodes)
			}
			if e.hold < leastHold || e.hold > mostHold || e.pause < leastPause || e.pause > mostPause {
				t.Errorf("hold %s, pause %s", e.hold, e.pause)
			}
		}
		if beyond != (taken > 0) {
			t.Errorf("beyond quorum %v: %d faults took it", beyond, taken)
		}
	}
}

func TestCheckFaults_NamesWhatThereIs(t *testing.T) {
	if err := CheckFaults(Faults()); err != nil {
		t.Error(err)
	}
	if err := CheckFaults([]string{"kill", "flood"}); err == nil || !strings.Contains(err.Error(), `no fault "flood": there are kill, cut,`) {
		t.Error(err)
	}
}

// at is a moment so many seconds after a fault started.
func at(seconds float64) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

// observed is a status of three members.
func observed(seconds float64, ready int, join cke.JoinID) cke.Status {
	st := cke.Status{Health: cke.HealthDegraded, ObservedAt: at(seconds), Declared: 3, Ready: ready}
	if ready == 3 {
		st.Health = cke.HealthReady
	}
	st.Members = []cke.MemberStatus{{Name: "n1", Join: join, Role: "leader"}, {Name: "n2"}, {Name: "n3"}}
	return st
}

func TestWholeAfter_CountsOnlyWhatWasObservedAfterTheFault(t *testing.T) {
	type look struct {
		seconds float64
		ready   int
		join    cke.JoinID
		whole   bool
	}
	for _, row := range []struct {
		name, fault string
		over        float64
		looks       []look
	}{
		{"a node that lost power is back", "kill", 4, []look{{3, 3, "a", false}, {4.1, 2, "a", false}, {5, 3, "a", true}}},
		{"an observation may have started before etcd was killed", "etcd", 0, []look{{0.5, 3, "a", false}, {4.9, 3, "a", false}, {5.1, 3, "a", true}}},
		{"trouble was seen", "etcd", 0, []look{{0.5, 2, "a", false}, {0.7, 3, "a", true}}},
		{"the member without data is the same", "data", 2, []look{{1, 2, "a", false}, {3, 3, "a", false}, {9, 3, "a", false}, {10, 3, "b", true}}},
	} {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == row.fault })
		ok := entry{fault: faults[i], nodes: []string{"n1"}}.wholeAfter(observed(-1, 3, "a"), at(0), at(row.over))
		for _, l := range row.looks {
			if got := ok(observed(l.seconds, l.ready, l.join)); got != l.whole {
				t.Errorf("%s: %v at %vs, want %v", row.name, got, l.seconds, l.whole)
			}
		}
	}
}

func TestEmptiedAfter_WaitsUntilDataIsMissingForGood(t *testing.T) {
	container, data := faults[slices.Index(Faults(), "container")], faults[slices.Index(Faults(), "data")]
	for _, row := range []struct {
		name    string
		fault   fault
		seconds float64
		node    string
		code    cke.Code
		want    bool
	}{
		{"it is missing for good", container, 10.1, "n1", cke.CodeDataMissing, true},
		{"it is missing for a moment", container, 9.9, "n1", cke.CodeDataMissing, false},
		{"that of another member is missing", container, 10.1, "n2", cke.CodeDataMissing, false},
		{"another problem", container, 10.1, "n1", cke.CodeUnreachable, false},
		{"it was removed on purpose", data, 10.1, "n1", cke.CodeDataMissing, false},
	} {
		st := observed(row.seconds, 2, "a")
		st.Problems = []cke.Problem{{Code: row.code, Node: row.node}}
		if got := (entry{fault: row.fault, nodes: []string{"n1"}}).emptiedAfter(at(0))(st); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func passed() Verdict {
	v := Verdict{Load: rig.Verdict{Acked: 8682, Calls: 4245, Unknown: 46, Hash: 77, Revision: 11360}, Silence: 1400 * time.Millisecond,
		Health: cke.HealthReady, Whole: true}
	v.Records = []cke.Record{{ID: 2, Operation: "remove-member", State: cke.RecordCompleted}, {ID: 3, Operation: "add-member", State: cke.RecordFailed},
		{ID: 4, Operation: "add-member", State: cke.RecordCompleted}}
	v.Faults = []Happened{
		{Fault: "cut", Nodes: []string{"n1", "n2"}, At: at(0), Over: at(6.7), Whole: at(7.6), Silence: 20 * time.Millisecond},
		{Fault: "daemon", At: at(20), Over: at(25), Silence: time.Second},
		{Fault: "data", Nodes: []string{"n3"}, At: at(30), Whole: at(42), Silence: 1400 * time.Millisecond, Records: v.Records},
	}
	return v
}

func TestVerdict_ShowsEachFaultAndTheFigures(t *testing.T) {
	var b strings.Builder
	if err := passed().Write(&b, false); err != nil {
		t.Fatal(err)
	}
	want := `
TIME      FAULT   NODE    FOR   READY AFTER  NO WRITE FOR  CKE
03:04:05  cut     n1, n2  6.7s  7.6s         <0.1s         -
03:04:25  daemon  -       5.0s  never        1.0s          -
03:04:35  data    n3      -     12s          1.4s          #2 remove-member, #3 add-member (failed), #4 add-member

Verdict    PASSED: no acknowledged write was lost, and the cluster is READY
Writes     8682 acknowledged, 0 lost: each was read back through every member
Registers  4245 calls, linearizable (46 without an answer)
Members    equal data: HashKV 77 at revision 11360
Silence    1.4s was the longest time without an acknowledged write
cke        1 remove-member, 1 add-member (failed), 1 add-member
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestVerdict_PassesOnlyIfNothingIsLostAndTheClusterIsReady(t *testing.T) {
	if !passed().Passed() {
		t.Error("not passed")
	}
	for _, row := range []struct {
		name   string
		change func(*Verdict)
		want   []string
	}{
		{"a write is lost", func(v *Verdict) {
			v.Lost, v.Err = 3, &rig.LostError{Through: "https://n1", Lost: []string{"a", "b", "c"}}
		},
			[]string{"FAILED: acknowledged writes were lost", "8682 acknowledged, 3 LOST", "Problem  read back through https://n1: a\n"}},
		{"a write is lost, and the cluster is not whole", func(v *Verdict) { v.Lost, v.Whole, v.Health = 1, false, cke.HealthLost },
			[]string{"FAILED: acknowledged writes were lost"}},
		{"the cluster is not whole", func(v *Verdict) { v.Whole, v.Health = false, cke.HealthDegraded },
			[]string{"FAILED: the cluster is DEGRADED, not READY as declared", "0 lost"}},
		{"nothing could be read", func(v *Verdict) { v.Lost, v.Err = Unknown, errors.New("no answer") },
			[]string{"FAILED: not everything could be done and checked", "how many are lost is not known", "Problem  no answer\n"}},
	} {
		v := passed()
		row.change(&v)
		var b strings.Builder
		if err := v.Write(&b, false); err != nil {
			t.Fatal(err)
		}
		if v.Passed() {
			t.Errorf("%s: passed", row.name)
		}
		for _, w := range row.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: %q is not in\n%s", row.name, w, b.String())
			}
		}
	}
}

func TestPrinter_PrintsEachThingOnceForEachFault(t *testing.T) {
	var b strings.Builder
	p := newPrinter(&b, false)
	st := observed(0, 2, "a")
	st.Summary = "quorum held"
	st.Problems = []cke.Problem{{Code: cke.CodeUnreachable, Node: "n1", Message: "sshd cannot be reached"}}
	running := cke.Record{ID: 7, Operation: "start-members", Targets: []string{"n1"}, Reason: "n1 stopped", State: cke.RecordRunning, StartedAt: at(0)}
	ended := running
	ended.State, ended.EndedAt = cke.RecordCompleted, at(2)
	for range 2 {
		p.printBreak("kill n1: it loses power")
		for range 2 {
			p.printStatus(st)
			p.printRecord(running)
		}
	}
	p.printRecord(ended)
	p.printRecord(ended)
	p.printRecord(running)
	p.printWhole(Happened{Fault: "kill", Nodes: []string{"n1"}, At: at(0), Whole: at(3), Silence: 2 * time.Second})
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, line[len(clock):])
	}
	want := []string{
		"  break    kill n1: it loses power\n",
		"  status   DEGRADED: quorum held\n",
		"  problem  n1: sshd cannot be reached [CKE201]\n",
		"  cke      #7 start-members n1: n1 stopped\n",
		"  break    kill n1: it loses power\n",
		"  problem  n1: sshd cannot be reached [CKE201]\n",
		"  cke      #7 completed after 2.0s\n",
		"  whole    READY 3.0s after kill on n1; longest time without an acknowledged write: 2.0s\n",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAttribute_GivesARecordToTheLastFaultBeforeIt(t *testing.T) {
	g := &game{happened: []*Happened{{Fault: "a", At: at(1)}, {Fault: "b", At: at(10)}}}
	all := g.attribute([]cke.Record{{ID: 1, StartedAt: at(0)}, {ID: 2, StartedAt: at(5)}, {ID: 3, StartedAt: at(11)}, {ID: 4, StartedAt: at(50)}})
	var got [][]int64
	for _, h := range all {
		var ids []int64
		for _, r := range h.Records {
			ids = append(ids, r.ID)
		}
		got = append(got, ids)
	}
	if d := cmp.Diff([][]int64{{2}, {3, 4}}, got); d != "" {
		t.Error(d)
	}
}
