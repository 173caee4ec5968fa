package etcdnode

import (
	"context"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"cke"
)

// settledMember is a fleet of one node and its member, of which all is known: a glance asks for little.
func settledMember(t *testing.T) (f *Fleet, n memberNode, member *fakeEtcd) {
	t.Helper()
	ca := NewTestCA(t)
	client := ca.TLS("cke")
	member = newFakeEtcd(t, ca.TLS("server", "127.0.0.1"))
	n = memberNode{newFakeNode(t, "127.0.0.1", "ed25519", "ed25519"), []cke.Join{joinOn(member, "a")}}
	n.show(cke.ContainerRunning)
	archive, err := archiveOf(ca.MemberFiles("127.0.0.1", time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	n.engine.answer("GET /containers/a/archive", string(archive))
	n.engine.answer("HEAD /containers/a/archive", "")
	f = fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		c.Probe = time.Hour
		c.ClientTLS = func(context.Context) (*tls.Config, error) { return client, nil }
	}, n.fakeNode)
	f.Update(clusterOf(n.fakeNode), cke.Identity{Joins: n.joins})
	awaitProblem(t, f, "", patience)
	glanceUntil(t, f, "little is asked", func(cke.Observation, bool) bool {
		ofNode, _, _ := f.nodes[n.node.Address].watch.Load().last()
		ofMember, _, _ := f.members[member.url()].watch.Load().last()
		return ofNode.quiet && ofMember.quiet
	})
	return f, n, member
}

// glanceUntil glances until it sees something.
func glanceUntil(t *testing.T, f *Fleet, what string, seen func(o cke.Observation, whole bool) bool) {
	t.Helper()
	for deadline := time.Now().Add(min(patience, surveyEvery/2)); ; { // everything is asked once a minute
		o, whole := f.Glance(t.Context())
		if seen(o, whole) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited until %s; whole %v, %+v", what, whole, o)
		}
	}
}

// moreThan returns what was asked beside that.
func moreThan(calls []string, one string) []string {
	return slices.DeleteFunc(calls, func(c string) bool { return c == one })
}

// Requirement N13: the probe is the fallback of events.
func TestGlance_AsksOnlyWhatNoEventTells(t *testing.T) {
	t.Parallel()
	f, n, member := settledMember(t)
	lists, members := n.engine.asked("GET /containers/json"), member.count("members")
	before := f.Observe(t.Context())
	if n.engine.asked("GET /containers/json") != lists+1 || member.count("members") != members+1 {
		t.Error("Observe did not ask for everything")
	}
	calls, members, reads, statuses := len(n.engine.calls()), member.count("members"), member.count("linearizable"), member.count("status")
	for i := range 3 {
		o, whole := f.Glance(t.Context())
		if whole || o.Nodes[0].Problem != nil || len(o.Nodes[0].Containers) != 1 || o.Nodes[0].Containers[0].State != cke.ContainerRunning {
			t.Fatalf("glance %d: whole %v, %+v", i, whole, o)
		}
		if !o.Nodes[0].SeenAt.After(before.Nodes[0].SeenAt) || !o.Etcd.Quorate || len(o.Etcd.Members) != 1 || o.Etcd.MembersSource != cke.MembersLinearizable {
			t.Errorf("glance %d: seen at %v, etcd %+v", i, o.Nodes[0].SeenAt, o.Etcd)
		}
		before = o
	}
	asked := n.engine.calls()[calls:]
	if more := moreThan(slices.Clone(asked), "HEAD /containers/a/archive"); len(more) > 0 || len(asked) != 3 {
		t.Errorf("three glances asked the engine %v", asked)
	}
	if m, r, s := member.count("members")-members, member.count("linearizable")-reads, member.count("status")-statuses; m != 0 || r != 3 || s != 3 {
		t.Errorf("three glances asked the member for its list %d times, read %d times, for its status %d times", m, r, s)
	}
}

// Whatever happens on a node, the next glance asks the engine for everything.
func TestGlance_AsksTheEngineForEverythingWhenSomethingHappens(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(f *Fleet, n memberNode, member *fakeEtcd){
		"an event": func(_ *Fleet, n memberNode, _ *fakeEtcd) { n.tellDeath(n.joins[0]) },
		"new limits": func(_ *Fleet, n memberNode, _ *fakeEtcd) {
			n.engine.events <- `{"Type":"container","Action":"update","Actor":{"ID":"a","Attributes":{"name":"etcd-cke.a","image":"e:1","cke.cluster":"demo"}}}`
		},
		"a new connection": func(_ *Fleet, n memberNode, _ *fakeEtcd) {
			n.stop()
			n.restart()
		},
		"another image to look for": func(f *Fleet, n memberNode, _ *fakeEtcd) {
			c := clusterOf(n.fakeNode)
			c.Options.Etcd.Image = "registry.example/other:1"
			f.Update(c, cke.Identity{Joins: n.joins})
		},
		"a membership": func(f *Fleet, n memberNode, member *fakeEtcd) {
			f.Update(clusterOf(n.fakeNode), cke.Identity{Joins: append(slices.Clone(n.joins), joinOn(member, "b"))})
		},
		"a member that stops":             func(_ *Fleet, _ memberNode, member *fakeEtcd) { member.stop() },
		"a member that does not answer":   func(_ *Fleet, _ memberNode, member *fakeEtcd) { member.set(func() { member.silent = true }) },
		"data that is removed":            func(_ *Fleet, n memberNode, _ *fakeEtcd) { n.engine.answer("HEAD /containers/a/archive", "500 gone") },
		"an engine that stops its events": func(_ *Fleet, n memberNode, _ *fakeEtcd) { n.engine.server.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, n, member := settledMember(t)
			lists := n.engine.asked("GET /containers/json")
			happens(f, n, member)
			glanceUntil(t, f, "everything is asked", func(o cke.Observation, _ bool) bool {
				return n.engine.asked("GET /containers/json") > lists || o.Nodes[0].Problem != nil && strings.Contains(name, "engine")
			})
		})
	}
}

// While the engine's events cannot be followed, every glance asks for everything.
func TestGlance_AsksForEverythingWhileEventsAreNotHeard(t *testing.T) {
	t.Parallel()
	f, n, _ := settledMember(t)
	n.engine.answer("GET /events", "500 no events today")
	n.engine.events <- endOfEvents
	lists := n.engine.asked("GET /containers/json")
	glanceUntil(t, f, "the end of the stream is noticed", func(cke.Observation, bool) bool { return n.engine.asked("GET /containers/json") > lists })
	lists = n.engine.asked("GET /containers/json")
	for i := range 5 {
		if f.Glance(t.Context()); n.engine.asked("GET /containers/json") <= lists+i {
			t.Errorf("glance %d asked for little", i)
		}
	}
}

// The files of a member are asked for in each glance: what is removed under it is noticed as soon as ever.
func TestGlance_SeesDataThatIsRemovedUnderAMember(t *testing.T) {
	t.Parallel()
	f, n, _ := settledMember(t)
	n.engine.mu.Lock()
	delete(n.engine.answers, "HEAD /containers/a/archive")
	n.engine.mu.Unlock()
	o, _ := f.Glance(t.Context())
	if c, there := o.Nodes[0].Of("a"); !there || c.Data != cke.DataMissing {
		t.Errorf("%+v", o.Nodes[0])
	}
}

// What etcd replicates changes only by entries of its log: as long as a member's log comes no further, its list and alarms stay.
func TestGlance_AsksAMemberForItsListOnceItsLogComesFurther(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *pb.StatusResponse){
		"an entry":     func(s *pb.StatusResponse) { s.RaftIndex, s.RaftAppliedIndex = 10, 10 },
		"a new leader": func(s *pb.StatusResponse) { s.Leader, s.RaftTerm = 0xb2, 3 },
		"an alarm":     func(s *pb.StatusResponse) { s.Errors = []string{"memberID:161 alarm:NOSPACE"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _, member := settledMember(t)
			members := member.count("members")
			member.set(func() {
				s := proto.Clone(member.status).(*pb.StatusResponse)
				change(s)
				member.status = s
				member.members = []*pb.Member{{ID: 0xa1, Name: "n1"}, {ID: 0xb2, Name: "n2"}}
			})
			if o, _ := f.Glance(t.Context()); member.count("members") != members+1 || len(o.Etcd.Members) != 2 {
				t.Errorf("asked %d times, %+v", member.count("members")-members, o.Etcd)
			}
		})
	}
}

// An engine drops events that are not taken in time, so everything is asked once a minute.
func TestGlance_AsksForEverythingOnceAMinute(t *testing.T) {
	t.Parallel()
	f, n, _ := settledMember(t)
	a := f.nodes[n.node.Address]
	facts, _, _ := a.watch.Load().last()
	for after, want := range map[time.Duration]bool{surveyEvery - time.Second: true, surveyEvery: false} {
		if _, settled := a.settled(facts, facts.surveyed.Add(after)); settled != want {
			t.Errorf("after %v: settled %v", after, settled)
		}
	}
	e := f.members[n.joins[0].ClientURL()]
	seen, _, _ := e.watch.Load().last()
	fresh := seen
	if !fresh.inherit(seen, seen.asked.conn) {
		t.Error("not inherited at once")
	}
	local := seen
	if local.source = cke.MembersLocal; fresh.inherit(local, seen.asked.conn) {
		t.Error("inherited from an answer that no quorum confirmed")
	}
	seen.asked.at = time.Now().Add(-surveyEvery)
	if fresh.inherit(seen, seen.asked.conn) {
		t.Error("inherited after a minute")
	}
}
