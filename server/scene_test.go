package server_test

import (
	"cke"
	"cke/server/strategy"
	"cke/server/strategy/scenes"
)

var noon = scenes.Noon

// scene is an Input under construction; its nodes are n1… at 10.0.0.1….
type scene struct{ strategy.Input }

func formed(n int) *scene { return &scene{*scenes.Formed(n)} }

func (s *scene) node(i int) *cke.NodeStatus { return &s.Seen.Nodes[i-1] }

func (s *scene) container(i int) *cke.Container { return &s.node(i).Containers[0] }

func (s *scene) endpoint(i int) *cke.EndpointStatus { return &s.Seen.Etcd.Endpoints[i-1] }

func (s *scene) join(i int) cke.Join { return s.Identity.Joins[i-1] }

func (s *scene) silent(nodes ...int) *scene {
	scenes.Silence(&s.Input, nodes...)
	return s
}

func (s *scene) stopped(nodes ...int) *scene {
	scenes.Stop(&s.Input, nodes...)
	return s
}

func (s *scene) emptied(nodes ...int) *scene {
	scenes.Empty(&s.Input, nodes...)
	return s
}

func (s *scene) lost() *scene {
	scenes.LoseQuorum(&s.Input)
	return s
}

func (s *scene) partial() *scene {
	scenes.NotWaitedFor(&s.Input)
	return s
}

func (s *scene) with(change func(s *scene)) *scene {
	change(s)
	return s
}

func forming(n int, started bool) *scene { return &scene{*scenes.Forming(n, started)} }
