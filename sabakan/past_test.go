package sabakan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/sabakan"
)

// interval is that of the reads of these stories.
const interval = 30 * time.Second

// reads is a series of reads of one world, as a leader daemon makes them.
type reads struct {
	*world
	at time.Time
}

// once reads the inventory once, with this change of it, and returns the choice.
func (r *reads) once(change func(*world)) sabakan.Choice {
	if change != nil {
		change(r.world)
	}
	r.at = r.at.Add(interval)
	for i := range r.Read.Hosts {
		r.Read.Hosts[i].For += interval
	}
	for i := range r.Status.Members {
		r.Status.Members[i].Watched += cke.Duration(interval)
	}
	r.Now, r.Read.ReadAt, r.Status.ObservedAt = r.at, r.at, r.at
	r.Unchecked()
	c := sabakan.Choose(r.Input)
	if c.Acceptance != "" {
		r.Past = r.Past.Next(r.Read, r.Spec, r.Status, interval, c.Acceptance)
	}
	return c
}

// until reads until there is a change, at most for a time, and returns when.
func (r *reads) until(d time.Duration) (sabakan.Choice, time.Duration) {
	start := r.at
	for {
		if c := r.once(nil); c.Change != nil || r.at.Sub(start) >= d {
			return c, r.at.Sub(start)
		}
	}
}

func begin(w *world) *reads {
	w.Past = sabakan.Past{}
	r := &reads{w, noon}
	r.once(nil)
	return r
}

// A machine is gone for an hour of reads before its member leaves, whatever the clock says.
func TestPast_AMissingMachineIsWaitedForInReads(t *testing.T) {
	r := begin(formed(3, 8))
	c := r.once(func(w *world) { w.lacks(2) })
	if c.Change != nil {
		t.Fatalf("after one read: %+v", c)
	}
	r.at = r.at.Add(2 * time.Hour) // the clock was set, or the daemon did not run
	if c := r.once(nil); c.Change != nil || c.Ask != nil {
		t.Fatalf("after a gap: %+v", c)
	}
	for range 121 {
		c = r.once(nil)
	}
	if c.Change != nil || len(c.Ask) != 1 || c.Ask[0] != "s2" {
		t.Fatalf("after an hour: %+v", c)
	}
	r.Unregistered = []string{"s2"}
	if c = r.once(nil); c.Change == nil || c.Change.Cause != cke.CauseMissing {
		t.Fatalf("once it was asked for: %+v", c)
	}
}

// All machines retire within a minute, one after the other: a mutation that nobody meant.
func TestPast_OneAfterTheOtherWithinMinutesIsAtOnce(t *testing.T) {
	r := begin(formed(5, 12))
	for i := 1; i <= 5; i++ {
		if c := r.once(func(w *world) { w.now(i, cke.HostRetired, 0) }); i > 1 && c.Stop != sabakan.StopMany {
			t.Fatalf("machine %d: %+v", i, c)
		}
	}
	if c, after := r.until(3 * 24 * time.Hour); c.Stop != sabakan.StopMany {
		t.Fatalf("after %s: %+v", after, c)
	}
	r.Override = true
	c := r.once(nil)
	if c.Change == nil || len(c.Change.Confirm) == 0 || c.Acceptance != sabakan.Overridden {
		t.Fatalf("confirmed: %+v", c)
	}
	r.Override = false
	if c := r.once(nil); c.Stop == sabakan.StopMany {
		t.Errorf("the machines were accepted as they are: %+v", c)
	}
}

// They recover by themselves, and changes continue.
func TestPast_AStopEndsWhenTheMachinesRecover(t *testing.T) {
	r := begin(formed(5, 12))
	r.once(func(w *world) { w.now(1, cke.HostUnreachable, 0); w.now(2, cke.HostUnreachable, 0) })
	if c, _ := r.until(time.Hour); c.Stop != sabakan.StopMany {
		t.Fatalf("%+v", c)
	}
	if c := r.once(func(w *world) { w.now(1, cke.HostHealthy, 0) }); c.Stop != "" || c.Acceptance != sabakan.Accepted {
		t.Fatalf("one recovered: %+v", c)
	}
}

// Two machines fail on one day, hours apart: each is exchanged.
func TestPast_HoursApartIsNotAtOnce(t *testing.T) {
	r := begin(formed(5, 12))
	r.once(func(w *world) { w.now(1, cke.HostUnreachable, 0) })
	if c, _ := r.until(20 * time.Minute); c.Change != nil {
		t.Fatalf("%+v", c)
	}
	if c := r.once(func(w *world) { w.now(2, cke.HostUnreachable, 0) }); c.Stop != "" {
		t.Fatalf("%+v", c)
	}
}

// A machine comes back after its member went elsewhere: it is a candidate as any other.
func TestPast_AMachineThatComesBackBecomesASpare(t *testing.T) {
	w := formed(3, 4)
	w.Template.Inventory.Spares = 1
	r := begin(w.silent(2, 0))
	r.once(func(w *world) { w.now(2, cke.HostUnreachable, 0) })
	r.Template.Inventory.Spares = 0
	c, after := r.until(time.Hour)
	if c.Change == nil || c.Change.Cause != cke.CauseUnreachable || c.Change.New != "s4" || after < 29*time.Minute {
		t.Fatalf("after %s: %+v", after, c)
	}
	r.apply(c)
	r.Template.Inventory.Spares = 1
	if c := r.once(func(w *world) { w.now(2, cke.HostHealthy, 0) }); c.Stop != sabakan.StopSettle {
		t.Fatalf("%+v", c)
	}
	c, after = r.until(2 * time.Hour)
	if c.Change == nil || c.Change.Cause != cke.CauseSpare || c.Change.New != "s2" || after < 29*time.Minute {
		t.Fatalf("after %s: %+v", after, c)
	}
}

// apply stores a change, and the cluster is as it says at once.
func (r *reads) apply(c sabakan.Choice) {
	r.Spec.Cluster, r.Spec.Generation = c.Change.Cluster, r.Spec.Generation+1
	r.Status.Generation, r.Status.ObservedGeneration = r.Spec.Generation, r.Spec.Generation
	r.Past.Changes = append(r.Past.Changes, sabakan.Applied{Generation: r.Spec.Generation, At: r.at, Cause: c.Change.Cause, Old: c.Change.Old, New: c.Change.New})
	r.Status.Members, r.Status.Nodes, r.Status.Tolerance = nil, nil, 1
	for _, n := range r.Spec.Cluster.Nodes {
		r.Status.Nodes = append(r.Status.Nodes, cke.NodeStatus{Node: n, SeenAt: r.at})
		if n.ControlPlane {
			r.Status.Members = append(r.Status.Members, cke.MemberStatus{Name: n.Name(), Address: n.Address, Join: cke.JoinID(n.Name()), Ready: true})
		}
	}
}

// From three to five and back: one member at a time, and no more than the template allows in a day.
func TestPast_FromThreeToFiveAndBack(t *testing.T) {
	r := begin(formed(3, 12))
	for _, want := range []struct {
		wanted int
		cause  cke.InventoryCause
	}{{5, cke.CauseMore}, {3, cke.CauseFewer}} {
		r.Template.Inventory.ControlPlane = want.wanted
		for k := range 2 {
			c, after := r.until(26 * time.Hour)
			if c.Change == nil || c.Change.Cause != want.cause || k == 0 && want.wanted == 3 && after < 22*time.Hour {
				t.Fatalf("to %d, after %s: %+v", want.wanted, after, c)
			}
			r.apply(c)
		}
		if n := len(r.Spec.Cluster.ControlPlane()); n != want.wanted {
			t.Fatalf("%d members, want %d", n, want.wanted)
		}
	}
}

// Revisions that move no member do not push the moves of a day, nor what was rolled back, out of what is remembered.
func TestPast_TheMovesOfADayAreRemembered(t *testing.T) {
	r := begin(formed(3, 8))
	r.Past.Changes = append(r.Past.Changes, sabakan.Applied{Cause: cke.CauseMore, Old: "s7", At: r.at.Add(-50 * time.Hour), RolledBackAt: r.at},
		sabakan.Applied{Cause: cke.CauseRetired, Old: "s8", At: r.at}, sabakan.Applied{Cause: cke.CauseRetired, Old: "s9", At: r.at})
	for range 60 {
		r.Past.Changes = append(r.Past.Changes, sabakan.Applied{Cause: cke.CauseDescribed, At: r.at})
		r.once(nil)
	}
	r.once(func(w *world) { w.now(2, cke.HostRetired, 0) })
	if c, after := r.until(2 * time.Hour); c.Stop != sabakan.StopPerDay || len(r.Past.Changes) > 50 || r.Past.Changes[0].Old != "s7" {
		t.Fatalf("after %s: %+v, %d changes", after, c, len(r.Past.Changes))
	}
	if c, after := r.until(48 * time.Hour); c.Change == nil || after < 20*time.Hour {
		t.Fatalf("after %s: %+v", after, c)
	}
	r.at = r.at.Add(24 * time.Hour)
	if r.once(nil); len(r.Past.Changes) > 50 {
		t.Errorf("%d changes", len(r.Past.Changes))
	}
}

// What is remembered has bounds.
func TestPast_IsBounded(t *testing.T) {
	r := begin(formed(3, 4))
	for i := range 400 {
		state := []cke.HostState{cke.HostHealthy, cke.HostMaintenance}[i%2]
		r.Past.Changes = append(r.Past.Changes, sabakan.Applied{})
		r.once(func(w *world) {
			w.now(4, state, 0)
			w.Read.Hosts[w.index(4)].ID, w.Read.Hosts[w.index(3)].Addresses[0] = "s4", fmt.Sprintf("10.0.%d.3", i)
			r.Spec.Cluster.Nodes[2].Address = fmt.Sprintf("10.0.%d.3", i)
		})
	}
	if p := r.Past; len(p.Hosts) != 4 || len(p.Changes) > 51 || len(p.Hosts["s4"].Turned) > 4 || len(p.Serials) > 200 || p.Serials["10.0.0.1"] != "s1" {
		t.Errorf("%d machines, %d changes, %d turns, %d addresses", len(p.Hosts), len(p.Changes), len(p.Hosts["s4"].Turned), len(p.Serials))
	}
}

// While no read is accepted, machines that vanished are remembered, but not without end; those of nodes stay.
func TestPast_IsBoundedWhileNoReadIsAccepted(t *testing.T) {
	p, w := sabakan.Past{}, formed(3, 3)
	for i := range 8 {
		w.Read.Hosts = w.Read.Hosts[:3]
		for k := range 1000 {
			w.Read.Hosts = append(w.Read.Hosts, cke.Host{ID: fmt.Sprintf("m%d-%d", i, k), State: cke.HostHealthy})
		}
		p = p.Next(w.Read, w.Spec, w.Status, interval, sabakan.Refused)
	}
	if len(p.Hosts) != cke.KeptHosts || p.Hosts["s1"].Reads == 0 || p.Hosts["s3"].Reads == 0 {
		t.Errorf("%d machines, s1 %+v", len(p.Hosts), p.Hosts["s1"])
	}
}

// A machine is replaced by another one at its address, and no third one is left: the old member ends, and then the new machine is
// declared, each confirmed. The host key that is pinned for the address has to go in between.
func TestPast_ASuccessorComesAfterTheOldMemberEnded(t *testing.T) {
	r := begin(formed(3, 3))
	r.once(func(w *world) { w.silent(2, 0); w.successor(2); w.lacks(2) })
	c, _ := r.until(time.Hour)
	if c.Change == nil || c.Change.Cause != cke.CauseSuccessor || len(c.Change.Confirm) == 0 || c.Change.New != "" || c.Change.Forget != nil {
		t.Fatalf("%+v", c)
	}
	ends := r.Status.Members[1]
	r.apply(c)
	r.Status.Members = append(r.Status.Members, ends) // it has not ended yet
	c, _ = r.until(time.Hour)
	if c.Change != nil || c.Code != cke.CodeNoHost {
		t.Fatalf("beside the old member: %+v", c)
	}
	r.Status.Members = r.Status.Members[:2]
	c = r.once(nil)
	if c.Change == nil || c.Change.Cause != cke.CauseMore || c.Change.New != "t2" || len(c.Change.Confirm) == 0 || len(c.Change.Forget) != 1 || c.Change.Forget[0] != "10.0.0.2" {
		t.Fatalf("%+v", c)
	}
}

// The machine of a member is exchanged and leaves the inventory; a day later, or after one read that lacks it, another one has its address. That
// one is declared as the machine before was, by an address whose host key is pinned: so the operator confirms it.
func TestPast_ASuccessorThatComesLaterIsConfirmedAsWell(t *testing.T) {
	for name, gap := range map[string]time.Duration{"a day": 24 * time.Hour, "one read": interval} {
		r := begin(formed(3, 4))
		r.once(func(w *world) { w.now(2, cke.HostRetired, time.Hour) })
		c, _ := r.until(time.Hour)
		if c.Change == nil || c.Change.New != "s4" {
			t.Fatalf("%+v", c)
		}
		r.apply(c)
		r.once(func(w *world) { w.lacks(2) })
		r.until(gap)
		r.Template.Inventory.Spares = 1
		r.once(func(w *world) { w.successor(2) })
		c, _ = r.until(time.Hour)
		if p := c.Change; p == nil || p.New != "t2" || p.Auto || len(p.Confirm) == 0 || !slices.Equal(p.Forget, []string{"10.0.0.2"}) {
			t.Errorf("after %s: %+v", name, c)
		}
	}
}

// Silence is counted in reads, also by the next leader, and not while nobody reads. A node that answered in between starts anew.
func TestPast_SilenceIsCountedInReads(t *testing.T) {
	silent := func(r *reads) time.Duration { return time.Duration(r.Past.Hosts["s2"].Silent) }
	r := begin(formed(3, 8))
	r.silent(2, 0)
	r.Past = sabakan.Past(cke.InventoryPast{}) // only reads count
	r.Status.Nodes[1].SeenAt = noon.Add(-time.Hour)
	for range 5 {
		r.once(nil)
	}
	if got := silent(r); got != 4*interval {
		t.Errorf("after five reads: %s", got)
	}
	r.Status.Nodes[1].SeenAt = time.Time{} // another leader, which never saw it
	if r.once(nil); silent(r) != 5*interval {
		t.Errorf("by another leader: %s", silent(r))
	}
	r.Status.Nodes[1].SeenAt = r.at.Add(interval / 2)
	if r.once(nil); silent(r) != 0 {
		t.Errorf("it answered in between: %s", silent(r))
	}
	r.once(nil)
	if r.once(nil); silent(r) != 2*interval {
		t.Errorf("again: %s", silent(r))
	}
	r.at = r.at.Add(2 * time.Hour) // the clock was set, or the daemon did not run
	if r.once(nil); silent(r) != 0 {
		t.Errorf("after a gap: %s", silent(r))
	}
}

// Whatever would be changed, nothing is while the nodes do not confirm the daemon's clock, and nothing is dated by it.
func TestChoose_NothingByAClockThatIsNotConfirmed(t *testing.T) {
	for _, c := range []struct{ agree, reason string }{{"False", "DaemonOff"}, {"Unknown", "TooFew"}} {
		for _, scene := range []string{"formed 3 8; host 2 retired 1h", "formed 3 8; rack 2 9", "formed 3 8; wanted 5", "formed 3 8; spares 1"} {
			if got := sabakan.Choose(read(t, scene).Input); got.Change == nil {
				t.Errorf("%s: %+v", scene, got)
			}
			w := read(t, scene+"; clocks "+c.agree+" "+c.reason)
			w.Override = true
			if got := sabakan.Choose(w.Input); got.Change != nil || got.Stop != sabakan.StopStatus || got.Overridable {
				t.Errorf("%s, %s: %+v", scene, c.reason, got)
			}
			w.Past.Changes = []sabakan.Applied{{Generation: 7, At: noon}}
			if next := w.Past.Next(w.Read, w.Spec, w.Status, interval, sabakan.Accepted); !next.Changes[0].ConvergedAt.IsZero() {
				t.Errorf("%s: completed at %s", c.reason, next.Changes[0].ConvergedAt)
			}
		}
	}
}

// A machine that flaps is not exchanged before its state lasts, and once it has flapped for a day's measure, only an operator can.
func TestPast_AMachineThatFlaps(t *testing.T) {
	r := begin(formed(3, 8))
	turn := func(s cke.HostState, d time.Duration) (c sabakan.Choice) {
		c = r.once(func(w *world) {
			w.host(2).State, w.host(2).For = s, 0
			if s == cke.HostUnreachable {
				w.silent(2, 0)
			} else {
				w.member(2).Ready, w.member(2).State, w.member(2).Watched, w.Status.Tolerance = true, "healthy", 0, 1
				for i := range w.Status.Nodes {
					w.Status.Nodes[i].Problem = nil
				}
			}
		})
		for d -= interval; d > 0 && c.Change == nil; d -= interval {
			for i := range r.Status.Nodes {
				if r.Status.Nodes[i].Problem == nil {
					r.Status.Nodes[i].SeenAt = r.at
				}
			}
			c = r.once(nil)
		}
		return c
	}
	for i := range 36 { // for a day
		state := []cke.HostState{cke.HostUnreachable, cke.HostHealthy}[i%2]
		if c := turn(state, 40*time.Minute/2); c.Change != nil {
			t.Fatalf("turn %d: %+v", i, c)
		}
	}
	if c := turn(cke.HostUnreachable, time.Hour); c.Stop != sabakan.StopNode || !c.Overridable {
		t.Fatalf("it flapped, and is unreachable for an hour: %+v", c)
	}
	c, after := r.until(26 * time.Hour)
	if c.Change == nil || c.Change.Cause != cke.CauseUnreachable || after < 20*time.Hour {
		t.Fatalf("after %s: %+v", after, c)
	}
}
