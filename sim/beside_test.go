package sim_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/server/strategy"
	"cke/sim"
)

// Decisions that follow from what lies beside the backups, or from not knowing it yet.
const (
	besideAlone     = "a store is found to be older by the identity beside the backups alone"
	besideToo       = "a store is found to be older by the identity beside the backups and by nodes"
	besideRefused   = "a restore is refused because of what the store lacks"
	besideHeld      = "a deletion waits because of what the store lacks"
	besideReclaimed = "what the store lacked is reclaimed"
	besideAccepted  = "an operator accepts what the store lacks"
	restoreWaits    = "a restore waits for the comparison"
	deletionWaits   = "a deletion waits for the comparison"
	besideUnknown   = "nothing is compared yet"
	besideSilent    = "nothing is compared, and the target cannot be used"
	restoreUnknown  = "a restore starts, and nothing is compared"
	deletionUnknown = "a deletion starts, and nothing is compared"
)

var besideMarks = []string{besideAlone, besideToo, besideRefused, besideHeld, besideReclaimed, besideAccepted, restoreWaits, deletionWaits, besideUnknown,
	besideSilent, restoreUnknown, deletionUnknown}

// beside counts what a decision has to do with what lies beside the backups.
func (m *marks) beside(in strategy.Input, d strategy.Decision) {
	b, f := in.Backup, in.Identity.Freeze
	if m == nil || b == nil || b.Lineage == "" {
		return
	}
	reached := func(what string, is bool) {
		if is {
			m.add(mark{"beside", what, ""}, 1)
		}
	}
	lacks := len(b.Lacks) > 0 || f.Active() && len(f.Lacks) > 0
	_, deletes := d.Operation.(op.DeleteCluster)
	_, reclaims := d.Operation.(op.Reclaim)
	_, lifts := d.Operation.(op.Unfreeze)
	_, restores := d.Operation.(op.BeginRestore)
	refusal, refuses := d.Operation.(op.Refuse)
	if freeze, is := d.Operation.(op.Freeze); is && freeze.Returns == nil && len(freeze.Lacks) > 0 {
		alone := freeze.Unrecorded == nil && freeze.Ended == nil
		reached(besideAlone, alone)
		reached(besideToo, !alone)
	}
	reached(besideRefused, lacks && refuses && refusal.Task.Kind == cke.TaskRestore && refusal.Why.Code == cke.CodeOlderStore)
	reached(besideHeld, lacks && in.Deleting && d.Frozen != nil)
	reached(besideReclaimed, lacks && reclaims)
	reached(besideAccepted, lacks && lifts && f.Kind == cke.FreezeOlderStore)
	waits := strings.Contains(d.Reason, "until what lies beside the backups was compared")
	reached(restoreWaits, waits && !in.Deleting)
	reached(deletionWaits, waits && in.Deleting)
	reached(besideUnknown, !b.Compared)
	reached(besideSilent, !b.Compared && b.Problem != nil)
	reached(restoreUnknown, !b.Compared && restores)
	reached(deletionUnknown, !b.Compared && deletes)
}

// olderBeside is what a schedule may be about beside operations: a store that the identity beside the backups shows to be older.
const olderBeside = "older-beside"

// pursueBeside lets members come to other nodes after the store was copied, hides them from cke, and brings the copy back.
func (n *nemesis) pursueBeside(node *sim.Node) {
	s, id := n.s, n.s.Store().Identity()
	switch {
	case n.hidden:
		n.pursueHidden(node)
	case id.Incarnation == nil || id.Incarnation.State != cke.Formed || s.Store().Spec().Deleting() || !s.settled():
	case n.added(id) != nil:
		n.hide()
	case n.copied == nil || n.IntN(8) == 0:
		n.copy()
	default:
		n.comeElsewhere()
	}
}

// outrun does that without faults.
func (n *nemesis) outrun() {
	n.copy()
	n.comeElsewhere()
	if n.s.until(convergence, func() bool { return n.s.settled() && n.added(n.s.Store().Identity()) != nil }) {
		n.s.pass(time.Minute) // all is stored
		n.hide()
	}
}

// added are the memberships that were started since the store was copied.
func (n *nemesis) added(id cke.Identity) (since []cke.Join) {
	for _, j := range id.Joins {
		if n.copied != nil && !j.StartedAt.IsZero() && !n.copied.Identity().Has(j.ID) {
			since = append(since, j)
		}
	}
	return since
}

// comeElsewhere declares other nodes to carry members: beside those that do, or in their place.
func (n *nemesis) comeElsewhere() {
	c := n.s.Store().Spec().Cluster
	c.Nodes = slices.Clone(c.Nodes)
	n.Shuffle(len(c.Nodes), func(i, j int) { c.Nodes[i], c.Nodes[j] = c.Nodes[j], c.Nodes[i] })
	slices.SortStableFunc(c.Nodes, func(a, b cke.Node) int {
		return cmp.Compare(strconv.FormatBool(a.ControlPlane), strconv.FormatBool(b.ControlPlane))
	})
	some, keep := 1+n.IntN(len(c.Nodes)), n.IntN(2) == 0
	for i := range c.Nodes {
		c.Nodes[i].ControlPlane = i < some || keep && c.Nodes[i].ControlPlane
	}
	n.s.Store().SetSpec(c)
	n.apply()
}

// hide keeps the members from the management hosts that were added since the store was copied, takes away what else shows them, and brings
// the copy back. They serve on. What is requested next, no daemon leads yet.
func (n *nemesis) hide() {
	id := n.s.Store().Identity()
	since := n.added(id)
	if id.Incarnation == nil {
		return
	}
	beside, _ := n.s.Beside(id.Incarnation.ID)
	if slices.ContainsFunc(since, func(j cke.Join) bool { return !beside.Has(j.ID) }) {
		return // it is not stored yet, and nothing else would show that the store is older
	}
	if n.hidden = since != nil && !n.unseen && n.putBack(); !n.hidden {
		return
	}
	n.hid = true
	for _, node := range n.s.Nodes() {
		switch {
		case slices.ContainsFunc(since, func(j cke.Join) bool { return j.Node.Name() == node.Name() }):
			n.s.Cut(sim.Management, node.Name())
		case n.IntN(6) == 0:
		case !n.keepsData && 2*len(since) > len(id.Joins):
			node.Blank()
		default:
			node.Unmark()
		}
	}
	if n.IntN(2) == 0 {
		n.s.order(n.fromBackup())
	}
}

// pursueHidden does what may happen, and what operators do, while the store is older and few nodes show that.
func (n *nemesis) pursueHidden(node *sim.Node) {
	switch n.IntN(8) {
	case 0:
		n.depose()
	case 1:
		n.s.TargetFallsSilent(n.IntN(4) == 0)
	case 2:
		n.unfreeze()
	case 3:
		n.s.Rejoin(node.Name())
	case 4:
		n.hidden = n.IntN(4) > 0
	default:
		if o := n.fromBackup(); len(n.s.asked()) == 0 && !n.s.Store().Spec().Deleting() {
			if n.IntN(3) == 0 {
				o = cke.RestoreOrder{Survivor: node.Name()}
			}
			n.s.order(o)
		}
	}
}

// fromBackup is an order that accepts what cannot be read beside the backups, if nothing serves that the store does not have.
func (n *nemesis) fromBackup() cke.RestoreOrder {
	o := fromBackup
	if unread := n.s.UnreadBeside(); unread != nil && !n.missed(&cke.Freeze{}) {
		o.Accepted = unread
	}
	return o
}

// missed reports whether operators know of members that are not on record, that are not gone for good, and that no node shows: nobody accepts
// such a store. Where only ends are lacking they know of those that took their place.
func (n *nemesis) missed(f *cke.Freeze) bool {
	d := n.s.latest()
	d.mu.Lock()
	in := d.input
	d.mu.Unlock()
	known := n.s.Store().Identity()
	if n.copied != nil && f.Lacks != nil && !slices.ContainsFunc(f.Lacks, func(l cke.Lacking) bool { return !l.Ended }) {
		known = n.copied.Identity()
	}
	shown := in.Identity.Unrecorded(clusterName, in.Seen.Nodes)
	for _, node := range n.s.Nodes() {
		containers, volumes := node.Look()
		var joins []cke.JoinID
		for _, c := range containers {
			joins = append(joins, c.Join)
		}
		for _, v := range volumes {
			joins = append(joins, v.Join)
		}
		for _, j := range joins {
			if !known.Has(j) && !slices.ContainsFunc(shown, func(u cke.Unrecorded) bool { return u.Join == j }) && n.s.Lasts(j) {
				return true
			}
		}
	}
	return false
}

// unseen forms a cluster on n1, lets it move to n1, n4 and n5, hides these, and brings back a store of before they came, of which the
// identity beside the backups alone shows that it is older. What n1 had is lost.
func unseen(t *testing.T, story func(s *stage, copied sim.StoreCopy)) {
	t.Helper()
	play(t, 5, func(s *stage) {
		s.replace = cke.ReplaceAuto
		s.Store().SetSpec(s.onNodes("n1"))
		s.backedUp()
		s.pass(time.Minute)
		copied := s.Store().Copy()
		s.Store().SetSpec(s.onNodes("n1", "n4", "n5"))
		s.must("grown", s.changed)
		s.pass(time.Minute)
		for _, n := range []string{"n4", "n5"} {
			s.Cut(sim.Management, n)
		}
		s.latest().Kill()
		s.Node("n1").Blank()
		s.Store().BringBack(copied)
		story(s, copied)
		for _, v := range s.Violations() {
			t.Error(v)
		}
		if !s.Write("n4", "in the end") {
			t.Error("n4 and n5 do not serve any more")
		}
	})
}

// Members that no node shows serve, and only the identity beside the backups has them: whatever was requested before a daemon leads, and
// after that, nothing takes the place of the cluster until they are on record again.
func TestBeside_AnOlderStoreWhoseMembersNoNodeShows(t *testing.T) {
	for name, asks := range map[string]func(s *stage){
		"nothing is requested": func(*stage) {},
		"a restore":            func(s *stage) { s.order(fromBackup) },
		"a deletion":           func(s *stage) { s.Store().RequestDelete() },
		"a restore while the target is silent for a moment": func(s *stage) {
			s.TargetFallsSilent(true)
			s.daemon()
			s.pass(5 * time.Second)
			s.TargetFallsSilent(false)
			s.order(fromBackup)
		},
		"a restore while the target is silent, until it fetches": func(s *stage) {
			s.TargetFallsSilent(true)
			s.daemon()
			s.pass(5 * time.Second)
			s.Judge = func(_ int, c sim.Call) sim.Verdict {
				if c.Name == "Fetch" {
					s.TargetFallsSilent(false)
				}
				return sim.Proceed
			}
			s.order(fromBackup)
		},
	} {
		t.Run(name, func(t *testing.T) {
			unseen(t, func(s *stage, _ sim.StoreCopy) {
				asks(s)
				if len(s.drivers) == 0 || s.latest().Dead() {
					s.daemon()
				}
				s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
				s.pass(10 * time.Minute)
				s.order(fromBackup)
				s.pass(10 * time.Minute)
				if f := s.freeze(); !f.Active() || f.Lacks == nil || s.restored() || s.Store().Deleted() {
					t.Fatalf("%+v", f)
				}
				if s.Store().Identity().Incarnation.State == cke.Restoring {
					s.ask(cke.TaskCancelRestore, "", "", "")
				}
				s.HealNetwork()
				s.Store().SetSpec(s.onNodes("n1", "n4", "n5"))
				s.Store().CancelDelete()
				s.pass(time.Minute)
				s.reclaim(t)
				s.pass(10 * time.Minute) // the grace of what n1 lost
				s.must("as declared", func() bool { return s.changed() && s.answered() && !s.freeze().Active() })
			})
		})
	}
}

// The newest identity beside the backups, which cannot be read, alone shows that a member ended since the copy of the store: its place is not taken.
// Without that rule the checker notices it.
func TestBeside_AnOlderStoreThatCannotReadTheNewest(t *testing.T) {
	for _, careless := range []bool{false, true} {
		play(t, 4, func(s *stage) {
			s.Store().SetSpec(s.onNodes("n1", "n2", "n3", "n4"))
			s.backedUp()
			s.pass(time.Minute)
			copied := s.Store().Copy()
			ended := s.join("n4").ID
			s.Store().SetSpec(s.onNodes("n1", "n2", "n3"))
			s.must("shrunk", s.changed)
			s.pass(time.Minute)
			life := copied.Identity().Incarnation.ID
			if id, there := s.Beside(life); !there || slices.ContainsFunc(id.Joins, func(j cke.Join) bool { return j.ID == ended }) {
				t.Fatalf("%+v", id)
			}
			s.latest().Kill()
			s.Node("n4").Blank()
			for _, n := range s.Nodes() {
				n.Unmark()
			}
			s.DamageBeside()
			if careless {
				s.KeepersWriteOverDamage()
			}
			s.blind = func(in *strategy.Input) { in.Requests.Hold = &cke.Hold{Reason: "an operator looks first"} } // else the membership ends again
			s.broughtBack(copied)
			s.pass(10 * time.Minute)
			const over = "an older store writes over the identity beside the backups"
			if careless {
				s.mustViolate(t, over)
			} else if v := s.Violations(); len(v) > 0 {
				t.Error(v)
			}
		})
	}
}

// The newest identity beside the backups, which has them, is damaged: no daemon can compare its store, and none restores before an operator has accepted
// just that. No member on record answers, so nothing is written there either.
func TestBeside_ADamagedIdentityIsNoLeaveToRestore(t *testing.T) {
	unseen(t, func(s *stage, copied sim.StoreCopy) {
		s.DamageBeside()
		s.daemon()
		other := fromBackup
		other.Accepted = []string{"c3d4/identity"}
		for _, o := range []cke.RestoreOrder{fromBackup, other} {
			s.order(o)
			s.pass(10 * time.Minute)
			if inc := s.Store().Identity().Incarnation; inc.State != cke.Formed || !inc.Life(copied.Identity().Incarnation.ID) || len(s.asked()) > 0 {
				t.Fatalf("%+v, asked %v", inc, s.asked())
			}
		}
	})
}

// They are gone for good: an operator accepts that, and the identity of the copy takes the place of the one beside the backups.
func TestBeside_AnAcceptedStoreTakesItsPlace(t *testing.T) {
	play(t, 4, func(s *stage) {
		s.Store().SetSpec(s.onNodes("n1", "n2", "n3"))
		s.backedUp()
		s.pass(time.Minute)
		copied := s.Store().Copy()
		life := copied.Identity().Incarnation.ID
		s.Store().SetSpec(s.onNodes("n1", "n2", "n3", "n4"))
		s.must("grown", s.changed)
		added := s.join("n4").ID
		s.pass(time.Minute)
		if id, there := s.Beside(life); !there || !id.Has(added) {
			t.Fatalf("%+v", id)
		}
		s.latest().Kill()
		s.Node("n4").Blank()
		s.Forget("n4")
		s.broughtBack(copied)
		s.must("frozen", func() bool { return s.frozenFor(cke.FreezeOlderStore) })
		s.pass(10 * time.Minute)
		if id, _ := s.Beside(life); !id.Has(added) {
			t.Error("the older store overwrote what lies beside the backups")
		}
		s.ask(cke.TaskUnfreeze, "", s.freeze().ID, "n4 is gone for good")
		s.must("accepted", func() bool {
			id, there := s.Beside(life)
			return there && !id.Has(added) && s.changed() && !s.freeze().Active()
		})
	})
}

// A restore starts a new incarnation, whose identity lies beside its own backups. While the target is silent, or takes nothing, it is not
// written; then a store of before a change is not found out by it.
func TestBeside_IsWrittenOnceTheTargetAnswers(t *testing.T) {
	for name, fails := range map[string]func(w *sim.World, on bool){"silent": (*sim.World).TargetFallsSilent, "takes nothing": (*sim.World).TargetRefuses} {
		inFormed(t, 4, func(s *stage) {
			s.TakeBackup()
			s.order(fromBackup)
			s.must("restored", func() bool { return s.restored() && s.settled() })
			life := s.Store().Identity().Incarnation.ID
			s.must("its identity", func() bool { _, there := s.Beside(life); return there })
			s.pass(time.Minute)
			fails(s.World, true)
			s.replaceAll(t, "n2")
			s.leap = true
			s.pass(time.Hour)
			if id, _ := s.Beside(life); id.Has(s.join("n2").ID) {
				t.Error(name, "and something was written")
			}
			fails(s.World, false)
			s.pass(time.Hour + time.Minute) // it rests for up to an hour
			if id, _ := s.Beside(life); !id.Has(s.join("n2").ID) {
				t.Error(name, "and nothing was written after that")
			}
		})
	}
}
