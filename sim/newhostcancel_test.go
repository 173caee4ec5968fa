package sim_test

import (
	"testing"
	"time"

	"cke"
	"cke/sim"
)

// What lies beside the backups is from before the members were moved to other ports, or got another version. The restore on a new host is called off once
// containers were removed: the members before serve again.
func TestNewHost_StartsAgainAsTheyRanWhatItRemoved(t *testing.T) {
	for name, change := range map[string]func(*cke.Cluster){
		"ports":   func(c *cke.Cluster) { c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380 },
		"options": func(c *cke.Cluster) { c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8000000000"} },
		"nothing": func(c *cke.Cluster) {},
	} {
		for _, call := range []string{"StopContainer", "PutJoins"} { // PutJoins: all is ready, and the start is to be put on record
			t.Run(name+" "+call, func(t *testing.T) {
				play(t, 3, func(s *stage) {
					s.backedUp()
					beside := s.Store().Copy()
					c := s.cluster(s.Nodes())
					change(&c)
					s.Store().SetSpec(c)
					s.must("changed", s.changed)
					if !s.Write("n1", "acknowledged") {
						t.Fatal("not written")
					}
					s.pass(time.Minute)
					before := map[cke.JoinID]string{}
					for _, n := range s.told().Nodes {
						for _, c := range n.Containers {
							before[c.Join] = c.Place + " " + c.Options
						}
					}
					s.latest().Kill()
					s.broughtBack(beside.With(beside.Identity().Awaiting(time.Now())))
					s.Store().SetSpec(c)
					s.order(fromBackup)
					asked := false
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						if asked || c.Name != call || call == "StopContainer" && c.Node != "n3" {
							return sim.Proceed
						}
						asked = true
						s.Store().Ask("cancel the restore", func(r *cke.Requests) {
							r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
						})
						if call == "PutJoins" {
							return sim.Refuse
						}
						return sim.Proceed
					}
					s.pass(time.Hour)
					if inc := s.Store().Identity().Incarnation; !asked || inc.State != cke.Awaiting {
						t.Errorf("asked %v, %s: %s", asked, inc.State, s.told().Summary)
					}
					if !s.Write("n1", "later") {
						t.Errorf("the members before do not serve: %d run; %s", s.runningOn("n1")+s.runningOn("n2")+s.runningOn("n3"), s.told().Summary)
					}
					for _, n := range s.told().Nodes {
						for _, c := range n.Containers {
							if c.Running() && before[c.Join] != c.Place+" "+c.Options {
								t.Errorf("%s: %s ran as %q, and runs as %q; the members list %v", n.Node.Name(), c.Name, before[c.Join], c.Place+" "+c.Options, s.told().Etcd.Members[0].PeerURLs)
							}
						}
					}
					s.unbroken(t)
				})
			})
		}
	}
}

// What lies beside the backups is from before n2 and n3 got new members, whose nodes have no mark of that. The restore on a new host is
// called off once containers were removed: nobody starts the memberships that ended, of which there is a quorum.
func TestNewHost_StartsNobodyWhoEndedWhereItRemoved(t *testing.T) {
	for _, call := range []string{"StopContainer", "RemoveContainer"} {
		t.Run(call, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUp()
				beside := s.Store().Copy()
				asked := true
				s.Judge = func(_ int, c sim.Call) sim.Verdict {
					if c.Name == "MarkOver" {
						return sim.Refuse
					}
					if !asked && c.Name == call && c.Node == "n3" {
						asked = true
						s.Store().Ask("cancel the restore", func(r *cke.Requests) {
							r.Tasks = append(r.Tasks, cke.NewTask(cke.TaskCancelRestore, "", "", "person@host", time.Now()))
						})
					}
					return sim.Proceed
				}
				for _, n := range []string{"n2", "n3"} {
					old := s.join(n).ID
					s.ask(cke.TaskReplace, n, string(old), "")
					s.must("replaced", func() bool { return s.join(n).ID != old && s.join(n).MayVote && s.answered() })
					s.pass(2 * time.Minute)
				}
				if !s.Write("n2", "acknowledged") {
					t.Fatal("not written")
				}
				s.pass(time.Minute)
				s.latest().Kill()
				s.broughtBack(beside.With(beside.Identity().Awaiting(time.Now())))
				asked = false
				s.order(fromBackup)
				s.pass(time.Hour)
				if !asked {
					t.Error("not canceled")
				}
				if !s.Write("n2", "later") {
					t.Errorf("neither the members before nor the restored ones serve: %s", s.told().Summary)
				}
				s.unbroken(t)
			})
		})
	}
}
