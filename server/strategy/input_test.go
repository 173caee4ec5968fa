package strategy_test

import (
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
)

var noon = scenes.Noon

// scene is an Input under construction; its nodes are n1… at 10.0.0.1….
type scene struct{ strategy.Input }

func blank(n int) *scene { return &scene{*scenes.Blank(n)} }

func spec(n int) cke.Cluster { return scenes.Spec(n) }

func forming(n int, started bool) *scene { return &scene{*scenes.Forming(n, started)} }

func formed(n int) *scene { return &scene{*scenes.Formed(n)} }

// node is what is seen of the ith node, from 1.
func (s *scene) node(i int) *cke.NodeStatus { return &s.Seen.Nodes[i-1] }

func (s *scene) container(i int) *cke.Container { return &s.node(i).Containers[0] }

func (s *scene) endpoint(i int) *cke.EndpointStatus { return &s.Seen.Etcd.Endpoints[i-1] }

func (s *scene) join(i int) cke.Join { return s.Identity.Joins[i-1] }

// end puts a membership on record as ended, and marks its node.
func (s *scene) end(j cke.Join) {
	s.Identity.Ended = append(s.Identity.Ended, j)
	for i := range s.Seen.Nodes {
		if n := &s.Seen.Nodes[i]; n.Node.Address == j.Node.Address {
			n.Over = append(n.Over, string(j.ID))
		}
	}
}

// silent makes nodes answer no more; what was last seen of them stays.
func (s *scene) silent(nodes ...int) *scene {
	scenes.Silence(&s.Input, nodes...)
	return s
}

// stopped lets members' etcd have ended with their data in place.
func (s *scene) stopped(nodes ...int) *scene {
	scenes.Stop(&s.Input, nodes...)
	return s
}

// emptied lets members' volumes hold no log any more.
func (s *scene) emptied(nodes ...int) *scene {
	scenes.Empty(&s.Input, nodes...)
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

func (s *scene) quiet(i int) { scenes.Quiet(&s.Input, i) }

// lost takes the quorum away.
func (s *scene) lost() *scene {
	scenes.LoseQuorum(&s.Input)
	return s
}

// failed lets an operation have failed count times, the last one before the observation.
func (s *scene) failed(o op.Operation, count int, before time.Duration) *scene {
	if s.Failures == nil {
		s.Failures = map[string]strategy.Failure{}
	}
	s.Failures[strategy.FailureKey(o)] = strategy.Failure{Count: count, First: noon.Add(-before), At: noon.Add(-before), Error: "it broke",
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
