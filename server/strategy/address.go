package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
)

// changeAddress: a member's machine was declared with another address, or the cluster with other ports. It is the same
// machine only if the volume of this very membership is on it; else the node is a new one, as any other.
func changeAddress(in *Input) verdict {
	var waiting verdict
	for j := range inTurn(in) {
		m, there := in.listed(j)
		if !there || m.Learner || in.keptOut(j) {
			continue
		}
		to, what := in.addressed(j)
		if c, _ := in.node(to).Of(j.ID); in.votesElsewhere(c) { // a freeze for it was lifted: where it serves is still not on record
			if f := olderStore(in); !waiting.given() && f != nil {
				waiting = note(fmt.Sprintf("%s stays where it is: %s", j.Node.Name(), f.problem.Message), f.problem)
			}
			continue
		}
		if what == "" && in.misplaced(j, m) {
			why := fmt.Sprintf("etcd's member list has %s for %s, where it cannot be reached, and ", strings.Join(m.PeerURLs, " "), j.Node.Name())
			g := mayMove(in, m)
			if g == open {
				return act(move(in, j, in.reached(j).Node, j.ClientPort, j.PeerPort), why+"it cannot be removed yet").voluntary()
			}
			if !waiting.given() {
				waiting = note(why+"moving it to its own ports waits: "+string(g), cke.Problem{Code: codeOfGate(in, m), Node: j.Node.Name(), Message: string(g)})
			}
			continue
		}
		if what == "" || ownPending(in) || in.drained(to) != nil {
			continue
		}
		o := in.Spec.Options.Etcd
		if p := portInTheWay(in, j, to); p != nil {
			if !waiting.given() {
				waiting = note(fmt.Sprintf("%s is declared with %s, and its member cannot move there: %s", to.Name(), what, p.Message), *p)
			}
			continue
		}
		if g := mayMove(in, m); g != open {
			if !waiting.given() {
				waiting = note(fmt.Sprintf("%s is declared with %s, and moving its member there waits: %s", to.Name(), what, g),
					cke.Problem{Code: codeOfGate(in, m), Node: to.Name(), Message: string(g)})
			}
			continue // one that is away may be what the others wait for
		}
		return act(move(in, j, to, o.ClientPort, o.PeerPort), fmt.Sprintf("%s is declared with %s; its data is there", to.Name(), what)).voluntary()
	}
	return waiting
}

// move lets a member be reached elsewhere, with the version that it runs: an older store may have another one on record.
func move(in *Input, j cke.Join, to cke.Node, clientPort, peerPort int) op.ChangeAddress {
	c := op.ChangeAddress{Join: j, Node: to, ClientPort: clientPort, PeerPort: peerPort, Gap: in.fewVoters()}
	c.PeerTLS = in.takesPeerTLS(j)
	c.Runs, c.Image = runsInstead(in, j)
	return c
}

// takesPeerTLS reports whether a member still speaks to its peers as those of an old cluster did, which have left.
func (in *Input) takesPeerTLS(j cke.Join) bool { return j.PlainPeers && in.importing() == nil }

// portInTheWay is why a member cannot have the declared ports on a node: another cluster has one of them, or something listens.
func portInTheWay(in *Input, j cke.Join, to cke.Node) *cke.Problem {
	o, s := in.Spec.Options.Etcd, in.node(to)
	if p := s.PortTaken(o.ClientPort, o.PeerPort); p != nil {
		return p
	}
	for port, state := range map[int]cke.PortState{o.ClientPort: s.ClientPort, o.PeerPort: s.PeerPort} {
		if state == cke.PortOpen && port != j.ClientPort && port != j.PeerPort {
			return &cke.Problem{Code: cke.CodePortTaken, Node: to.Name(), Message: fmt.Sprintf("something listens on port %d", port),
				Remedy: fmt.Sprintf("on %s: ss -ltnp sport = :%d shows it; stop it or choose another port", to.Address, port)}
		}
	}
	return nil
}

// addressed is where a member is to be reached, and what of that is new; empty: nothing is, or it is not known to be
// the same machine.
func (in *Input) addressed(j cke.Join) (to cke.Node, what string) {
	if n, moved := in.moved(j); moved {
		if in.holds(n, j) == yes {
			return n, fmt.Sprintf("address %s instead of %s", n.Address, j.Node.Address)
		}
		return n, ""
	}
	n, wanted := in.declared(j)
	if !wanted || in.holds(n, j) != yes {
		return n, ""
	}
	m, there := in.listed(j)
	switch o := in.Spec.Options.Etcd; {
	case j.ClientPort != o.ClientPort || j.PeerPort != o.PeerPort:
		return n, fmt.Sprintf("ports %d and %d instead of %d and %d", o.ClientPort, o.PeerPort, j.ClientPort, j.PeerPort)
	case in.takesPeerTLS(j):
		return n, "peers that use TLS, now that the old cluster has left"
	case there && listedElsewhere(m, j):
		return n, fmt.Sprintf("peer URL %s, and etcd's list has %s", j.PeerURL(), strings.Join(m.PeerURLs, " "))
	case in.ranElsewhere(j):
		return n, "URL " + j.ClientURL() + ", and its member still runs elsewhere"
	}
	return n, ""
}

// listedElsewhere reports whether etcd's list has a member at another peer URL than its own.
func listedElsewhere(m cke.Member, j cke.Join) bool {
	return len(m.PeerURLs) > 0 && !slices.Equal(m.PeerURLs, []string{j.PeerURL()})
}

// misplaced reports whether the list has a member that is to go, and cannot or is to wait for others, at another URL than its own: its move
// was cut off, and the file wants it no more. Whoever is to take its place would ask for the cluster there.
func (in *Input) misplaced(j cke.Join, m cke.Member) bool {
	_, wanted := in.declared(j)
	_, moved := in.moved(j)
	return !wanted && !moved && in.holds(j.Node, j) == yes && listedElsewhere(m, j) &&
		!ownPending(in) && (mayRemove(in, m) != open || healthyMember(in, m) && lacking(in, m) != nil)
}

// ranElsewhere reports whether a member runs, does not answer, and its container was made for another place than the one on
// record, or it told the others another client URL when it started: a start with the old address arrived late, or an operator
// started the old container.
func (in *Input) ranElsewhere(j cke.Join) bool {
	m, there := in.listed(j)
	s := in.node(j.Node)
	c, _ := s.Of(j.ID)
	told := len(m.ClientURLs) > 0 && !slices.Contains(m.ClientURLs, j.ClientURL())
	return there && (told || !c.StandsAt(j)) && c.State == cke.ContainerRunning && !healthyMember(in, m)
}

// servesAnywhere reports whether a member is healthy, or serves where its container was made for and it is not on record: it is no member that
// may be removed or stopped as one that does not serve.
func servesAnywhere(in *Input, m cke.Member) bool {
	return healthyMember(in, m) || in.servesElsewhere(func(e cke.Elsewhere) bool { return e.MemberID == m.ID })
}

// servesElsewhere reports whether a member of this cluster serves linearizable reads where it is not on record.
func (in *Input) servesElsewhere(is func(cke.Elsewhere) bool) bool {
	inc := in.Identity.Incarnation
	return inc != nil && inc.ClusterID != "" && slices.ContainsFunc(in.Seen.Etcd.Elsewhere, func(e cke.Elsewhere) bool {
		return e.Problem == "" && e.Linearizable && e.ClusterID == inc.ClusterID && is(e)
	})
}

// moved returns the declared control-plane node that has a membership's name and another address, where no declared node
// has the old one.
func (in *Input) moved(j cke.Join) (cke.Node, bool) {
	to := -1
	for i, n := range in.Spec.Nodes {
		if n.Address == j.Node.Address {
			return cke.Node{}, false
		}
		if n.ControlPlane && n.Name() == j.Node.Name() {
			to = i
		}
	}
	if to < 0 {
		return cke.Node{}, false
	}
	return in.Spec.Nodes[to], true
}

// answer is what an observation of a node says.
type answer int

const (
	unknown answer = iota
	yes
	no
)

// holds reports whether the volume of a membership is on a node.
func (in *Input) holds(n cke.Node, j cke.Join) answer {
	s := in.node(n)
	if !s.Answered() {
		return unknown
	}
	if _, there := s.VolumeOf(j); there {
		return yes
	}
	return no
}

// moving reports whether a membership's machine has, or may have, another address now. A node that does not answer may
// be that machine.
func (in *Input) moving(j cke.Join) (cke.Node, bool) {
	n, moved := in.moved(j)
	return n, moved && in.holds(n, j) != no
}

// awaits reports whether a node has, or may have, the data of a membership that is on record elsewhere.
func (in *Input) awaits(n cke.Node) bool {
	for _, j := range in.Identity.Joins {
		if to, moving := in.moving(j); moving && to.Address == n.Address {
			return true
		}
	}
	return false
}

// recordedElsewhere returns the membership that a node has, or may have, while it is on record at another address: by the container or
// the volume, by the serial of the machine, or since the node is declared instead of the one on record.
func (in *Input) recordedElsewhere(n cke.Node) (cke.Join, bool) {
	s := in.node(n)
	for _, j := range in.Identity.Joins {
		if j.Node.Address == n.Address {
			continue
		}
		_, container := s.Of(j.ID)
		_, volume := s.VolumeOf(j)
		if to, moving := in.moving(j); container || volume || j.Node.SameSerial(n) || moving && to.Address == n.Address {
			return j, true
		}
	}
	return cke.Join{}, false
}

// notMoved is why a node stays up as long as its member is on record at another address; empty: none is.
func (in *Input) notMoved(n cke.Node) string {
	j, is := in.recordedElsewhere(n)
	if !is {
		return ""
	}
	return fmt.Sprintf("its member is on record at %s, and has to move first", j.Node.Address)
}

// ownPending reports whether a member of ours was added and does not vote yet. It goes first: it is on its way, and
// keeps everything else waiting.
func ownPending(in *Input) bool {
	return slices.ContainsFunc(in.Seen.Etcd.Members, func(m cke.Member) bool {
		return (m.Learner || m.Name == "") && in.joinOf(m) != nil
	})
}

// mayMove asks whether a member may stop for a moment. One that is away anyway costs nothing.
func mayMove(in *Input, m cke.Member) gate {
	if healthyMember(in, m) {
		return mayInterrupt(in, m)
	}
	if tallyOf(in).Pending > 0 {
		return "a member was added and has not caught up yet"
	}
	return open
}
