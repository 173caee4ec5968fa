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
