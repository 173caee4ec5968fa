package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server/strategy"
)

// repairable has procedures: one of two steps for dead machines, of which the second needs no reboot, and one that lets the member run.
func repairable(members, nodes int) *scene {
	s := rebootable(members, nodes)
	s.Spec.Repair = cke.RepairOptions{Procedures: []cke.RepairProcedure{
		{On: "dead", Steps: []cke.RepairStep{{Command: "power-cycle", Reboot: true, Retries: 1}, {Command: "ready"}}},
		{On: "lamp", Check: "ready", Steps: []cke.RepairStep{{Command: "ready", Lease: new(bool)}}},
	}}.WithDefaults()
	return s
}

// repairs turns the reboots of a scene into repairs.
func (s *scene) repairs(on string) *scene {
	for _, r := range s.Requests.Reboots.Entries {
		if r.On = on; r.State == cke.EntryRebooting {
			r.State = cke.EntryRepairing
		}
		s.Requests.Repairs.Entries = append(s.Requests.Repairs.Entries, r)
	}
	s.Requests.Reboots.Entries = nil
	return s
}

// step lets the repair of a node be at its second step, after attempts at the first.
func (s *scene) step(i, earlier int) *scene {
	r := s.entry(i)
	r.Step, r.Earlier, r.Attempt = 1, earlier, r.Attempt+earlier
	return s
}

// The gate: that of reboots, which nodes of both queues share.
func TestRepairs_WhoMayGoDown(t *testing.T) {
	history := func(address string, ago time.Duration) func(*scene) {
		return func(s *scene) {
			s.Requests.Repairs.History = append(s.Requests.Repairs.History, cke.EndedEntry{Address: address, On: "dead", StartedAt: noon.Add(-ago - time.Minute), EndedAt: noon.Add(-ago)})
		}
	}
	beside := func(s *scene) *scene { return s.queued(3) }
	checkReboots(t, []rebootRow{
		{"a member that serves", repairable(3, 3).queued(2).repairs("dead"), "drain n2", "n2 may be repaired"},
		{"a member that does not serve", repairable(3, 3).queued(3).repairs("dead").hung(3), "drain n3 without a stop", ""},
		{"two of five that do not serve", repairable(5, 5).queued(4, 5).repairs("dead").hung(4, 5), "drain n4 without a stop", ""},
		{"two of three that do not serve", repairable(3, 3).queued(2).repairs("dead").silent(2, 3).lost(), "", ""},
		{"a member that does not serve, while etcd has an alarm", repairable(3, 3).queued(3).repairs("dead").hung(3).with(func(s *scene) { s.Seen.Etcd.Alarms = []cke.Alarm{{Kind: "NOSPACE"}} }), "drain n3 without a stop", ""},
		{"a member that serves, beside one that does not", repairable(3, 3).queued(2).repairs("dead").silent(3), "", "2 of 3 voters are healthy"},
		{"without a member", repairable(3, 4).queued(4).repairs("dead"), "drain n4", "carries no member"},
		{"a step that lets the member run", repairable(3, 3).queued(2).repairs("lamp"), "drain n2", "runs during this step"},
		{"before a reboot", beside(repairable(3, 3).queued(2).repairs("dead")), "drain n2", ""},
		{"another node reboots", repairable(3, 3).queued(2).repairs("dead").in(3, cke.EntryRebooting, time.Minute).commandEnded(3, time.Second, "").silent(3), "", "n3 is rebooting"},
		{"a reboot, while another node is repaired", repairable(3, 3).in(3, cke.EntryRebooting, time.Minute).commandEnded(3, time.Second, "").repairs("dead").queued(2).silent(3), "", "n3 is repairing"},
		{"the node itself reboots", repairable(3, 4).queued(4).repairs("dead").with(func(s *scene) {
			s.Requests.Reboots.Entries = []cke.Entry{{ID: "other", Node: "n4", Address: "10.0.0.4", State: cke.EntryRebooting, StartedAt: noon.Add(-time.Second), CommandEndedAt: noon, Attempt: 1, Boot: cke.Boot{Init: "1"}}}
		}), "", "the reboot of n4 is rebooting"},
		{"its reboot failed", repairable(3, 3).queued(3).repairs("dead").with(func(s *scene) {
			s.Requests.Reboots.Entries = []cke.Entry{{ID: "other", Node: "n3", Address: "10.0.0.3", State: cke.EntryFailed}}
		}).hung(3), "drain n3 without a stop", ""},
		{"another repair failed", repairable(3, 4).queued(2).in(4, cke.EntryFailed, time.Hour).repairs("dead"), "", "the repair of n4 failed: retry, skip or cancel it"},
		{"a reboot while a repair failed", repairable(3, 4).in(4, cke.EntryFailed, time.Hour).repairs("dead").queued(2), "", "the repair of n4 failed"},
		{"settle, after a reboot", repairable(3, 3).queued(2).repairs("dead").with(func(s *scene) {
			s.Requests.Reboots.History = []cke.EndedEntry{{Address: "10.0.0.3", StartedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-time.Minute)}}
		}), "", "settle"},
		{"disabled", repairable(3, 3).queued(2).repairs("dead").with(func(s *scene) { s.Requests.Repairs.Disabled = true }), "", "ckecli repair-queue enable"},
		{"a disabled queue keeps no other waiting", beside(repairable(3, 3).queued(2).repairs("dead")).with(func(s *scene) { s.Requests.Repairs.Disabled = true }), "drain n3", ""},
		{"no procedure", repairable(3, 3).queued(2).repairs("flood"), "", `no procedure of the cluster file is for "flood"`},
		{"a procedure for other machines", repairable(3, 3).queued(2).repairs("dead").with(func(s *scene) { s.Spec.Repair.Procedures[0].Types = []string{"big"} }), "", "no procedure"},
		{"a procedure for its type", repairable(3, 3).queued(2).repairs("dead").with(func(s *scene) {
			s.Spec.Repair.Procedures[0].Types = []string{"big"}
			s.Spec.Nodes[1].Labels = map[string]string{"machine-type": "big"}
		}), "drain n2", ""},
		{"a command that the daemon lacks", repairable(3, 3).queued(2).repairs("dead").with(func(s *scene) { s.UnderWay.Commands = []string{"ready"} }), "", "has no command power-cycle"},
		{"cooldown", repairable(3, 3).queued(2).repairs("dead").with(history("10.0.0.2", time.Hour)), "", "less than 24h ago (cooldown)"},
		{"cooldown is over", repairable(3, 3).queued(2).repairs("dead").with(history("10.0.0.2", 25*time.Hour)), "drain n2", ""},
		{"per_day", repairable(3, 3).queued(2).repairs("dead").with(history("10.0.0.7", 3*time.Hour)).with(history("10.0.0.8", 2*time.Hour)).with(history("10.0.0.9", time.Hour)), "", "3 repairs were started in the last 24 hours (per_day)"},
		{"per_day does not count the next attempt", repairable(3, 3).queued(2).repairs("dead").with(history("10.0.0.7", 3*time.Hour)).with(history("10.0.0.8", 2*time.Hour)).with(history("10.0.0.9", time.Hour)).with(func(s *scene) {
			s.entry(2).Attempt, s.entry(2).StartedAt = 1, noon.Add(-time.Hour)
		}), "drain n2", ""},
		{"per_day and cooldown are not for one that is retried", repairable(3, 3).queued(2).repairs("dead").with(history("10.0.0.2", 3*time.Hour)).with(history("10.0.0.8", 2*time.Hour)).with(history("10.0.0.9", time.Hour)).with(func(s *scene) {
			s.entry(2).Attempt, s.entry(2).StartedAt = 2, noon.Add(-time.Hour)
			s.entry(2).To(cke.EntryFailed, noon.Add(-time.Hour))
			s.Requests.Repairs, _ = s.Requests.Repairs.Retry([]string{"n2"}, noon.Add(-time.Minute*3))
		}), "drain n2", ""},
		{"one that was retried counts", repairable(3, 3).queued(3, 2).repairs("dead").with(history("10.0.0.7", 3*time.Hour)).with(history("10.0.0.8", 2*time.Hour)).with(func(s *scene) {
			s.entry(3).Attempt, s.entry(3).StartedAt = 2, noon.Add(-time.Hour)
			s.entry(3).To(cke.EntryFailed, noon.Add(-time.Hour))
			s.Requests.Repairs, _ = s.Requests.Repairs.Retry([]string{"n3"}, noon.Add(-time.Minute*3))
			s.entry(3).On = "flood"
		}), "", "no procedure"},
		{"max_concurrent", repairable(3, 5).queued(4).in(5, cke.EntryRebooting, time.Minute).commandEnded(5, time.Second, "").repairs("dead"), "", "1 repair is under way (max_concurrent)"},
	})
}

// What becomes of a repair that was started.
func TestRepairs_UnderWay(t *testing.T) {
	acting := func(ago time.Duration) *scene {
		return repairable(3, 3).in(2, cke.EntryRebooting, ago).repairs("dead")
	}
	lamp := func(ago time.Duration) *scene { return repairable(3, 3).in(2, cke.EntryRebooting, ago).repairs("lamp") }
	checked := func(k *cke.EntrySeen) { k.Checked = true }
	canceled := func(s *scene) { s.entry(2).Canceled = true }
	checkReboots(t, []rebootRow{
		{"leased", repairable(3, 3).in(2, cke.EntryLeased, time.Second).repairs("dead"), "run n2", "step 1, power-cycle"},
		{"leased, without a lease that is needed", repairable(3, 3).queued(2).repairs("lamp").with(func(s *scene) { s.entry(2).To(cke.EntryLeased, noon) }), "run n2", "step 1, ready"},
		{"leased, and canceled", repairable(3, 3).in(2, cke.EntryLeased, time.Second).repairs("dead").with(func(s *scene) { s.entry(2).Canceled = true }), "note n2 canceled, released", ""},
		{"it is back", acting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2"), "note n2 returning, released", "has rebooted"},
		{"it has not rebooted", acting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "1"), "", ""},
		{"it does not return", acting(time.Hour).commandEnded(2, 59*time.Minute, "").silent(2), "note n2 queued, released", "1 more attempt follows"},
		{"it does not return from the last attempt", acting(time.Hour).with(func(s *scene) { s.entry(2).Attempt = 2 }).commandEnded(2, 59*time.Minute, "").silent(2), "note n2 queued, next step, released", "step 1 to repair n2 did not help"},
		{"nor from the last step", acting(time.Hour).step(2, 2).commandEnded(2, 59*time.Minute, "").silent(2), "note n2 failed, failed, released", "it did not become healthy: it does not answer"},
		{"the last step needs no reboot", acting(time.Minute).step(2, 2).commandEnded(2, time.Second, "").showing(2, "1"), "note n2 returning, released", "n2 is back"},
		{"the last step has failed", acting(10*time.Minute).step(2, 2).commandEnded(2, 9*time.Minute, "no power").showing(2, "1"), "note n2 failed, failed, released", "no power"},
		{"nobody knows whether the last step ran", acting(time.Minute).step(2, 2).silent(2), "run n2 again", ""},
		{"the check does not pass", lamp(time.Minute).commandEnded(2, time.Second, "").showing(2, "1"), "", ""},
		{"the check passes", lamp(time.Minute).commandEnded(2, time.Second, "").showing(2, "1").knowing(2, checked), "note n2 returning, released", ""},
		{"the check never passes", lamp(time.Hour).commandEnded(2, 59*time.Minute, "").showing(2, "1"), "note n2 failed, failed, released", "the check ready does not pass"},
		{"returning for too long", repairable(3, 3).in(2, cke.EntryReturning, time.Hour).repairs("dead").with(func(s *scene) { s.entry(2).Attempt = 1 }).silent(2), "note n2 queued, released", ""},
		{"healthy after an attempt that did not help in time", repairable(3, 3).queued(2).repairs("dead").step(2, 1).with(func(s *scene) {
			s.entry(2).CommandEndedAt = noon.Add(-time.Hour)
		}).showing(2, "2").served(2, time.Minute), "note n2 done", "became healthy"},
		{"repairing, and canceled", acting(time.Minute).commandEnded(2, 30*time.Second, "").silent(2).with(canceled), "", ""},
		{"it is back, and canceled", acting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "2").with(canceled), "note n2 returning, released", ""},
		{"it does not return, and is canceled", acting(time.Hour).commandEnded(2, 59*time.Minute, "").silent(2).with(canceled), "note n2 canceled, released", ""},
		{"it does not return from the last attempt of a step, and is canceled", acting(time.Hour).with(func(s *scene) { s.entry(2).Attempt = 2 }).commandEnded(2, 59*time.Minute, "").silent(2).with(canceled), "note n2 canceled, released", ""},
		{"nobody knows whether the last step ran, and it is canceled", acting(time.Minute).step(2, 2).showing(2, "1").with(canceled), "note n2 canceled, released", "not known whether its command ran"},
		{"the quorum is lost, and it is canceled", acting(time.Minute).commandEnded(2, 30*time.Second, "").showing(2, "1").silent(3).lost().with(canceled), "note n2 canceled, released", ""},
		{"returning, and canceled", repairable(3, 3).in(2, cke.EntryReturning, time.Minute).repairs("dead").with(canceled), "", ""},
		{"returning, in sync, and canceled", repairable(3, 3).in(2, cke.EntryReturning, time.Minute).repairs("dead").served(2, time.Minute).with(canceled), "note n2 done, released", ""},
		{"returning for too long, and canceled", repairable(3, 3).in(2, cke.EntryReturning, time.Hour).repairs("dead").with(func(s *scene) { s.entry(2).Attempt = 1 }).silent(2).with(canceled), "note n2 canceled, released", ""},
		{"its procedure is gone", acting(time.Minute).with(func(s *scene) { s.Spec.Repair.Procedures = nil }), "note n2 failed, failed, released", "no longer says"},
		{"its node left the cluster file", acting(time.Minute).with(func(s *scene) { s.Spec.Nodes = slices.Delete(s.Spec.Nodes, 1, 2) }), "note n2 undeclared, released", "leaves the repair queue"},
		{"done", repairable(3, 3).in(2, cke.EntryReturning, time.Minute).repairs("dead").served(2, time.Minute), "note n2 done, released", "the repair of n2 is done"},
	})
}

// A failed node that is canceled keeps no other one waiting, in both queues.
func TestQueues_OneThatFailedIsCanceled(t *testing.T) {
	for _, kind := range []cke.QueueKind{cke.RebootQueue, cke.RepairQueue} {
		s := repairable(3, 4).in(4, cke.EntryFailed, time.Hour)
		if kind == cke.RepairQueue {
			s.repairs("dead")
		}
		s.queued(2)
		if d := strategy.Decide(s.Input); done(d) != "" || !strings.Contains(d.Reason, "n4 failed") {
			t.Errorf("%s: %s %s", kind, done(d), d.Reason)
		}
		q, err := s.Requests.Queue(kind).Cancel([]string{"n4"}, noon.Add(-time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		*s.Requests.Queue(kind) = q
		if d := strategy.Decide(s.Input); done(d) != "drain n2" {
			t.Errorf("%s: %s %s", kind, done(d), d.Reason)
		}
	}
}

// The status has both queues, and a failed repair as a problem of its own.
func TestRepairs_InTheStatus(t *testing.T) {
	s := repairable(3, 5).in(3, cke.EntryFailed, time.Hour).repairs("dead").queued(1)
	s.entry(3).Error = "no power"
	st := s.report()
	if st.Repairs == nil || st.Reboots == nil || st.Repairs.Entries[0].Waits != "no power" || st.Reboots.Entries[0].Waits != "the repair of n3 failed: retry, skip or cancel it" {
		t.Errorf("%+v %+v", st.Repairs, st.Reboots)
	}
	at := slices.IndexFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeRepair })
	if at < 0 || st.Problems[at].Node != "n3" || !strings.Contains(st.Problems[at].Remedy, "ckecli repair-queue retry n3") {
		t.Errorf("%+v", st.Problems)
	}
}

// A machine whose agent asked for a reboot gets its lease while the agent waits, and no command.
func TestReboots_ByAnAgent(t *testing.T) {
	agent := func(ago time.Duration) func(*scene) {
		return func(s *scene) { s.entry(2).Agent, s.entry(2).AskedAt = "cafe", noon.Add(-ago) }
	}
	on := func(s *scene) { s.Spec.Reboot = cke.RebootOptions{FleetLock: true}.WithDefaults() }
	asked := func() *scene { return rebootable(3, 3).with(on) }
	checkReboots(t, []rebootRow{
		{"it asks", asked().queued(2).with(agent(time.Second)), "drain n2", ""},
		{"it has not asked lately", asked().queued(2).with(agent(3 * time.Minute)), "", "its agent has to ask again"},
		{"it no longer asks", asked().queued(2).with(agent(3 * time.Hour)), "note n2 canceled", "no longer asks"},
		{"it may not", asked().queued(2).with(agent(time.Second)).with(func(s *scene) { s.Spec.Reboot.FleetLock, s.Spec.Reboot.Command = false, "power-cycle" }), "", "fleet_lock: true"},
		{"leased", asked().in(2, cke.EntryLeased, time.Second).with(agent(time.Second)), "run n2", ""},
		{"it reboots", asked().in(2, cke.EntryRebooting, time.Minute).with(agent(time.Minute)).silent(2), "", ""},
		{"it has rebooted, and says nothing", asked().in(2, cke.EntryRebooting, time.Minute).with(agent(time.Minute)).showing(2, "2"), "", ""},
		{"it is back", asked().in(2, cke.EntryRebooting, time.Minute).with(agent(time.Minute)).commandEnded(2, time.Second, ""), "note n2 returning, released", "n2 is back"},
		{"it does not reboot, and the quorum is lost", asked().in(2, cke.EntryRebooting, 5*time.Minute).with(agent(5 * time.Minute)).silent(3).lost(), "note n2 queued, released", "its member may help"},
		{"it is canceled and does not reboot, and the quorum is lost", asked().in(2, cke.EntryRebooting, time.Second).with(agent(time.Second)).with(func(s *scene) { s.entry(2).Canceled = true }).silent(3).lost(), "note n2 canceled, released", ""},
		{"it asks again, and the quorum is lost", asked().in(2, cke.EntryRebooting, 5*time.Minute).with(agent(time.Second)).silent(3).lost(), "", "no quorum"},
		{"it reboots, and the quorum is lost", asked().in(2, cke.EntryRebooting, 5*time.Minute).with(agent(5*time.Minute)).silent(2, 3).lost(), "", ""},
		{"it never releases", asked().in(2, cke.EntryRebooting, time.Hour).with(agent(time.Hour)), "note n2 failed, failed, released", "its agent did not report that it is back"},
	})
	s := asked().in(2, cke.EntryFailed, time.Hour).with(agent(time.Hour))
	at := slices.IndexFunc(s.report().Problems, func(p cke.Problem) bool { return p.Code == cke.CodeReboot })
	if at < 0 || !strings.Contains(s.report().Problems[at].Remedy, "dismiss its request with ckecli reboot-queue cancel n2") {
		t.Errorf("%+v", s.report().Problems)
	}
	s.queued(3).entry(3).Agent, s.entry(3).AskedAt = "beef", noon
	if d := strategy.Decide(s.Input); !strings.Contains(d.Reason, "the reboot of n2 failed") {
		t.Error(d.Reason)
	}
}
