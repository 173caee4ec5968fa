package strategy_test

import (
	"strings"
	"testing"

	"cke"
)

// zoned declares the zones of the nodes, in their order; "-": none.
func (s *scene) zoned(zones ...string) *scene {
	for i, z := range zones {
		s.Spec.Nodes[i].Zone = strings.Trim(z, "-")
	}
	return s
}

// spare makes the ith of the nodes one without a member.
func (s *scene) spare(i int) *scene { return s.unjoined(i).undeclared(i) }

// spreadText is what a status says of zones.
func spreadText(s *cke.Spread) string {
	if s == nil {
		return "no zones"
	}
	var all []string
	for _, z := range s.Zones {
		can := "can"
		if !z.CanBeLost {
			can = z.CannotBecause
		}
		all = append(all, z.Name+" "+strings.Join(z.Voters, "+")+" "+can)
	}
	return strings.Join(all, "; ")
}

func TestReport_WhichZonesCanBeLost(t *testing.T) {
	three := func() *scene { return formed(3).zoned("r1", "r2", "r3") }
	const none = "1 of 3 would be left, 2 needed"
	served := three().report()
	for _, tt := range []struct {
		name    string
		scene   *scene
		want    string
		summary string
	}{
		{"no node has a zone", formed(3), "no zones", "all 3 members serve, can lose 1 more member"},
		{"each in its own", three(), "r1 n1 can; r2 n2 can; r3 n3 can", "all 3 members serve, can lose 1 more member, and any one zone"},
		{"two in one", formed(3).zoned("r1", "r2", "r2"), "r1 n1 can; r2 n2+n3 " + none, "all 3 members serve, can lose 1 more member"},
		{"a zone is lost", three().silent(3), "r1 n1 " + none + "; r2 n2 " + none + "; r3 n3 can", "quorum held, can lose 0 more members"},
		{"a zone that was lost is back", three().with(func(s *scene) { s.Before = three().silent(3).report() }), "r1 n1 can; r2 n2 can; r3 n3 can", "all 3 members serve, can lose 1 more member, and any one zone"},
		{"one of five is lost", formed(5).zoned("r1", "r2", "r3", "r4", "r5").silent(5), "r1 n1 can; r2 n2 can; r3 n3 can; r4 n4 can; r5 n5 can", "quorum held, can lose 1 more member, and any one zone"},
		{"one has no zone", formed(3).zoned("r1", "r2", "-"), "r1 n1 " + none + "; r2 n2 " + none, "all 3 members serve, can lose 1 more member"},
		{"a foreign member is as in every zone", three().joinedBy(true).with(strangerOn(1)), "r1 n1 2 of 4 would be left, 3 needed; r2 n2 2 of 4 would be left, 3 needed; r3 n3 2 of 4 would be left, 3 needed", "all 3 members serve, can lose 1 more member"},
		{"a learner does not vote", formed(4).running().zoned("r1", "r2", "r3", "r3").learner(4, true), "r1 n1 can; r2 n2 can; r3 n3 can", "quorum held, can lose 1 more member, and any one zone"},
		{"one whose node is no longer declared is where it was", three().with(func(s *scene) {
			s.Identity.Joins[2].Node.Zone = "r2"
			s.Spec.Nodes = s.Spec.Nodes[:2]
		}), "r1 n1 can; r2 n2+n3 " + none, "quorum held, can lose 1 more member"},
		{"only a spare has a zone", formed(4).spare(4).zoned("-", "-", "-", "r1"), "", "all 3 members serve, can lose 1 more member"},
		{"the quorum is lost", three().stopped(2, 3).lost().with(func(s *scene) { s.Before = served }),
			"r1 n1 there is no quorum; r2 n2 there is no quorum; r3 n3 there is no quorum", "no quorum: 0 of 3 members serve, 2 needed"},
		{"nothing was ever listed", three().silent(1, 2, 3).lost(), "no zones", ""},
		{"never bootstrapped", blank(3).zoned("r1", "r2", "r3"), "no zones", "being bootstrapped"},
	} {
		s := tt.scene.report()
		if got := spreadText(s.Spread); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if tt.summary != "" && s.Summary != tt.summary {
			t.Errorf("%s: %q, want %q", tt.name, s.Summary, tt.summary)
		}
	}
}

func TestReport_AdvisesHowTheSpreadCouldBeBetter(t *testing.T) {
	for _, tt := range []struct {
		name  string
		scene *scene
		want  string
	}{
		{"any one can be lost", formed(3).zoned("r1", "r2", "r3"), ""},
		{"any one could be lost if all served", formed(3).zoned("r1", "r2", "r3").silent(3), ""},
		{"a spare node is in a third zone", formed(4).spare(4).zoned("r1", "r2", "r2", "r3"),
			"r2 has 2 of 3 voters, and at most 1 may be in one zone: n4 in r3 carries no member and could be a control-plane node in place of n2 or n3"},
		{"it does not answer", formed(4).spare(4).zoned("r1", "r2", "r2", "r3").silentNode(4), "r2 has 2 of 3 voters, and at most 1 may be in one zone: a node in a third zone is missing"},
		{"it is in a zone that is full", formed(4).spare(4).zoned("r1", "r2", "r2", "r1"), "r2 has 2 of 3 voters, and at most 1 may be in one zone: a node in a third zone is missing"},
		{"it has no zone", formed(4).spare(4).zoned("r1", "r2", "r2"), "r2 has 2 of 3 voters, and at most 1 may be in one zone: a node in a third zone is missing"},
		{"of two the one in the emptier zone", formed(7).spare(7).spare(6).zoned("r1", "r1", "r1", "r2", "r3", "r2", "r4"),
			"r1 has 3 of 5 voters, and at most 2 may be in one zone: n7 in r4 carries no member and could be a control-plane node in place of n1 or n2 or n3"},
		{"all in one zone", formed(3).zoned("r1", "r1", "r1"), "r1 has 3 of 3 voters, and at most 1 may be in one zone: nodes in two other zones are missing"},
		{"four in three zones", formed(4).zoned("r1", "r2", "r3", "r3"), "r3 has 2 of 4 voters, and at most 1 may be in one zone: a node in another zone is missing"},
		{"one has no zone", formed(3).zoned("r1", "r2", "-"), "n3 has no zone and counts as in every zone: declare its zone"},
		{"two have none", formed(3).zoned("r1", "-", "-"), "n2 and n3 have no zone and count as in every zone: declare their zones"},
		{"a foreign member votes", formed(3).zoned("r1", "r2", "r3").joinedBy(true), ""},
		{"two voters", formed(2).zoned("r1", "r1"), ""},
		{"a member is being added", formed(4).running().zoned("r1", "r2", "r2", "r3").learner(4, true), ""},
		{"there is no quorum", formed(3).zoned("r1", "r2", "r2").stopped(2, 3).lost().with(func(s *scene) { s.Before = formed(3).report() }), ""},
	} {
		s := tt.scene.report()
		if s.Spread == nil || s.Spread.Advice != tt.want {
			t.Errorf("%s: %+v, want %q", tt.name, s.Spread, tt.want)
		}
	}
}

// silentNode lets a node without a member answer no more.
func (s *scene) silentNode(i int) *scene {
	s.node(i).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: s.node(i).Node.Name(), Message: "no answer"}
	return s
}
