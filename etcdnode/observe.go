package etcdnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"cke"
)

// currentScope is what Update told last.
func (f *Fleet) currentScope() scope {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scope
}

// Observe returns facts that were asked for after the call, as far as nodes and members answer. It never fails.
//
// A node or member that answered before is waited for AnswerWait, one that is known to be silent not at all. The first
// observation gives everybody time to connect (DialLimit): then nothing is known of anybody. What comes later than
// that makes Changed receive.
func (f *Fleet) Observe(ctx context.Context) cke.Observation {
	select { // what was told before this call is looked at now
	case <-f.changed:
	default:
	}
	f.mu.Lock()
	sc := f.scope
	wait := AnswerWait
	if !f.everSeen {
		wait, f.everSeen = DialLimit, true
	}
	nodes := make([]*watch[nodeFacts], len(sc.nodes))
	for i, n := range sc.nodes {
		if a := f.nodes[n.Address]; a != nil {
			nodes[i] = a.watch.Load()
		}
	}
	members := make([]*watch[endpointFacts], len(sc.joins))
	for i, j := range sc.joins {
		if e := f.members[j.ClientURL()]; e != nil {
			members[i] = e.watch.Load()
		}
	}
	f.mu.Unlock()

	forNodes, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	// A look at a member ends with EndpointLimit at the latest, and then tells more than "no answer".
	forMembers, cancel := context.WithTimeout(ctx, EndpointLimit+EndpointLimit/4)
	defer cancel()
	nodeTickets, memberTickets := wantAll(nodes), wantAll(members)
	var o cke.Observation
	for i, n := range sc.nodes {
		o.Nodes = append(o.Nodes, f.nodeStatus(forNodes, n, nodes[i], nodeTickets[i]))
	}
	if f.newlyStopped(sc.joins, o.Nodes) {
		// What is to be done about it does not depend on what the others say, and without their leader they say it late.
		forMembers, cancel = context.WithTimeout(forMembers, StoppedWait)
		defer cancel()
	}
	var looks []endpointFacts
	for i, j := range sc.joins {
		facts := memberFacts(forMembers, members[i], memberTickets[i])
		facts.status.Join, facts.status.URL = j.ID, j.ClientURL()
		looks = append(looks, facts)
	}
	o.Etcd = etcdStatus(looks)
	o.ObservedAt = time.Now().UTC()
	return o
}

// newlyStopped reports whether a member's container is seen stopped that was not in the observation before.
func (f *Fleet) newlyStopped(joins []cke.Join, nodes []cke.NodeStatus) bool {
	stopped := map[cke.JoinID]bool{}
	for _, j := range joins {
		i := slices.IndexFunc(nodes, func(n cke.NodeStatus) bool { return n.Node.Address == j.Node.Address })
		if i < 0 || !nodes[i].Answered() {
			continue
		}
		if c, there := nodes[i].Of(j.ID); !there || !c.Running() {
			stopped[j.ID] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.stopped
	f.stopped = stopped
	for id := range stopped {
		if !before[id] {
			return true
		}
	}
	return false
}

func wantAll[T any](watches []*watch[T]) []uint64 {
	tickets := make([]uint64, len(watches))
	for i, w := range watches {
		if w != nil {
			tickets[i] = w.want()
		}
	}
	return tickets
}

// nodeStatus waits for a look at a node as long as ctx lasts.
func (f *Fleet) nodeStatus(ctx context.Context, n cke.Node, w *watch[nodeFacts], ticket uint64) cke.NodeStatus {
	if w == nil {
		return cke.NodeStatus{Node: n, Problem: problemOf(n, unreachable(n, errClosed), time.Now().UTC())}
	}
	facts, _, begun := w.last()
	if late := !begun.IsZero() && time.Since(begun) > AnswerWait; !late && w.wait(ctx.Done(), ticket) {
		facts, _, _ = w.last()
		facts.status.Node = n
		return facts.status
	}
	// It did not answer in time. What was last seen stays, with a problem.
	facts, _, begun = w.last()
	status := facts.status
	status.Node = n
	if status.Problem == nil {
		if begun.IsZero() {
			begun = time.Now().UTC()
		}
		status.Problem = f.lateProblem(n, begun)
		status.ClientPort, status.PeerPort = cke.PortUnknown, cke.PortUnknown
	}
	return status
}

// lateProblem is that of a node whose look has not ended.
func (f *Fleet) lateProblem(n cke.Node, begun time.Time) *cke.Problem {
	f.mu.Lock()
	a := f.nodes[n.Address]
	f.mu.Unlock()
	waited := time.Since(begun).Round(100 * time.Millisecond)
	if a != nil && a.link.now() != nil {
		return problemOf(n, &cke.Error{Code: cke.CodeEngine, What: fmt.Sprintf("the Docker engine on %s has not answered for %s", n.Name(), waited)}, begun)
	}
	return problemOf(n, unreachable(n, fmt.Errorf("not connected yet, after %s", waited)), begun)
}

// memberFacts waits for a look at a member as long as ctx lasts, and not at all for one that is known to be silent.
func memberFacts(ctx context.Context, w *watch[endpointFacts], ticket uint64) endpointFacts {
	if w == nil {
		return endpointFacts{status: cke.EndpointStatus{Problem: errClosed.Error()}}
	}
	facts, looks, _ := w.last()
	if facts.silent {
		return facts
	}
	if w.wait(ctx.Done(), ticket) {
		facts, _, _ = w.last()
		return facts
	}
	if looks == 0 || facts.status.Problem == "" {
		return endpointFacts{status: cke.EndpointStatus{Problem: said(context.DeadlineExceeded, EndpointLimit)}}
	}
	return facts
}

// etcdStatus puts together what the members said, each for itself.
func etcdStatus(looks []endpointFacts) cke.EtcdStatus {
	var s cke.EtcdStatus
	alarms := map[cke.Alarm]bool{}
	for _, l := range looks {
		s.Endpoints = append(s.Endpoints, l.status)
		s.Quorate = s.Quorate || l.status.Linearizable
		if better(l.source, s.MembersSource) {
			s.Members, s.MembersSource = l.members, l.source
		}
		for _, a := range l.alarms {
			alarms[a] = true
		}
	}
	for a := range alarms {
		s.Alarms = append(s.Alarms, a)
	}
	slices.SortFunc(s.Alarms, func(a, b cke.Alarm) int {
		return cmp.Or(cmp.Compare(a.MemberID, b.MemberID), cmp.Compare(a.Kind, b.Kind))
	})
	return s
}

// better reports whether a member list from a goes before one from b.
func better(a, b cke.MembersSource) bool {
	rank := map[cke.MembersSource]int{cke.MembersLocal: 1, cke.MembersLinearizable: 2}
	return rank[a] > rank[b]
}
