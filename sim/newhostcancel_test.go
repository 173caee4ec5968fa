package sim_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// What lies beside the backups is from before the members were moved to other ports, or got another version. The restore on a new host is called off once
// containers were removed: the members before serve again. So they do where a second restore took the place of the first, and both are
// called off.
func TestNewHost_StartsAgainAsTheyRanWhatItRemoved(t *testing.T) {
	for name, change := range map[string]func(*cke.Cluster){
		"ports":   func(c *cke.Cluster) { c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380 },
		"options": func(c *cke.Cluster) { c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8000000000"} },
		"nothing": func(c *cke.Cluster) {},
	} {
		for _, at := range []string{"StopContainer", "PutJoins", "PutJoins of both"} { // PutJoins: all is ready, and the start is to be put on record
			call, _, both := strings.Cut(at, " of ")
			t.Run(name+" "+at, func(t *testing.T) {
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
					s.declaredFrom(beside)
					s.Store().SetSpec(c)
					want := 1
					if both {
						want = 2
						s.Node("n3").FillDisk()
						s.order(fromBackup)
						s.comesTo(s.restoring)
						first := s.Store().Identity().Incarnation.ID
						s.order(fromBackup)
						s.comesTo(func() bool { return !s.Store().Identity().Incarnation.Life(first) })
						s.Node("n3").FreeDisk()
					} else {
						s.order(fromBackup)
					}
					asked := map[string]bool{}
					s.Judge = func(_ int, c sim.Call) sim.Verdict {
						inc := s.Store().Identity().Incarnation
						if inc.State != cke.Restoring || asked[inc.ID] || c.Name != call || call == "StopContainer" && c.Node != "n3" {
							return sim.Proceed
						}
						asked[inc.ID] = true
						s.Store().Ask("cancel the restore", off)
						if call == "PutJoins" {
							return sim.Refuse
						}
						return sim.Proceed
					}
					s.pass(time.Hour)
					if inc := s.Store().Identity().Incarnation; len(asked) != want || inc.State != cke.Awaiting {
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
				s.declaredFrom(beside)
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

// restoring reports whether a restore is under way.
func (s *stage) restoring() bool { return s.Store().Identity().Incarnation.State == cke.Restoring }

// offAt calls the restore off at a call, and has happen what happens there. A start that is to be put on record is refused.
func (s *stage) offAt(call, node string, happens func()) (asked *bool) {
	asked = new(bool)
	s.Judge = func(_ int, c sim.Call) sim.Verdict {
		if *asked || !s.restoring() || c.Name != call || c.Node != node {
			return sim.Proceed
		}
		*asked = true
		s.Store().Ask("cancel the restore", off)
		if happens != nil {
			happens()
		}
		if call == "PutJoins" {
			return sim.Refuse
		}
		return sim.Proceed
	}
	return asked
}

// One of three members that a restore on a new host stopped cannot be started again. The others are a quorum, and serve.
func TestNewHost_CancelsThoughOneDoesNotStartAgain(t *testing.T) {
	lost := func(s *stage) { s.Node("n3").RemoveData() }
	for name, c := range map[string]struct {
		call, node string
		before, at func(*stage)
	}{
		"its log was lost before":          {"StopContainer", "n3", lost, nil},
		"its log is lost once it is away":  {"PutJoins", "", nil, lost},
		"it has no room for its container": {"PutJoins", "", nil, func(s *stage) { s.Node("n3").FillDisk() }},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUp()
				s.latest().Kill()
				if c.before != nil {
					c.before(s)
				}
				s.burnt()
				s.order(fromBackup)
				asked := s.offAt(c.call, c.node, func() {
					if c.at != nil {
						c.at(s)
					}
				})
				s.pass(time.Hour)
				if inc := s.Store().Identity().Incarnation; !*asked || inc.State != cke.Awaiting {
					t.Errorf("asked %v, %s: %s", *asked, inc.State, s.told().Summary)
				}
				if !s.Write("n1", "later") {
					t.Error("the members before do not serve")
				}
				s.unbroken(t)
			})
		})
	}
}

// Two of three members that a restore on a new host removed cannot be made again. It does not continue although it was called off: it ends
// once they have room, or another one takes its place.
func TestNewHost_DoesNotContinueWhatCannotBeCanceledYet(t *testing.T) {
	for _, then := range []string{"room", "another order"} {
		t.Run(then, func(t *testing.T) {
			play(t, 3, func(s *stage) {
				s.backedUp()
				s.burnt()
				s.order(fromBackup)
				asked := s.offAt("PutJoins", "", func() {
					s.Node("n2").FillDisk()
					s.Node("n3").FillDisk()
				})
				s.pass(time.Hour)
				id := s.Store().Identity()
				first := id.Incarnation.ID
				if !*asked || !s.restoring() || id.Started() || !s.answered() {
					t.Errorf("asked %v: %+v, %s", *asked, id.Incarnation, s.told().Summary)
				}
				if dec, _ := s.latest().now(); len(dec.Blockers) == 0 || !strings.Contains(dec.Blockers[0].Message, "1 of 3 former members started again, and 2 are needed") {
					t.Error(describeDecision(s.latest().Number(), dec))
				}
				if then == "room" {
					s.Node("n2").FreeDisk()
					s.pass(10 * time.Minute)
					if s.restoring() || !s.Write("n1", "later") {
						t.Errorf("not canceled: %s", s.told().Summary)
					}
				} else {
					s.order(fromBackup)
					s.comesTo(func() bool { return !s.Store().Identity().Incarnation.Life(first) })
					s.Node("n2").FreeDisk()
					s.Node("n3").FreeDisk()
					s.comesTo(s.restored)
				}
				s.unbroken(t)
			})
		})
	}
}

// An earlier version of cke made the members, whose containers could start empty. A restore on a new host is called off once it stopped
// them: they are made again with arguments that cannot.
func TestNewHost_StartsAgainWhatCouldStartEmpty(t *testing.T) {
	play(t, 3, func(s *stage) {
		s.FormedEarlier()
		s.wrap = func(e op.Env) op.Env { return thin{founding: true}.wrap(s, e) }
		s.daemon()
		s.must("formed", func() bool { return s.Serving() == 3 && s.Store().Identity().Incarnation.State == cke.Formed })
		s.Write("n1", "kept")
		s.TakeBackup()
		s.latest().Kill()
		s.wrap = nil
		s.burnt()
		s.order(fromBackup)
		asked := s.offAt("StopContainer", "n3", nil)
		s.pass(time.Hour)
		if !*asked || s.restoring() || !s.Write("n1", "later") {
			t.Errorf("asked %v, the members before do not serve: %s", *asked, s.told().Summary)
		}
		for _, n := range s.told().Nodes {
			for _, c := range n.Containers {
				if c.Running() && (c.StartsEmpty || c.KeptDown) {
					t.Errorf("%s: %+v", n.Node.Name(), c)
				}
			}
		}
		s.unbroken(t)
	})
}

// What lies beside the backups is from before a restore, or from the middle of one. Another one on a new host is called off: the incarnation
// that was replaced is not started, neither beside that which serves nor in its place.
func TestNewHost_StartsNoIncarnationThatWasReplaced(t *testing.T) {
	for name, copied := range map[string]func(cke.Identity) bool{
		"before":               func(id cke.Identity) bool { return id.Incarnation.State == cke.Formed },
		"while it is prepared": func(id cke.Identity) bool { return id.Incarnation.State == cke.Restoring },
		"once it is started":   func(id cke.Identity) bool { return id.Started() && id.Incarnation.State == cke.Restoring },
	} {
		for _, at := range []string{"EnsureVolume", "StopContainer", "PutJoins"} {
			for _, marked := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %s, marks %v", name, at, marked), func(t *testing.T) {
					play(t, 3, func(s *stage) {
						s.backedUp()
						first := s.Store().Identity().Incarnation.ID
						beside := s.copiedOnce(func(id cke.Identity, _ sim.Call) bool { return copied(id) })
						judge := s.Judge
						s.Judge = func(n int, c sim.Call) sim.Verdict {
							if c.Name == "MarkOver" && !marked {
								return sim.Refuse
							}
							return judge(n, c)
						}
						s.order(fromBackup)
						s.must("restored", s.restored)
						s.pass(time.Minute)
						if !s.Write("n1", "acknowledged") {
							t.Fatal("not written")
						}
						s.TakeBackup()
						s.latest().Kill()
						s.declaredFrom(beside.StoreCopy)
						o := fromBackup
						o.Lineage = "named"
						s.order(o)
						asked := s.offAt(at, map[string]string{"EnsureVolume": "n1", "StopContainer": "n3"}[at], nil)
						s.pass(time.Hour)
						if !*asked {
							t.Errorf("not asked: %s", s.told().Summary)
						}
						for _, n := range s.told().Nodes {
							for _, c := range n.Containers {
								if c.Incarnation == first {
									t.Errorf("%s has container %s of what was replaced: %s", n.Node.Name(), c.Name, s.told().Summary)
								}
							}
						}
						s.unbroken(t)
					})
				})
			}
		}
	}
}
