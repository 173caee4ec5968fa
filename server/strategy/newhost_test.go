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
	alone := func(s *scene) { s.Seen.Etcd.Quorate, s.Seen.Etcd.MembersSource = false, cke.MembersLocal }
	for name, tt := range map[string]struct {
		*scene
		refused bool
	}{
		"the first order":                                {moved().restored("n2", "n3").destroyed(), true},
		"a second order":                                 {moved().begun("n2", "n3").destroyed(), true},
		"the list was seen before":                       {moved().with(remembered).restored("n2", "n3").destroyed(), true},
		"one of those in the list is gone":               {moved().restored("n2", "n3", "n4").destroyed(), false},
		"all who do not answer are gone":                 {moved().with(alone).restored("n2", "n3", "n4", "n5").destroyed(), false},
		"they are said to be gone, and a quorum answers": {moved().restored("n2", "n3", "n4", "n5").destroyed(), true},
		"those of the record are out of reach":           {moved().restored("n2", "n3").with(func(s *scene) { s.Requests.Tasks[0].Restore.Destroyed = []string{"n4", "n5"} }), true},
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

// A cluster is declared to get another cluster's data, and members of its name that are not on record run: another store may have
// them, and clients write to them. They are reported and not replaced, until the operator has stopped them. For backups of the
// cluster itself they are its former members.
func TestRestore_ADeclaredClusterReplacesNoOtherWithForeignData(t *testing.T) {
	for name, c := range map[string]struct {
		state   cke.ContainerState
		source  string
		refused bool
	}{
		"it runs":                          {cke.ContainerRunning, "demo.import", true},
		"from another cluster's backups":   {cke.ContainerRunning, "other", true},
		"it was stopped for good":          {cke.ContainerExited, "demo.import", false},
		"from backups of the cluster":      {cke.ContainerRunning, "demo", false},
		"there is no container":            {"", "demo.import", false},
		"none, from the cluster's backups": {"", "demo", false},
	} {
		for _, known := range []bool{false, true} { // whether memberships of it are on record
			s := awaiting(3)
			if known {
				s = formed(3)
				s.Identity = s.Identity.Awaiting(noon)
			}
			if c.state != "" {
				foreignDemo(s.node(2), c.state)
			}
			s.restored()
			s.Requests.Tasks[0].Restore.Source = c.source
			d := strategy.Decide(s.Input)
			r, is := d.Operation.(op.Refuse)
			if b, begins := d.Operation.(op.BeginRestore); begins && c.source != "demo" && (b.Replaces != nil || b.Precede != nil) {
				t.Errorf("%s, on record %v: other data replaces %v %v", name, known, b.Replaces, b.Precede)
			}
			if is != c.refused || is && (r.Why.Code != cke.CodeNotOnRecord || len(r.Why.Facts) != 2) {
				t.Errorf("%s, on record %v: %T %+v", name, known, d.Operation, d)
			}
		}
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
