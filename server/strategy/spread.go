package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/quorum"
)

// spread is how the voters are spread over zones; nil: no declared node has one, or no member list is known.
func spread(in *Input) *cke.Spread {
	if !in.Spec.HasZones() || !in.Formed() {
		return nil
	}
	var voters []cke.Voter
	for _, m := range in.lastList() {
		if m.Learner {
			continue
		}
		v := cke.Voter{Name: nameOf(m), Healthy: in.Seen.Etcd.Quorate && healthyMember(in, m)}
		if j := in.joinOf(m); j != nil {
			v.Name, v.Zone = j.Node.Name(), in.Spec.ZoneOf(j.Node)
		}
		voters = append(voters, v)
	}
	if voters == nil {
		return nil
	}
	s := cke.SpreadOf(voters)
	if in.Seen.Etcd.Quorate && tallyOf(in).Pending == 0 {
		s.Advice = spreadAdvice(in, voters)
	}
	return &s
}

// spreadAdvice is how the loss of any one zone could be survived while all voters are healthy; "": it is, or one or two
// voters tolerate no loss anyway.
func spreadAdvice(in *Input, voters []cke.Voter) string {
	sound := slices.Clone(voters)
	for i := range sound {
		sound[i].Healthy = true
	}
	s, n := cke.SpreadOf(sound), len(sound)
	most := n - quorum.Of(n)
	if most == 0 || s.AnyOne() {
		return ""
	}
	if s.Unplaced() != nil {
		return unplaced(in)
	}
	size := map[string]int{}
	for _, z := range s.Zones {
		size[z.Name] = len(z.Voters)
	}
	full := slices.MaxFunc(s.Zones, func(a, b cke.Zone) int { return len(a.Voters) - len(b.Voters) })
	text := fmt.Sprintf("%s has %d of %d voters, and at most %d may be in one zone: ", full.Name, len(full.Voters), n, most)
	spares := slices.DeleteFunc(slices.Clone(in.Spec.Nodes), func(n cke.Node) bool {
		_, carries := in.Identity.On(n)
		return n.ControlPlane || carries || n.Zone == "" || size[n.Zone] >= most || !in.node(n).Answered()
	})
	switch {
	case len(spares) > 0:
		spare := slices.MinFunc(spares, func(a, b cke.Node) int { return size[a.Zone] - size[b.Zone] })
		return text + fmt.Sprintf("%s in %s carries no member and could be a control-plane node in place of %s", spare.Name(), spare.Zone, strings.Join(full.Voters, " or "))
	case len(s.Zones) == 1:
		return text + "nodes in two other zones are missing"
	case len(s.Zones) == 2:
		return text + "a node in a third zone is missing"
	}
	return text + "a node in another zone is missing"
}

// unplaced asks for the zones that the file lacks.
func unplaced(in *Input) string {
	var names []string
	for _, n := range in.Spec.ControlPlane() {
		if n.Zone == "" {
			names = append(names, n.Name())
		}
	}
	switch len(names) {
	case 0:
		return "" // they are of foreign members
	case 1:
		return names[0] + " has no zone and counts as in every zone: declare its zone"
	}
	return and(names) + " have no zone and count as in every zone: declare their zones"
}
