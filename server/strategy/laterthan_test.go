package strategy_test

import (
	"cmp"
	"strings"
	"testing"

	"cke"
	"cke/server/strategy"
)

// A cluster is declared from an identity that is older than marks on its own nodes: members that took the place of those whose memberships ended may
// serve on nodes that nobody knows here.
func TestRestore_NotFromARecordThatMarksShowToBeOlder(t *testing.T) {
	marked := func(nodes ...int) *scene {
		return formed(3).with(func(s *scene) {
			s.Identity = s.Identity.Awaiting(noon)
			for i := range s.Seen.Nodes {
				s.Seen.Nodes[i].Containers, s.Seen.Nodes[i].Volumes = nil, nil
				s.Seen.Nodes[i].ClientPort, s.Seen.Nodes[i].PeerPort = cke.PortClosed, cke.PortClosed
			}
			s.Seen.Etcd, s.Before.Etcd = cke.EtcdStatus{}, cke.EtcdStatus{}
			for _, i := range nodes {
				s.node(i).Over = []string{string(s.join(i).ID)}
			}
		})
	}
	seen := func(life string, nodes ...int) func(s *scene) {
		return func(s *scene) {
			for _, i := range nodes {
				id := s.join(i).ID + "b"
				s.node(i).Containers = append(s.node(i).Containers, cke.Container{Name: "etcd-cke." + string(id), Cluster: "demo", Incarnation: life, Join: id, State: cke.ContainerRunning})
			}
		}
	}
	life := formed(3).Identity.Incarnation.ID
	ids := func(s *scene) (all []string) {
		for _, j := range s.Identity.Joins {
			all = append(all, string(j.ID))
		}
		return all
	}
	other := cke.RestoreOrder{Source: "other", Lineage: "ab12"}
	for name, c := range map[string]struct {
		scene *scene
		order cke.RestoreOrder
		free  bool
	}{
		"new machines":                       {scene: marked(), free: true},
		"all moved":                          {scene: marked(1, 2, 3)},
		"all moved, other data":              {scene: marked(1, 2, 3), order: other},
		"all moved, an incarnation is named": {scene: marked(1, 2, 3), order: cke.RestoreOrder{Lineage: life}},
		"all moved, and accepted":            {scene: marked(1, 2, 3), order: cke.RestoreOrder{Accepted: ids(marked())}, free: true},
		"all moved, and some are accepted":   {scene: marked(1, 2, 3), order: cke.RestoreOrder{Accepted: ids(marked())[1:]}},
		"one moved":                          {scene: marked(2)},
		"two moved, the third is destroyed":  {scene: marked(2, 3).silent(1), order: cke.RestoreOrder{Destroyed: []string{"n1"}}},
		"two moved to nodes that are seen":   {scene: marked(2, 3).with(seen(life, 1, 3)), free: true},
		"one of two is seen":                 {scene: marked(2, 3).with(seen(life, 1))},
		"what is seen is of another":         {scene: marked(2).with(seen("other", 1))},
		"what is seen ended, too":            {scene: marked(2).with(seen(life, 1)).with(func(s *scene) { s.node(1).Over = []string{ids(s)[0] + "b"} })},
		"it was put aside":                   {scene: marked(2).with(func(s *scene) { s.Identity.Joins[1].Apart = true }), free: true},
		"deleted by this store":              {scene: marked(1, 2, 3).with(func(s *scene) { s.Identity.Deleted = append(ids(s), life) }), free: true},
		"a quorum lists them": {scene: marked(2).with(func(s *scene) {
			s.Seen.Etcd.MembersSource, s.Seen.Etcd.Members = cke.MembersLinearizable, formed(3).Seen.Etcd.Members
		}), free: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.order.Target, c.order.Source = "file:///b", cmp.Or(c.order.Source, "demo")
			why := strategy.RestoreRefusal(c.scene.Input, c.order)
			if c.free != (why == nil) || why != nil && (why.Code != cke.CodeOlderStore || !strings.Contains(strings.Join(why.Facts, ""), "--accept "+ids(c.scene)[1]) && c.order.Accepted == nil) {
				t.Errorf("%v", why)
			}
		})
	}
}
