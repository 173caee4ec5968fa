package main

import (
	"testing"
	"time"

	"cke"
	"cke/internal/words"
)

// strangerServing is a status of two members of cke's and one that a person runs on cp3.
func strangerServing() cke.Status {
	s := threeServing(1)
	s.Tolerance = 1
	hand := cke.Member{ID: "5e1f", Name: "hand", PeerURLs: []string{"https://10.0.0.13:2390"}}
	s.Members[2] = cke.MemberStatus{Name: "hand", Address: "10.0.0.13", ID: hand.ID, Role: "follower", State: "stranger"}
	s.Etcd.Members[2] = hand
	s.Etcd.Endpoints = []cke.EndpointStatus{{MemberID: hand.ID, Serializable: true}}
	s.Nodes = []cke.NodeStatus{{Node: cke.Node{Address: "10.0.0.13", Hostname: "cp3"}, Containers: []cke.Container{
		{ID: "c0ffee", Name: "hand", State: cke.ContainerRunning, PeerURLs: hand.PeerURLs, Mounts: []string{"/srv/hand"}},
		{ID: "beef", Name: "theirs", State: cke.ContainerRunning, PeerURLs: []string{"https://10.0.0.13:9999"}}}}}
	return s
}

// Requirements A6, I15.
func TestAdopt_NamesTheMemberAndWhatCarriesIt(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	l.status(strangerServing())
	_, stderr := h.run(exitRefused, "etcd", "adopt", "cp2", "--yes")
	contains(t, stderr, "error[CKE111]: there is no foreign member on cp2\n", "Nothing was changed.\n")
	_, stderr = h.run(exitRefused, "etcd", "adopt", "cp3")
	contains(t, stderr, "error[CKE107]: adopting the member of cp3 was not confirmed\n", "Try: ckecli etcd adopt cp3 --yes\n")

	adopt := h.start("etcd", "adopt", "10.0.0.13", "--yes")
	task := h.awaitTask()
	if task.Kind != cke.TaskAdopt || task.Node != "cp3" || task.Adopt == nil || task.Adopt.Member.ID != "5e1f" || task.Adopt.Container != "c0ffee" {
		t.Errorf("%+v", task)
	}
	l.end(l.begin(cke.Record{Operation: "adopt-member", Targets: []string{"cp3"}, Reason: "asked for", Task: task.ID, Part: true}))
	adopt.stderr.await(t, "#1 completed")
	l.end(l.begin(cke.Record{Operation: "promote-member", Targets: []string{"cp3"}, Reason: "caught up", Task: task.ID}))
	l.finish(task)
	adopt.must(exitDone)
	contains(t, adopt.stdout.String(), "cp3 has a member of cke (took ", "container hand is stopped, not started again, and kept, with /srv/hand\n")
}

func TestAdopt_TellsWhatAPersonHasToStop(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := strangerServing()
	s.Nodes = nil
	l.status(s)
	adopt := h.start("etcd", "adopt", "cp3", "--yes")
	task := h.awaitTask()
	if task.Adopt.Container != "" {
		t.Errorf("%+v", task.Adopt)
	}
	l.refuse(task, &cke.Error{Code: cke.CodeCannot, What: "cke cannot determine what runs it", Facts: []string{"on 10.0.0.13: ss -ltnp sport = :2390 shows the process"}, Unchanged: true})
	adopt.must(exitRefused)
	contains(t, adopt.stderr.String(), "error[CKE111]: cke cannot determine what runs it\n  on 10.0.0.13: ss -ltnp", "Nothing was changed.\n")
}

func TestAdopt_IsNotAskedForByAnOldStatus(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	s := strangerServing()
	s.ObservedAt = time.Now().Add(-words.StaleAfter - time.Second)
	l.status(s)
	_, stderr := h.run(exitNoStatus, "etcd", "adopt", "cp3", "--yes")
	contains(t, stderr, "error[CKE108]: it is not known which member is on cp3\n")
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) > 0 {
		t.Errorf("%+v, %v", asked, err)
	}
}

// Requirement A1: what can be lost meanwhile is told before it is confirmed.
func TestAdopt_CountsWhatCanBeLost(t *testing.T) {
	for _, row := range []struct {
		name             string
		change           func(s *cke.Status)
		learner          bool
		before, meantime int
	}{
		{"one of three that serves", func(*cke.Status) {}, false, 1, 0},
		{"one of three that is dead", func(s *cke.Status) { s.Etcd.Endpoints = nil }, false, 0, 0},
		{"one of five that is dead", func(s *cke.Status) {
			s.Etcd.Endpoints = nil
			s.Etcd.Members = append(s.Etcd.Members, cke.Member{ID: "m4"}, cke.Member{ID: "m5"})
		}, false, 1, 1},
		{"a learner", func(s *cke.Status) { s.Etcd.Members[2].Learner = true }, true, 0, 0},
	} {
		s := strangerServing()
		row.change(&s)
		s.Tolerance = row.before
		if n := toleranceAfter(s, cke.Member{ID: "5e1f", Learner: row.learner}); n != row.meantime {
			t.Errorf("%s: %d", row.name, n)
		}
	}
}
