package strategy

import (
	"testing"
	"time"

	"cke"
	"cke/op"
)

func TestSuperseded_OnlyWhenMoreMembersHaveStopped(t *testing.T) {
	starting := func(names ...string) op.Operation {
		var o op.StartMembers
		for _, n := range names {
			o.Joins = append(o.Joins, cke.Join{ID: cke.JoinID(n), Node: cke.Node{Hostname: n, Address: n[1:]}})
		}
		return o
	}
	restoring := cke.Task{Kind: cke.TaskRestore, Restore: &cke.RestoreOrder{}}
	for _, tt := range []struct {
		name          string
		running, next op.Operation
		failed        op.Operation
		want          string
		away          bool
	}{
		{"the same member is still down", starting("n1"), starting("n1"), nil, "", false},
		{"one of two came up", starting("n1", "n2"), starting("n2"), nil, "", false},
		{"nothing to do", starting("n1"), nil, nil, "", false},
		{"another one stopped", starting("n1"), starting("n2"), nil, "n2 stopped meanwhile", false},
		{"all others stopped", starting("n1"), starting("n1", "n2", "n3"), nil, "n2 and n3 stopped meanwhile", false},
		{"another one stopped, and starting it failed", starting("n1"), starting("n2"), starting("n2"), "", false},
		{"another one stopped, and something else failed", starting("n1"), starting("n2"), starting("n1"), "n2 stopped meanwhile", false},
		{"a learner receives its data", op.AddMember{Node: cke.Node{Address: "4"}}, starting("n2"), nil, "n2 stopped meanwhile", false},
		{"that learner's own stop", op.AddMember{Node: cke.Node{Address: "2"}}, starting("n2"), nil, "", false},
		{"a volume is removed", op.PurgeVolume{}, starting("n2"), nil, "n2 stopped meanwhile", false},
		{"a volume is removed, and nothing is more urgent", op.PurgeVolume{}, op.CompareData{}, nil, "", false},
		{"a bootstrap goes on", op.Bootstrap{}, starting("n1"), nil, "", false},
		{"a finding freezes the cluster", op.RestartMember{}, op.Freeze{Problem: cke.Problem{Message: "two clusters"}}, nil, "the cluster is frozen: two clusters", false},
		{name: "a finding while a member is away for a restart", running: op.RestartMember{}, next: op.Freeze{Kind: cke.FreezeCorrupt}, away: true},
		{name: "a member that may be wrong while one is away", running: op.RestartMember{}, next: op.Freeze{Kind: cke.FreezeTwoQuorums, Problem: cke.Problem{Message: "two clusters"}}, want: "the cluster is frozen: two clusters", away: true},
		{name: "a member that is restarted does not serve yet, and another one stopped", running: op.RestartMember{Join: cke.Join{ID: "n1", Node: cke.Node{Address: "1"}}}, next: starting("n1", "n2"), want: "n2 stopped meanwhile"},
		{name: "it is still stopped", running: op.RestartMember{Join: cke.Join{ID: "n1", Node: cke.Node{Address: "1"}}}, next: starting("n1", "n2"), away: true},
		{"a finding that is being recorded", op.Freeze{Finding: "two-quorums c1"}, op.Freeze{Finding: "two-quorums c1", Problem: cke.Problem{Message: "two clusters"}}, nil, "", false},
		{"another finding meanwhile", op.Freeze{Finding: "two-quorums c1"}, op.Freeze{Finding: "older-store", Problem: cke.Problem{Message: "older"}}, nil, "the cluster is frozen: older", false},
		{"a comparison gives way", op.CompareData{}, starting("n1"), nil, "start-members goes first", false},
		{"a comparison goes on", op.CompareData{}, op.CompareData{}, nil, "", false},
		{"a comparison with nothing else to do", op.CompareData{}, nil, nil, "", false},
		{"a deletion waits its turn", starting("n1"), op.DeleteCluster{}, nil, "", false},
		{"a restore is prepared for hours", op.Restore{}, op.DeleteCluster{}, nil, "delete-cluster takes its place", false},
		{"the backups of a restore are read for hours", op.BeginRestore{Task: restoring}, op.DeleteCluster{}, nil, "delete-cluster takes its place", false},
		{"they are read", op.BeginRestore{Task: restoring}, op.BeginRestore{Task: restoring}, nil, "", false},
		{"another restore is asked for", op.Restore{}, op.BeginRestore{Task: restoring}, nil, "begin-restore takes its place", false},
		{"restored members are started", op.Restore{Started: true}, op.BeginRestore{Task: restoring}, nil, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failures := map[string]Failure{}
			if tt.failed != nil {
				failures[FailureKey(tt.failed)] = Failure{Count: 1}
			}
			got := ""
			if err := Superseded(tt.running, tt.next, failures, tt.away); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What was taken back while it is under way ends at once.
func TestOutrun_WhatIsAskedForNoMore(t *testing.T) {
	asleep := cke.Requests{Hibernation: &cke.Hibernation{}}
	paused := cke.Requests{Hold: &cke.Hold{Reason: "what is this"}}
	calledOff := cke.Requests{Tasks: []cke.Task{{Kind: cke.TaskCancelRestore}}}
	for _, tt := range []struct {
		name    string
		running op.Operation
		in      Input
		want    string
	}{
		{"a deletion", op.DeleteCluster{}, Input{Deleting: true}, ""},
		{"a canceled deletion", op.DeleteCluster{}, Input{}, "the deletion was canceled"},
		{"a hibernation", op.Hibernate{}, Input{Requests: asleep}, ""},
		{"a hibernation that was ended", op.Hibernate{}, Input{}, "the hibernation was ended"},
		{"another operation", op.StartMembers{}, Input{Requests: paused}, ""},
		{"a restore", op.Restore{}, Input{}, ""},
		{"a restore that is called off", op.Restore{}, Input{Requests: calledOff}, "the restore was called off"},
		{"a restore that is called off before it is on record", op.BeginRestore{}, Input{Requests: calledOff}, "the restore was called off"},
		{"a restore in a cluster that is paused", op.Restore{}, Input{Requests: paused}, "the cluster is paused"},
		{"a restore whose members were started under way", op.Restore{}, Input{Requests: paused, Identity: cke.Identity{Joins: []cke.Join{{StartedAt: time.Now()}}}}, ""},
		{"a restore whose members may have been started", op.Restore{Started: true}, Input{Requests: calledOff}, ""},
	} {
		got := ""
		if err := Outrun(tt.running, &tt.in); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
