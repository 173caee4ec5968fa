package strategy

import (
	"fmt"
	"slices"

	"cke"
)

// misnamed is why it is not certain which machine a name means; nil: it is. The volume of a membership proves its machine,
// not a name or an address.
func (in *Input) misnamed(name string) *cke.Problem {
	for _, p := range in.allMisnamed() {
		if name != "" && p.Node == name {
			return &p
		}
	}
	return nil
}

// notCertain is why nothing is done by a name.
func notCertain(name string, p *cke.Problem) *cke.Error {
	return &cke.Error{Code: p.Code, What: fmt.Sprintf("it is not certain which machine %s means", name), Facts: []string{p.Message, p.Remedy}, Unchanged: true, Try: "ckecli cluster edit"}
}

// allMisnamed are the names that are given to other machines, and the machines that carry the volume of another one's member.
// One that has moved carries that of its own, under a name that is declared for it alone.
func (in *Input) allMisnamed() []cke.Problem {
	var all []cke.Problem
	if !in.Formed() {
		return nil
	}
	for _, m := range in.Identity.Misnamed(in.Spec) {
		all = append(all, m.Problem())
	}
	for _, j := range in.Identity.Joins {
		if _, moved := in.moved(j); moved {
			continue
		}
		for _, s := range in.Seen.Nodes {
			if _, there := s.VolumeOf(j); !there || !s.Answered() || s.Node.Address == j.Node.Address {
				continue
			}
			why, remedy := "the machines have exchanged their addresses", "give the machines their addresses back, or declare each with the one that it has, one after the other"
			if s.Node.Name() == j.Node.Name() && !s.Node.ControlPlane {
				why, remedy = "it has another address, and is no control-plane node", "give the machine its address back, or declare it as a control-plane node until its member has moved"
			}
			all = append(all, cke.Problem{Code: cke.CodeMisnamed, Node: s.Node.Name(), Remedy: remedy,
				Message: fmt.Sprintf("the machine at %s carries the volume of the member of %s: %s", s.Node.Address, j.Node.Name(), why)})
		}
	}
	return all
}

// volumeElsewhere reports whether another machine than the recorded one carries a member's volume: addresses were exchanged, which allMisnamed reports.
func (in *Input) volumeElsewhere(j cke.Join) bool {
	return slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool {
		_, there := n.VolumeOf(j)
		return there && n.Answered()
	})
}

// exchanged reports whether the volume of any member is on another machine than the one on record, and no new address is declared for it.
func (in *Input) exchanged() bool {
	return slices.ContainsFunc(in.Identity.Joins, func(j cke.Join) bool {
		_, moved := in.moved(j)
		return !moved && !(in.node(j.Node).Answered() && in.mayHold(j)) && in.volumeElsewhere(j)
	})
}
