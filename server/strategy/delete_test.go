package strategy_test

import (
	"slices"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// What a deletion does not stop must not serve on: it counts the voters that etcd listed last, foreign ones included, and no membership that
// ended long ago.
func TestDecide_DeletesOnlyWhatCannotServeWithoutIt(t *testing.T) {
	noQuorum := func(s *scene) { s.Seen.Etcd.Quorate, s.Seen.Etcd.MembersSource = false, cke.MembersLocal }
	deleting := func(s *scene, destroyed ...string) *scene { s.Deleting, s.Destroyed = true, destroyed; return s }
	// ended has the last membership end, with its node silent; listed: etcd still lists it.
	ended := func(s *scene, listed bool) *scene {
		last := len(s.Identity.Joins) - 1
		s.silent(last + 1)
		s.Identity.Ended, s.Identity.Joins = slices.Clone(s.Identity.Joins[last:]), s.Identity.Joins[:last]
		if !listed {
			s.Seen.Etcd.Members = s.Seen.Etcd.Members[:last]
		}
		return s
	}
	foreign := cke.Container{PeerURLs: []string{"https://10.0.0.9:2380"}}
	listens := func(state cke.PortState) func(*scene) {
		return func(s *scene) { s.Seen.Nodes[len(s.Seen.Nodes)-1].PeerPort = state }
	}
	all := []string{"CKE307 f1", "CKE307 f2", "CKE307 f3", "CKE307 f4"}
	for _, c := range []struct {
		name string
		*scene
		blockers []string
	}{
		{"one answers that was named as destroyed, beside one that ended", deleting(ended(formed(4), false).silentNode(2), "n2", "n4"), nil},
		{"the one that ended is listed still", deleting(ended(formed(3), true).silentNode(2), "n2", "n3"), []string{"CKE313 n2"}},
		{"foreign voters are a quorum", deleting(formed(3).stranger("f1", "f2", "f3", "f4")), all},
		{"foreign voters could be a quorum with one that is named as destroyed", deleting(formed(3).stranger("f1", "f2").silent(3), "n3"), []string{"CKE307 f1", "CKE307 f2"}},
		{"the operator names them, too, and a quorum answers that has one of them", deleting(formed(3).stranger("f1", "f2").silent(3), "n3", "f1", "f2"), []string{"CKE313 "}},
		{"the operator names them, too, and there is no quorum", deleting(formed(3).stranger("f1", "f2").silent(3).with(noQuorum), "n3", "f1", "f2"), nil},
		{"they have the names of nodes", deleting(formed(3).stranger("n2", "n3", "x").silent(2, 3).with(noQuorum), "n2", "n3", "x"), []string{"CKE307 id-n2", "CKE307 id-n3"}},
		{"one is named by an id that it does not have any more", deleting(formed(3).stranger("f1", "f2").silent(3).with(noQuorum).with(func(s *scene) { s.DestroyedIDs = []string{"id-f1", "old"} }), "n3", "f1", "f2"), []string{"CKE307 id-f2"}},
		{"one of those answers", deleting(formed(3).stranger("f1", "f2").silent(3).with(func(s *scene) {
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.9.9.9:2379", MemberID: "id-f1", ClusterID: s.endpoint(1).ClusterID})
		}), "n3", "f1", "f2"), []string{"CKE313 f1"}},
		{"the container of one stays down", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(foreign)), nil},
		{"something has the peer port of that one", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(foreign).with(listens(cke.PortOpen))), all},
		{"whether something has it is not known", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(foreign).with(listens(cke.PortUnknown))), all},
		{"that one has a port that cke does not look at", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(foreign).with(func(s *scene) { s.Spec.Options.Etcd.PeerPort = 3380 })), all},
		{"that one answers", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(foreign).with(func(s *scene) {
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.0.0.9:2379", ClusterID: s.endpoint(1).ClusterID})
		})), all},
		{"what stays down at its URLs is of a membership that ended", deleting(formed(3).stranger("f1", "f2", "f3", "f4").down(cke.Container{Cluster: "demo", Incarnation: "life", Join: "over"}).with(func(s *scene) {
			s.Identity.Ended = []cke.Join{{ID: "over", MemberID: "m9", RemovedAt: noon}}
		})), all},
		{"foreign voters are no quorum", deleting(formed(3).stranger("f1", "f2")), nil},
		{"a deletion that is sealed", deleting(formed(3).stranger("f1", "f2", "f3", "f4").with(func(s *scene) { s.Sealed = true })), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := strategy.Decide(c.Input)
			var got []string
			for _, b := range d.Blockers {
				got = append(got, string(b.Code)+" "+b.Node)
				if b.Remedy == "" {
					t.Errorf("no remedy: %+v", b)
				}
			}
			if !slices.Equal(got, c.blockers) || (d.Operation == nil) != (c.blockers != nil) {
				t.Errorf("%v: %v, want %v: %s", d.Operation, got, c.blockers, d.Reason)
			}
		})
	}
}

// down has a container stay down on a node without another one, at the URLs of the first foreign member.
func (s *scene) down(c cke.Container) *scene {
	at := cke.Join{Node: cke.Node{Hostname: "n9", Address: "10.0.0.9"}, ClientPort: 2379, PeerPort: 2380}
	c.Name, c.State, c.KeptDown, c.Place = "etcd", cke.ContainerExited, true, at.Place()
	s.Seen.Nodes = append(s.Seen.Nodes, cke.NodeStatus{Node: at.Node, PeerPort: cke.PortClosed, Containers: []cke.Container{c}})
	s.Seen.Etcd.Members[3].PeerURLs, s.Seen.Etcd.Members[3].ClientURLs = []string{at.PeerURL()}, []string{at.ClientURL()}
	return s
}

// What is read of foreign voters while a deletion runs ends it, unless it is sealed or not all was observed.
func TestOutrun_ForeignVotersThatADeletionDoesNotCount(t *testing.T) {
	deleting := func(names ...string) *scene { s := formed(3).stranger(names...); s.Deleting = true; return s }
	for name, c := range map[string]struct {
		*scene
		ends bool
	}{
		"they could be a quorum": {deleting("f1", "f2", "f3", "f4"), true},
		"they could be none":     {deleting("f1", "f2"), false},
		"not all was observed":   {deleting("f1", "f2", "f3", "f4").partial(), false},
		"it is sealed":           {deleting("f1", "f2", "f3", "f4").with(func(s *scene) { s.Sealed = true }), false},
		"the operator names all": {deleting("f1", "f2", "f3", "f4").with(func(s *scene) { s.Destroyed = []string{"f1", "f2", "f3", "f4"} }), false},
	} {
		if ends := strategy.Outrun(op.DeleteCluster{Joins: c.Identity.Joins}, &c.Input) != nil; ends != c.ends {
			t.Errorf("%s: it ends %v", name, ends)
		}
	}
}
