package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
	"cke/quorum"
)

// bootstrapCluster: the cluster never had an incarnation that served anybody, and every declared control-plane node has
// proved that it holds nothing.
func bootstrapCluster(in *Input) verdict {
	if inc := in.Identity.Incarnation; inc != nil && inc.State != cke.Abandoned {
		return pass()
	}
	if len(in.Spec.ControlPlane()) == 0 {
		p := cke.Problem{Code: cke.CodeConfig, Message: "no control-plane node is declared", Remedy: "mark at least one node of the cluster file with control_plane: true"}
		return wait(p.Message, p)
	}
	if blockers := bootstrapGate(in); blockers != nil {
		return wait(fmt.Sprintf("bootstrap waits for %s; nothing was changed", nodesOf(blockers)), blockers...)
	}
	return act(op.Bootstrap{Spec: in.Spec, Founders: foundersOf(in.Spec)}, "no member has ever been started and every control-plane node is free of data").alone()
}

// bootstrapGate returns what keeps the cluster from being founded, node by node. A node that does not answer may hold data.
func bootstrapGate(in *Input) []cke.Problem {
	var blockers []cke.Problem
	for _, n := range in.Spec.ControlPlane() {
		s := in.node(n)
		if !s.Answered() {
			blockers = append(blockers, *s.Problem)
			continue
		}
		blockers = append(blockers, leftovers(in, s)...)
		blockers = append(blockers, takenPorts(in, s)...)
	}
	blockers = append(blockers, markedLater(in)...)
	return append(append(blockers, membersElsewhere(in)...), abandonedElsewhere(in)...)
}

// markedLater names nodes with marks of an incarnation, or of a membership, that came after all that the store knows: what
// followed it may serve on nodes that the file does not name.
func markedLater(in *Input) (found []cke.Problem) {
	for _, n := range in.Identity.MarkedLater(in.Seen.Nodes) {
		found = append(found, cke.Problem{Code: cke.CodeOlderStore, Node: n.Name(),
			Message: "a mark names an incarnation or a membership of a cluster of this name that ended, and the store has no record of what came after it: the store is older than the cluster, which may serve on other nodes",
			Remedy:  fmt.Sprintf("bring back a newer copy of the store; only if that cluster was deleted, or is gone for good, on %s: docker volume ls -q --filter name=cke-over.%s. shows the mark, docker volume rm removes it", n.Address, in.Spec.Name)})
	}
	return found
}

// membersElsewhere names nodes of the file that are no control plane and carry members of a cluster of this name, or may: the store may be
// older than a cluster that was moved to them.
func membersElsewhere(in *Input) (waits []cke.Problem) {
	for _, n := range in.Spec.Nodes {
		if n.ControlPlane {
			continue
		}
		s := in.node(n)
		if !s.Answered() {
			p := *s.Problem
			p.Message = "it may carry a member of a cluster of this name: " + p.Message
			p.Remedy = "bring it back, or remove it from the cluster file until the cluster is formed"
			waits = append(waits, p)
			continue
		}
		for _, c := range s.Containers {
			if c.Cluster == in.Spec.Name && !in.Identity.Incarnation.WasAbandoned(c.Incarnation) {
				waits = append(waits, noLife(s, c))
			}
		}
	}
	return waits
}

// abandonedElsewhere names nodes of the file that are no control plane and have, or may have, what bootstrap members of the abandoned
// life left, if with what is left a quorum of them could be started: by whoever starts what is stopped. A node that was
// taken out of the file is gone for good, by the word of whoever did it.
func abandonedElsewhere(in *Input) []cke.Problem {
	inc := in.Identity.Incarnation
	if inc == nil || !in.Identity.Started() {
		return nil
	}
	var waits []cke.Problem
	left := 0
	for _, j := range inc.Founders {
		i := slices.IndexFunc(in.Spec.Nodes, func(n cke.Node) bool { return n.Address == j.Node.Address })
		s := in.node(j.Node)
		_, container := s.Of(j.ID)
		_, volume := s.VolumeOf(j)
		if i >= 0 && s.Answered() && !container && !volume {
			continue
		}
		if left++; i < 0 || in.Spec.Nodes[i].ControlPlane { // the latter is told of anyway
			continue
		}
		if s.Answered() { // of one that does not, the bootstrap waits for whatever it carries
			waits = append(waits, cke.Problem{Code: cke.CodeLeftover, Node: in.Spec.Nodes[i].Name(), Message: "it has remains of an abandoned bootstrap, which could be started",
				Remedy: "bring it back, or remove it from the cluster file if it is gone for good"})
		}
	}
	if left < quorum.Of(len(inc.Founders)) {
		return nil
	}
	return waits
}

// foreignRemedy is what to do about an etcd that cke did not make. It may serve a cluster.
func foreignRemedy(s cke.NodeStatus, c cke.Container) string {
	return fmt.Sprintf("if it serves a cluster, take a snapshot, stop it, and give its data to this cluster with ckecli restore --from-snapshot FILE, or declare another node in place of this one; "+
		"only if neither it nor its data is needed: docker stop %[1]s, then docker rm %[1]s, on %[2]s", c.Name, s.Node.Address)
}

// leftovers names volumes and containers that may hold etcd data of this cluster or of somebody else. What belongs
// to another cluster of cke is no obstacle; what an abandoned incarnation left is cleaned up by another rule.
func leftovers(in *Input, s cke.NodeStatus) []cke.Problem {
	name, base := s.Node.Name(), in.Spec.Options.Etcd.VolumeName
	var found []cke.Problem
	for _, c := range s.Containers {
		switch {
		case c.Cluster == "":
			found = append(found, cke.Problem{Code: cke.CodeForeignEtcd, Node: name,
				Message: fmt.Sprintf("container %s (%s, %s) was not made by cke", c.Name, c.Image, c.State),
				Remedy:  foreignRemedy(s, c)})
		case c.Cluster == in.Spec.Name:
			found = append(found, noLife(s, c))
		}
	}
	for _, v := range s.Volumes {
		ours := v.Cluster == in.Spec.Name
		unlabelled := v.Cluster == "" && (v.Name == base || strings.HasPrefix(v.Name, base+"."))
		if inUse := slices.ContainsFunc(s.Containers, func(c cke.Container) bool { return c.Name == v.Name }); !inUse && (ours || unlabelled) {
			found = append(found, cke.Problem{Code: cke.CodeLeftover, Node: name,
				Message: fmt.Sprintf("volume %s may hold data of this cluster", v.Name),
				Remedy:  fmt.Sprintf("on %s: docker volume rm %s, if the data is not needed", s.Node.Address, v.Name)})
		}
	}
	return found
}

// noLife is what to do about a container of a cluster of which this store has no incarnation. One that ran may be a member of a cluster that
// serves, and that a newer copy of the store has on record.
func noLife(s cke.NodeStatus, c cke.Container) cke.Problem {
	p := cke.Problem{Code: cke.CodeOlderStore, Node: s.Node.Name(),
		Message: fmt.Sprintf("container %s (%s) is a member of a cluster of this name, of which the store has no record: the store is older than the cluster, or another store owns the cluster", c.Name, c.State)}
	const bring = "bring back a newer copy of the store; if another store owns the cluster, remove the node from the cluster file"
	switch {
	case !c.EverRan() && c.Down():
		p.Code, p.Message = cke.CodeLeftover, fmt.Sprintf("container %s is left from another incarnation of this cluster, and never ran", c.Name)
		p.Remedy = fmt.Sprintf("on %s: docker rm %s, if it is not needed", s.Node.Address, c.Name)
	case c.Down():
		p.Remedy = bring + fmt.Sprintf("; only if that cluster was deleted, on %s: docker rm %s", s.Node.Address, c.Name)
	default:
		p.Remedy = bring + "; only if that cluster was deleted, turn off its restarts and stop it"
	}
	return p
}

// takenPorts says who has the declared ports on a node: a neighbor's are taken also while nothing listens on them.
func takenPorts(in *Input, s cke.NodeStatus) []cke.Problem {
	o := in.Spec.Options.Etcd
	var found []cke.Problem
	if p := s.PortTaken(o.ClientPort, o.PeerPort); p != nil {
		return []cke.Problem{*p}
	}
	taken := func(what string, port int) cke.Problem {
		return cke.Problem{Code: cke.CodePortTaken, Node: s.Node.Name(),
			Message: fmt.Sprintf("something listens on port %d, which etcd needs for %s", port, what),
			Remedy:  fmt.Sprintf("on %s: ss -ltnp sport = :%d shows it; stop it or choose another port", s.Node.Address, port)}
	}
	if s.ClientPort == cke.PortOpen {
		found = append(found, taken("clients", o.ClientPort))
	}
	if s.PeerPort == cke.PortOpen {
		found = append(found, taken("its peers", o.PeerPort))
	}
	if s.ClientPort == cke.PortUnknown {
		found = append(found, cke.Problem{Code: cke.CodeMemberSilent, Node: s.Node.Name(),
			Message: fmt.Sprintf("no answer on port %d, neither refused nor accepted", o.ClientPort),
			Remedy:  "let the management host reach the client port through the firewall"})
	}
	return found
}

// formingCluster: a bootstrap started and did not end. Once its start is on record it is resumed with the same identity, or
// abandoned where that cannot lead to the bootstrap members' cluster any more; before, it is started again. No client has been served,
// so nothing can be lost either way.
func formingCluster(in *Input) verdict {
	inc := in.Identity.Incarnation
	if inc == nil || inc.State != cke.Forming {
		return pass()
	}
	var reachable []cke.Join
	var silent, gone, unproved []cke.Problem
	started := in.Identity.Started()
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		if !n.Answered() {
			silent = append(silent, *n.Problem)
			continue
		}
		reachable = append(reachable, in.reached(j))
		if p := forgotten(n, j); p != nil {
			gone = append(gone, *p)
		}
		if p := uncertified(in, n, j); p != nil {
			unproved = append(unproved, *p)
		}
	}
	reason := ""
	switch {
	case !inc.AbandonedAt.IsZero():
		reason = "the bootstrap was given up"
	case !sameFounders(in):
		reason = "the cluster file no longer matches the bootstrap under way"
	case gone != nil:
		reason = "a bootstrap member cannot be started again: " + list(gone)
	case started && unproved != nil:
		reason = "a bootstrap member cannot prove its identity: " + list(unproved)
	case !started && silent != nil:
		reason = "nothing was started yet and the node of a bootstrap member does not answer: " + list(silent)
	case !started && failedFounding(in):
		reason = "nothing was started yet and the bootstrap failed"
	case !started: // what its daemon asked of the nodes may still land, and make a bootstrap member able to start
		reason = "nothing was started yet and the bootstrap was interrupted"
	case silent != nil:
		wayOut := ""
		if len(silent) < quorum.Of(len(in.Identity.Joins)) {
			wayOut = ", or starts over once those that do not are removed from the cluster file"
		}
		return wait("the bootstrap resumes when all its nodes answer"+wayOut+": "+list(silent), silent...)
	default:
		return act(op.Bootstrap{Spec: in.Spec, Founders: foundersOf(in.Spec), Resume: true}, "the bootstrap is not complete; it is resumed with the same identity")
	}
	if total := len(in.Identity.Joins); len(silent) >= quorum.Of(total) { // started or not: a record may be older than they are
		return wait(fmt.Sprintf("%s, but %d of %d bootstrap members do not answer and could have a quorum", reason, len(silent), total), silent...)
	}
	if p := servedClients(in); p != nil {
		return wait(p.Message, *p)
	}
	return act(op.AbandonBootstrap{Reachable: reachable, Founders: len(in.Identity.Joins)}, reason+"; no client was served")
}

// servedClients: a bootstrap member holds, or may hold, what a client wrote, so the cluster was formed, and the store was brought back
// from a copy that was made before.
func servedClients(in *Input) *cke.Problem {
	for _, j := range in.Identity.Joins {
		n := in.node(j.Node)
		if c, there := n.Of(j.ID); there && n.Answered() && forgotten(n, j) == nil {
			if p := olderThanFounder(in, j, c); p != nil {
				return p
			}
		}
	}
	return nil
}

// olderThanFounder is the finding that a bootstrap member of a cluster that was never formed by the record may hold what clients wrote;
// nil: it does not.
func olderThanFounder(in *Input, j cke.Join, c cke.Container) *cke.Problem {
	e, asked := in.Seen.Etcd.Endpoint(j.ID)
	founders := len(in.Identity.Joins)
	if !asked {
		e, founders = in.leftAnswer(j, c), 0
	}
	inc := in.Identity.Incarnation
	stops := inc.GaveUp(j.Incarnation) || inc.Life(j.Incarnation) && cke.NothingWritten(len(in.Identity.Joins), in.Seen.Etcd.Endpoints)
	why := j.MayHoldWrites(c, e, founders, stops)
	if why == "" {
		return nil
	}
	return &cke.Problem{Code: cke.CodeOlderStore, Node: j.Node.Name(),
		Message: "the store is older than the cluster: it says that the bootstrap is not complete, and " + why,
		Remedy:  fmt.Sprintf("bring back a newer copy of the store; only if there is none, and no client ever used the cluster, on %s: docker rm -f %s", j.Node.Address, c.Name)}
}

// leftAnswer is what a bootstrap member of an incarnation before the present one answers where its container was made for.
func (in *Input) leftAnswer(j cke.Join, c cke.Container) cke.EndpointStatus {
	url := in.Identity.AskForLeft(c, j.Node.Address)
	for _, e := range in.Seen.Etcd.Elsewhere {
		if url != "" && e.Join == c.Join && e.URL == url && in.Identity.LeftAnswers(e.EndpointStatus) {
			return e.EndpointStatus
		}
	}
	return cke.EndpointStatus{Join: j.ID, Problem: "not asked"}
}

// uncertified is why a bootstrap member that was started cannot prove who it is; nil when it can. It is given no other files, which
// could let one start that lost its disk. Nobody serves clients yet who would miss it.
func uncertified(in *Input, n cke.NodeStatus, j cke.Join) *cke.Problem {
	c, there := n.Of(j.ID)
	if !there || c.Certificates == nil || ClocksIn(in.Seen).wrong() {
		return nil
	}
	if trouble := c.Certificates.Trouble(in.Seen.ObservedAt); trouble != "" {
		return &cke.Problem{Code: cke.CodeCertificates, Node: j.Node.Name(), Message: trouble}
	}
	return nil
}

// forgotten is why a bootstrap member or a learner, whose first start is on record, has nothing to be started on; nil when it
// may have.
func forgotten(n cke.NodeStatus, j cke.Join) *cke.Problem {
	if j.StartedAt.IsZero() {
		return nil
	}
	gone := func(format string, args ...any) *cke.Problem {
		return &cke.Problem{Code: cke.CodeDataMissing, Node: j.Node.Name(), Message: fmt.Sprintf(format, args...)}
	}
	if _, there := n.VolumeOf(j); !there {
		return gone("its volume is gone")
	}
	c, there := n.Of(j.ID)
	switch {
	case !there:
		return gone("its container is gone")
	case c.Running(), c.Data != cke.DataMissing:
		return nil
	case c.StartedAt.IsZero():
		return gone("it never ran, and holds no log")
	case c.LastWords != "":
		return gone("etcd exited and left no data: %s", c.LastWords)
	}
	return gone("etcd exited and left no data")
}

// madeAgain reports whether a restored member that may have been started lacks its container only, as after a deletion that was
// canceled: it is made again, with arguments that start nothing without data.
func madeAgain(n cke.NodeStatus, j cke.Join) bool {
	_, volume := n.VolumeOf(j)
	_, container := n.Of(j.ID)
	return volume && !container
}

// sameFounders reports whether the bootstrap members are the declared control-plane nodes with the declared options.
func sameFounders(in *Input) bool {
	declared := foundersOf(in.Spec)
	joins := slices.Clone(in.Identity.Joins)
	slices.SortFunc(joins, func(a, b cke.Join) int { return strings.Compare(a.PeerURL(), b.PeerURL()) })
	return slices.EqualFunc(declared, joins, func(n cke.Node, j cke.Join) bool {
		return n.Address == j.Node.Address && n.Name() == j.Member && in.Spec.Options.Etcd.Equal(j.Etcd)
	})
}

func failedFounding(in *Input) bool {
	for _, resume := range []bool{false, true} {
		if _, failed := in.Failures[FailureKey(op.Bootstrap{Founders: foundersOf(in.Spec), Resume: resume})]; failed {
			return true
		}
	}
	return false
}

// foundersOf returns the declared control-plane nodes, sorted by peer URL.
func foundersOf(c cke.Cluster) []cke.Node {
	nodes := slices.Clone(c.ControlPlane())
	slices.SortFunc(nodes, func(a, b cke.Node) int {
		return strings.Compare(c.Options.Etcd.PeerURL(a), c.Options.Etcd.PeerURL(b))
	})
	return nodes
}

// nodesOf names the nodes of problems, each once.
func nodesOf(problems []cke.Problem) string {
	var all []string
	for _, p := range problems {
		if !slices.Contains(all, p.Node) {
			all = append(all, p.Node)
		}
	}
	return strings.Join(all, ", ")
}
