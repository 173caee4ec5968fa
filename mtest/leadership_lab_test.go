package mtest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// takeover bounds the time from a leader's end to another's first status: the session's time to live, and what a busy
// machine needs besides.
const takeover = 3*time.Second + 10*time.Second

// hosts are two management hosts that share a store on the network; the first one reaches it through a wire.
type hosts struct {
	one, two *story
	wire     *rig.Wire
	store    *rig.Store
}

func newHosts(t *testing.T, l *lab.Lab, n int) hosts {
	t.Helper()
	h := hosts{one: storyOn(t, l, n), two: storyOn(t, l, n)}
	store, err := rig.StartStore(t.Context(), t.TempDir())
	h.one.must(err)
	t.Cleanup(store.Stop)
	h.store = store
	h.wire, err = rig.NewWire(store.Address)
	h.one.must(err)
	t.Cleanup(h.wire.Close)
	h.one.must(h.one.WriteConfig(store.Config(h.wire.Address)))
	over := store.Config(store.Address)
	over["secret_key_file"] = filepath.Join(h.one.Dir, "secret.key") // the same on every management host
	h.two.must(h.two.WriteConfig(over))
	return h
}

// led waits until a daemon has told a status as the leader, after then, and returns it.
func (s *story) led(host string, then time.Time) cke.Status {
	s.Helper()
	return s.await(host+" to lead", seenLimit, func(st cke.Status) bool { return st.Leader.Host == host && st.ObservedAt.After(then) })
}

func TestLabLeadership_PassesOnWhenALeaderFails(t *testing.T) {
	h := newHosts(t, borrow(t, 1), 1)
	one, two := h.one, h.two
	first := one.daemon("boot-1")
	before := one.found()
	second := two.daemon("boot-2")
	did := len(two.records())
	leads := func(s *story, host string, since time.Time) cke.Status {
		s.Helper()
		st := s.led(host, since)
		if took := time.Since(since); took > takeover {
			s.Errorf("%s leads only after %s", host, took)
		} else {
			s.Logf("%s leads after %s", host, took.Round(time.Millisecond))
		}
		return st
	}
	one.led("boot-1", time.Time{})

	two.part("killed", func(s *story) {
		first.Kill()
		st := leads(s, "boot-2", time.Now())
		if st.Leader.Term != before.Leader.Term+1 {
			s.Errorf("term %d after %d", st.Leader.Term, before.Leader.Term)
		}
	})
	first = one.daemon("boot-1")
	two.part("frozen", func(s *story) {
		s.must(second.Freeze())
		st := leads(s, "boot-1", time.Now())
		s.must(second.Thaw())
		s.must(second.AwaitLog(s.within(seenLimit), "term ended"))
		s.keepsLeading(st.Leader)
	})
	two.part("cut from its store", func(s *story) {
		h.wire.Cut()
		st := leads(s, "boot-2", time.Now())
		s.must(first.AwaitLog(s.within(seenLimit), "term ended"))
		h.wire.Repair()
		s.keepsLeading(st.Leader)
	})
	two.part("stopped in good order", func(s *story) {
		began := time.Now()
		took, err := second.Stop(stopLimit)
		s.must(err)
		s.Logf("stopped in %s", took.Round(time.Millisecond))
		if leads(s, "boot-1", began); time.Since(began) > takeover-3*time.Second {
			s.Error("the session was waited for, although the leader resigned")
		}
	})
	two.daemon("boot-2")
	two.part("asked to resign", func(s *story) {
		began := time.Now()
		s.do("leader", "--resign")
		leads(s, "boot-2", began)
	})
	two.nudge()
	two.stillMembers(before)
	if all := two.records(); len(all) != did {
		t.Errorf("somebody did something: %+v", all[:len(all)-did])
	}
}

// keepsLeading makes the leader tell a few times: it is still this one in this term.
func (s *story) keepsLeading(leader cke.Leader) {
	s.Helper()
	for range 3 {
		if st := s.nudge(); st.Leader.Host != leader.Host || st.Leader.Term != leader.Term {
			s.Fatalf("%s leads in term %d, not %s in term %d", st.Leader.Host, st.Leader.Term, leader.Host, leader.Term)
		}
	}
}

func TestLabLeadership_ADaemonFrozenInTheMiddleOfABootstrapDoesNoHarmWhenItGoesOn(t *testing.T) {
	for _, step := range []string{"prepare", "start", "record-formed"} {
		t.Run(step, func(t *testing.T) {
			if step != "start" {
				rare(t)
			}
			h := newHosts(t, borrow(t, 3), 3)
			one, two := h.one, h.two
			first := one.daemon("boot-1")
			one.set(one.spec())
			one.awaitProblem(one.nodes[0].Name, cke.CodeNoSSHKey)
			two.daemon("boot-2")
			frozen := one.when(one.within(seenLimit), rig.StepBegun(step), first.Freeze)
			one.setKey()
			one.must(<-frozen)
			two.await("the other daemon to found the cluster", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && st.Leader.Host == "boot-2" })
			one.must(first.Thaw())
			one.must(first.AwaitLog(one.within(seenLimit), "term ended"))
			st := two.oneCluster()
			two.keepsLeading(st.Leader)
			for _, r := range two.records() {
				if r.State == cke.RecordRunning {
					t.Errorf("operation %+v", r)
				}
				t.Logf("%d %s by %s in term %d: %s", r.ID, r.Operation, r.Host, r.Term, r.State)
			}
		})
	}
}

func TestLabLeadership_OfAnEmbeddedStorePassesOnToADaemonThatWaitsForIt(t *testing.T) {
	s := newStory(t, 1)
	first := s.daemon("boot-1")
	before := s.found()
	second := s.heir("boot-2")
	health, err := second.AwaitHealth(s.within(seenLimit), "the heir to wait", func(h rig.Health) bool { return h.Status == "waiting" })
	s.must(err)
	if want := fmt.Sprintf("another cke (process %d)", first.Pid()); !strings.Contains(health.Waiting, want) || !strings.Contains(health.Waiting, filepath.Join(s.Dir, "store")) {
		t.Errorf("it waits for %q, not for %s", health.Waiting, want)
	}
	began := time.Now()
	first.Kill()
	st := s.led("boot-2", began)
	if took := time.Since(began); took > takeover {
		t.Errorf("it leads only after %s", took)
	}
	if st.Leader.Term <= before.Leader.Term {
		t.Errorf("term %d after %d", st.Leader.Term, before.Leader.Term)
	}
	_, err = second.AwaitHealth(s.within(seenLimit), "the heir to be well", func(h rig.Health) bool { return h.Status == "ok" })
	s.must(err)
	s.nudge()
	s.stillMembers(before)
}
