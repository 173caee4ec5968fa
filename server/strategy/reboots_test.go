package strategy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// rebootable lets the cluster file name a command, which the daemon has, and all members be in sync; the last nodes carry no member.
func rebootable(members, nodes int) *scene {
	s := formed(members)
	for i := members + 1; i <= nodes; i++ {
		n := cke.Node{Hostname: fmt.Sprintf("n%d", i), Address: fmt.Sprintf("10.0.0.%d", i)}
		s.Spec.Nodes = append(s.Spec.Nodes, n)
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: n, SeenAt: noon, Clock: noon})
	}
	s.Spec.Reboot = cke.RebootOptions{Command: "power-cycle"}.WithDefaults()
	s.UnderWay.Commands = []string{"power-cycle", "ready"}
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].RaftIndex, s.Seen.Etcd.Endpoints[i].RaftApplied = 100, 100
	}
	return s
}

// queued puts nodes into the queue.
func (s *scene) queued(nodes ...int) *scene {
	for _, i := range nodes {
		n := s.Spec.Nodes[i-1]
		s.Requests.Reboots.Entries = append(s.Requests.Reboots.Entries, cke.Entry{ID: "r" + n.Name(), Node: n.Name(), Address: n.Address, State: cke.EntryQueued, AddedAt: noon.Add(-time.Hour), Since: noon.Add(-time.Hour)})
	}
	return s
}

// entry is the repair or the reboot of a node.
func (s *scene) entry(i int) *cke.Entry {
	address := s.Spec.Nodes[i-1].Address
	if r := s.Requests.Repairs.Of(address); r != nil {
		return r
	}
	return s.Requests.Reboots.Of(address)
}

// in lets the reboot of a node be in a state since some time ago; one with a member has its lease until it returns.
func (s *scene) in(i int, state cke.EntryState, ago time.Duration) *scene {
	if s.entry(i) == nil {
		s.queued(i)
	}
	r := s.entry(i)
	r.State, r.Since = state, noon.Add(-ago)
	if state == cke.EntryRebooting {
		r.Attempt, r.StartedAt, r.Boot = 1, r.Since, cke.Boot{Kernel: "k", Init: "1"}
	}
	if _, carries := s.Identity.On(s.Spec.Nodes[i-1]); carries && (state == cke.EntryLeased || state == cke.EntryRebooting) {
		s.drained(i)
		s.Requests.Drains[0].Entry, s.Requests.Drains[0].Address = r.ID, r.Address
	}
	return s
}

// showing lets a machine that reboots show which boot of it runs.
func (s *scene) showing(i int, init string) *scene {
	return s.knowing(i, func(k *cke.EntrySeen) { k.Boot, k.BootAt = cke.Boot{Kernel: "k", Init: init}, noon })
}

// hung lets nodes not answer for long.
func (s *scene) hung(nodes ...int) *scene {
	for _, i := range nodes {
		s.node(i).SeenAt = noon.Add(-time.Hour)
	}
	return s.silent(nodes...)
}

// own lets the node of a queued entry have its lease already.
func (s *scene) own(i int) *scene {
	s.drained(i)
	s.Requests.Drains[0].Entry, s.Requests.Drains[0].Address = s.entry(i).ID, s.entry(i).Address
	return s
}

// foreign lets the list have a voter at the address of a node that cke did not add, and does not remove.
func (s *scene) foreign(i int) *scene {
	s.Spec.Policies.Foreign = cke.ForeignHold
	s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "f00", Name: "theirs", PeerURLs: []string{"https://" + s.Spec.Nodes[i-1].Address + ":2380"}})
	return s
}

// neighbor lets a node have a container of another cluster, which runs or not.
func (s *scene) neighbor(i int, runs bool) *scene {
	s.node(i).Neighbors = []cke.Neighbor{{Cluster: "other", Running: runs}}
	return s
}

// knowing changes what the daemon knows of a reboot.
func (s *scene) knowing(i int, change func(*cke.EntrySeen)) *scene {
	r := s.entry(i)
	at := slices.IndexFunc(s.UnderWay.Seen, func(k cke.EntrySeen) bool { return k.Entry == r.ID })
	if at < 0 {
		s.UnderWay.Seen = append(s.UnderWay.Seen, cke.EntrySeen{Entry: r.ID, Attempt: r.Attempt})
		at = len(s.UnderWay.Seen) - 1
	}
	change(&s.UnderWay.Seen[at])
	return s
}

// ended lets the command of a node have ended some time ago.
func (s *scene) commandEnded(i int, ago time.Duration, trouble string) *scene {
	r := s.entry(i)
	r.CommandEndedAt, r.Error = noon.Add(-ago), trouble
	return s
}

// served lets the member on a node be healthy for some time.
func (s *scene) served(i int, d time.Duration) *scene {
	s.Before.ObservedAt = noon
	s.Before.Members = append(s.Before.Members, cke.MemberStatus{Join: s.join(i).ID, State: "healthy", Watched: cke.Duration(d)})
	return s
}

// done is what is done for a reboot, in words.
func done(d strategy.Decision) string {
	switch o := d.Operation.(type) {
	case op.LeaseEntry:
		what := "drain " + o.Entry.Node
		if o.Drain != nil && o.Drain.Join == nil {
			what += " without a stop"
		}
		if o.Successor != nil {
			what += ", " + o.Successor.Node.Name() + " leads"
		}
		return what
	case op.RunEntry:
		if o.Again {
			return "run " + o.Entry.Node + " again"
		}
		return "run " + o.Entry.Node
	case op.NoteEntry:
		what := fmt.Sprintf("note %s %s%s", o.Entry.Node, o.To, o.Result)
		if o.To != "" && o.Result != "" {
			what = fmt.Sprintf("note %s %s, %s", o.Entry.Node, o.To, o.Result)
		}
		if o.Ended != nil {
			what += "ended"
		}
		if o.NextStep {
			what += ", next step"
		}
		if o.Cancel {
			what += "to cancel"
		}
		if o.Release {
			what += ", released"
		}
		return what
	case nil:
		return ""
	}
	return d.Operation.Name()
}

type rebootRow struct {
	name  string
	scene *scene
	does  string // as done says
	says  string // in the reason
}

func checkReboots(t *testing.T, rows []rebootRow) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			d := strategy.Decide(r.scene.Input)
			if got := done(d); got != r.does || !strings.Contains(d.Reason, r.says) {
				t.Errorf("%q: %s\nwant %q: %s", got, d.Reason, r.does, r.says)
			}
		})
	}
}

// The gate: who may be drained, and why not.
func TestReboots_WhoMayGoDown(t *testing.T) {
	old := func(s *scene) { // a reboot that ended long ago
		s.Requests.Reboots.History = []cke.EndedEntry{{Address: "10.0.0.9", StartedAt: noon.Add(-2 * time.Hour), EndedAt: noon.Add(-time.Hour)}}
	}
	unleased := func(s *scene) { s.Requests.Drains, s.Spec.Reboot.MaxConcurrent = nil, 5 }
	acts := func(s *scene) {
		r := s.entry(2)
		r.To(cke.EntryRebooting, noon.Add(-time.Minute))
		r.Attempt, r.StartedAt, r.Boot = 1, r.Since, cke.Boot{Kernel: "k", Init: "1"}
	}
	window := func(schedule string) func(*scene) {
		return func(s *scene) {
			s.Spec.Reboot.Window = cke.Window{Schedule: schedule, Duration: cke.Duration(time.Hour)}
		}
	}
	checkReboots(t, []rebootRow{
		{"a follower", rebootable(3, 3).queued(2).with(old), "drain n2", "the others serve"},
		{"a leader, of which none was rebooted", rebootable(3, 3).queued(1), "drain n1, n2 leads", ""},
		{"a leader, and one in the queue does not take over", rebootable(3, 3).queued(1, 2), "drain n2", ""},
		{"one without a member", rebootable(3, 4).queued(4), "drain n4", "carries no member"},
		{"the queue is disabled", rebootable(3, 4).queued(2, 4).with(func(s *scene) { s.Requests.Reboots.Disabled = true }), "", "disabled"},
		{"the cluster is paused", rebootable(3, 3).queued(2).held(), "", "paused"},
		{"no command in the file", rebootable(3, 3).queued(2).with(func(s *scene) { s.Spec.Reboot = cke.RebootOptions{} }), "", "names no reboot.command"},
		{"no such command in the configuration", rebootable(3, 3).queued(2).with(func(s *scene) { s.UnderWay.Commands = nil }), "", "has no command power-cycle"},
		{"no such check in the configuration", rebootable(3, 3).queued(2).with(func(s *scene) { s.Spec.Reboot.Check = "x" }), "", "has no command x"},
		{"the window is closed", rebootable(3, 3).queued(2).with(window("0 3 * * *")), "", "the next window starts at 2026-05-02T03:00:00Z"},
		{"the window is open", rebootable(3, 3).queued(2).with(window("30 11 * * *")), "drain n2", ""},
		{"it is not known whether the window is open", rebootable(3, 3).queued(2).with(window("30 11 * * *")).with(func(s *scene) {
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Clock = noon.Add(-3 * time.Hour)
			}
		}), "", "3h0m0s ahead of that of the nodes"},
		{"another member does not serve", rebootable(3, 3).queued(2).stopped(3).with(func(s *scene) { s.Seen.Nodes[2].Containers[0].State = cke.ContainerRestarting }), "", "2 of 3 voters are healthy"},
		{"of five another member does not serve", rebootable(5, 5).queued(2).silent(5), "", "4 of 5 voters are healthy"},
		{"a member that does not serve, on a node that is silent", rebootable(3, 3).queued(2, 3).hung(3), "drain n3 without a stop", ""},
		{"two are silent", rebootable(5, 5).queued(4).hung(4, 5), "", "n5 does not serve"},
		{"another member is behind", rebootable(3, 3).queued(2).with(func(s *scene) {
			s.endpoint(3).RaftApplied, s.endpoint(1).RaftIndex, s.endpoint(1).RaftApplied = 1, 1e6, 1e6
		}), "", "the member on n3 is not in sync"},
		{"an alarm", rebootable(3, 3).queued(2).with(func(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{{Kind: "NOSPACE"}} }), "", "out of space"},
		{"an operator has a lease", rebootable(3, 3).queued(2).with(func(s *scene) {
			s.Requests.Drains = []cke.Drain{{Node: "n3", Address: "10.0.0.3", By: "ann@boot-1", Until: noon.Add(time.Hour)}}
		}), "", "n3 is drained by ann@boot-1"},
		{"two voters", rebootable(2, 2).queued(2), "", "1 healthy, 2 needed"},
		{"one voter", rebootable(1, 1).queued(1), "", "0 healthy, 1 needed"},
		{"the last reboot has just ended", rebootable(3, 3).queued(2).with(func(s *scene) {
			s.Requests.Reboots.History = []cke.EndedEntry{{Address: "10.0.0.3", StartedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-time.Minute)}}
		}), "", "settle"},
		{"another one failed", rebootable(3, 4).queued(2).in(3, cke.EntryFailed, time.Hour), "", "the reboot of n3 failed: retry, skip or cancel it"},
		{"another one failed and was skipped", rebootable(3, 4).queued(2).in(3, cke.EntryFailed, time.Hour).with(func(s *scene) { s.entry(3).Skipped = true }), "drain n2", ""},
		{"another one failed, and no member is there", rebootable(3, 4).queued(4).in(3, cke.EntryFailed, time.Hour), "drain n4", ""},
		{"the attempt before has just failed", rebootable(3, 3).queued(2).with(func(s *scene) {
			r := s.entry(2)
			r.Attempt, r.Since, r.Error = 1, noon.Add(-time.Second), "no power"
		}), "", "attempt 1 failed, and the next one starts 1m after it: no power"},
		{"a foreign member is on the node", rebootable(3, 3).queued(2).with(func(s *scene) {
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: "f00", Name: "theirs", PeerURLs: []string{"https://10.0.0.2:12380"}})
		}), "", "foreign"},
		{"a node with a member while another one reboots", rebootable(3, 3).queued(3).in(2, cke.EntryRebooting, time.Minute).silent(2).with(func(s *scene) { s.Spec.Reboot.MaxConcurrent = 5 }), "", "n2 is rebooting"},
		{"a node with a member while another one is away whose lease is over", rebootable(3, 3).queued(3).in(2, cke.EntryRebooting, time.Minute).commandEnded(2, time.Second, "").silent(2).with(unleased), "", "n2 is rebooting"},
		{"or whose lease is over, and whose member serves", rebootable(3, 3).queued(3, 2).with(acts).commandEnded(2, time.Second, "").showing(2, "1").with(unleased), "", "n2 is rebooting"},
		{"a node with a member while another one returns", rebootable(3, 3).queued(3).in(2, cke.EntryReturning, time.Minute).with(unleased), "", "n2 is returning"},
		{"max_concurrent", rebootable(3, 5).queued(4).in(5, cke.EntryRebooting, time.Minute), "", "1 reboot is under way (max_concurrent)"},
		{"more at once, without members", rebootable(3, 5).queued(4).in(5, cke.EntryRebooting, time.Minute).commandEnded(5, time.Second, "").with(func(s *scene) { s.Spec.Reboot.MaxConcurrent = 2 }), "drain n4", ""},
		{"a foreign voter on a node without a member", rebootable(3, 4).queued(4).foreign(4), "", "foreign member theirs is on it"},
		{"a member of another cluster runs on the node", rebootable(3, 3).queued(2, 3).neighbor(2, true), "drain n3", ""},
		{"and on one without a member", rebootable(3, 4).queued(4).neighbor(4, true), "", "a member of cluster other runs on it: `ckecli node drain 10.0.0.4 --cluster other` stops it"},
		{"a member of another cluster is stopped", rebootable(3, 3).queued(2).neighbor(2, false), "drain n2", ""},
		{"a member of another cluster starts before the command", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).neighbor(2, true), "note n2 queued, released", "cluster other"},
		{"of four", rebootable(4, 4).queued(2), "drain n2", ""},
		{"of four, one is silent", rebootable(4, 4).queued(2).silent(4), "", "3 of 4 voters are healthy"},
		{"a node that is silent for a moment", rebootable(3, 3).queued(3).silent(3), "", "counts as hung after 1m0s"},
		{"a leader that hangs, and whose member serves", rebootable(3, 3).queued(1).silentNode(1).with(func(s *scene) { s.node(1).SeenAt = noon.Add(-time.Hour) }), "drain n1 without a stop, n2 leads", ""},
		{"an attempt at another node has just failed", rebootable(3, 3).queued(2, 3).with(func(s *scene) {
			r := s.entry(3)
			r.Attempt, r.Since, r.StartedAt, r.Error = 1, noon.Add(-time.Second), noon.Add(-32*time.Minute), "it did not return"
		}), "", "the reboot of n3 waits: attempt 1 failed"},
		{"an attempt at another node failed, and its turn has not come", rebootable(3, 3).queued(2, 3).with(func(s *scene) {
			r := s.entry(3)
			r.Attempt, r.Since, r.StartedAt, r.Error = 1, noon.Add(-90*time.Second), noon.Add(-32*time.Minute), "it did not return"
		}), "", "the reboot of n3 waits: the last reboot or repair ended less than 2m ago (settle)"},
		{"an attempt at another node failed", rebootable(3, 3).queued(2, 3).with(func(s *scene) {
			r := s.entry(3)
			r.Attempt, r.Since, r.StartedAt, r.Error = 1, noon.Add(-time.Hour), noon.Add(-2*time.Hour), "it did not return"
		}), "drain n3", ""},
		{"another one has just failed and was skipped", rebootable(3, 4).queued(2).in(3, cke.EntryFailed, time.Second).with(func(s *scene) {
			s.entry(3).Skipped, s.entry(3).StartedAt = true, noon.Add(-time.Hour)
		}), "", "settle"},
		{"a node that cannot go keeps no other waiting", rebootable(3, 3).queued(2, 3).foreign(2).with(func(s *scene) {
			one := s.endpoint(1)
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{MemberID: "f00", ClusterID: one.ClusterID, LeaderID: one.LeaderID, Serializable: true, Linearizable: true, RaftIndex: 100, RaftApplied: 100, Revision: one.Revision})
		}), "drain n3", ""},
		{"the daemon's clock is wrong", rebootable(3, 3).queued(2).with(func(s *scene) { s.Seen.ObservedAt = noon.Add(20 * time.Minute) }), "", "20m0s ahead of"},
		{"its own lease is left of a step that was not completed", rebootable(3, 3).queued(2).own(2).stopped(2), "note n2 , released", "not under way"},
		{"and another member dies", rebootable(3, 3).queued(2).own(2).stopped(2).silent(3).lost(), "note n2 , released", ""},
		{"the lease of one that was canceled meanwhile", rebootable(3, 3).queued(2).own(2).stopped(2).with(func(s *scene) { s.Requests.Reboots.Entries = nil }), "note n2 , released", "the lease of n2 is over"},
		{"a cluster that is not formed", forming(3, true).queued(2), "resume-bootstrap", ""},
	})
}

// The order: nodes without member, members that do not serve, followers zone by zone, the leader.
func TestReboots_Order(t *testing.T) {
	zones := func(s *scene, zones ...string) {
		for i, z := range zones {
			s.Spec.Nodes[i].Zone = z
		}
	}
	s := rebootable(5, 6).queued(1, 2, 3, 4, 5, 6).silent(5)
	zones(s, "a", "b", "a", "b", "a")
	order := func() string {
		var names []string
		for _, r := range strategy.QueueOrder(s.Input) {
			names = append(names, r.Node)
		}
		return strings.Join(names, " ")
	}
	if got := order(); got != "n6 n5 n2 n4 n3 n1" {
		t.Error(got)
	}
	led := s.Seen.Etcd.Endpoints[0].LeaderID
	for i := range s.Seen.Etcd.Endpoints { // the leader may change while the queue is worked off
		s.Seen.Etcd.Endpoints[i].LeaderID = s.endpoint(3).MemberID
	}
	if got := order(); got != "n6 n5 n1 n2 n4 n3" {
		t.Errorf("n3 leads: %s", got)
	}
	for i := range s.Seen.Etcd.Endpoints {
		s.Seen.Etcd.Endpoints[i].LeaderID = led
	}
	s.Requests.Reboots.History = []cke.EndedEntry{{Address: s.Spec.Nodes[0].Address, Result: cke.EntryDone}} // a zone that was begun goes on
	if got := order(); got != "n6 n5 n3 n2 n4 n1" {
		t.Error(got)
	}
}

// What becomes of a reboot that was started.
func TestReboots_UnderWay(t *testing.T) {
	gone := func(s *scene) { s.Requests.Drains = nil }
	canceled := func(i int) func(*scene) { return func(s *scene) { s.entry(i).Canceled = true } }
	check := func(s *scene) { s.Spec.Reboot.Check = "ready" }
	disabled := func(s *scene) { s.Requests.Reboots.Disabled = true }
	silent := func(s *scene) { s.entry(2).Silent = true }
	unseen := func(s *scene) { s.entry(2).Boot = cke.Boot{} }
	ahead := func(s *scene) { s.Seen.ObservedAt = noon.Add(time.Hour) }
	undeclared := func(s *scene) { s.Spec.Nodes = slices.Delete(s.Spec.Nodes, 1, 2) }
	runs := func(k *cke.EntrySeen) { k.Running = true }
	rebooting := func(ago time.Duration) *scene { return rebootable(3, 3).in(2, cke.EntryRebooting, ago) }
	checkReboots(t, []rebootRow{
		{"leased", rebootable(3, 3).in(2, cke.EntryLeased, time.Second), "run n2", ""},
		{"leased, and canceled", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(canceled(2)), "note n2 canceled, released", ""},
		{"leased, and the lease is over", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(gone), "note n2 queued", "its lease is over"},
		{"leased, and an operator has the lease", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(func(s *scene) { s.Requests.Drains[0].Entry = "" }), "note n2 queued", ""},
		{"leased, and the quorum is lost", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).silent(3).lost(), "note n2 queued, released", "may help"},
		{"leased, and disabled", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(disabled), "note n2 queued, released", "disabled"},
		{"leased, and the window has closed", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(func(s *scene) {
			s.Spec.Reboot.Window = cke.Window{Schedule: "0 3 * * *", Duration: cke.Duration(time.Hour)}
		}), "note n2 queued, released", "the next window starts"},
		{"leased, and it does not answer for a moment", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).silent(2), "", ""},
		{"leased, and it no longer answers", rebootable(3, 3).in(2, cke.EntryLeased, time.Minute).hung(2), "note n2 queued, released", "no longer answers"},
		{"leased while it was silent", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(silent).hung(2), "run n2", ""},
		{"leased while it was silent, and it answers", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(silent), "note n2 queued, released", "answers again"},
		{"leased, without a member, and a foreign voter is on it", rebootable(3, 4).in(4, cke.EntryLeased, time.Second).foreign(4), "note n4 queued, released", "foreign member theirs is on it"},
		{"leased, without a member, and the quorum is lost", rebootable(3, 4).in(4, cke.EntryLeased, time.Second).silent(2, 3).lost(), "note n4 queued, released", "no quorum"},
		{"leased, and the daemon's clock is set an hour ahead", rebootable(3, 3).in(2, cke.EntryLeased, time.Second).with(ahead), "run n2", ""},
		{"leased for long", rebootable(3, 3).in(2, cke.EntryLeased, time.Hour), "note n2 failed, failed, released", "could not be started"},
		{"leased, without a member", rebootable(3, 4).in(4, cke.EntryLeased, time.Second), "run n4", ""},

		{"the command runs", rebooting(time.Minute).knowing(2, func(k *cke.EntrySeen) { k.Running = true }).showing(2, "1"), "", "n2"},
		{"the command runs, and its time is over", rebooting(time.Hour).knowing(2, runs).showing(2, "1"), "", ""},
		{"the command runs, and the machine shows another boot", rebooting(time.Minute).knowing(2, runs).showing(2, "2"), "", ""},
		{"the command runs, and its node left the cluster file", rebooting(time.Minute).knowing(2, runs).with(undeclared), "remove-member", ""},
		{"the command runs, and the file names none any more", rebooting(time.Minute).knowing(2, runs).with(func(s *scene) { s.Spec.Reboot = cke.RebootOptions{} }), "", ""},
		{"the command runs, and the daemon's clock is set an hour ahead", rebooting(time.Minute).knowing(2, runs).showing(2, "1").with(ahead), "", ""},
		{"the machine is away, and the daemon's clock is set an hour ahead", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").silent(2).with(ahead), "", ""},
		{"the command has ended, and it shows another boot", rebooting(time.Minute).knowing(2, func(k *cke.EntrySeen) { k.Ended = &cke.CommandEnd{At: noon} }).showing(2, "2"), "note n2 ended", ""},
		{"the command has ended", rebooting(time.Minute).knowing(2, func(k *cke.EntrySeen) { k.Ended = &cke.CommandEnd{At: noon} }), "note n2 ended", "ended"},
		{"the command has failed", rebooting(time.Minute).knowing(2, func(k *cke.EntrySeen) { k.Ended = &cke.CommandEnd{At: noon, Error: "no power"} }), "note n2 ended", "failed: no power"},
		{"nothing happens yet", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "1"), "", "n2"},
		{"the machine is away", rebooting(10*time.Minute).commandEnded(2, 10*time.Minute, "").silent(2), "", "n2"},
		{"it is back", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2"), "note n2 returning, released", "has rebooted"},
		{"another kernel runs, and process 1 started after as many ticks", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").knowing(2, func(k *cke.EntrySeen) { k.Boot, k.BootAt = cke.Boot{Kernel: "k2", Init: "1"}, noon }), "note n2 returning, released", "has rebooted"},
		{"it is back although the command failed", rebooting(time.Minute).commandEnded(2, 50*time.Second, "exit status 255").showing(2, "2"), "note n2 returning, released", ""},
		{"it is back, and the quorum is lost", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").silent(3).lost(), "note n2 returning, released", ""},
		{"it is back, and its lease is over", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").with(gone), "note n2 returning, released", ""},
		{"it is back, and the check does not pass", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").with(check), "", "n2"},
		{"it is back, and the check passes", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").with(check).knowing(2, func(k *cke.EntrySeen) { k.Checked = true }), "note n2 returning, released", ""},
		{"it shows another boot, and then no answer", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").silent(2), "", "n2"},
		{"no boot was known before, and the command ended a moment ago", rebooting(10*time.Second).commandEnded(2, time.Second, "").showing(2, "1").with(unseen), "", ""},
		{"no boot was known before", rebooting(10*time.Minute).commandEnded(2, 9*time.Minute, "").showing(2, "2").with(unseen), "note n2 returning, released", ""},
		{"no boot was known before, and the command failed", rebooting(10*time.Minute).commandEnded(2, 9*time.Minute, "no power").showing(2, "1").with(unseen), "note n2 queued, released", "no power"},
		{"the command failed a moment ago", rebooting(time.Minute).commandEnded(2, time.Second, "no power").showing(2, "1"), "", "n2"},
		{"the command failed", rebooting(2*time.Minute).commandEnded(2, 90*time.Second, "no power").showing(2, "1"), "note n2 queued, released", "attempt 1 to reboot n2 failed, 2 more attempts follow: no power"},
		{"it does not return", rebooting(time.Hour).commandEnded(2, 59*time.Minute, "").silent(2), "note n2 queued, released", "waited 30m"},
		{"it does not return from the last attempt", rebooting(time.Hour).commandEnded(2, 59*time.Minute, "").silent(2).with(func(s *scene) { s.entry(2).Attempt = 3 }), "note n2 failed, failed, released", "did not return"},
		{"it does not return, and is canceled", rebooting(time.Hour).commandEnded(2, 59*time.Minute, "").silent(2).with(canceled(2)), "note n2 canceled, released", ""},
		{"it returns, and is canceled", rebooting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").with(canceled(2)), "note n2 returning, released", ""},
		{"nobody knows whether the command ran", rebooting(time.Minute).showing(2, "1"), "run n2 again", ""},
		{"nor after it was canceled", rebooting(time.Minute).showing(2, "1").with(canceled(2)), "note n2 canceled, released", "not known whether its command ran"},
		{"nobody knows, and the machine is away", rebooting(time.Minute).silent(2), "", "n2"},
		{"nobody knows, and it is back", rebooting(time.Minute).showing(2, "2"), "note n2 returning, released", ""},
		{"nobody knows, and there is no quorum", rebooting(time.Minute).showing(2, "1").silent(3).lost(), "note n2 queued, released", "its member may help"},
		{"nobody knows of the last attempt, and there is no quorum", rebooting(time.Minute).with(func(s *scene) { s.entry(2).Attempt = 3 }).showing(2, "1").silent(3).lost(), "note n2 failed, failed, released", "its member may help"},
		{"nobody knows, there is no quorum, and it is canceled", rebooting(time.Minute).showing(2, "1").silent(3).lost().with(canceled(2)), "note n2 canceled, released", ""},
		{"the command failed, and there is no quorum", rebooting(time.Minute).commandEnded(2, time.Second, "no power").showing(2, "1").silent(3).lost(), "note n2 queued, released", "its member may help"},
		{"the command ended, and there is no quorum", rebooting(time.Minute).commandEnded(2, time.Second, "").showing(2, "1").silent(3).lost(), "", "no quorum"},
		{"the command ended, there is no quorum, and it is canceled", rebooting(time.Minute).commandEnded(2, time.Second, "").showing(2, "1").silent(3).lost().with(canceled(2)), "note n2 canceled, released", "canceled"},
		{"nobody knows, and the queue is disabled", rebooting(time.Minute).showing(2, "1").with(disabled), "note n2 queued, released", "disabled"},
		{"nobody knows of the last attempt, and the queue is disabled", rebooting(time.Minute).with(func(s *scene) { s.entry(2).Attempt = 3 }).showing(2, "1").with(disabled), "", ""},
		{"nobody knows, no boot was known, and the machine is away", rebooting(time.Minute).silent(2).with(unseen), "", ""},
		{"nobody knows, no boot was known, and it answers a moment", rebooting(5*time.Minute).showing(2, "2").with(unseen), "", ""},
		{"nobody knows, no boot was known, and it answers", rebooting(10*time.Minute).showing(2, "2").with(unseen), "note n2 queued, released", "not known whether it has rebooted"},
		{"nobody knows, after the attempt was repeated for as long as it may take", rebooting(2*time.Hour).showing(2, "1").with(func(s *scene) { s.entry(2).StartedAt = noon.Add(-time.Minute) }), "note n2 queued, released", "not known whether its command ran"},
		{"it never reboots", rebooting(time.Hour).commandEnded(2, 31*time.Minute, "").showing(2, "1"), "note n2 queued, released", "did not return"},

		{"returning", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute), "", ""},
		{"returning, in sync", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).served(2, time.Minute), "note n2 done, released", "is done"},
		{"the clock was set back, and it is not known whether it is back", rebootable(3, 4).in(4, cke.EntryRebooting, -240*time.Hour).showing(4, "2").with(func(s *scene) { s.entry(4).Boot = cke.Boot{} }), "note n4 queued, released", "did not return"},
		{"the clock was set back, and the command ended before that", rebooting(-240*time.Hour).commandEnded(2, -240*time.Hour, "").silent(2), "note n2 queued, released", "did not return"},
		{"the clock was set back, and the command is not started", rebootable(3, 4).in(4, cke.EntryLeased, -240*time.Hour), "note n4 failed, failed, released", "could not be started"},
		{"the clock was set back, and it does not return", rebootable(3, 4).in(4, cke.EntryReturning, -240*time.Hour).silent(4), "note n4 failed, failed, released", "does not answer"},
		{"returning, and canceled", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).with(canceled(2)), "", ""},
		{"returning, in sync, and canceled", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).served(2, time.Minute).with(canceled(2)), "note n2 done, released", "is done"},
		{"returning for too long, and canceled", rebootable(3, 3).in(2, cke.EntryReturning, time.Hour).silent(2).with(canceled(2)), "note n2 canceled, released", "it does not answer (waited 30m)"},
		{"returning, and the quorum is lost", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).silent(3).lost().with(canceled(2)), "", ""},
		{"returning, in sync for a moment", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).served(2, 10*time.Second), "", ""},
		{"returning, behind", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).served(2, time.Minute).with(func(s *scene) { s.endpoint(2).RaftApplied, s.endpoint(1).RaftIndex = 1, 1e6 }), "", ""},
		{"returning, without a member", rebootable(3, 4).in(4, cke.EntryReturning, time.Second), "note n4 done, released", ""},
		{"returning, and away again", rebootable(3, 4).in(4, cke.EntryReturning, time.Second).silent(4), "", ""},
		{"returning, wiped", rebootable(3, 3).in(2, cke.EntryReturning, time.Hour).emptied(2), "note n2 failed, failed, released", "its member does not serve (waited 30m)"},
		{"returning, and the daemon's clock is set an hour ahead", rebootable(3, 3).in(2, cke.EntryReturning, time.Minute).silent(2).with(ahead), "", ""},
		{"returning for too long", rebootable(3, 3).in(2, cke.EntryReturning, time.Hour).silent(2), "note n2 failed, failed, released", "it does not answer (waited 30m)"},
		{"its node left the cluster file", rebooting(time.Minute).with(func(s *scene) { s.Spec.Nodes = slices.Delete(s.Spec.Nodes, 1, 2) }), "note n2 undeclared, released", "left the cluster file"},
		{"a queued one left the cluster file", rebootable(3, 4).queued(4).with(func(s *scene) { s.Spec.Nodes = s.Spec.Nodes[:3] }), "note n4 undeclared", ""},
		{"failed", rebootable(3, 4).in(4, cke.EntryFailed, time.Hour), "", "nothing to do"},
	})
}
