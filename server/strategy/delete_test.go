package strategy_test

import (
	"fmt"
	"slices"
	"testing"

	"cke"
	"cke/server/strategy"
)

// What a deletion does not stop must not serve on: it counts the voters that etcd listed last, foreign ones included, and no membership that
// ended long ago.
func TestDecide_DeletesOnlyWhatCannotServeWithoutIt(t *testing.T) {
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
	for _, c := range []struct {
		name string
		*scene
		blockers []string
	}{
		{"one answers that was named as destroyed, beside one that ended", deleting(ended(formed(4), false).silentNode(2), "n2", "n4"), nil},
		{"the one that ended is listed still", deleting(ended(formed(3), true).silentNode(2), "n2", "n3"), []string{"CKE313 n2"}},
		{"foreign voters are a quorum", deleting(formed(3).stranger("f1", "f2", "f3", "f4")), []string{"CKE307 f1", "CKE307 f2", "CKE307 f3", "CKE307 f4"}},
		{"foreign voters could be a quorum with one that is named as destroyed", deleting(formed(3).stranger("f1", "f2").silent(3), "n3"), []string{"CKE307 f1", "CKE307 f2"}},
		{"the operator names them, too", deleting(formed(3).stranger("f1", "f2").silent(3), "n3", "f1", "f2"), nil},
		{"one of those answers", deleting(formed(3).stranger("f1", "f2").silent(3).with(func(s *scene) {
			s.Seen.Etcd.Endpoints = append(s.Seen.Etcd.Endpoints, cke.EndpointStatus{URL: "https://10.9.9.9:2379", MemberID: "id-f1", ClusterID: s.endpoint(1).ClusterID})
		}), "n3", "f1", "f2"), []string{"CKE313 f1"}},
		{"their containers stay down", deleting(formed(3).stranger("f1", "f2", "f3", "f4").with(func(s *scene) {
			for i := range 3 {
				s.Seen.Nodes[i].Containers = append(s.Seen.Nodes[i].Containers, cke.Container{Name: "etcd", State: cke.ContainerExited, KeptDown: true,
					Place: cke.Join{Node: s.Seen.Nodes[i].Node, ClientPort: 12379, PeerPort: 12380}.Place()})
				s.Seen.Etcd.Members[3+i].PeerURLs = []string{fmt.Sprintf("https://10.0.0.%d:12380", i+1)}
			}
		})), nil},
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
