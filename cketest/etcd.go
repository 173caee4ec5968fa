package cketest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"cke"
)

// Members are three voters that serve, for one case.
type Members struct {
	cke.Etcd
	URLs []string
	// NoMember is a client URL at which no member listens, Free a peer URL that no member has.
	NoMember, Free string
	// Write lets a client write that many keys.
	Write func(n int)
	// Restart restarts the member of a client URL, and returns once it runs.
	Restart func(url string)
	// Join starts a member that was added at Free, on the node of the first one, and returns its client URL. It is removed
	// with what it wrote once the case is over.
	Join func(t *testing.T) (url string)
	// Cut cuts the node of a member off from that of another one, or connects them again.
	Cut func(url, other string, off bool)
	// Joins are the memberships of the members. Observe is what an observation shows of etcd, for a cluster with an identity.
	Joins   []cke.Join
	Observe func(cke.Identity) cke.EtcdStatus
}

// Etcd runs every case with members of its own, or with those that earlier cases have left as they found them.
func Etcd(t *testing.T, play func(t *testing.T, scene func(*testing.T, Members))) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Members)
	}{
		{"a member reports its status, and one that does not answer is no error", endpointTells},
		{"those that a restore replaces are observed while it is under way", replacedAreObserved},
		{"the list is the same through all", listIsTheSame},
		{"a member returns its own list without a quorum", ownListNeedsNoQuorum},
		{"a learner is added once, and not promoted before it has caught up", learnerIsAdded},
		{"no learner is added right after members were connected", learnerWaitsForConnections},
		{"a learner that is cut off from its leader continues to name it", cutLearnerNamesItsLeader},
		{"leadership moves to a voter, by way of the leader", leadershipMoves},
		{"a peer URL belongs to one member", peerURLIsOwn},
		{"data is hashed up to a revision that the member has", dataIsHashed},
		{"a compaction may be repeated", compactionIsRepeated},
		{"maintenance may be repeated", maintenanceIsRepeated},
		{"a stop of writes lets all else through, and can be undone", stopOfWritesIsUndone},
		{"a proof of writing leaves no revision", proofLeavesNothing},
		{"authentication is not turned on before there is a user root", nobodyIsRoot},
		{"authentication is turned on with cke admitted, and off", authIsSwitched},
		{"a tenant is made, changed and removed, and each part may be repeated", tenantIsChanged},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.run) })
	}
}

func endpointTells(t *testing.T, m Members) {
	ctx := bounded(t)
	for _, url := range m.URLs {
		e := m.Endpoint(ctx, url)
		if e.Problem != "" || e.URL != url || e.MemberID == "" || e.ClusterID == "" || e.LeaderID == "" || !e.Serializable || !e.Linearizable || e.Learner || e.Version == "" {
			t.Errorf("%+v", e)
		}
	}
	if e := m.Endpoint(ctx, m.NoMember); e.Problem == "" || e.URL != m.NoMember || e.Serializable {
		t.Errorf("%+v", e)
	}
}

func replacedAreObserved(t *testing.T, m Members) {
	serves, list, err := m.Members(bounded(t), m.URLs[0])
	must(t, "Members", err)
	id := cke.Identity{Ended: m.Joins, Incarnation: &cke.Incarnation{ID: "next", State: cke.Restoring, ClusterID: "cb", Restore: &cke.Restoration{Before: &cke.Incarnation{ID: "before", State: cke.Formed, ClusterID: serves}}}}
	for _, j := range m.Joins {
		id.Incarnation.Restore.Fence = append(id.Incarnation.Restore.Fence, j.ID)
	}
	seen := m.Observe(id)
	if seen.Quorate || seen.Members != nil || len(seen.Superseded) != len(m.Joins) || seen.Former.Source != cke.MembersLinearizable || len(seen.Former.Members) != len(list) {
		t.Errorf("%+v", seen)
	}
	for i, e := range seen.Superseded {
		if j := m.Joins[i]; e.Join != j.ID || e.URL != j.ClientURL() || !id.Former(j).Answers(e, "cb") {
			t.Errorf("%+v", e)
		}
	}
	id.Incarnation.State = cke.Formed
	if seen := m.Observe(id); seen.Superseded != nil {
		t.Errorf("once it is over: %+v", seen.Superseded)
	}
}

// Source: etcd, isConnectedFullySince and HealthInterval. From 3.5.30 and 3.6.11 on a quorum suffices that would be one with the
// new member: two followers of three that were just restarted are too many either way.
func learnerWaitsForConnections(t *testing.T, m Members) {
	ctx := bounded(t)
	url, _, _ := leader(t, m)
	var began time.Time
	for _, other := range m.URLs {
		if other != url {
			began = time.Now()
			m.Restart(other)
			await(t, "it serves again", func() bool { e := m.Endpoint(ctx, other); return e.Healthy() && e.Linearizable })
		}
	}
	id, err := m.AddLearner(ctx, url, m.Free)
	if time.Since(began) < 4*time.Second {
		is(t, "AddLearner right after members were restarted", err, cke.ErrNotReady)
	}
	await(t, "etcd changes the list", func() bool {
		if err != nil {
			id, err = m.AddLearner(ctx, url, m.Free)
		}
		return !errors.Is(err, cke.ErrNotReady)
	})
	must(t, "AddLearner", err)
	must(t, "RemoveMember", m.RemoveMember(ctx, url, id))
}

func listIsTheSame(t *testing.T, m Members) {
	ctx := bounded(t)
	id, first, err := m.Members(ctx, m.URLs[0])
	must(t, "Members", err)
	if id == "" || len(first) != len(m.URLs) || first[0].ID == "" || first[0].Name == "" || len(first[0].PeerURLs) == 0 {
		t.Errorf("%q %+v", id, first)
	}
	for _, url := range m.URLs[1:] {
		other, members, err := m.Members(ctx, url)
		if err != nil || other != id || len(members) != len(first) {
			t.Errorf("%s: %q %+v %v", url, other, members, err)
		}
	}
	if _, _, err := m.Members(ctx, m.NoMember); err == nil {
		t.Error("an address without a member returns no list")
	}
}

func learnerIsAdded(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	_, members, err := m.Members(ctx, url)
	must(t, "Members", err)
	await(t, "etcd changes the list: its members have to be connected for a while", func() bool {
		_, err = m.AddLearner(ctx, url, members[1].PeerURLs[0])
		return !errors.Is(err, cke.ErrNotReady)
	})
	is(t, "AddLearner with the URL of a member", err, cke.ErrConflict)
	id, err := m.AddLearner(ctx, url, m.Free)
	must(t, "AddLearner", err)
	_, err = m.AddLearner(ctx, url, m.Free)
	is(t, "AddLearner again", err, cke.ErrConflict)
	_, members, err = m.Members(ctx, url)
	must(t, "Members", err)
	found := false
	for _, l := range members {
		found = found || l.ID == id && l.Learner && l.Name == "" && len(l.PeerURLs) == 1 && l.PeerURLs[0] == m.Free
	}
	if !found {
		t.Errorf("the learner %s is not in %+v", id, members)
	}
	is(t, "Promote one that never ran", m.Promote(ctx, url, id), cke.ErrNotReady)
	is(t, "RemoveMember", m.RemoveMember(ctx, url, id), nil)
	is(t, "RemoveMember again", m.RemoveMember(ctx, url, id), cke.ErrNotFound)
	is(t, "Promote one that was removed", m.Promote(ctx, url, id), cke.ErrNotFound)
}

// A learner never campaigns, so it does not notice that its leader is gone. Source: etcd-io/raft, tickElection.
func cutLearnerNamesItsLeader(t *testing.T, m Members) {
	ctx := bounded(t)
	if url, _, id := leader(t, m); url == m.URLs[0] { // the learner's node is to lose its leader, and keep another voter
		must(t, "MoveLeader", m.MoveLeader(ctx, url, id))
	}
	var via, led string
	await(t, "another one than the first leads", func() bool {
		url, _, _ := leader(t, m)
		e := m.Endpoint(ctx, url)
		via, led = url, e.MemberID
		return url != "" && url != m.URLs[0] && e.Linearizable
	})
	var id string
	var err error
	await(t, "etcd changes the list", func() bool {
		id, err = m.AddLearner(ctx, via, m.Free)
		// ErrNotFound: the case before removed a member that it added at this URL within this second, which has the
		// same id. Source: etcd, membership.NewMember.
		return !errors.Is(err, cke.ErrNotReady) && !errors.Is(err, cke.ErrNotFound)
	})
	must(t, "AddLearner", err)
	learner := m.Join(t)
	defer func() { is(t, "RemoveMember", m.RemoveMember(ctx, via, id), nil) }()
	await(t, "the learner follows the leader", func() bool {
		e := m.Endpoint(ctx, learner)
		return e.Learner && e.MemberID == id && e.LeaderID == led && e.Revision == m.Endpoint(ctx, via).Revision
	})
	m.Cut(m.URLs[0], via, true)
	defer m.Cut(m.URLs[0], via, false)
	before := m.Endpoint(ctx, learner)
	must(t, "ProveWrite", m.ProveWrite(ctx, via))
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for range 8 { // longer than voters wait for their leader
		<-tick.C
		if e := m.Endpoint(ctx, learner); !e.Healthy() || !e.Learner || e.LeaderID != led || e.Linearizable || e.RaftIndex != before.RaftIndex {
			t.Errorf("cut off from %s, after %+v: %+v", led, before, e)
		}
	}
}

// leader returns the URL of the leader and of another voter, with that one's id.
func leader(t *testing.T, m Members) (url, other, id string) {
	t.Helper()
	for _, u := range m.URLs {
		if e := m.Endpoint(bounded(t), u); e.MemberID == e.LeaderID {
			url = u
		} else {
			other, id = u, e.MemberID
		}
	}
	return url, other, id
}

func leadershipMoves(t *testing.T, m Members) {
	ctx := bounded(t)
	url, other, id := leader(t, m)
	if err := m.MoveLeader(ctx, other, id); err == nil {
		t.Error("MoveLeader by way of a member that does not lead")
	}
	is(t, "MoveLeader", m.MoveLeader(ctx, url, id), nil)
	await(t, "the other one leads", func() bool {
		e := m.Endpoint(ctx, other)
		return e.LeaderID == id && e.Linearizable
	})
}

func peerURLIsOwn(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	_, members, err := m.Members(ctx, url)
	must(t, "Members", err)
	is(t, "UpdateMember of none", m.UpdateMember(ctx, url, "abc", m.Free), cke.ErrNotFound)
	is(t, "UpdateMember to the URL of another one", m.UpdateMember(ctx, url, members[0].ID, members[1].PeerURLs[0]), cke.ErrConflict)
	is(t, "UpdateMember to what it has", m.UpdateMember(ctx, url, members[0].ID, members[0].PeerURLs[0]), nil)
	is(t, "RemoveMember of none", m.RemoveMember(ctx, url, "abc"), cke.ErrNotFound)
}

// revision is one that every member has.
func revision(t *testing.T, m Members) (least int64) {
	t.Helper()
	for _, url := range m.URLs {
		if e := m.Endpoint(bounded(t), url); least == 0 || e.Revision < least {
			least = e.Revision
		}
	}
	return least
}

func dataIsHashed(t *testing.T, m Members) {
	ctx := bounded(t)
	m.Write(5)
	at := revision(t, m)
	first, err := m.HashKV(ctx, m.URLs[0], at)
	must(t, "HashKV", err)
	for _, url := range m.URLs[1:] {
		if h, err := m.HashKV(ctx, url, at); err != nil || h.Hash != first.Hash {
			t.Errorf("%s: %+v, %v; the first one has %+v", url, h, err, first)
		}
	}
	newest, err := m.HashKV(ctx, m.URLs[0], 0)
	if err != nil || newest.Revision < at {
		t.Errorf("%+v, %v", newest, err)
	}
	_, err = m.HashKV(ctx, m.URLs[0], newest.Revision+1000)
	is(t, "HashKV of a revision to come", err, cke.ErrNotReady)
	must(t, "Compact", m.Compact(ctx, m.URLs[0], at))
	_, err = m.HashKV(ctx, m.URLs[0], at-1)
	is(t, "HashKV before a compaction", err, cke.ErrCompacted)
	_, err = m.HashKV(ctx, m.URLs[0], at)
	is(t, "HashKV at a compaction", err, nil)
}

func compactionIsRepeated(t *testing.T, m Members) {
	m.Write(3)
	at := revision(t, m)
	for range 2 {
		is(t, "Compact", m.Compact(bounded(t), m.URLs[0], at), nil)
	}
	is(t, "Compact of an earlier one", m.Compact(bounded(t), m.URLs[0], at-1), nil)
}

func maintenanceIsRepeated(t *testing.T, m Members) {
	ctx := bounded(t)
	_, url, id := leader(t, m)
	for range 2 {
		is(t, "Defragment", m.Defragment(ctx, url), nil)
		is(t, "Disarm what is not raised", m.Disarm(ctx, url, cke.Alarm{MemberID: id, Kind: "NOSPACE"}), nil)
	}
}

func stopOfWritesIsUndone(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	m.Write(2)
	at := revision(t, m)
	stop := cke.WriteStop("incarnation", 1)
	for range 2 {
		is(t, "Arm", m.Arm(ctx, url, stop), nil)
	}
	is(t, "Arm for another time", m.Arm(ctx, url, cke.WriteStop("incarnation", 2)), nil)
	is(t, "Disarm what another one is raised beside", m.Disarm(ctx, url, cke.WriteStop("incarnation", 2)), nil)
	for _, url := range m.URLs {
		if e := m.Endpoint(ctx, url); !e.Healthy() || !e.Linearizable || e.Revision != at {
			t.Errorf("with writes stopped: %+v", e)
		}
		if err := m.Compact(ctx, url, at); err == nil {
			t.Errorf("%s takes a write", url)
		}
	}
	for range 2 {
		is(t, "Disarm", m.Disarm(ctx, url, stop), nil)
	}
	is(t, "Compact", m.Compact(ctx, url, at), nil)
	m.Write(1)
}

func proofLeavesNothing(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	before := m.Endpoint(ctx, url)
	is(t, "ProveWrite", m.ProveWrite(ctx, url), nil)
	if e := m.Endpoint(ctx, url); e.Revision != before.Revision || e.RaftIndex <= before.RaftIndex {
		t.Errorf("revision %d became %d, and index %d became %d", before.Revision, e.Revision, before.RaftIndex, e.RaftIndex)
	}
	if err := m.ProveWrite(ctx, m.NoMember); err == nil {
		t.Error("an address without a member proves no write")
	}
}

func auth(t *testing.T, m Members, url string) cke.AuthState {
	t.Helper()
	s, err := m.Auth(bounded(t), url)
	must(t, "Auth", err)
	return s
}

func nobodyIsRoot(t *testing.T, m Members) {
	ctx, url := bounded(t), m.URLs[0]
	if s := auth(t, m, url); s.Enabled || s.Admitted {
		t.Skipf("cases before have left users: %+v", s)
	}
	if err := m.SetAuth(ctx, url, true); err == nil {
		t.Error("authentication is on, and this client may not turn it off")
	}
	if s := auth(t, m, url); s.Enabled {
		t.Errorf("%+v", s)
	}
	is(t, "SetAuth to off, as it is", m.SetAuth(ctx, url, false), nil)
}

func authIsSwitched(t *testing.T, m Members) {
	ctx, url, other := bounded(t), m.URLs[0], m.URLs[1]
	before := auth(t, m, url)
	for range 2 {
		is(t, "AdmitSelf", m.AdmitSelf(ctx, url), nil)
	}
	if s := auth(t, m, other); !s.Admitted || s.Enabled != before.Enabled {
		t.Errorf("%+v", s)
	}
	for _, on := range []bool{true, true, false, false} {
		is(t, "SetAuth", m.SetAuth(ctx, url, on), nil)
		await(t, "all report the same of authentication", func() bool { return auth(t, m, other).Enabled == on })
		if s := auth(t, m, url); s.Enabled != on || !s.Admitted {
			t.Errorf("%v: %+v", on, s)
		}
		is(t, "a change while cke is admitted", m.ProveWrite(ctx, url), nil)
	}
	if _, err := m.Auth(ctx, m.NoMember); err == nil {
		t.Error("an address without a member reports no authentication")
	}
	if err := m.SetAuth(ctx, m.NoMember, true); err == nil {
		t.Error("an address without a member turns authentication on")
	}
	if err := m.AdmitSelf(ctx, m.NoMember); err == nil {
		t.Error("an address without a member admits cke")
	}
}

func tenantIsChanged(t *testing.T, m Members) {
	ctx, url, other := bounded(t), m.URLs[0], m.URLs[1]
	all, some := cke.UserOrder{Prefix: "/case/"}.Grant(), cke.UserOrder{Key: "case", ReadOnly: true}.Grant()
	has := func(what string, exists bool, want ...cke.Grant) {
		t.Helper()
		u, err := m.Users(ctx, other)
		must(t, "Users", err)
		grants, made := u.Roles[cke.TenantRole("case")]
		if _, whole := u.Tenant("case"); whole != exists || made != exists || len(grants) != len(want) {
			t.Errorf("%s: %+v", what, u)
		}
		for _, g := range want {
			if !slices.Contains(grants, g) {
				t.Errorf("%s: %v is missing in %v", what, g, grants)
			}
		}
	}
	for range 2 {
		is(t, "Permit", m.Permit(ctx, url, "case", all), nil)
	}
	has("permitted", true, all)
	is(t, "Permit a key", m.Permit(ctx, url, "case", some), nil)
	has("permitted a key", true, all, some)
	less := all
	less.Write = false
	is(t, "Permit less", m.Permit(ctx, url, "case", less), nil)
	has("permitted less", true, less, some)
	for range 2 {
		is(t, "Forbid", m.Forbid(ctx, url, "case", all.KeyRange), nil)
	}
	has("forbidden", true, some)
	for range 2 {
		is(t, "RemoveUser", m.RemoveUser(ctx, url, "case"), nil)
	}
	has("removed", false)
	is(t, "Forbid a removed user", m.Forbid(ctx, url, "case", some.KeyRange), nil)
	has("forbidden after its removal", false)
	if _, err := m.Users(ctx, m.NoMember); err == nil {
		t.Error("an address without a member reports users")
	}
	if err := m.Permit(ctx, m.NoMember, "case", all); err == nil {
		t.Error("an address without a member permits something")
	}
}
