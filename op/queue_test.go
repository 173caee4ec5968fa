package op_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/op"
	"cke/sim"
)

// queued puts a node into the queue and returns its entry.
func (w *world) queuedReboot(node string) cke.Entry {
	w.t.Helper()
	n := w.Node(node).Declared()
	err := w.daemon.Term().EditQueue(w.daemon.Context(), cke.RebootQueue, func(q cke.Queue) (cke.Queue, error) {
		return q.Add([]cke.Node{n}, cke.Entry{By: "eve@host"}, time.Now())
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.reboot(node)
}

// reboot is the entry of a node as it is now.
func (w *world) reboot(node string) cke.Entry {
	w.t.Helper()
	r := w.daemon.Term().Requests().Reboots.Of(w.Node(node).Declared().Address)
	if r == nil {
		w.t.Fatalf("%s is not in the queue", node)
	}
	return *r
}

// drainReboot drains a node for its reboot.
func (w *world) drainReboot(node string) op.LeaseEntry {
	d := w.drain(node, false)
	r := w.queuedReboot(node)
	d.Entry = r.ID
	return op.LeaseEntry{Entry: r, Drain: &d}
}

func (w *world) runReboot(node string) op.RunEntry {
	j := w.drain(node, false).Join
	return op.RunEntry{Entry: w.reboot(node), Node: j.Node, Join: j, Command: sim.RebootCommand, Image: j.Etcd.Image, Limit: time.Minute}
}

func TestReboot_StopsTheMemberAndRecordsTheAttemptBeforeTheCommand(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.mustRun(w.drainReboot("n2"))
		if r := w.reboot("n2"); r.State != cke.EntryLeased || len(w.leases()) != 1 || w.leases()[0].Entry != r.ID || !strings.Contains(w.states(), "n2 exited") {
			t.Errorf("%+v %+v %s", r, w.leases(), w.states())
		}
		o := w.runReboot("n2")
		w.mustRun(o)
		r := w.reboot("n2")
		if r.State != cke.EntryRebooting || r.Attempt != 1 || !r.Boot.Known() || r.StartedAt.IsZero() {
			t.Errorf("%+v", r)
		}
		if s := w.daemon.QueuesSeen().Of(r); !s.Running {
			t.Errorf("%+v", s)
		}
		if _, err := w.run(o); err == nil || w.reboot("n2").Attempt != 1 { // what was decided before is not done twice
			t.Errorf("%v %+v", err, w.reboot("n2"))
		}
	})
}

// A command is not started without the lease, in a cluster that is paused, or when another voter has stopped since.
func TestReboot_AsksOnceMoreBeforeTheCommand(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"the lease is over": func(w *world) { w.Store().Ask("undrain", func(r *cke.Requests) { r.Drains = nil }) },
		"another lease":     func(w *world) { w.Store().Ask("drain", func(r *cke.Requests) { r.Drains[0].Entry = "" }) },
		"paused":            func(w *world) { w.Store().Ask("pause", func(r *cke.Requests) { r.Hold = &cke.Hold{Reason: "x"} }) },
		"another voter":     func(w *world) { w.Node("n3").PowerOff() },
		"disabled":          func(w *world) { w.Store().Ask("disable", func(r *cke.Requests) { r.Reboots.Disabled = true }) },
		"canceled": func(w *world) {
			w.Store().Ask("cancel", func(r *cke.Requests) { r.Reboots.Entries[0].Canceled = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				w.mustRun(w.drainReboot("n2"))
				change(w)
				_, err := w.run(w.runReboot("n2"))
				if r := w.reboot("n2"); err == nil || r.State != cke.EntryLeased || r.Attempt != 0 {
					t.Errorf("%v %+v", err, r)
				}
			})
		})
	}
}

// A reboot gives back its own lease, and no other one.
func TestReboot_GivesBackItsOwnLease(t *testing.T) {
	for name, foreign := range map[string]bool{"its own": false, "that of an operator": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				w.mustRun(w.drainReboot("n2"))
				if foreign {
					w.Store().Ask("drain", func(r *cke.Requests) { r.Drains[0].Entry = "" })
				}
				w.mustRun(op.NoteEntry{Entry: w.reboot("n2"), Result: cke.EntryCanceled, Release: true})
				if left := len(w.leases()) == 1; left != foreign {
					t.Errorf("%+v", w.leases())
				}
				h := w.daemon.Term().Requests().Reboots.History
				if len(h) != 1 || h[0].Result != cke.EntryCanceled {
					t.Errorf("%+v", h)
				}
			})
		})
	}
}

// Nothing shows which boot of a silent node runs: it is rebooted all the same.
func TestReboot_OfASilentNode(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.Node("n2").Freeze()
		d := w.drainReboot("n2")
		d.Drain.Join = nil
		w.mustRun(d)
		o := w.runReboot("n2")
		if _, err := w.run(o); err == nil {
			t.Error("it answered")
		}
		o.Silent = true
		w.mustRun(o)
		if r := w.reboot("n2"); r.State != cke.EntryRebooting || r.Boot.Known() {
			t.Errorf("%+v", r)
		}
	})
}

// A step of a repair that lets the member run asks for the arithmetic all the same, and its next step is put on record.
func TestRepair_WithoutALease(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		n := w.Node("n2").Declared()
		err := w.daemon.Term().EditQueue(w.daemon.Context(), cke.RepairQueue, func(q cke.Queue) (cke.Queue, error) {
			return q.Add([]cke.Node{n}, cke.Entry{On: "dead"}, time.Now())
		})
		if err != nil {
			t.Fatal(err)
		}
		entry := func() cke.Entry { return w.daemon.Term().Requests().Repairs.Entries[0] }
		w.mustRun(op.LeaseEntry{Entry: entry()})
		if e := entry(); e.State != cke.EntryLeased || len(w.leases()) > 0 || !strings.Contains(w.states(), "n2 running") {
			t.Errorf("%+v %+v %s", e, w.leases(), w.states())
		}
		j := w.drain("n2", false).Join
		run := op.RunEntry{Entry: entry(), Node: j.Node, Join: j, Command: sim.RebootCommand, Image: j.Etcd.Image, Limit: time.Minute, Unleased: true}
		w.Node("n3").PowerOff()
		if _, err := w.run(run); err == nil || entry().Attempt != 0 {
			t.Errorf("%v %+v", err, entry())
		}
		w.Node("n3").PowerOn()
		w.mustRun(op.StartMembers{Joins: []cke.Join{*w.drain("n3", false).Join}, AwaitServing: true})
		w.mustRun(run)
		if e := entry(); e.State != cke.EntryRepairing || e.Attempt != 1 {
			t.Errorf("%+v", e)
		}
		w.mustRun(op.NoteEntry{Entry: entry(), To: cke.EntryQueued, NextStep: true, Why: "it does not answer"})
		if e := entry(); e.Step != 1 || e.Tries() != 0 || e.Attempt != 1 || e.State != cke.EntryQueued {
			t.Errorf("%+v", e)
		}
	})
}

// A machine that cannot run a helper is repaired as one of which no boot is known, and is not rebooted.
func TestRepair_OfAMachineThatShowsNoBoot(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		c := w.cluster()
		c.Nodes[3].ControlPlane = false
		w.Store().SetSpec(c)
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		w.Node("n4").FillDisk()
		for _, k := range cke.QueueKinds() {
			err := w.daemon.Term().EditQueue(w.daemon.Context(), k, func(q cke.Queue) (cke.Queue, error) {
				return q.Add([]cke.Node{w.Node("n4").Declared()}, cke.Entry{On: map[cke.QueueKind]string{cke.RepairQueue: "dead"}[k]}, time.Now())
			})
			if err != nil {
				t.Fatal(err)
			}
			entry := func() cke.Entry { asked := w.daemon.Term().Requests(); return asked.Queue(k).Entries[0] }
			w.mustRun(op.LeaseEntry{Entry: entry()})
			o := op.RunEntry{Entry: entry(), Node: w.Node("n4").Declared(), Command: sim.RebootCommand, Image: "absent:1", Limit: time.Minute}
			_, err = w.run(o)
			if e := entry(); (err == nil) != (k == cke.RepairQueue) || e.Acting() != (err == nil) || e.Boot.Known() {
				t.Errorf("%v %+v", err, e)
			}
		}
	})
}

// A command whose end is not known is started once more with its whole time, and only if it is still wanted.
func TestReboot_RunsTheCommandAgain(t *testing.T) {
	for name, change := range map[string]func(r *cke.Requests){
		"wanted":   func(*cke.Requests) {},
		"canceled": func(r *cke.Requests) { r.Reboots.Entries[0].Canceled = true },
		"disabled": func(r *cke.Requests) { r.Reboots.Disabled = true },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.mustRun(w.bootstrap(false))
				w.mustRun(w.drainReboot("n2"))
				r, long := w.reboot("n2"), time.Now().Add(-time.Hour)
				err := w.daemon.Term().EditQueue(w.daemon.Context(), cke.RebootQueue, func(q cke.Queue) (cke.Queue, error) { // and the daemon died
					return q.Moved(r, func(q *cke.Entry) { q.To(cke.EntryRebooting, long); q.Attempt, q.StartedAt = 1, long })
				})
				if err != nil {
					t.Fatal(err)
				}
				o := w.runReboot("n2")
				o.Again, o.Renew = true, &op.DrainNode{Node: o.Node, For: 5 * time.Hour, Entry: o.Entry.ID}
				w.Store().Ask(name, func(r *cke.Requests) { change(r) })
				_, err = w.run(o)
				now := w.reboot("n2")
				if runs := w.daemon.QueuesSeen().Of(now).Running; runs != (name == "wanted") || (err == nil) != runs {
					t.Errorf("%v, running: %t", err, runs)
				}
				if name == "wanted" && (time.Since(now.StartedAt) > time.Minute || !now.Since.Equal(long) || time.Until(w.leases()[0].Until) < 4*time.Hour) {
					t.Errorf("%+v %+v", now, w.leases())
				}
			})
		})
	}
}

// A node that has rebooted since its command was started counts as back from the next observation on: it does not go down once more.
func TestReboot_IsNotRepeatedOnANodeThatHasRebooted(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.mustRun(w.bootstrap(false))
		w.mustRun(w.drainReboot("n2"))
		o := w.runReboot("n2")
		boot, err := w.daemon.Machines().Machine(o.Node).Boot(w.daemon.Context(), o.Image)
		if err != nil {
			t.Fatal(err)
		}
		r := w.reboot("n2")
		err = w.daemon.Term().EditQueue(w.daemon.Context(), cke.RebootQueue, func(q cke.Queue) (cke.Queue, error) { // and the daemon died
			return q.Moved(r, func(q *cke.Entry) {
				q.To(cke.EntryRebooting, time.Now())
				q.Attempt, q.Boot, q.StartedAt = 1, boot, time.Now()
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		o = w.runReboot("n2")
		o.Again, o.Renew = true, &op.DrainNode{Node: o.Node, For: time.Hour, Entry: o.Entry.ID}
		w.Node("n2").Reboot()
		if _, err := w.run(o); err == nil || w.daemon.QueuesSeen().Of(w.reboot("n2")).Running {
			t.Errorf("the command was started again: %v", err)
		}
	})
}

// A node is not rebooted while the list has a voter at its address that is not its own, or one that may be on it: it is known by another
// name, and is not known to be on another node.
func TestReboot_StopsNoForeignMember(t *testing.T) {
	for name, host := range map[string]string{"by its address": "", "by a host name": "n4.example.com", "by another address of it": "10.9.0.4"} {
		t.Run(name, func(t *testing.T) { stopsNoForeignMember(t, host) })
	}
}

func stopsNoForeignMember(t *testing.T, host string) {
	t.Helper()
	inWorld(t, 4, func(w *world) {
		c := w.cluster()
		c.Nodes[3].ControlPlane = false
		w.Store().SetSpec(c)
		w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
		e := w.queuedReboot("n4")
		w.mustRun(op.LeaseEntry{Entry: e})
		j := w.drain("n1", false).Join
		o := op.RunEntry{Entry: w.reboot("n4"), Node: w.Node("n4").Declared(), Command: sim.RebootCommand, Image: j.Etcd.Image, Limit: time.Minute}
		if !w.Node("n4").JoinAs("theirs", cmp.Or(host, o.Node.Address)) {
			t.Fatal("not added")
		}
		if _, err := w.run(o); cke.CodeOf(err) != cke.CodeStranger || w.reboot("n4").Attempt != 0 {
			t.Errorf("%v %+v", err, w.reboot("n4"))
		}
		if host == "" {
			return
		}
		_, _ = w.runIn(func(e op.Env) op.Env {
			_, members, _ := e.Etcd.Members(w.daemon.Context(), j.ClientURL())
			for _, m := range members {
				o.Elsewhere = append(o.Elsewhere, m.ID)
			}
			return e
		}, o)
		w.mustRun(o) // it is known to be on another node
	})
}

// A node is not rebooted as one without a member while one is on record that it has, or may have, at another address.
func TestReboot_StopsNoMemberThatHasNotMoved(t *testing.T) {
	for name, seen := range map[string]func(w *world, n *cke.Node) (silent bool){
		"its name":      func(w *world, n *cke.Node) bool { w.Node("n2").Freeze(); return true },
		"its serial":    func(w *world, n *cke.Node) bool { n.Hostname = "n9"; w.Node("n2").Freeze(); return true },
		"its container": func(w *world, n *cke.Node) bool { n.Hostname, n.Annotations = "n9", nil; return false },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				c := w.cluster()
				c.Nodes[3].ControlPlane = false
				c.Nodes[1].Annotations = map[string]string{cke.AnnotationSerial: "S2"}
				w.Store().SetSpec(c)
				w.mustRun(op.Bootstrap{Spec: c, Founders: c.ControlPlane()})
				o := op.RunEntry{Command: sim.RebootCommand, Image: w.drain("n1", false).Join.Etcd.Image, Limit: time.Minute}
				w.Node("n2").Readdress("10.0.7.2")
				e := w.queuedReboot("n2")
				w.mustRun(op.LeaseEntry{Entry: e})
				o.Entry, o.Node = w.reboot("n2"), w.Node("n2").Declared()
				o.Node.Annotations = c.Nodes[1].Annotations
				o.Silent = seen(w, &o.Node)
				if _, err := w.run(o); cke.CodeOf(err) != cke.CodeCannot || !strings.Contains(err.Error(), "10.0.0.2") || w.reboot("n2").Attempt != 0 {
					t.Errorf("%v %+v", err, w.reboot("n2"))
				}
			})
		})
	}
}
