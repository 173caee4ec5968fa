package cke

import (
	"testing"
	"time"
)

// A cluster that was declared to be restored is compared, too, with what lies beside the backups that a later order names: the identity that it was
// declared from may be an older one, and names fewer members.
func TestIdentity_OneThatIsDeclaredToBeRestoredIsCompared(t *testing.T) {
	now := time.Now()
	inc := Incarnation{ID: "L1", State: Formed}
	of := func(ids ...JoinID) Identity {
		var joins []Join
		for _, id := range ids {
			joins = append(joins, Join{ID: id, Incarnation: "L1", Node: Node{Address: string(id)}, StartedAt: now})
		}
		return NewIdentity(&inc, joins)
	}
	beside := Beside{Incarnation: "L1", Identity: of("a", "b", "c", "d")}
	declared := of("a", "b", "c").Awaiting(now)
	later := Incarnation{ID: "L2", State: Formed, Replaced: []string{"L1"}}
	c := Cluster{Name: "demo", Nodes: []Node{{Address: "a", ControlPlane: true}}}.WithDefaults()
	order := RestoreOrder{Source: "demo"}
	prepared, err := declared.Restoring(NewRestoration(c, declared, Restoration{ID: "t1", Order: order}, now))
	if err != nil {
		t.Fatal(err)
	}
	for what, id := range map[string]Identity{"declared": declared, "a restore is prepared": prepared, "formed": of("a", "b", "c")} {
		if refusal := order.RefusedBeside(id, []Beside{beside}); refusal == nil || refusal.Code != CodeOlderStore {
			t.Errorf("%s: d is not known: %v", what, refusal)
		}
		if refusal := (RestoreOrder{Source: "demo", Accepted: []string{"d"}}).RefusedBeside(id, []Beside{beside}); refusal != nil {
			t.Errorf("%s: d is accepted: %v", what, refusal)
		}
		if refusal := order.RefusedBeside(id, []Beside{{Incarnation: "L1", Identity: of("a", "b")}}); refusal != nil {
			t.Errorf("%s: an older identity: %v", what, refusal)
		}
		if refusal := order.RefusedBeside(id, []Beside{{Incarnation: "L2", Identity: NewIdentity(&later, nil)}}); refusal == nil {
			t.Errorf("%s: a later restore is not known", what)
		}
	}
	formed := *prepared.Incarnation
	formed.State, formed.Restore = Formed, nil
	if refusal := order.RefusedBeside(prepared, []Beside{{Incarnation: formed.ID, Identity: NewIdentity(&formed, nil)}}); refusal == nil {
		t.Error("the restore under way was completed since the copy of the store")
	}
}

// A restore that the store has no record of, as the identity beside the backups shows, is lacking until it is on record, and no reclaim brings it back.
func TestIdentity_LacksARestore(t *testing.T) {
	inc := Incarnation{ID: "L1", State: Formed}
	now, later := NewIdentity(&inc, nil), NewIdentity(&Incarnation{ID: "L2", State: Restoring, Replaced: []string{"L1"}}, nil)
	lacks := now.LacksBeside(Beside{Incarnation: "L1", Identity: later})
	b := &BackupStatus{Lineage: "L1", Compared: true, Lacks: lacks}
	if len(lacks) != 1 || lacks[0].ID != "L2" || !lacks[0].Restored || len(now.StillLacking(b)) != 1 {
		t.Fatalf("%+v, still %+v", lacks, now.StillLacking(b))
	}
	seen := Observation{Etcd: EtcdStatus{MembersSource: MembersLinearizable}}
	if r, why := PlanReclaim(Cluster{Name: "demo"}, now, seen, b); why == nil || why.Code != CodeOlderStore || why.Try != "bring back a copy of the store from after the restore" {
		t.Errorf("a reclaim: %+v, %v", r, why)
	}
	canceled := inc
	canceled.Previous = []string{"L2"}
	if still := NewIdentity(&canceled, nil).StillLacking(b); len(still) > 0 {
		t.Errorf("it was canceled: %+v", still)
	}
}
