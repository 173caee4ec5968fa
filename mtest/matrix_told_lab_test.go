package mtest_test

import (
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

// waited reports whether an operation was refused before it stopped anything, since a member of a busy machine did not answer for a
// moment. It comes again.
func waited(r cke.Record) bool {
	steps := stepsOf(r)
	return r.State == cke.RecordFailed && (r.Code == cke.CodeQuorum || r.Code == cke.CodeMemberSilent) && !slices.Contains(steps, "start") && !slices.Contains(steps, "serve")
}

// inTurn fails unless these are completed operations of one kind, one after the other, on each of the targets once, the
// last of which is last.
func (m *loaded) inTurn(did []cke.Record, operation string, targets []string, last string) {
	m.Helper()
	var order []string
	did = slices.DeleteFunc(slices.Clone(did), waited)
	for i, r := range did {
		order = append(order, r.Targets...)
		if r.Operation != operation || r.State != cke.RecordCompleted || len(r.Steps) == 0 || r.Steps[len(r.Steps)-1].Name != "serve" {
			m.Errorf("#%d %s is %s: %s; steps %+v", r.ID, r.Operation, r.State, r.Error, r.Steps)
		}
		if i > 0 && r.StartedAt.Before(did[i-1].EndedAt) {
			m.Errorf("#%d began before #%d ended", r.ID, did[i-1].ID)
		}
	}
	if len(order) == 0 || order[len(order)-1] != last || !slices.Equal(slices.Sorted(slices.Values(order)), slices.Sorted(slices.Values(targets))) {
		m.Errorf("%s: %v, want each of %v once and %s last", operation, order, targets, last)
	}
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
		Env []string
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
