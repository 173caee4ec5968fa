package strategy_test

import (
	"slices"
	"testing"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// On a new management host the identity beside the backups may be older than the cluster: two members moved to other nodes
// since. The member that is left of it answers, and lists those. They have the quorum, and nothing stops them.
func TestRestore_OnANewHostHeedsTheListOfAMemberThatAnswers(t *testing.T) {
	moved := func() *scene {
		return formed(3).with(func(s *scene) {
			s.Identity = s.Identity.Awaiting(noon)
			s.Seen.Etcd.Members = slices.Clone(s.Seen.Etcd.Members[:1]) // n2 and n3 were replaced
		}).silent(2, 3).stranger("n4", "n5")
	}
	remembered := func(s *scene) { // the one that listed them no longer answers
		s.Before.Incarnation, s.Before.Etcd = s.Identity.Incarnation.ID, s.Seen.Etcd
		s.Seen.Etcd = cke.EtcdStatus{}
	}
	for name, tt := range map[string]struct {
		*scene
		refused bool
	}{
		"the first order":                      {moved().restored("n2", "n3").destroyed(), true},
		"a second order":                       {moved().begun("n2", "n3").destroyed(), true},
		"the list was seen before":             {moved().with(remembered).restored("n2", "n3").destroyed(), true},
		"one of those in the list is gone":     {moved().restored("n2", "n3", "n4").destroyed(), false},
		"all who do not answer are gone":       {moved().restored("n2", "n3", "n4", "n5").destroyed(), false},
		"those of the record are out of reach": {moved().restored("n2", "n3").with(func(s *scene) { s.Requests.Tasks[0].Restore.Destroyed = []string{"n4", "n5"} }), true},
	} {
		t.Run(name, func(t *testing.T) {
			d := strategy.Decide(tt.Input)
			r, is := d.Operation.(op.Refuse)
			if is != tt.refused || is && r.Why.Code != cke.CodeFence {
				t.Errorf("%T %+v, want refused: %v", d.Operation, d.Operation, tt.refused)
			}
		})
	}
}

// The members of a former restore's cluster have other ids: their list says nothing of those that this restore replaced.
func TestRestore_OnANewHostHeedsAListForTheMembersThatItNames(t *testing.T) {
	s := formed(3).with(func(s *scene) {
		list := s.Seen.Etcd.Members
		s.begun()
		for i := range s.Identity.Joins { // the copy was made right after the restored members were started
			s.Identity.Joins[i].StartedAt, s.Identity.Joins[i].MemberID = noon, "restored-"+s.Identity.Joins[i].Member
		}
		s.Identity = s.Identity.Awaiting(noon)
		for _, m := range list {
			m.ID = "restored-" + m.Name
			s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, m)
		}
	}).restored()
	if d := strategy.Decide(s.Input); d.Operation == nil {
		t.Errorf("%T %+v", d.Operation, d)
	} else if r, is := d.Operation.(op.Refuse); is {
		t.Errorf("refused: %v", r.Why)
	}
}

// A member that no membership names counts as stopped only where its container is made for the node that it is seen on: on another one it
// is that of a copied disk, and the member may continue where it is.
func TestRestore_OnANewHostCountsNoMemberByACopyOfItsDisk(t *testing.T) {
	for copied, refused := range map[bool]bool{false: false, true: true} {
		s := formed(3).with(func(s *scene) {
			s.Identity = s.Identity.Awaiting(noon)
			s.Seen.Etcd.Members = slices.Clone(s.Seen.Etcd.Members[:1]) // n2 and n3 were replaced
			for i, other := range map[int]int{2: 3, 3: 2} {
				host, id := s.node(i).Node.Address, s.node(i).Node.Name()+"b"
				s.Seen.Etcd.Members = append(s.Seen.Etcd.Members, cke.Member{ID: id, Name: id, PeerURLs: []string{"https://" + host + ":2381"}})
				if copied {
					host, id = s.node(other).Node.Address, s.node(other).Node.Name()+"b"
				}
				s.node(i).Containers = []cke.Container{{Name: "etcd-cke." + id, State: cke.ContainerRunning, Cluster: "demo", Incarnation: "life", Join: cke.JoinID(id), Place: "https://" + host + ":2379 https://" + host + ":2381"}}
			}
		}).restored()
		d := strategy.Decide(s.Input)
		if r, is := d.Operation.(op.Refuse); is != refused || is && r.Why.Code != cke.CodeFence {
			t.Errorf("copied %v: %T %+v", copied, d.Operation, d)
		}
	}
}
