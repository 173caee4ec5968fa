package cke

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestIdentity_LacksWhatALaterOneHas(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	member := func(id JoinID, life string, at time.Time) Join {
		return Join{ID: id, Incarnation: life, Node: Node{Hostname: "n" + string(id), Address: "10.0.0.1"}, StartedAt: at}
	}
	inc := Incarnation{ID: "L1", State: Formed}
	replaced := Authorities{}.With(PeerAuthority, AuthorityRecord{Current: CA{Generation: 2}})
	store := NewIdentity(&inc, []Join{member("1", "L1", started), {ID: "2", Incarnation: "L1", StartedAt: started, EndedAt: started}})
	with := func(a Authorities, joins ...Join) Identity {
		id := NewIdentity(&inc, joins)
		id.Authorities = a
		return id
	}
	restoring := func() Identity { // its members are prepared, and are no more once it is called off
		id := with(Authorities{}, member("1", "L1", started))
		r := NewRestoration(Cluster{Name: "demo"}, id, Restoration{ID: "t1"}, started)
		next, err := id.Restoring(r)
		if err != nil {
			t.Fatal(err)
		}
		next.Joins = append(next.Joins, member("9", r.ID, time.Time{}))
		return next
	}
	forgetful := func(kept int, from time.Time) *Identity { // it has as many tombstones, of the hour after that
		joins := []Join{member("1", "L1", started)}
		for n := range kept {
			j := member(JoinID(fmt.Sprintf("t%d", n)), "L1", from)
			j.EndedAt, j.RemovedAt = from.Add(time.Duration(n+1)*time.Second), from.Add(time.Hour)
			joins = append(joins, j)
		}
		id := NewIdentity(&inc, joins)
		return &id
	}
	for name, row := range map[string]struct {
		store  *Identity // nil: the one above
		beside Identity
		want   []Lacking
	}{
		"nothing lies there":     {},
		"one that was forgotten": {store: forgetful(KeptTombstones, started), beside: with(Authorities{}, member("1", "L1", started), member("3", "L1", started))},
		"one that was started after all that is kept": {store: forgetful(KeptTombstones, started), beside: with(Authorities{}, member("3", "L1", started.Add(time.Hour))),
			want: []Lacking{{ID: "3", What: "the member of n3"}}},
		"one that would be kept": {store: forgetful(KeptTombstones-1, started), beside: with(Authorities{}, member("3", "L1", started)), want: []Lacking{{ID: "3", What: "the member of n3"}}},
		"the same":               {beside: store},
		"one that ended since":   {beside: with(Authorities{}, member("1", "L1", started), member("2", "L1", started))},
		"one that never started": {beside: with(Authorities{}, member("1", "L1", started), member("3", "L1", time.Time{}))},
		"of another incarnation": {beside: with(Authorities{}, member("3", "L0", started))},
		"of a restore":           {beside: restoring()},
		"a later member":         {beside: with(Authorities{}, member("1", "L1", started), member("3", "L1", started)), want: []Lacking{{ID: "3", What: "the member of n3"}}},
		"a later authority":      {beside: with(replaced, member("1", "L1", started)), want: []Lacking{{ID: "pki/peer-ca.2", What: "generation 2 of the peer authority"}}},
	} {
		if d := gocmp.Diff(row.want, cmp.Or(row.store, &store).Lacks(row.beside, "L1")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if got := with(replaced).Lacks(with(Authorities{}), "L1"); got != nil {
		t.Errorf("a newer store: %+v", got)
	}
}

// What a later cke wrote is neither compared nor replaced, as nobody can say what it has.
func TestParseEscrow_RefusesALaterFormat(t *testing.T) {
	if _, err := ParseEscrow([]byte(`{"format": 2}`)); CodeOf(err) != CodeCannot {
		t.Error(err)
	}
	if e, err := ParseEscrow([]byte(`{"format": 1, "cluster": "prod"}`)); err != nil || e.Cluster != "prod" {
		t.Errorf("%+v %v", e, err)
	}
}
