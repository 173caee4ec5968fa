package server_test

import (
	"fmt"
	"time"

	"cke"
	"cke/op"
	"cke/server"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// scene is an Input under construction; its nodes are n1… at 10.0.0.1….
type scene struct{ server.Input }

// blank is a cluster of n control-plane nodes that never had a life, on nodes that hold nothing.
func blank(n int) *scene {
	s := &scene{server.Input{Spec: spec(n), Generation: 1}}
	s.Seen.ObservedAt = noon
	for _, node := range s.Spec.Nodes {
		s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: node, SeenAt: noon, Clock: noon, ClientPort: cke.PortClosed, PeerPort: cke.PortClosed})
	}
	return s
}

func spec(n int) cke.Cluster {
	c := cke.Cluster{Name: "demo"}
	for i := 1; i <= n; i++ {
		c.Nodes = append(c.Nodes, cke.Node{Hostname: fmt.Sprintf("n%d", i), Address: fmt.Sprintf("10.0.0.%d", i), ControlPlane: true})
	}
	return c.WithDefaults()
}

// forming is a cluster whose founding is recorded and, with started, whose members run.
func forming(n int, started bool) *scene {
	s := blank(n)
	inc := &cke.Incarnation{ID: "life", Token: "demo-token", State: cke.Forming, CreatedAt: noon}
	s.Identity.Incarnation = inc
	for i, node := range s.Spec.Nodes {
		id := cke.JoinID(fmt.Sprintf("join%d", i+1))
		o := s.Spec.Options.Etcd
		j := cke.Join{ID: id, Incarnation: inc.ID, Node: node, Member: node.Name(), Volume: o.Volume(id), ClientPort: o.ClientPort, PeerPort: o.PeerPort, Etcd: o}
		if started {
			j.StartedAt = noon.Add(-time.Minute)
		}
		inc.Founders = append(inc.Founders, j)
		s.Identity.Joins = append(s.Identity.Joins, j)
		c := cke.Container{Name: j.Volume, Image: o.Image, State: cke.ContainerCreated, Cluster: "demo", Incarnation: inc.ID, Join: id, Data: cke.DataMissing}
		if started {
			c.State, c.StartedAt, c.Data, c.KeptDown = cke.ContainerRunning, noon, cke.DataUnknown, true
		}
		seen := s.node(i + 1)
		seen.Containers = []cke.Container{c}
		seen.Volumes = []cke.Volume{{Name: j.Volume, Cluster: "demo", Incarnation: inc.ID, Join: id}}
	}
	return s
}

// formed is a cluster of n members that all serve.
func formed(n int) *scene {
	s := forming(n, true)
	s.Identity.Incarnation.State, s.Identity.Incarnation.ClusterID, s.Identity.Incarnation.FormedAt = cke.Formed, "c1", noon
	s.Seen.Etcd = cke.EtcdStatus{Quorate: true, MembersSource: cke.MembersLinearizable}
	for i := range s.Identity.Joins {
		j := &s.Identity.Joins[i]
		j.MemberID = fmt.Sprintf("m%d", i+1)
		s.container(i + 1).KeptDown = false
		s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: j.MemberID, Name: j.Member, PeerURLs: []string{j.PeerURL()}})
		s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{
			Join: j.ID, URL: j.ClientURL(), Serializable: true, Linearizable: true, ClusterID: "c1", MemberID: j.MemberID, LeaderID: "m1",
		})
	}
	return s
}

// node is what is seen of the ith node, from 1.
func (s *scene) node(i int) *cke.NodeStatus { return &s.Seen.Nodes[i-1] }

func (s *scene) container(i int) *cke.Container { return &s.node(i).Containers[0] }

func (s *scene) endpoint(i int) *cke.EndpointStatus { return &s.Seen.Etcd.Endpoints[i-1] }

func (s *scene) join(i int) cke.Join { return s.Identity.Joins[i-1] }

// silent makes nodes answer no more; what was last seen of them stays.
func (s *scene) silent(nodes ...int) *scene {
	for _, i := range nodes {
		s.node(i).Problem = &cke.Problem{Code: cke.CodeUnreachable, Node: s.node(i).Node.Name(), Message: "no answer", Remedy: "look at it"}
		s.quiet(i)
	}
	return s
}

// stopped lets members' etcd have ended with their data in place.
func (s *scene) stopped(nodes ...int) *scene {
	for _, i := range nodes {
		c := s.container(i)
		c.State, c.Data, c.ExitCode, c.LastWords = cke.ContainerExited, cke.DataPresent, 2, "killed"
		s.quiet(i)
	}
	return s
}

// emptied lets members' volumes hold no log any more.
func (s *scene) emptied(nodes ...int) *scene {
	for _, i := range nodes {
		s.stopped(i).container(i).Data = cke.DataMissing
	}
	return s
}

// wiped lets nodes be blank.
func (s *scene) wiped(nodes ...int) *scene {
	for _, i := range nodes {
		s.node(i).Containers, s.node(i).Volumes = nil, nil
		s.quiet(i)
	}
	return s
}

func (s *scene) quiet(i int) {
	if len(s.Seen.Etcd.Endpoints) >= i {
		j := s.join(i)
		*s.endpoint(i) = cke.EndpointStatus{Join: j.ID, URL: j.ClientURL(), Problem: "connection refused"}
	}
}

// lost takes the quorum away.
func (s *scene) lost() *scene {
	s.Seen.Etcd.Quorate, s.Seen.Etcd.Members, s.Seen.Etcd.MembersSource = false, nil, cke.MembersUnknown
	for i := range s.Seen.Etcd.Endpoints {
		e := &s.Seen.Etcd.Endpoints[i]
		if e.Problem == "" {
			e.Linearizable, e.LeaderID, e.Errors = false, "", []string{"etcdserver: no leader"}
		}
	}
	return s
}

// failed lets an operation have failed count times, the last one before the observation.
func (s *scene) failed(o op.Operation, count int, before time.Duration) *scene {
	if s.Failures == nil {
		s.Failures = map[string]server.Failure{}
	}
	s.Failures[server.FailureKey(o)] = server.Failure{Count: count, At: noon.Add(-before), Error: "it broke",
		Problems: []cke.Problem{{Code: cke.CodeDiskFull, Node: "n1", Message: "no room", Remedy: "free some"}}}
	return s
}

// bootstrap is the operation that founds, or resumes to found, the cluster of the scene.
func (s *scene) bootstrap(resume bool) op.Bootstrap {
	return op.Bootstrap{Spec: s.Spec, Founders: s.Spec.ControlPlane(), Resume: resume}
}

// with changes the scene by hand.
func (s *scene) with(change func(s *scene)) *scene {
	change(s)
	return s
}
