package etcdnode

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
)

// memberNode is a node whose engine runs the containers of the joins.
type memberNode struct {
	*fakeNode
	joins []cke.Join
}

// show makes the engine tell these states of the joins' containers, in their order.
func (m memberNode) show(states ...cke.ContainerState) {
	m.engine.answer("GET /containers/json", list(m.joins, func(i int, j cke.Join) string {
		return fmt.Sprintf(`{"Id":"%[1]s","Names":["/etcd-cke.%[1]s"],"Image":"e:1","State":"%[2]s","Labels":{"cke.cluster":"demo","cke.join":"%[1]s"}}`, j.ID, states[i])
	}))
	for i, j := range m.joins {
		m.engine.answer(fmt.Sprintf("GET /containers/%s/json", j.ID), fmt.Sprintf(`{"Id":"%[1]s","Name":"/etcd-cke.%[1]s",
			"State":{"Status":"%[2]s","StartedAt":"2026-01-01T00:00:00Z"},"HostConfig":{},
			"Config":{"Image":"e:1","Labels":{"cke.cluster":"demo","cke.join":"%[1]s"}}}`, j.ID, states[i]))
	}
}

// tellDeath sends the engine's event.
func (m memberNode) tellDeath(j cke.Join) {
	m.engine.events <- fmt.Sprintf(`{"Type":"container","Action":"die","Actor":{"ID":"%[1]s","Attributes":{"name":"etcd-cke.%[1]s","image":"e:1","cke.cluster":"demo"}}}`, j.ID)
}

func list[T any](all []T, text func(int, T) string) string {
	var texts []string
	for i, one := range all {
		texts = append(texts, text(i, one))
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// twoMembers is a fleet that has seen members a and b well, both on one node.
func twoMembers(t *testing.T) (f *Fleet, n memberNode, a, b *fakeEtcd) {
	t.Helper()
	ca := NewTestCA(t)
	server, client := ca.TLS("server", "127.0.0.1"), ca.TLS("cke")
	a, b = newFakeEtcd(t, server), newFakeEtcd(t, server)
	n = memberNode{newFakeNode(t, "127.0.0.1", "ed25519", "ed25519"), []cke.Join{joinOn(a, "a"), joinOn(b, "b")}}
	n.show(cke.ContainerRunning, cke.ContainerRunning)
	f = fleetOf(t, newMemoryHostKeys(), func(c *Config) {
		c.Probe = time.Hour
		c.ClientTLS = func(context.Context) (*tls.Config, error) { return client, nil }
	}, n.fakeNode)
	f.reach.began = time.Time{} // this process took over long ago
	f.Update(clusterOf(n.fakeNode), cke.Identity{Joins: n.joins})
	awaitProblem(t, f, "", patience)
	awaitEtcd(t, f, "both members are well", func(s cke.EtcdStatus) bool {
		return len(s.Endpoints) == 2 && s.Endpoints[0].Healthy() && s.Endpoints[1].Healthy()
	})
	return f, n, a, b
}

// While the leader's death is known only by its broken connection, the others' linearizable reads wait for the next
// leader. What the engine tells meanwhile is not to wait for them.
func TestObserve_DeathOfTheLeaderIsTold_WhileOthersWaitForAnother(t *testing.T) {
	t.Parallel()
	f, n, a, b := twoMembers(t)
	dead := n.joins[0]
	before := b.count("linearizable")
	b.set(func() { b.noQuorum = true })
	a.stop()
	seen := make(chan cke.Observation, 1)
	go func() { seen <- f.Observe(t.Context()) }()
	b.awaitMore("linearizable", before)
	n.show(cke.ContainerExited, cke.ContainerRunning)
	n.tellDeath(dead)
	o := <-seen
	if c, there := o.Nodes[0].Of(dead.ID); !there || c.Running() {
		t.Errorf("the observation does not tell it: %+v", o.Nodes[0])
	}
	if !o.Partial {
		t.Error("b was not waited for, and it is not told that the observation is partial")
	}
}

// An observation that does not wait tells that a member is silent. When the answer comes, and is the same as ever,
// somebody has to look again all the same.
// Requirement I13: an answer after its deadline is not lost.
func TestObserve_AnswerThatCameTooLateWakes(t *testing.T) {
	t.Parallel()
	f, n, _, b := twoMembers(t)
	before, held := b.count("linearizable"), make(chan struct{})
	b.set(func() { b.held = held })
	seen := make(chan cke.Observation, 1)
	go func() { seen <- f.Observe(t.Context()) }()
	b.awaitMore("linearizable", before)
	n.show(cke.ContainerExited, cke.ContainerRunning)
	n.tellDeath(n.joins[0])
	if e, _ := (<-seen).Etcd.Endpoint("b"); e.Problem == "" {
		t.Fatalf("it is told to be well: %+v", e)
	}
	for len(f.changed) > 0 {
		<-f.changed
	}
	close(held)
	select {
	case <-f.Changed():
	case <-time.After(patience):
		t.Error("nobody was woken")
	}
	if f.Observe(t.Context()).Partial {
		t.Error("the death is no news any more, and b was not waited for")
	}
}
