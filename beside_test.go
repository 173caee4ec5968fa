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
