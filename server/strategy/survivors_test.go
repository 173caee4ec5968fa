package strategy_test

import (
	"strings"
	"testing"

	"cke"
	"cke/server/strategy"
)

func loses(t *testing.T, loss, want string) {
	t.Helper()
	if !strings.Contains(loss, want) {
		t.Errorf("%q, want %q in it", loss, want)
	}
}

// A member that does not answer may have been killed: its database file lacks the writes of its last moments.
func TestLossOf_AMemberThatDoesNotAnswer(t *testing.T) {
	for _, all := range [][]strategy.Survivor{
		{{Node: "cp1", State: "stopped", Holds: true, Reason: "etcd exits at once: walpb: crc mismatch"}},
		{{Node: "cp1", State: "stopped", Holds: true}, {Node: "cp2", State: "missing"}},
	} {
		loses(t, strategy.LossOf(*strategy.ChooseSurvivor(all, ""), all, voters("1", "2")), "shortly before it stopped may be missing")
	}
}

// cp2 has applied more, and is not of the cluster on record: it is taken only if it is named.
func TestSurvivors_TakesNoMemberThatIsApartUnlessNamed(t *testing.T) {
	st := cke.Status{Members: []cke.MemberStatus{
		{Name: "cp1", ID: "1", Join: "a", State: "unhealthy"}, {Name: "cp2", ID: "2", Join: "b", State: "unhealthy"}, {Name: "cp3", ID: "3", Join: "c", State: "missing"},
	}, Etcd: cke.EtcdStatus{Members: voters("1", "2", "3"), Endpoints: []cke.EndpointStatus{
		{Join: "a", ClusterID: "c1", RaftTerm: 7, RaftApplied: 40, Revision: 30}, {Join: "b", ClusterID: "c2", RaftTerm: 9, RaftApplied: 4200, Revision: 310}, {Join: "c", Problem: "refused"},
	}}}
	other := cke.Identity{Incarnation: &cke.Incarnation{ClusterID: "c1"}, Joins: []cke.Join{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
	aside := cke.Identity{Incarnation: &cke.Incarnation{}, Joins: []cke.Join{{ID: "a"}, {ID: "b", Apart: true}, {ID: "c"}}}
	for name, id := range map[string]cke.Identity{"of another cluster": other, "put aside": aside} {
		all := strategy.Survivors(st, id)
		v := strategy.ChooseSurvivor(all, "")
		if v == nil || v.Node != "cp1" {
			t.Fatalf("%s: %+v", name, v)
		}
		loses(t, strategy.LossOf(*v, all, st.Etcd.Members), "are lost")
		if v = strategy.ChooseSurvivor(all, "cp2"); v == nil || v.Node != "cp2" {
			t.Fatalf("%s, and named: %+v", name, v)
		}
		loses(t, strategy.LossOf(*v, all, st.Etcd.Members), "is not of the cluster on record")
	}
	st.Etcd.Endpoints[1] = cke.EndpointStatus{Join: "b", Problem: "refused"} // it was stopped
	if v := strategy.ChooseSurvivor(strategy.Survivors(st, aside), ""); v == nil || v.Node != "cp1" {
		t.Errorf("%+v", v)
	}
}

func TestSurvivors_TakesTheMemberThatHasAppliedMost(t *testing.T) {
	st := cke.Status{Members: []cke.MemberStatus{
		{Name: "cp1", ID: "1", Join: "a", State: "unhealthy"}, {Name: "cp2", ID: "2", Join: "b", State: "unhealthy"}, {Name: "cp3", ID: "3", Join: "c", State: "missing"},
	}, Etcd: cke.EtcdStatus{Members: voters("1", "2", "3"), Endpoints: []cke.EndpointStatus{
		{Join: "a", RaftTerm: 7, RaftApplied: 40, Revision: 30}, {Join: "b", RaftTerm: 6, RaftApplied: 42, Revision: 31}, {Join: "c", Problem: "refused"},
	}}}
	if v := strategy.ChooseSurvivor(strategy.Survivors(st, cke.Identity{}), ""); v == nil || v.Node != "cp2" {
		t.Errorf("%+v", v)
	}
	if v := strategy.ChooseSurvivor(strategy.Survivors(st, cke.Identity{}), "cp1"); v == nil || v.Node != "cp1" {
		t.Errorf("%+v", v)
	}
	if v := strategy.ChooseSurvivor(strategy.Survivors(st, cke.Identity{}), "cp3"); v != nil {
		t.Errorf("a member without data is taken: %+v", v)
	}
	loss := func(of int) string {
		all := strategy.Survivors(st, cke.Identity{})
		return strategy.LossOf(all[of], all, st.Etcd.Members)
	}
	loses(t, loss(0), "2 of 3 voters are left, and every quorum had one of them; what cp2 has applied is kept")
	loses(t, loss(1), "are lost") // a member that has more is passed over
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", Problem: "no answer in 1s"}
	loses(t, loss(0), "are lost") // who knows what that one has
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", RaftTerm: 7, RaftApplied: 40, Revision: 30}
	st.Members[0].State = "unreachable"
	loses(t, loss(0), "1 of 3 voters are left: ")
	loses(t, loss(0), "are lost")
}

// voters is a member list.
func voters(ids ...string) (list []cke.Member) {
	for _, id := range ids {
		list = append(list, cke.Member{ID: id})
	}
	return list
}

// Voters of an old cluster, and foreign ones, acknowledged writes without the members of cke; a learner acknowledged none. Which voters a
// quorum needs is in the member list, not in the memberships.
func TestLossOf_CountsTheVotersOfTheList(t *testing.T) {
	learner := func(ids ...string) []cke.Member {
		list := voters(ids...)
		list[len(list)-1].Learner = true
		return list
	}
	for name, c := range map[string]struct {
		list []cke.Member // cp1 has id 1, cp2 has id 2 and is lost
		both bool         // cp2 is left, too, and has applied less
		want string
	}{
		"three old voters acknowledged alone":             {list: voters("o1", "o2", "o3", "1"), want: "1 of 4 voters are left: "},
		"three old voters of five":                        {list: voters("o1", "o2", "o3", "1", "2"), both: true, want: "2 of 5 voters are left: "},
		"two old voters of four":                          {list: voters("o1", "o2", "1", "2"), both: true, want: "2 of 4 voters are left, and every quorum had one"},
		"one foreign voter of two":                        {list: voters("x", "1"), want: "1 of 2 voters are left: "},
		"the only voter, and a learner that had its data": {list: learner("1", "2"), want: "1 of 1 voters are left, and every quorum had one"},
		"one of two voters, and a learner is left":        {list: learner("1", "x", "2"), both: true, want: "1 of 2 voters are left: "},
		"no list is known":                                {both: true, want: "it is not known which members voted: "},
		"a list of before it was added":                   {list: voters("x"), want: "0 of 1 voters are left: "},
		"alone":                                           {list: voters("1"), want: "1 of 1 voters are left"},
	} {
		t.Run(name, func(t *testing.T) {
			st := cke.Status{Members: []cke.MemberStatus{{Name: "cp1", ID: "1", Join: "a", State: "unhealthy"}, {Name: "cp2", ID: "2", Join: "b", State: "missing"}},
				Etcd: cke.EtcdStatus{Members: c.list, Endpoints: []cke.EndpointStatus{{Join: "a", RaftApplied: 40}, {Join: "b", RaftApplied: 30}}}}
			if c.both {
				st.Members[1].State = "unhealthy"
			}
			all := strategy.Survivors(st, cke.Identity{})
			loses(t, strategy.LossOf(all[0], all, c.list), c.want)
		})
	}
}
