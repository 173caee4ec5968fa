package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

// adoptAsked: a member of cke is to take the place of a foreign member that is on a declared node. The foreign member leaves
// the list first, as two members cannot stand on one node; what carried it is stopped for good, and the node gets a
// member as every other one. Which container that is was told while the member was in the list; from then on no other
// one is touched.
func adoptAsked(in *Input, t cke.Task) Decision {
	if t.Adopt == nil || t.Adopt.Member.ID == "" {
		return refuse(t, cannot("the request does not name the member to adopt"))
	}
	for _, m := range in.Seen.Etcd.Members {
		if m.ID == t.Adopt.Member.ID {
			return takeOver(in, t, m)
		}
	}
	n, wanted := in.controlPlane(t.Node)
	if !wanted {
		return settled(t, fmt.Sprintf("member %s is no longer in the member list, and %s is no longer a control-plane node: what ran it stays as it is", nameOf(t.Adopt.Member), t.Node))
	}
	s := in.node(n)
	if !s.Answered() {
		return Decision{} // the task stays until what carried it is known to be down
	}
	for _, c := range s.Containers {
		if c.ID != "" && c.ID == t.Adopt.Container && !c.Down() {
			return adopt(in, t, n, t.Adopt.Member)
		}
	}
	return takePlace(in, t, cke.Join{Node: n})
}

// controlPlane returns the declared control-plane node of this name.
func (in *Input) controlPlane(name string) (cke.Node, bool) {
	n, known := in.Spec.Node(name)
	return n, known && n.ControlPlane
}

func adopt(in *Input, t cke.Task, n cke.Node, m cke.Member) Decision {
	return Decision{Operation: op.AdoptMember{Node: in.node(n).Node, Member: m, Container: t.Adopt.Container}, Part: true,
		Reason: askedFor(t, fmt.Sprintf("member %s of %s is replaced by one that cke adds", nameOf(m), n.Name()))}
}

// takeOver removes a foreign member that is in the list, unless something is in the way: of that, or of adding a member after.
func takeOver(in *Input, t cke.Task, m cke.Member) Decision {
	n, wanted := in.controlPlane(t.Node)
	if !wanted {
		if _, known := in.Spec.Node(t.Node); !known {
			return refuse(t, unknownNode(in, t.Node))
		}
		why := cannot("%s is not a control-plane node, so no new member would replace its member", t.Node)
		why.Try = "give it control_plane: true, and: ckecli cluster set FILE"
		return refuse(t, why)
	}
	if why := notAdoptable(in, n, m); why != nil {
		return refuse(t, why)
	}
	if why := carriedElsewhere(in, t, n, m); why != nil {
		return refuse(t, why)
	}
	if g := mayRemove(in, m); g != open {
		return refuseGate(t, fmt.Sprintf("adopting the member of %s would lose quorum", n.Name()), g)
	}
	return adopt(in, t, n, m)
}

// notAdoptable is why the member cannot give its place to one of cke now; nil when it can.
func notAdoptable(in *Input, n cke.Node, m cke.Member) *cke.Error {
	if j := in.joinOf(m); j != nil {
		return cannot("member %s of %s is not a foreign member: it is on record", nameOf(m), j.Node.Name())
	}
	if hostOf(m) != n.Address {
		return cannot("member %s is at %s, not on %s", nameOf(m), hostOf(m), n.Name())
	}
	if _, carries := in.Identity.On(n); carries {
		return cannot("%s already has a membership, so foreign member %s can only be removed", n.Name(), nameOf(m))
	}
	for _, other := range in.strangers() {
		if other.ID != m.ID && hostOf(other) == n.Address {
			return cannot("more than one foreign member is on %s: %s and %s; remove all but one with etcdctl", n.Name(), nameOf(m), nameOf(other))
		}
	}
	if d := in.drained(n); d != nil {
		return &cke.Error{Code: cke.CodeDrain, What: d.Text(), Unchanged: true, Try: "ckecli node undrain " + n.Name()}
	}
	if s := in.node(n); !s.Answered() {
		return &cke.Error{Code: cke.CodeCannot, What: n.Name() + " does not answer, so its member cannot be replaced", Facts: []string{s.Problem.Message}, Unchanged: true}
	}
	if leadsUnheard(in, m) {
		return op.LeadsAlone(m, nil)
	}
	return nil
}

// leadsUnheard reports whether the others say that the member leads, and it does not answer cke.
func leadsUnheard(in *Input, m cke.Member) bool {
	return !answers(in, m) && slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool {
		return e.Healthy() && e.LeaderID == m.ID
	})
}

// answers reports whether the member itself answers.
func answers(in *Input, m cke.Member) bool {
	return slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool { return e.MemberID == m.ID && e.Problem == "" })
}

// carriedElsewhere is why cke cannot tell, or not stop, what carries the member, or why no other one could be started
// after it; nil when nothing is in the way.
func carriedElsewhere(in *Input, t cke.Task, n cke.Node, m cke.Member) *cke.Error {
	s := in.node(n)
	carriers := s.Carriers(m.PeerURLs)
	urls := strings.Join(m.PeerURLs, ", ")
	switch {
	case len(carriers) > 1:
		return byHand(n, m, fmt.Sprintf("containers %s on %s all name %s as their peer URL", containerNames(carriers), n.Name(), urls))
	case len(carriers) == 1 && carriers[0].ID != t.Adopt.Container:
		why := cannot("the member of %s runs in container %s, not in what ran it when this was requested", n.Name(), carriers[0].Name)
		why.Try = "ckecli etcd adopt " + n.Name()
		return why
	case len(carriers) == 1 && carriers[0].AutoRemove:
		return byHand(n, m, fmt.Sprintf("container %s on %s was started with --rm: its engine would remove it, with its anonymous volumes, once it stops", carriers[0].Name, n.Name()))
	case answers(in, m) && (carriers == nil || !carriers[0].Running() && carriers[0].State != cke.ContainerRestarting):
		return byHand(n, m, fmt.Sprintf("member %s serves, and no running container on %s names %s as its peer URL, so cke cannot determine what runs it", nameOf(m), n.Name(), urls))
	}
	if carriers != nil {
		s.ClientPort, s.PeerPort = freed(m, in.Spec.Options.Etcd.ClientPort, s.ClientPort), freed(m, in.Spec.Options.Etcd.PeerPort, s.PeerPort)
	}
	found := slices.Concat(foreign(s, t.Adopt.Container), takenPorts(in, s))
	if found == nil {
		return nil
	}
	why := cannot("%s cannot take a new member", n.Name())
	for _, p := range found {
		why.Facts = append(why.Facts, p.Message, p.Remedy)
	}
	return why
}

// byHand is the refusal to stop what cke cannot tell or keep.
func byHand(n cke.Node, m cke.Member, what string) *cke.Error {
	why := cannot("%s", what)
	for _, text := range m.PeerURLs {
		if _, port := cke.HostPort(text); port != 0 {
			why.Facts = append(why.Facts, fmt.Sprintf("on %s: ss -ltnp sport = :%d shows the process; stop it there, make sure that it does not start by itself, and repeat the request", n.Address, port))
		}
	}
	why.Try = "ckecli etcd adopt " + n.Name()
	return why
}

// freed is how a port will be without the member: closed where the member's own URLs say that it listens there.
func freed(m cke.Member, port int, now cke.PortState) cke.PortState {
	own := slices.ContainsFunc(slices.Concat(m.PeerURLs, m.ClientURLs), func(text string) bool {
		_, listens := cke.HostPort(text)
		return listens == port
	})
	if own && now == cke.PortOpen {
		return cke.PortClosed
	}
	return now
}

func containerNames(all []cke.Container) string {
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	return and(names)
}
