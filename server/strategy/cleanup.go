package strategy

import (
	"slices"

	"cke"
	"cke/op"
)

// cleanUp: a node carries something of an incarnation of this cluster that was abandoned before it served anybody.
func cleanUp(in *Input) verdict {
	inc := in.Identity.Incarnation
	var left []cke.Join
	var held []cke.Problem
	for _, n := range in.Seen.Nodes {
		if !n.Answered() {
			continue
		}
		kept, seen := keptOn(in, n)
		held = append(held, kept...)
		add := func(cluster, life, name string, id cke.JoinID) {
			if cluster == in.Spec.Name && inc.WasAbandoned(life) && !seen[id] {
				seen[id] = true
				etcd := in.Spec.Options.Etcd
				if j, known := in.Identity.Join(id); known {
					etcd = j.Etcd
				}
				left = append(left, cke.Join{ID: id, Incarnation: life, Node: n.Node, Volume: name, Etcd: etcd})
			}
		}
		for _, c := range n.Containers {
			add(c.Cluster, c.Incarnation, c.Name, c.Join)
		}
		for _, v := range n.Volumes {
			add(v.Cluster, v.Incarnation, v.Name, v.Join)
			for _, j := range in.Identity.Joins {
				// An engine that dies while it makes a volume may forget its labels. The name is of this bootstrap member alone.
				if v.Cluster == "" && v.Name == j.Volume && n.Node.Address == j.Node.Address {
					add(in.Spec.Name, j.Incarnation, v.Name, j.ID)
				}
			}
		}
	}
	if left == nil {
		if held == nil || inc.State != cke.Abandoned {
			return pass()
		}
		return wait(list(held), held...)
	}
	return act(op.CleanUp{Left: left}, "an abandoned bootstrap left containers or volumes; it never served a client")
}

// cleanUpPrepared removes members of a canceled restore whose containers never ran, also without a quorum: what they brought may be what
// fills the disks of members that serve.
func cleanUpPrepared(in *Input) verdict {
	v := cleanUp(in)
	o, cleans := v.Operation.(op.CleanUp)
	if !cleans || !in.Formed() {
		return pass()
	}
	o.Left = slices.DeleteFunc(o.Left, func(j cke.Join) bool {
		c, there := in.node(j.Node).Of(j.ID)
		return !there || c.State != cke.ContainerCreated || c.EverRan()
	})
	if len(o.Left) == 0 {
		return pass()
	}
	v.Operation = o
	return v
}

// keptOn are the containers of abandoned incarnations that are kept on a node that answers, and their memberships.
func keptOn(in *Input, n cke.NodeStatus) (kept []cke.Problem, of map[cke.JoinID]bool) {
	of = map[cke.JoinID]bool{}
	for _, c := range n.Containers {
		if p := keepsWrites(in, n, c); p != nil {
			kept, of[c.Join] = append(kept, *p), true
		}
	}
	return kept, of
}

// keepsWrites is why a container of an abandoned incarnation is kept; nil: it is not. What the record says of a bootstrap member is known of the last
// one only; one of those before is asked where its container was made for.
func keepsWrites(in *Input, n cke.NodeStatus, c cke.Container) *cke.Problem {
	if c.Cluster != in.Spec.Name || !in.Identity.Incarnation.WasAbandoned(c.Incarnation) {
		return nil
	}
	j, known := in.Identity.Join(c.Join)
	if !known {
		j = cke.Join{ID: c.Join, Incarnation: c.Incarnation, Node: n.Node, StartedAt: c.StartedAt}
	}
	return olderThanFounder(in, j, c)
}
