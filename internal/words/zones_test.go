package words_test

import (
	"testing"

	"cke"
	"cke/internal/words"
)

func TestZones_SayWhatHoldsForAllOnce(t *testing.T) {
	voter := func(name, zone string) cke.Voter { return cke.Voter{Name: name, Zone: zone, Healthy: true} }
	spread := func(zones ...string) cke.Spread {
		var voters []cke.Voter
		for i, z := range zones {
			voters = append(voters, voter([]string{"cp1", "cp2", "cp3"}[i], z))
		}
		return cke.SpreadOf(voters)
	}
	for want, s := range map[string]cke.Spread{
		"rack1 cp1 · rack2 cp2 · rack3 cp3  any one can be lost":                                                                         spread("rack1", "rack2", "rack3"),
		"rack1 cp1  can be lost · rack2 cp2, cp3  cannot: 1 of 3 would be left, 2 needed":                                                spread("rack1", "rack2", "rack2"),
		"rack1 cp1, cp2, cp3  cannot: 0 of 3 would be left, 2 needed":                                                                    spread("rack1", "rack1", "rack1"),
		"rack1 cp1 · rack2 cp2 · no zone: cp3 (as in every zone)  none can: 1 of 3 would be left, 2 needed":                              spread("rack1", "rack2", ""),
		"no zone: cp1, cp2 (as in every zone)":                                                                                           spread("", ""),
		"rack1 cp1 · rack2 cp2 · rack3 cp3  none can: there is no quorum":                                                                spread("rack1", "rack2", "rack3").Without("cp1").Without("cp2"),
		"rack1 cp1  can be lost · rack2 cp2  cannot: 1 of 3 would be left, 2 needed · rack3 cp3  cannot: 1 of 3 would be left, 2 needed": spread("rack1", "rack2", "rack3").Without("cp1"),
	} {
		if got := words.Zones(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	three, two := spread("rack1", "rack2", "rack3"), spread("rack1", "rack2")
	for _, tt := range []struct {
		spread *cke.Spread
		node   string
		want   string
	}{
		{nil, "cp1", ""},
		{&three, "cp2", "rack1, rack3 cannot be lost meanwhile"},
		{&three, "w1", "any one zone can be lost meanwhile"},
		{&two, "cp1", "no zone can be lost meanwhile"},
	} {
		if got := words.Meanwhile(tt.spread, tt.node); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.node, got, tt.want)
		}
	}
}
