package cke_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cke"
	"cke/quorum"
)

// votersOf reads voters, as "r1/a r2/b! /x": b is not healthy, and x has no zone.
func votersOf(text string) (voters []cke.Voter) {
	for _, word := range strings.Fields(text) {
		zone, name, _ := strings.Cut(word, "/")
		healthy := strings.TrimSuffix(name, "!")
		voters = append(voters, cke.Voter{Name: healthy, Zone: zone, Healthy: healthy == name})
	}
	return voters
}

// said is a spread in words: what each zone holds, and why it cannot be lost.
func said(s cke.Spread) string {
	var all []string
	for _, z := range s.Zones {
		text := z.Name + " " + strings.Join(z.Voters, "+")
		if z.CannotBecause != "" {
			text += ": " + z.CannotBecause
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestSpreadOf(t *testing.T) {
	for name, tt := range map[string]struct {
		voters, want string
		losable      int
		any          bool
	}{
		"one voter in each of three zones":  {"r1/a r2/b r3/c", "r1 a; r2 b; r3 c", 3, true},
		"two in one zone":                   {"r1/a r2/b r2/c", "r1 a; r2 b+c: 1 of 3 would be left, 2 needed", 1, false},
		"one zone":                          {"r1/a r1/b r1/c", "r1 a+b+c: 0 of 3 would be left, 2 needed", 0, false},
		"one voter":                         {"r1/a", "r1 a: 0 of 1 would be left, 1 needed", 0, false},
		"two voters":                        {"r1/a r2/b", "r1 a: 1 of 2 would be left, 2 needed; r2 b: 1 of 2 would be left, 2 needed", 0, false},
		"four voters in three zones":        {"r1/a r2/b r3/c r3/d", "r1 a; r2 b; r3 c+d: 2 of 4 would be left, 3 needed", 2, false},
		"four voters in four zones":         {"r1/a r2/b r3/c r4/d", "r1 a; r2 b; r3 c; r4 d", 4, true},
		"four voters in two zones":          {"r1/a r1/b r2/c r2/d", "r1 a+b: 2 of 4 would be left, 3 needed; r2 c+d: 2 of 4 would be left, 3 needed", 0, false},
		"five voters in three zones":        {"r1/a r1/b r2/c r2/d r3/e", "r1 a+b; r2 c+d; r3 e", 3, true},
		"five voters in two zones":          {"r1/a r1/b r2/c r2/d r2/e", "r1 a+b; r2 c+d+e: 2 of 5 would be left, 3 needed", 1, false},
		"a zone is lost":                    {"r1/a! r2/b r3/c", "r1 a; r2 b: 1 of 3 would be left, 2 needed; r3 c: 1 of 3 would be left, 2 needed", 1, false},
		"one of five is lost":               {"r1/a! r1/b r2/c r2/d r3/e", "r1 a+b; r2 c+d: 2 of 5 would be left, 3 needed; r3 e", 2, false},
		"the quorum is lost":                {"r1/a! r2/b! r3/c", "r1 a: there is no quorum; r2 b: there is no quorum; r3 c: there is no quorum", 0, false},
		"one without a zone":                {"r1/a r2/b /c", "r1 a: 1 of 3 would be left, 2 needed; r2 b: 1 of 3 would be left, 2 needed", 0, false},
		"one without a zone does not serve": {"r1/a r2/b /c!", "r1 a: 1 of 3 would be left, 2 needed; r2 b: 1 of 3 would be left, 2 needed", 0, false},
		"five, one without a zone":          {"r1/a r2/b r3/c r4/d /e", "r1 a; r2 b; r3 c; r4 d", 4, true},
		"none has a zone":                   {"/a /b /c", "", 0, false},
		"no voter":                          {"", "", 0, false},
	} {
		s := cke.SpreadOf(votersOf(tt.voters))
		if got := said(s); got != tt.want || s.Losable() != tt.losable || s.AnyOne() != tt.any {
			t.Errorf("%s: %q, %d can be lost, any one %t; want %q, %d, %t", name, got, s.Losable(), s.AnyOne(), tt.want, tt.losable, tt.any)
		}
	}
}

// A zone can be lost if some majority of the list serves outside it, wherever those without a zone are; and if all are
// healthy, any one can as long as none has more voters than the list can lose.
func TestSpreadOf_AgreesWithCountingMajorities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		voters := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) cke.Voter {
			return cke.Voter{Name: "n", Zone: rapid.SampledFrom([]string{"", "r1", "r2", "r3", "r4"}).Draw(t, "zone"), Healthy: rapid.IntRange(0, 3).Draw(t, "healthy") > 0}
		}), 1, 7).Draw(t, "voters")
		s, sound := cke.SpreadOf(voters), slices.Clone(voters)
		for _, z := range s.Zones {
			can := false
			for set := range 1 << len(voters) {
				votes, good := 0, true
				for i, v := range voters {
					if set&(1<<i) != 0 {
						votes++
						good = good && v.Healthy && v.Zone != "" && v.Zone != z.Name
					}
				}
				can = can || good && 2*votes > len(voters)
			}
			if z.CanBeLost != can || can != (z.CannotBecause == "") {
				t.Errorf("%s of %+v: %+v, want %t", z.Name, voters, z, can)
			}
		}
		for i := range sound {
			sound[i].Healthy = true
		}
		fine, all := true, cke.SpreadOf(sound)
		for _, z := range all.Zones {
			fine = fine && len(z.Voters)+len(all.Unplaced()) <= len(voters)-quorum.Of(len(voters))
		}
		if want := fine && len(all.Zones) > 0; all.AnyOne() != want {
			t.Errorf("%+v: any one: %t, want %t", sound, all.AnyOne(), want)
		}
		if len(all.Zones) == 2 && all.AnyOne() {
			t.Errorf("either of two zones can be lost: %+v", sound)
		}
	})
}

func TestSpread_Without(t *testing.T) {
	for away, want := range map[string]string{
		"a": "r1 a; r2 b: 1 of 3 would be left, 2 needed; r3 c: 1 of 3 would be left, 2 needed",
		"x": "r1 a; r2 b; r3 c",
	} {
		s := cke.SpreadOf(votersOf("r1/a r2/b r3/c"))
		if got := said(s.Without(away)); got != want || !s.AnyOne() {
			t.Errorf("without %s: %q, want %q", away, got, want)
		}
	}
}

func TestSpread_WorseThan(t *testing.T) {
	for name, tt := range map[string]struct {
		before, after string
		worse         bool
	}{
		"the same":                         {"r1/a r2/b r3/c", "r1/a r2/b r3/c", false},
		"a machine of another zone":        {"r1/a r2/b r3/c", "r1/a r2/b r4/c", false},
		"two in one zone":                  {"r1/a r2/b r3/c", "r1/a r2/b r2/c", true},
		"the other zone has two":           {"r1/a r2/b r2/c", "r1/a r1/b r2/c", false},
		"all in one zone":                  {"r1/a r2/b r2/c", "r2/a r2/b r2/c", true},
		"better":                           {"r1/a r2/b r2/c", "r1/a r2/b r3/c", false},
		"a fourth in three zones":          {"r1/a r2/b r3/c", "r1/a r2/b r3/c r3/d", true},
		"five in three zones":              {"r1/a r2/b r3/c", "r1/a r1/b r2/c r2/d r3/e", false},
		"fewer, any one can still be lost": {"r1/a r1/b r2/c r2/d r3/e", "r1/a r2/b r3/c", false},
		"one loses its zone":               {"r1/a r2/b r3/c", "r1/a r2/b /c", true},
		"all lose their zones":             {"r1/a r2/b r3/c", "/a /b /c", true},
		"zones are declared":               {"/a /b /c", "r1/a r2/b r2/c", false},
		"a second voter":                   {"r1/a", "r1/a r2/b", false},
	} {
		if got := cke.SpreadOf(votersOf(tt.after)).WorseThan(cke.SpreadOf(votersOf(tt.before))); got != tt.worse {
			t.Errorf("%s: worse: %t", name, got)
		}
	}
}

func TestCluster_ZonesAreThoseThatAreDeclaredNow(t *testing.T) {
	c := cke.Cluster{Nodes: []cke.Node{
		{Address: "10.0.0.1", Hostname: "a", ControlPlane: true, Zone: "r1"}, {Address: "10.0.0.2", ControlPlane: true}, {Address: "10.0.0.3", Zone: "r3"}}}
	for address, want := range map[string]string{"10.0.0.1": "r1", "10.0.0.2": "", "10.0.0.3": "r3", "10.0.0.9": "before"} {
		if got := c.ZoneOf(cke.Node{Address: address, Zone: "before"}); got != want {
			t.Errorf("%s is in %q, want %q", address, got, want)
		}
	}
	if got := said(c.DeclaredSpread()); got != "r1 a: 0 of 2 would be left, 2 needed" {
		t.Errorf("declared: %q", got)
	}
	if !c.HasZones() || (cke.Cluster{Nodes: c.Nodes[1:2]}).HasZones() {
		t.Error("which files have zones")
	}
}
