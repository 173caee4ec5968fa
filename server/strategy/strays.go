package strategy

import (
	"fmt"
	"slices"

	"cke"
	"cke/op"
)

// strays: a container of a membership that ended is stopped and removed, one of an incarnation that a restore replaced is
// stopped; its data is kept. What is not on record stays as it is.
func strays(in *Input) verdict {
	return in.stopStrays(func(c cke.Container) bool { return isStray(in, c) })
}

// replacedRuns: a container of an incarnation that a restore replaced runs. A quorum of those would be a second cluster, so they are stopped also while
// the present one has no quorum, and while another restore, or a deletion, waits.
func replacedRuns(in *Input) verdict {
	return in.stopStrays(in.isReplaced)
}

// isReplaced reports whether a container that runs is of an incarnation that was replaced before the one that continues if all restores under way are
// canceled.
func (in *Input) isReplaced(c cke.Container) bool {
	continues := in.Identity.Incarnation.BeforeRestores()
	mayRun := slices.ContainsFunc(in.Identity.MayRun(), func(j cke.Join) bool { return j.ID == c.Join })
	return c.Running() && !mayRun && continues != nil && continues.State == cke.Formed && continues.WasReplaced(c.Incarnation) && isStray(in, c)
}

// waitsBeside is a wait, in which what a restore replaced before is stopped.
func (in *Input) waitsBeside(reason string, blockers []cke.Problem) verdict {
	if v := replacedRuns(in); v.given() && due(in, v.Operation) {
		return v.blocked(blockers)
	}
	return wait(reason, blockers...)
}

func (in *Input) stopStrays(are func(cke.Container) bool) verdict {
	for _, n := range in.Seen.Nodes {
		if !n.Answered() {
			continue
		}
		for _, c := range n.Containers {
			if are(c) && !in.votesElsewhere(c) {
				return act(stopStray(n, c), fmt.Sprintf("container %s on %s belongs to no present membership", c.Name, n.Node.Name()))
			}
		}
	}
	return pass()
}

func stopStray(n cke.NodeStatus, c cke.Container) op.StopStray {
	return op.StopStray{Join: cke.Join{ID: c.Join, Incarnation: c.Incarnation, Node: n.Node, Volume: c.Name}}
}

// answersForReplaced reports whether what answers at a membership is a member that a restore replaced, and that is stopped next: its container runs on
// the node, and none of the membership does.
func (in *Input) answersForReplaced(j cke.Join) bool {
	n := in.node(j.Node)
	if c, there := n.Of(j.ID); !n.Answered() || there && c.Running() || in.held() || in.hibernates() || in.Identity.Freeze.Active() {
		return false // or it is not stopped next
	}
	return slices.ContainsFunc(n.Containers, func(c cke.Container) bool {
		_, failed := in.Failures[FailureKey(stopStray(n, c))]
		return in.isReplaced(c) && !in.votesElsewhere(c) && !failed
	})
}

// isStray reports whether a container is to be stopped or removed. What a replaced incarnation left, with its data, stays
// as it is once it is stopped.
func isStray(in *Input, c cke.Container) bool {
	if _, lasts := in.Identity.Join(c.Join); lasts || c.Cluster != in.Spec.Name {
		return false
	}
	if in.Identity.Has(c.Join) {
		return true
	}
	return in.Identity.Incarnation.WasReplaced(c.Incarnation) && (c.Running() || c.State == cke.ContainerRestarting || c.Data == cke.DataMissing)
}

// votesElsewhere reports whether the member of a container votes, and is not on record there.
func (in *Input) votesElsewhere(c cke.Container) bool {
	return slices.ContainsFunc(in.Seen.Etcd.Elsewhere, func(e cke.Elsewhere) bool { return e.Join == c.Join && in.Identity.Votes(e) })
}

// straysOn are the containers on a node that have to go before a member is added there: started late, one of them would
// be taken for it.
func straysOn(in *Input, s cke.NodeStatus) []cke.Problem {
	var found []cke.Problem
	for _, c := range s.Containers {
		if isStray(in, c) {
			found = append(found, cke.Problem{Code: cke.CodeLeftover, Node: s.Node.Name(), Message: fmt.Sprintf("container %s is of a membership that ended, and is not removed yet", c.Name),
				Remedy: fmt.Sprintf("on %s: docker rm -f %s", s.Node.Address, c.Name)})
		}
	}
	return found
}
