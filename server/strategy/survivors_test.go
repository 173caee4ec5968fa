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
		loses(t, strategy.LossOf(*strategy.ChooseSurvivor(all, ""), all), "shortly before it stopped may be missing")
	}
}

// cp2 has applied more, and is not of the cluster on record: it is taken only if it is named.
func TestSurvivors_TakesNoMemberThatIsApartUnlessNamed(t *testing.T) {
	st := cke.Status{Members: []cke.MemberStatus{
		{Name: "cp1", Join: "a", State: "unhealthy"}, {Name: "cp2", Join: "b", State: "unhealthy"}, {Name: "cp3", Join: "c", State: "missing"},
	}, Etcd: cke.EtcdStatus{Endpoints: []cke.EndpointStatus{
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
		loses(t, strategy.LossOf(*v, all), "are lost")
		if v = strategy.ChooseSurvivor(all, "cp2"); v == nil || v.Node != "cp2" {
			t.Fatalf("%s, and named: %+v", name, v)
		}
		loses(t, strategy.LossOf(*v, all), "is not of the cluster on record")
	}
	st.Etcd.Endpoints[1] = cke.EndpointStatus{Join: "b", Problem: "refused"} // it was stopped
	if v := strategy.ChooseSurvivor(strategy.Survivors(st, aside), ""); v == nil || v.Node != "cp1" {
		t.Errorf("%+v", v)
	}
}

func TestSurvivors_TakesTheMemberThatHasAppliedMost(t *testing.T) {
	st := cke.Status{Members: []cke.MemberStatus{
		{Name: "cp1", Join: "a", State: "unhealthy"}, {Name: "cp2", Join: "b", State: "unhealthy"}, {Name: "cp3", Join: "c", State: "missing"},
	}, Etcd: cke.EtcdStatus{Endpoints: []cke.EndpointStatus{
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
	loses(t, strategy.LossOf(strategy.Survivors(st, cke.Identity{})[0], strategy.Survivors(st, cke.Identity{})), "every quorum had one of them")
	loses(t, strategy.LossOf(strategy.Survivors(st, cke.Identity{})[1], strategy.Survivors(st, cke.Identity{})), "are lost") // a member that has more is passed over
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", Problem: "no answer in 1s"}
	loses(t, strategy.LossOf(strategy.Survivors(st, cke.Identity{})[0], strategy.Survivors(st, cke.Identity{})), "are lost") // who knows what that one has
	st.Etcd.Endpoints[0] = cke.EndpointStatus{Join: "a", RaftTerm: 7, RaftApplied: 40, Revision: 30}
	st.Members[0].State = "unreachable"
	loses(t, strategy.LossOf(strategy.Survivors(st, cke.Identity{})[0], strategy.Survivors(st, cke.Identity{})), "are lost")
}
