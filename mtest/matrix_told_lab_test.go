package mtest_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/mtest/lab"
)

// newest is the id of the latest record.
func (m *loaded) newest() int64 {
	m.Helper()
	return m.records()[0].ID
}

// did returns what was begun after a record, in its order, but for comparisons of data: those come by themselves.
func (m *loaded) did(after int64) []cke.Record {
	m.Helper()
	var all []cke.Record
	for _, r := range m.records() {
		if r.ID > after && r.Operation != "compare-data" {
			all = append(all, r)
		}
	}
	slices.Reverse(all)
	return all
}

// didNothing fails if anything was begun after a record.
func (m *loaded) didNothing(after int64) {
	m.Helper()
	for _, r := range m.did(after) {
		m.Errorf("#%d %s %v was begun: %s", r.ID, r.Operation, r.Targets, r.Reason)
	}
}

// were fails unless these are completed operations, each as "name target".
func (m *loaded) were(did []cke.Record, want ...string) {
	m.Helper()
	var all []string
	for _, r := range did {
		all = append(all, r.Operation+" "+strings.Join(r.Targets, ","))
		if r.State != cke.RecordCompleted {
			m.Errorf("#%d %s %v is %s: %s", r.ID, r.Operation, r.Targets, r.State, r.Error)
		}
	}
	if !slices.Equal(all, want) {
		m.Errorf("did %q, want %q", all, want)
	}
}

// stepsOf are the names of an operation's steps that have begun.
func stepsOf(r cke.Record) []string {
	var all []string
	for _, s := range r.Steps {
		all = append(all, s.Name)
	}
	return all
}

// silences are the codes of what fails because a member or an engine of a busy machine did not answer for a moment.
var silences = []cke.Code{cke.CodeQuorum, cke.CodeMemberSilent, cke.CodeEngine, cke.CodeUnreachable}

// forNow reports whether an operation failed only because somebody did not answer for a moment.
func forNow(r cke.Record) bool {
	return r.State == cke.RecordFailed && slices.Contains(silences, r.Code)
}

// lead is who leads etcd, in the newest term of raft that is known.
type lead struct {
	name string
	term uint64
}

func leadOf(st cke.Status) lead { return lead{leaderOf(st), termOf(st)} }

func termOf(st cke.Status) (term uint64) {
	for _, e := range st.Etcd.Endpoints {
		term = max(term, e.RaftTerm)
	}
	return term
}

// inTurn fails unless an operation was completed on each of the targets, see outOfTurn, last on who led before. Where more leaders
// were elected since than the one to whom that one handed over, a leader did not answer for a moment: then the order is any.
func (m *loaded) inTurn(did []cke.Record, operation string, targets []string, before lead) {
	m.Helper()
	last := before.name
	if elected := termOf(m.fresh()) - before.term; elected > 1 {
		m.Logf("%d leaders were elected: the order of %s is not looked at", elected, operation)
		last = ""
	}
	for _, wrong := range outOfTurn(did, operation, targets, last) {
		m.Errorf("%s", wrong)
	}
}

// outOfTurn tells what is wrong with operations of one kind that were to take each of the targets down once, one after the other,
// with last at the end if that is not empty. One that failed because somebody did not answer for a moment comes again. If it may
// have left its target down, nothing may be begun on another one before that was brought up again.
func outOfTurn(did []cke.Record, operation string, targets []string, last string) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var done []string
	down, started := "", false // the target that an operation may have left down, and whether it was started with what is asked for
	for i, r := range did {
		steps, target := stepsOf(r), strings.Join(r.Targets, ",")
		if i > 0 && r.StartedAt.Before(did[i-1].EndedAt) {
			say("#%d began before #%d ended", r.ID, did[i-1].ID)
		}
		if down != "" && target != down {
			say("#%d %s was begun on %s while %s may be down", r.ID, r.Operation, target, down)
		}
		completed, serves := r.State == cke.RecordCompleted, len(steps) > 0 && steps[len(steps)-1] == "serve"
		switch {
		case r.Operation == operation && completed && serves:
			done, down = append(done, target), ""
		case r.Operation == operation && forNow(r):
			if slices.Contains(steps, "stop") && r.Code != cke.CodeQuorum || slices.Contains(steps, "start") { // a quorum is asked for before the stop
				down, started = target, slices.Contains(steps, "serve")
			}
		case down != "" && target == down && (r.Operation == "start-members" || r.Operation == "start-changed") && (completed || forNow(r)):
			if completed {
				down = ""
			}
		default:
			say("#%d %s %s is %s: %s; steps %v", r.ID, r.Operation, target, r.State, r.Error, steps)
		}
	}
	switch {
	case down != "" && started: // it took longer to serve than is waited for
		done = append(done, down)
	case down != "":
		say("%s was left down", down)
	}
	if !slices.Equal(slices.Sorted(slices.Values(done)), slices.Sorted(slices.Values(targets))) || last != "" && len(done) > 0 && done[len(done)-1] != last {
		say("%s: %v, want each of %v once and %s last", operation, done, targets, cmp.Or(last, "any"))
	}
	return wrong
}

// tells fails unless the conditions of a status are these, each as "Status Reason".
func (m *loaded) tells(st cke.Status, want map[cke.ConditionType]string) {
	m.Helper()
	for kind, is := range want {
		if c, _ := st.Condition(kind); string(c.Status)+" "+c.Reason != is {
			m.Errorf("condition %s is %s %s, not %s: %s", kind, c.Status, c.Reason, is, c.Message)
		}
	}
}

// names are those of the nodes with a member.
func names(st cke.Status) []string {
	var all []string
	for _, member := range st.Members {
		all = append(all, member.Name)
	}
	return all
}

// of returns the row of a status about the member on a node.
func (m *loaded) of(st cke.Status, n lab.Node) cke.MemberStatus {
	m.Helper()
	for _, member := range st.Members {
		if member.Name == n.Name {
			return member
		}
	}
	m.Fatalf("no member on %s: %+v", n.Name, st.Members)
	return cke.MemberStatus{}
}

// leaderOf is the name of the node whose member leads; empty: none is known to.
func leaderOf(st cke.Status) string {
	for _, member := range st.Members {
		if member.Role == "leader" {
			return member.Name
		}
	}
	return ""
}

// settings are what a container was made with, as `docker inspect` has them.
type settings struct {
	ID     string
	Config struct {
		Env, Cmd []string
	}
	HostConfig struct {
		NanoCpus, Memory int64
	}
	Mounts []struct {
		Type, Source, Destination string
		RW                        bool
	}
}

// inspect asks a node's engine for its only container that runs.
func (m *loaded) inspect(n lab.Node) settings {
	m.Helper()
	var all []settings
	m.must(json.Unmarshal([]byte(m.on(n, "docker inspect $(docker ps -q)")), &all))
	if len(all) != 1 {
		m.Fatalf("%d containers run on %s", len(all), n.Name)
	}
	return all[0]
}

// binds are the directories of the node in a container, as "source destination rw".
func (s settings) binds() string {
	var all []string
	for _, b := range s.Mounts {
		if b.Type == "bind" {
			all = append(all, fmt.Sprint(b.Source, " ", b.Destination, " ", b.RW))
		}
	}
	return strings.Join(all, ", ")
}
