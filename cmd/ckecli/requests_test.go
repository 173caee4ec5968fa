package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/words"
)

// threeServing is a status of three members that serve, cp1 leading.
func threeServing(generation int64) cke.Status {
	s := ready(generation)
	for i, role := range []string{"leader", "follower", "follower"} {
		name := fmt.Sprintf("cp%d", i+1)
		id := fmt.Sprintf("m%d", i+1)
		s.Members = append(s.Members, cke.MemberStatus{Name: name, Address: fmt.Sprintf("10.0.0.1%d", i+1), ID: id, Join: cke.JoinID("join-" + name),
			Role: role, State: "healthy", Ready: true, CanStop: true})
		s.Etcd.Members = append(s.Etcd.Members, cke.Member{ID: id, Name: name})
	}
	return s
}

func TestReplace_OfAMemberThatServesIsConfirmed(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	_, stderr := h.run(exitRefused, "replace", "cp2")
	contains(t, stderr, "error[CKE107]: replacing the member of cp2 was not confirmed\n", "Nothing was changed.\nTry: ckecli replace cp2 --yes\n")
	_, stderr = h.run(exitRefused, "replace", "cp9")
	contains(t, stderr, "error[CKE111]: cp9 carries no member of prod\n")

	replace := h.start("replace", "10.0.0.12", "--yes")
	task := h.awaitTask()
	if task.Kind != cke.TaskReplace || task.Node != "cp2" || task.Subject != "join-cp2" {
		t.Errorf("%+v", task)
	}
	l.end(l.begin(cke.Record{Operation: "remove-member", Targets: []string{"cp2"}, Reason: "asked for", Task: task.ID, Part: true}))
	replace.stderr.await(t, "#1 completed")
	l.end(l.begin(cke.Record{Operation: "promote-member", Targets: []string{"cp2"}, Reason: "caught up", Task: task.ID}))
	l.finish(task)
	replace.must(exitDone)
	contains(t, replace.stdout.String(), "cp2 has a fresh member (took ")
}

func TestReplace_OfADeadMemberIsNotConfirmed(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := threeServing(1)
	s.Members[2].Ready, s.Members[2].State = false, "unreachable"
	l.status(s)
	replace := h.start("replace", "cp3")
	task := h.awaitTask()
	l.end(l.begin(cke.Record{Operation: "replace", Targets: []string{"cp3"}, Reason: "cp3 does not answer; a new member is added once it does", Task: task.ID}))
	l.finish(task)
	replace.must(exitDone)
	contains(t, replace.stdout.String(), "cp3 does not answer; a new member is added once it does\n")
}

func TestReplace_MovesTheMembershipToAnotherNodeByANewRevision(t *testing.T) {
	h := newHouse(t)
	file := clusterFile + "  - {address: 10.0.0.14, hostname: cp4, user: cke} # spare\n"
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", file))
	for _, row := range []struct{ from, to, says string }{
		{"cp9", "cp4", "cluster prod declares no node cp9"},
		{"cp1", "cp9", "cluster prod declares no node cp9\nNothing was changed.\nTry: ckecli cluster get > cluster.yml, add `- {address: …, hostname: cp9}` under nodes:"},
		{"cp1", "cp2", "cp2 is a control-plane node already"},
		{"cp4", "cp1", "cp4 is no control-plane node"},
	} {
		_, stderr := h.run(exitRefused, "replace", row.from, row.to)
		contains(t, stderr, "error[CKE111]: "+row.says)
	}
	replace := h.start("replace", "cp3", "cp4")
	replace.stderr.await(t, "prod: stored as revision 2: control_plane moved from cp3 to cp4\n")
	h.lead("prod").status(ready(2))
	replace.must(exitDone)
	contains(t, replace.stdout.String(), "prod is ready: 3 members serve")
	stdout, _ := h.run(exitDone, "cluster", "get")
	want := strings.Replace(strings.Replace(file, "cp3, user: cke, control_plane: true", "cp3, user: cke, control_plane: false", 1), "{address: 10.0.0.14, hostname: cp4", "{address: 10.0.0.14, control_plane: true, hostname: cp4", 1)
	if stdout != want {
		t.Errorf("the stored file is\n%s", stdout)
	}
}

func TestDrain_ReturnsOnceTheMemberHasStopped(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	drain := h.start("node", "drain", "cp2", "--for", "30m", "--reason", "new kernel", "--yes")
	task := h.awaitTask()
	if task.Kind != cke.TaskDrain || task.Node != "cp2" || task.For != cke.Duration(30*time.Minute) || task.Reason != "new kernel" || task.Accepted {
		t.Errorf("%+v", task)
	}
	lease := cke.Drain{Node: "cp2", Reason: "new kernel", By: "ann@boot-1", Since: time.Now(), Until: time.Now().Add(30 * time.Minute)}
	if err := l.term.PutDrain(h.ctx(), lease); err != nil {
		t.Fatal(err)
	}
	l.end(l.begin(cke.Record{Operation: "drain-node", Targets: []string{"cp2"}, Reason: "asked for", Task: task.ID}))
	l.finish(task)
	drain.must(exitDone)
	contains(t, drain.stdout.String(), "cp2 may be taken down; its lease expires in 30m0s at the latest (took ")

	s := threeServing(1)
	s.Drains = []cke.Drain{lease}
	s.Members[1].State, s.Members[1].Ready = "drained", false
	l.status(s)
	stdout, _ := h.run(exitDone, "status")
	contains(t, stdout, "Drained    cp2 is drained by ann@boot-1 (new kernel) until ")
	undrain := h.start("node", "undrain", "cp2")
	undrain.stderr.await(t, "prod: the lease of cp2 is ended\n")
	l.status(threeServing(1))
	undrain.must(exitDone)
	contains(t, undrain.stdout.String(), "cp2 serves again (took ")
	_, stderr := h.run(exitRefused, "node", "undrain", "cp2")
	contains(t, stderr, "error[CKE111]: cp2 of cluster prod is not drained\nNothing was changed.\n")
}

// The lease of a node that reboots is the queue's: its command may run.
func TestUndrain_LeavesTheLeaseOfAQueue(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	for kind, try := range map[cke.QueueKind]string{"": "ckecli reboot-queue cancel cp2", cke.RepairQueue: "ckecli repair-queue cancel cp2"} {
		if err := l.term.PutDrain(h.ctx(), cke.Drain{Node: "cp2", Since: time.Now(), Until: time.Now().Add(time.Hour), Entry: "r1", Queue: kind}); err != nil {
			t.Fatal(err)
		}
		_, stderr := h.run(exitRefused, "node", "undrain", "cp2")
		contains(t, stderr, "the lease of cp2 is that of the ")
		contains(t, stderr, "Nothing was changed.\nTry: "+try)
	}
}

// A lease keeps members of other nodes where they are, also when its node has left the cluster file: a person can end it.
func TestUndrain_EndsTheLeaseOfANodeThatIsDeclaredNoMore(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	lease := cke.Drain{Node: "cp9", By: "ann@boot-1", Since: time.Now(), Until: time.Now().Add(720 * time.Hour)}
	if err := l.term.PutDrain(h.ctx(), lease); err != nil {
		t.Fatal(err)
	}
	s := threeServing(1)
	s.Drains = []cke.Drain{lease}
	l.status(s)
	undrain := h.start("node", "undrain", "cp9")
	undrain.stderr.await(t, "prod: the lease of cp9 is ended\n")
	l.status(threeServing(1))
	undrain.must(exitDone)
	contains(t, undrain.stdout.String(), "cp9 is no longer declared (took ")
	_, stderr := h.run(exitRefused, "node", "undrain", "cp9")
	contains(t, stderr, "error[CKE111]: cluster prod declares no node cp9\n")
}

func TestUndrain_OfANodeWithoutAMemberDoesNotSayThatItServes(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := threeServing(1)
	s.Members = s.Members[:2]
	l.status(s)
	if err := l.term.PutDrain(h.ctx(), cke.Drain{Node: "cp3", Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	stdout, _ := h.run(exitDone, "node", "undrain", "cp3")
	contains(t, stdout, "cp3 carries no member (took ")
}

// Requirement A1: the arithmetic of a refusal, before anything is changed.
func TestDrain_ThatWouldLoseQuorumIsRefused(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	drain := h.start("node", "drain", "cp2", "--yes")
	l.refuse(h.awaitTask(), &cke.Error{Code: cke.CodeQuorum, What: "draining cp2 would lose quorum", Facts: []string{"now 3 voters, 2 healthy", "meanwhile 1 healthy, 2 needed"}, Unchanged: true})
	drain.must(exitRefused)
	contains(t, drain.stderr.String(), "error[CKE104]: draining cp2 would lose quorum\n  now 3 voters, 2 healthy\n  meanwhile 1 healthy, 2 needed\nNothing was changed.\n")
	h.run(exitUsage, "node", "drain", "cp2", "--for", "0s")
}

func TestDrain_OfOneOrTwoVotersIsConfirmed(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := threeServing(1)
	s.Etcd.Members = s.Etcd.Members[:2]
	l.status(s)
	_, stderr := h.run(exitRefused, "node", "drain", "cp2")
	contains(t, stderr, "error[CKE107]: draining cp2 was not confirmed\n", "Try: ckecli node drain cp2 --yes\n")
	h.run(exitDone, "node", "drain", "cp2", "--yes", "--no-wait")
	if task := h.awaitTask(); !task.Accepted {
		t.Errorf("%+v", task)
	}
}

func TestDrain_OfAMemberThatServesIsConfirmed(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := threeServing(1)
	s.Members[2].State, s.Members[2].Ready = "drained", false
	l.status(s)
	_, stderr := h.run(exitRefused, "node", "drain", "cp2", "--no-wait")
	contains(t, stderr, "error[CKE107]: draining cp2 was not confirmed\n", "Try: ckecli node drain cp2 --yes\n")
	ask := h.onTerminal("node", "drain", "cp2", "--no-wait")
	ask.stdout.await(t, "cp2 serves. While it is down 0 more members can be lost, 1 more member now. Drain it? [y/N] ")
	ask.types("y\n")
	ask.must(exitDone)
	if task := h.awaitTask(); task.Accepted {
		t.Errorf("%+v", task)
	}
	h.run(exitDone, "node", "drain", "cp3", "--no-wait") // it does not serve: nothing is lost by it
}

// Requirement A22: a member that cke does not know goes down with its node.
func TestCanStop_CountsAStranger(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+"  - {address: 10.0.0.14, hostname: cp4, user: cke, control_plane: true}\n  - {address: 10.0.0.15, hostname: w1, user: cke}\n"))
	l := h.lead("prod")
	s := threeServing(1)
	stands := func(can bool, why string) {
		s.Members = append(s.Members[:3:3], cke.MemberStatus{Name: "cp4", Address: "10.0.0.14", State: "waiting", CanStop: can, CannotStopBecause: why},
			cke.MemberStatus{Name: "theirs", Address: "10.0.0.14", State: "stranger", CanStop: can, CannotStopBecause: why})
		l.status(s)
	}
	stands(true, "")
	stdout, _ := h.run(exitDone, "etcd", "can-stop", "cp4")
	contains(t, stdout, "cp4 may go down: it carries foreign member theirs, and 1 more member can be lost now\n")
	stands(false, "3 of 4 voters are healthy")
	_, stderr := h.run(exitRefused, "etcd", "can-stop", "cp4")
	contains(t, stderr, "error[CKE104]: cp4 must not go down now\n  3 of 4 voters are healthy\n")
	stdout, _ = h.run(exitDone, "etcd", "can-stop", "w1")
	contains(t, stdout, "w1 may go down: carries no member, and")
}

// Requirements A1, A22, I11: what a reboot tool asks before it acts.
func TestCanStop_TellsByTheExitCode(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitNoStatus, "etcd", "can-stop", "cp2")
	contains(t, stderr, "error[CKE108]: ")
	l := h.lead("prod")
	s := threeServing(1)
	s.Members[2].CanStop, s.Members[2].CannotStopBecause = false, "now 3 voters, 2 healthy; meanwhile 1 healthy, 2 needed"
	l.status(s)
	stdout, _ := h.run(exitDone, "etcd", "can-stop", "cp2")
	contains(t, stdout, "cp2 may go down: its member is healthy, and 1 more member can be lost now\n")
	_, stderr = h.run(exitRefused, "etcd", "can-stop", "cp3")
	contains(t, stderr, "error[CKE104]: cp3 must not go down now\n  now 3 voters, 2 healthy\n  meanwhile 1 healthy, 2 needed\n")
	stdout, _ = h.run(exitRefused, "etcd", "can-stop", "cp3", "-o", "json")
	contains(t, stdout, `"canStop": false`, `"because": "now 3 voters`)
	_, stderr = h.run(exitFailed, "etcd", "can-stop", "cp9")
	contains(t, stderr, "error[CKE111]: cluster prod declares no node cp9\n")

	h.stopClock()
	s.ObservedAt = h.now().Add(-words.StaleAfter - time.Second)
	l.status(s)
	_, stderr = h.run(exitNoStatus, "etcd", "can-stop", "cp2")
	contains(t, stderr, "error[CKE108]: whether cp2 may go down is not known\n  This is how it was 31s ago")
	l.status(threeServing(1))
	if err := l.term.Resign(h.ctx()); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitNoStatus, "etcd", "can-stop", "cp2")
	contains(t, stderr, "no daemon leads prod now")
}

// Requirements A15, A16, I6.
func TestHibernate_IsConfirmedByNameAndResumeStartsItAgain(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	_, stderr := h.run(exitRefused, "cluster", "hibernate", "prod")
	contains(t, stderr, "error[CKE107]: hibernating prod was not confirmed\n", "Try: ckecli cluster hibernate prod --confirm prod\n")
	_, stderr = h.run(exitRefused, "cluster", "resume", "prod")
	contains(t, stderr, "error[CKE111]: cluster prod is not hibernated\n")

	hibernate := h.start("cluster", "hibernate", "prod", "--confirm", "prod")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if asked := state.Asked().Hibernation; asked != nil && asked.By != "" {
			break
		}
	}
	asleep := threeServing(1)
	asleep.Health, asleep.Summary, asleep.Hibernation = cke.HealthHibernated, "all 3 members are stopped, all data is kept", &cke.Hibernation{By: "ann@boot-1", Since: time.Now()}
	asleep.Conditions = []cke.Condition{{Type: cke.CondHibernated, Status: cke.True}}
	l.status(asleep)
	hibernate.must(exitDone)
	contains(t, hibernate.stdout.String(), "prod is hibernated: all 3 members are stopped, all data is kept (took ")
	stdout, _ := h.run(exitDegraded, "status", "--check")
	contains(t, stdout, "prod  HIBERNATED  all 3 members are stopped", "Hibernated  by ann@boot-1 since ")

	resume := h.start("cluster", "resume", "prod")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.Asked().Hibernation == nil {
			break
		}
	}
	l.status(ready(1))
	resume.must(exitDone)
	contains(t, resume.stdout.String(), "prod is ready: 3 members serve")
}

func TestDelete_IsCanceledUntilItHasEnded(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	_, stderr := h.run(exitRefused, "cluster", "delete", "prod", "--cancel")
	contains(t, stderr, "error[CKE111]: cluster prod is not being deleted\n", "Nothing was changed.\n")
	h.run(exitUsage, "cluster", "delete", "prod", "--cancel", "--destroyed", "cp1")

	follows := h.start("cluster", "delete", "prod", "--confirm", "prod", "--destroyed", "cp1")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if state.Spec.Deleting() {
			break
		}
	}
	deleting := threeServing(1)
	deleting.Health = cke.HealthDeleting
	l.status(deleting)
	cancel := h.start("cluster", "delete", "prod", "--cancel")
	for state := range h.store.WatchCluster(h.ctx(), "prod") {
		if !state.Spec.Deleting() && state.Spec.Destroyed == nil {
			break
		}
	}
	l.status(threeServing(1))
	cancel.must(exitDone)
	contains(t, cancel.stdout.String(), "The deletion of prod is canceled; members that it stopped are started again.\n")
	follows.must(exitRefused)
	contains(t, follows.stderr.String(), "error[CKE103]: the deletion of cluster prod was canceled meanwhile\n")

	h.run(exitDone, "cluster", "delete", "prod", "--confirm", "prod", "--no-wait")
	if err := l.term.FinishDelete(h.ctx()); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitFailed, "cluster", "delete", "prod", "--cancel")
	contains(t, stderr, "cluster prod was deleted at 20", ", and that cannot be undone\n", "its volumes are still on its nodes", "Try: ckecli restore")
}

func TestDefrag_TakesTheLeaderLast(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	h.run(exitDone, "etcd", "defrag", "cp1", "cp3", "--no-wait")
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) != 2 || asked.Tasks[0].Node != "cp3" || asked.Tasks[1].Node != "cp1" {
		t.Errorf("%+v, %v", asked.Tasks, err)
	}
}

func TestAlarms_AreListedAndTakenBack(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(threeServing(1))
	stdout, stderr := h.run(exitDone, "etcd", "alarm", "list")
	if stdout != "" || stderr != "No alarm is active on prod.\n" {
		t.Errorf("%q %q", stdout, stderr)
	}
	s := threeServing(1)
	s.Etcd.Alarms = []cke.Alarm{{Kind: "NOSPACE", MemberID: "m2"}}
	l.status(s)
	stdout, _ = h.run(exitDone, "etcd", "alarm", "list")
	contains(t, stdout, "ALARM    MEMBER  ID\nNOSPACE  cp2     m2\n")
	disarm := h.start("etcd", "alarm", "disarm")
	task := h.awaitTask()
	l.end(l.begin(cke.Record{Operation: "disarm", Reason: "asked for", Task: task.ID, Steps: []cke.StepRecord{{Name: "disarm NOSPACE"}}}))
	l.finish(task)
	disarm.must(exitDone)
	contains(t, disarm.stdout.String(), "the alarms of prod are disarmed (took ")
}
