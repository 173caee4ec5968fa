package cke_test

import (
	"testing"
	"time"

	"cke"
)

// A first member that was stopped may have served, whoever was the first process in its container.
func TestMayHoldWrites_OfAStoppedFounder(t *testing.T) {
	at := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	j := cke.Join{StartedAt: at}
	silent := cke.EndpointStatus{Problem: "refused"}
	for _, c := range []struct {
		code  int
		stops bool
		holds bool
	}{
		{code: 0, holds: true},
		{code: 130, holds: true}, // "init": true in daemon.json
		{code: 137, holds: true},
		{code: 143, holds: true}, // the same
		{code: 0, stops: true}, {code: 143, stops: true},
		{code: 1}, {code: 2}, {code: 255},
	} {
		held := cke.Container{Name: "etcd", State: cke.ContainerExited, ExitCode: c.code, StartedAt: at, KeptDown: true}
		if why := j.MayHoldWrites(held, silent, 3, c.stops); (why != "") != c.holds {
			t.Errorf("exit code %d, stopped as it may be %v: %q", c.code, c.stops, why)
		}
	}
}

// Users, roles and leases have no revision. From the moment on at which engines start first members by themselves, the length of
// the log shows them.
func TestMayHoldWrites_OfAFounderThatServes(t *testing.T) {
	j := cke.Join{StartedAt: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)}
	for name, c := range map[string]struct {
		applied  uint64
		denied   bool
		founders int
		keptDown bool
		holds    bool
	}{
		"a bootstrap that went smoothly":     {applied: 11, founders: 3},
		"the same, of one":                   {applied: 5, founders: 1},
		"a user":                             {applied: 12, founders: 3, holds: true},
		"a user, of one":                     {applied: 6, founders: 1, holds: true},
		"a bootstrap that is resumed often":  {applied: 400, founders: 3, keptDown: true},
		"one that was given up, of a former": {applied: 12},
		"authentication is on":               {applied: 11, founders: 3, keptDown: true, denied: true, holds: true},
	} {
		e := cke.EndpointStatus{MemberID: "m1", Revision: cke.FirstRevision, RaftApplied: c.applied, Denied: c.denied}
		k := cke.Container{Name: "etcd", State: cke.ContainerRunning, StartedAt: j.StartedAt, KeptDown: c.keptDown}
		if why := j.MayHoldWrites(k, e, c.founders, false); (why != "") != c.holds {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestMember_AtAnAddressHoweverItIsSpelled(t *testing.T) {
	for _, c := range []struct {
		peer, client, address string
		is                    bool
	}{
		{"https://10.0.0.3:2380", "", "10.0.0.3", true},
		{"https://10.0.0.3:2380", "", "10.0.0.33", false},
		{"https://n3.example.com:2380", "https://10.0.0.3:2379", "10.0.0.3", true},
		{"https://n3.example.com:2380", "https://localhost:2379", "10.0.0.3", false},
		{"https://[::ffff:10.0.0.3]:2380", "", "10.0.0.3", true},
		{"https://[2001:0db8:0::3]:2380", "", "2001:db8::3", true},
		{"https://[2001:db8::3]:2380", "", "2001:db8::4", false},
		{"https://n3.example.com:2380", "", "n3.example.com", true},
	} {
		m := cke.Member{PeerURLs: []string{c.peer}}
		if c.client != "" {
			m.ClientURLs = []string{c.client}
		}
		if m.At(c.address) != c.is {
			t.Errorf("%+v", c)
		}
	}
}

// The newest member list counts, whoever reports it: one that was read through a quorum, or else that of the member that has applied most.
func TestTakes_TheNewestMemberList(t *testing.T) {
	list := func(name string) []cke.Member { return []cke.Member{{Name: name}} }
	var s cke.EtcdStatus
	for _, step := range []struct {
		name   string
		source cke.MembersSource
		at     uint64
		want   string
	}{
		{"none", cke.MembersUnknown, 9, ""},
		{"behind", cke.MembersLocal, 3, "behind"},
		{"level", cke.MembersLocal, 7, "level"},
		{"behind", cke.MembersLocal, 3, "level"},
		{"read", cke.MembersLinearizable, 5, "read"},
		{"level", cke.MembersLocal, 7, "read"},
		{"another", cke.MembersLinearizable, 8, "read"},
	} {
		s = s.Takes(list(step.name), step.source, step.at)
		got := ""
		if s.Members != nil {
			got = s.Members[0].Name
		}
		if got != step.want {
			t.Errorf("after %+v: %q", step, got)
		}
	}
}
