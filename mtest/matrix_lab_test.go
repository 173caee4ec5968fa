package mtest_test

import (
	"cmp"
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"cke"
	"cke/clusterfile"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// wholeMatrix tells to run every story of the matrix, not only the quick ones.
var wholeMatrix = flag.Bool("matrix", false, "run every story of the matrix of changes and faults under load, which takes an hour")

// allStories runs every story but those of the whole matrix.
var allStories = flag.Bool("stories", false, "run every story but those that only -matrix runs, which takes half an hour")

// extra skips a story, unless all are run: the others show the main job and what must never go wrong, in some minutes.
func extra(t *testing.T) {
	t.Helper()
	if !*allStories && !*wholeMatrix {
		t.Skip("make stories (-stories) runs it")
	}
}

// rare skips a story that takes long, and is about what seldom happens, unless the whole matrix is run.
func rare(t *testing.T) {
	t.Helper()
	if !*wholeMatrix {
		t.Skip("it is told by make matrix (-matrix)")
	}
}

// matrixLimit bounds one story of the matrix.
const matrixLimit = 15 * time.Minute

// chapter is one story of the matrix: what happens to a cluster while a load runs.
type chapter struct {
	name string
	// nodes of the lab, of which the first members carry the cluster.
	nodes, members int
	// quick: it is in every run of the tests on real nodes; often: by make stories; the others only with -matrix.
	quick, often bool
	// version of etcd to begin with; empty: the rig's.
	version string
	// limit of the story; 0: matrixLimit.
	limit time.Duration
	tell  func(*loaded)
}

// loaded is a cluster under load: a story whose nodes are all there are, members or not.
type loaded struct {
	*story
	daemon *rig.Daemon
	// file is the cluster file that holds now. Its members are the control-plane nodes; the others are spare.
	file cke.Cluster
	// before is the status as it was founded.
	before cke.Status
	load   *rig.Load
	// longest is the longest time without an acknowledged write in what was measured so far.
	longest time.Duration
}

// TestLabMatrix tells what happens to a cluster in a real life, while clients read and write: no acknowledged write may
// be lost, no read stale, and there is one cluster with equal data in the end.
func TestLabMatrix(t *testing.T) {
	for _, all := range [][]chapter{changes, drifts, faults, spaces, moves, hangs, crashes} {
		for _, c := range all {
			if c.quick || c.often && *allStories || *wholeMatrix {
				t.Run(c.name, func(t *testing.T) { c.run(t) })
			}
		}
	}
}

func (c chapter) run(t *testing.T) {
	m := &loaded{story: newStory(t, c.nodes)}
	var cancel context.CancelFunc
	m.ctx, cancel = context.WithTimeout(t.Context(), cmp.Or(c.limit, matrixLimit))
	t.Cleanup(cancel)
	m.file = m.spec()
	m.members(span(c.members)...)
	if c.version != "" {
		m.file.Options.Etcd.Version = c.version
		m.archive(c.version)
	}
	m.daemon = m.story.daemon("cke1")
	m.setKey()
	m.under(m.story, c.tell)
}

// under founds the cluster, runs the load while tell is told, and checks it all in the end.
func (m *loaded) under(s *story, tell func(*loaded)) {
	m.story = s
	m.set(m.file)
	m.before = m.settled()
	var err error
	m.load, err = rig.StartLoad(m.urls(), m.clientTLS())
	m.must(err)
	m.Cleanup(m.load.Stop)
	m.writes()
	m.load.TakeGap()
	began := time.Now()
	tell(m)
	m.writes()
	took, gap := since(began), max(m.longest, m.load.TakeGap())
	st := m.settled()
	if st.ClusterID != m.before.ClusterID || st.Incarnation != m.before.Incarnation {
		m.Errorf("another cluster: %s of %s, before %s of %s", st.ClusterID, st.Incarnation, m.before.ClusterID, m.before.Incarnation)
	}
	var urls []string
	for _, member := range st.Members {
		urls = append(urls, "https://"+member.Address+":2379")
	}
	verdict, err := m.load.Finish(m.within(readyLimit), urls, m.before.ClusterID)
	m.must(err)
	m.Logf("took %s; the longest time without an acknowledged write: %s; %s", took, gap.Round(time.Millisecond), verdict)
}

// writes waits until clients have written for a while.
func (m *loaded) writes() {
	m.Helper()
	m.must(m.load.Await(m.within(seenLimit), 50))
}

// measured returns and tells the longest time without an acknowledged write while f runs, and lets clients write after it.
func (m *loaded) measured(name string, f func()) time.Duration {
	m.Helper()
	m.longest = max(m.longest, m.load.TakeGap())
	began := time.Now()
	f()
	took := since(began)
	m.writes()
	gap := m.load.TakeGap()
	m.longest = max(m.longest, gap)
	m.Logf("%s: took %s, the longest time without an acknowledged write: %s", name, took, gap.Round(time.Millisecond))
	return gap
}

// members declares which of the nodes are control-plane nodes.
func (m *loaded) members(indices ...int) {
	for i := range m.file.Nodes {
		m.file.Nodes[i].ControlPlane = slices.Contains(indices, i)
	}
}

// declared is the number of members that the file asks for.
func (m *loaded) declared() int {
	n := 0
	for _, node := range m.file.Nodes {
		if node.ControlPlane {
			n++
		}
	}
	return n
}

// settled waits until the cluster is as the file says, with all its members, and returns its status.
func (m *loaded) settled() cke.Status {
	m.Helper()
	return m.await("the cluster to be as declared", 2*readyLimit, func(st cke.Status) bool {
		return rig.Ready(st) && st.Ready == m.declared() && len(st.Members) == m.declared()
	})
}

// apply stores the file and waits until the cluster is as it says.
func (m *loaded) apply() cke.Status {
	m.Helper()
	return m.follows(m.set(m.file))
}

// adopt takes the stored file as the present one: ckecli changed it.
func (m *loaded) adopt() {
	m.Helper()
	file, _, err := clusterfile.ParseCluster("cluster.yml", []byte(m.do("cluster", "get")))
	m.must(err)
	m.file = file
}

// argument changes how members run: each is restarted.
func (m *loaded) argument(quota string) {
	m.file.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=" + quota}
}

// role returns a node that carries a member of this role now.
func (m *loaded) role(role string) lab.Node {
	m.Helper()
	st := m.settled()
	i := slices.IndexFunc(st.Members, func(member cke.MemberStatus) bool { return member.Role == role })
	if i < 0 {
		m.Fatalf("no %s: %+v", role, st.Members)
	}
	n, err := m.Lab.Node(st.Members[i].Name)
	m.must(err)
	return n
}

// fresh waits until the status tells what was seen after now.
func (m *loaded) fresh() cke.Status {
	m.Helper()
	now := time.Now()
	return m.await("a fresh look", seenLimit, func(st cke.Status) bool { return st.ObservedAt.After(now) })
}

// allServe waits until a look after now tells that every declared member serves: one whose disk is busy may not at once.
func (m *loaded) allServe() cke.Status {
	m.Helper()
	now := time.Now()
	return m.await("all to serve", readyLimit, func(st cke.Status) bool { return st.ObservedAt.After(now) && st.Ready == m.declared() })
}

// span counts from 0 to n-1.
func span(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i)
	}
	return all
}
