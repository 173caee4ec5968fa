package etcdnode

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"cke"
)

// currentScope is what Update told last.
func (f *Fleet) currentScope() scope {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scope
}

// Observe returns facts that were read after the call, as far as nodes and members answer. It never fails.
//
// It waits answerWait for a node or member that answered before, and not at all for one that is known to be silent.
// The first observation waits dialLimit for all, as nothing is known about them yet. Later answers make Changed
// receive.
func (f *Fleet) Observe(ctx context.Context) cke.Observation {
	o, _ := f.observe(ctx, true)
	return o
}

// Glance is Observe, but does not ask again for what cannot have changed as far as is known; whole: it asked for everything.
func (f *Fleet) Glance(ctx context.Context) (o cke.Observation, whole bool) {
	return f.observe(ctx, false)
}

func (f *Fleet) observe(ctx context.Context, all bool) (o cke.Observation, whole bool) {
	select { // what Update set before this call is observed now
	case <-f.changed:
	default:
	}
	f.mu.Lock()
	sc := f.scope
	wait := allowed(answerWait)
	if !f.everSeen {
		wait, f.everSeen = allowed(dialLimit), true
	}
	nodes := make([]*watch[nodeFacts], len(sc.nodes))
	for i, n := range sc.nodes {
		if a := f.nodes[n.Address]; a != nil {
			nodes[i] = a.watch.Load()
		}
	}
	members := make([]*watch[endpointFacts], len(sc.asked))
	for i, url := range sc.asked {
		if e := f.members[url]; e != nil {
			members[i] = e.watch.Load()
		}
	}
	f.mu.Unlock()

	asked := time.Now()
	l := looks{scope: sc, nodes: nodes, tickets: wantAll(nodes, all)}
	memberTickets := wantAll(members, all)
	forNodes, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for i, n := range sc.nodes {
		l.facts = append(l.facts, f.nodeStatus(forNodes, n, nodes[i], l.tickets[i]))
	}
	// An observation of a member ends with endpointLimit at the latest, and then tells more than "no answer".
	forMembers, cancel := context.WithTimeout(ctx, allowed(endpointLimit+endpointLimit/4))
	var wg sync.WaitGroup
	cut := false
	wg.Go(func() {
		defer cancel()
		cut = f.patience(forMembers, l, asked)
	})
	var facts []endpointFacts
	inVain := false
	whole = true
	for i, url := range sc.asked {
		m, answered := memberFacts(forMembers, members[i], memberTickets[i], asked)
		if m.status.URL = url; i < len(sc.joins) {
			m.status.Join = sc.joins[i].ID
		}
		facts = append(facts, m)
		inVain, whole = inVain || !answered, whole && !m.quiet
	}
	cancel()
	wg.Wait()
	etcd := etcdStatus(facts, sc)
	etcd.Endpoints = append(etcd.Endpoints, f.strangers(ctx, etcd.Members, sc)...)
	found := l.now()
	seen := statusesOf(found)
	whole = whole && !slices.ContainsFunc(found, func(n nodeFacts) bool { return n.quiet })
	etcd = f.beside(ctx, etcd, cke.ToAskElsewhere(sc.cluster, seen, sc.joins), slices.Concat(sc.beside, etcd.NotAsked(sc.unlisted)))
	o = cke.Observation{Nodes: seen, Etcd: etcd, Partial: cut && inVain, ObservedAt: time.Now().UTC()}
	if whole { // what is seen stopped in another one is seen again in the next
		f.mu.Lock()
		f.stopped = stoppedMembers(sc.joins, o.Nodes)
		f.mu.Unlock()
	}
	return o, whole
}

// looks are those at nodes in one observation.
type looks struct {
	scope   scope
	nodes   []*watch[nodeFacts] // as scope.nodes; nil: there is none
	tickets []uint64            // of the looks that were asked for
	facts   []nodeFacts         // what they reported, as far as they were waited for
}

// now returns what has been told by now, also by looks that started or ended later.
func (l looks) now() []nodeFacts {
	all := slices.Clone(l.facts)
	for i, w := range l.nodes {
		if w == nil {
			continue
		}
		if facts, ended, _ := w.last(); ended >= l.tickets[i] {
			all[i] = facts
			all[i].status.Node = l.scope.nodes[i]
		}
	}
	return all
}

func statusesOf(all []nodeFacts) []cke.NodeStatus {
	statuses := make([]cke.NodeStatus, len(all))
	for i, n := range all {
		statuses[i] = n.status
	}
	return statuses
}

// patience returns true when members need not be waited for any more: stoppedWait after they were asked, once a member's
// container is seen stopped that was not in the observation before; false when ctx ends. What is to be done about that does not depend on
// what the others say, and without their leader they say it late. The connection of a member that dies breaks before
// its engine tells, so what the engines tell during the wait counts as well.
func (f *Fleet) patience(ctx context.Context, l looks, asked time.Time) bool {
	for {
		f.mu.Lock()
		news, before := f.news, f.stopped
		f.mu.Unlock()
		for id := range stoppedMembers(l.scope.joins, statusesOf(l.now())) {
			if !before[id] {
				return slept(ctx, stoppedWait-time.Since(asked))
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// slept returns true after d, false when ctx ends first.
func slept(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// stoppedMembers are those whose container is seen stopped or missing, unless the engine itself restarts it.
func stoppedMembers(joins []cke.Join, nodes []cke.NodeStatus) map[cke.JoinID]bool {
	stopped := map[cke.JoinID]bool{}
	for _, j := range joins {
		i := slices.IndexFunc(nodes, func(n cke.NodeStatus) bool { return n.Node.Address == j.Node.Address })
		if i < 0 || !nodes[i].Answered() {
			continue
		}
		if c, there := nodes[i].Of(j.ID); !there || !c.Running() && c.State != cke.ContainerRestarting {
			stopped[j.ID] = true
		}
	}
	return stopped
}

// wantAll asks for a look at each; all: at everything of it.
func wantAll[T any](watches []*watch[T], all bool) []uint64 {
	tickets := make([]uint64, len(watches))
	for i, w := range watches {
		if w == nil {
			continue
		}
		if all {
			w.doubt()
		}
		tickets[i] = w.glance()
	}
	return tickets
}

// nodeStatus waits for an observation of a node as long as ctx lasts.
func (f *Fleet) nodeStatus(ctx context.Context, n cke.Node, w *watch[nodeFacts], ticket uint64) nodeFacts {
	if w == nil {
		return nodeFacts{status: cke.NodeStatus{Node: n, Problem: problemOf(n, unreachable(n, errClosed), time.Now().UTC())}}
	}
	facts, _, begun := w.last()
	if late := !begun.IsZero() && time.Since(begun) > allowed(answerWait); late {
		w.miss(ticket)
	} else if w.wait(ctx.Done(), ticket) {
		facts, _, _ = w.last()
		facts.status.Node = n
		return facts
	}
	// It did not answer in time. What was last seen stays, with a problem.
	facts, _, begun = w.last()
	status := &facts.status
	status.Node = n
	if status.Problem == nil {
		if begun.IsZero() {
			begun = time.Now().UTC()
		}
		status.Problem = f.lateProblem(n, begun)
		status.ClientPort, status.PeerPort = cke.PortUnknown, cke.PortUnknown
	}
	return facts
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

// memberFacts waits for an observation of a member as long as ctx lasts, and not at all for one that is known to be silent. It
// returns false when it waited in vain.
func memberFacts(ctx context.Context, w *watch[endpointFacts], ticket uint64, asked time.Time) (facts endpointFacts, answered bool) {
	if w == nil {
		return endpointFacts{status: cke.EndpointStatus{Problem: errClosed.Error()}}, true
	}
	facts, looks, _ := w.last()
	if facts.silent {
		return facts, true
	}
	if w.wait(ctx.Done(), ticket) {
		facts, _, _ = w.last()
		return facts, true
	}
	if looks == 0 || facts.status.Problem == "" {
		return endpointFacts{status: cke.EndpointStatus{Problem: said(context.DeadlineExceeded, time.Since(asked).Round(10*time.Millisecond))}}, false
	}
	return facts, false
}

// etcdStatus puts together what the members said, each for itself. What one of another cluster says, or one that was put aside, tells
// nothing about this one, but that writes are stopped in the one that a restore is to replace.
func etcdStatus(looks []endpointFacts, sc scope) cke.EtcdStatus {
	var s cke.EtcdStatus
	alarms := map[cke.Alarm]bool{}
	for _, l := range looks {
		s.Endpoints = append(s.Endpoints, l.status)
		if sc.clusterID != "" && l.status.ClusterID != "" && l.status.ClusterID != sc.clusterID {
			for _, a := range l.alarms {
				if a.StopsWrites() && sc.stopped(l.status.ClusterID) {
					alarms[a] = true
				}
			}
			continue
		}
		if cke.IsApart(sc.joins, l.status) {
			continue
		}
		s.Quorate = s.Quorate || l.status.Linearizable
		s = s.Takes(l.members, l.source, l.status.RaftApplied)
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
