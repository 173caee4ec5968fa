package keep_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/sabakan/keep"
)

func is(t *testing.T, what string, got, want any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// play runs a story on a clock of its own.
func play(t *testing.T, machines int, mode cke.InventoryMode, f func(t *testing.T, h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHouse(t, machines, mode)) })
}

func TestKeeper_ShowsAChangeAndAppliesItWhenItIsOrdered(t *testing.T) {
	play(t, 5, cke.InventoryPropose, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			is(t, "change", k.Status().Change == nil, true)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			s := k.Status()
			if s.Change == nil || s.Change.Cause != cke.CauseRetired || s.Change.Old != "s2" || s.Change.New != "s4" || s.Change.Auto || s.Hosts[cke.HostRetired] != 1 || s.Candidates != 2 {
				t.Fatalf("%+v", s)
			}
			is(t, "members", h.members(), "s1 s2 s3")
			if !slices.Contains(h.checked, "s4") {
				t.Errorf("checked %v", h.checked)
			}
			h.asks("0000")
			pass(10 * time.Second)
			if a := k.Status().Log.Answer; a == nil || !strings.Contains(a.Refused, "no longer what follows") || h.order != nil {
				t.Errorf("%+v", a)
			}
			h.asks(s.Change.Hash)
			pass(10 * time.Second)
			is(t, "members", h.members(), "s1 s3 s4")
			is(t, "by", h.spec.SetBy, "inventory, confirmed by me@here")
			is(t, "cause", h.spec.Cause, cke.CauseRetired)
			is(t, "answer", k.Status().Log.Answer.Generation, int64(2))
			is(t, "counted", len(h.applied), 1)
		})
	})
}

func TestKeeper_AppliesByItselfWhatNeedsNoConfirmation(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
			is(t, "by", h.spec.SetBy, "inventory")
			pass(15 * time.Minute)
			h.turns("s3", cke.HostRetired)
			pass(5 * time.Minute)
			is(t, "the next one waits, members", h.members(), "s1 s3 s4")
			is(t, "stop", k.Status().Stop, "settle")
			// The operator may override that.
			h.asks(k.Status().Override.Hash)
			pass(10 * time.Second)
			is(t, "members", h.members(), "s1 s4 s5")
			pass(time.Hour)
			is(t, "revision", h.spec.Generation, int64(3))
		})
	})
}

// A change stays as it was shown while its machine passes its checks, and is gone once it does not.
func TestKeeper_ChecksAgainTheMachineOfAChangeThatIsShown(t *testing.T) {
	play(t, 4, cke.InventoryPropose, func(t *testing.T, h *house) {
		h.slow = 20 * time.Second
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			hash := k.Status().Change.Hash
			for range 720 {
				pass(5 * time.Second)
				if c := k.Status().Change; c == nil || c.Hash != hash {
					t.Fatalf("%+v", k.Status())
				}
			}
			h.change(func() { h.unfit = map[string]string{"10.0.0.4": "ssh: no route to host"} })
			pass(15 * time.Minute)
			is(t, "code", k.Status().Code, cke.CodeNoHost)
		})
	})
}

// Bad case 1: the server is away for a day.
func TestKeeper_BadCase1_TheServerIsAwayForADay(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			read := k.Status().ReadAt
			h.change(func() { h.fails = errors.New("no whole answer within 5s") })
			h.turns("s2", cke.HostRetired)
			pass(24 * time.Hour)
			s := k.Status()
			if s.Stop != "read" || s.Code != cke.CodeInventory || !s.ReadAt.Equal(read) || s.Failures < 1000 || !strings.Contains(s.Reason, "the last good read is 1d old") && !strings.Contains(s.Reason, "the last good read is 24h") {
				t.Errorf("%+v", s)
			}
			is(t, "members", h.members(), "s1 s2 s3")
		})
		h.lead(func(k *keep.Keeper) { // another daemon knows the age, too
			if s := k.Status(); s.ReadAt.IsZero() || s.ReadAt.After(time.Now().Add(-24*time.Hour)) || s.Hosts != nil || s.Stop != "read" {
				t.Errorf("%+v", s)
			}
			h.change(func() { h.fails = nil })
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
		})
	})
}

// Bad case 1: what hangs delays neither the loop, which updates and asks for the status, nor the end of the term.
func TestKeeper_BadCase1_WhatHangsDelaysNothing(t *testing.T) {
	for _, what := range []string{"inventory", "others", "checks"} {
		play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
			h.hangs = what
			var ended time.Time
			h.lead(func(k *keep.Keeper) {
				pass(time.Minute)
				h.turns("s2", cke.HostRetired)
				for range 10 {
					pass(time.Minute)
					began := time.Now()
					for range 10 {
						k.Update(h.wanted())
						k.Status()
					}
					if took := time.Since(began); took > 0 {
						t.Fatalf("%s hang, and the loop waited for %s", what, took)
					}
				}
				is(t, what+" hang, members", h.members(), "s1 s2 s3")
				ended = time.Now()
			})
			is(t, what+" hang, end of the term after", time.Since(ended), time.Duration(0))
			h.change(func() { h.hangs = "" })
			h.lead(func(*keep.Keeper) {
				pass(3 * time.Minute)
				is(t, what+" answer, members", h.members(), "s1 s3 s4")
			})
		})
	}
}

// Bad case 2: an answer without one member, two, all.
func TestKeeper_BadCase2_MachinesAreMissing(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			all := slices.Clone(h.hosts)
			h.vanishes("s2")
			pass(30 * time.Minute)
			is(t, "within the hour, members", h.members(), "s1 s2 s3")
			h.vanishes("s3")
			pass(time.Minute)
			h.vanishes("s1")
			pass(2 * time.Minute)
			is(t, "stop", k.Status().Stop, "many")
			pass(24 * time.Hour)
			is(t, "revision", h.spec.Generation, int64(1))
			h.change(func() { h.hosts = all })
			pass(2 * time.Minute)
			is(t, "all are back, stop", k.Status().Stop, "")
			h.vanishes("s2")
			pass(2 * time.Hour)
			is(t, "one is gone for an hour and asked for, members", h.members(), "s1 s3 s4")
			if !slices.Contains(h.unknown, "s2") {
				t.Errorf("asked for %v", h.unknown)
			}
		})
	})
}

// Bad case 3: the machine is back after it was replaced.
func TestKeeper_BadCase3_TheMachineIsBackAfterItWasReplaced(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			h.turns("s2", cke.HostHealthy)
			pass(3 * time.Hour)
			is(t, "members", h.members(), "s1 s3 s4")
			is(t, "candidates", k.Status().Candidates, 2)
		})
	})
}

// Bad case 3: an old machine is powered on again, with what is left of its member: it is not taken before that is removed.
func TestKeeper_BadCase3_AnOldMachineIsPoweredOn(t *testing.T) {
	play(t, 4, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
			h.change(func() { h.unfit = map[string]string{"10.0.0.2": "a volume of a member of cluster prod is there"} })
			h.turns("s2", cke.HostHealthy)
			pass(40 * time.Minute)
			h.turns("s1", cke.HostRetired)
			pass(20 * time.Minute)
			is(t, "members while only the old machine is left", h.members(), "s1 s3 s4")
			is(t, "code", k.Status().Code, cke.CodeNoHost)
			h.change(func() { h.unfit = nil })
			pass(20 * time.Minute)
			is(t, "members", h.members(), "s2 s3 s4")
		})
	})
}

// Bad case 4: all are retiring within a minute, by a stranger's mutation.
func TestKeeper_BadCase4_AllRetireWithinAMinute(t *testing.T) {
	play(t, 8, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			for _, host := range slices.Clone(h.hosts) {
				h.turns(host.ID, cke.HostRetiring)
				pass(5 * time.Second)
			}
			pass(24 * time.Hour)
			is(t, "revision", h.spec.Generation, int64(1))
			is(t, "stop", k.Status().Stop, "many")
			is(t, "code", k.Status().Code, cke.CodeManyHosts)
		})
	})
}

// Bad case 5: no candidate passes its check; then one does.
func TestKeeper_BadCase5_NoCandidatePassesItsCheck(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.change(func() {
			h.unfit = map[string]string{"10.0.0.4": "client-port: 2379 is taken", "10.0.0.5": "ssh: no route to host"}
		})
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(10 * time.Minute)
			is(t, "code", k.Status().Code, cke.CodeNoHost)
			is(t, "members", h.members(), "s1 s2 s3")
			h.change(func() { h.unfit = map[string]string{"10.0.0.4": "client-port: 2379 is taken"} })
			pass(30 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s5")
		})
	})
}

// Bad case 5: another cluster gets the machine at that moment: the next one is taken, without waiting until other clusters are read again.
func TestKeeper_BadCase5_AnotherClusterGetsTheMachineAtThatMoment(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.edited = func() { h.taken = map[string]string{"10.0.0.4": "other"} }
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2*interval + 10*time.Second)
			is(t, "members", h.members(), "s1 s3 s5")
		})
	})
}

// Bad case 6: the operator edits at that moment: the change is dropped, and another one is chosen from what was written.
func TestKeeper_BadCase6_AnEditAtThatMoment(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		edits := 0
		h.edited = func() {
			if edits++; edits == 1 {
				h.spec.Generation++
				h.spec.SetBy = "me@here"
				h.spec.Cluster.Nodes = slices.Clone(h.spec.Cluster.Nodes)
				h.spec.Cluster.Nodes[0].Annotations = map[string]string{cke.AnnotationSerial: "s1", "by": "hand"}
			}
		}
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(3 * time.Minute)
			is(t, "revision", h.spec.Generation, int64(3))
			is(t, "members", h.members(), "s1 s3 s4")
			n, _ := h.spec.Cluster.Node("s1")
			is(t, "what was written", n.Annotations["by"], "hand")
		})
	})
}

// Bad case 6: what the operator rolls back is held for a day.
func TestKeeper_BadCase6_ARollbackHoldsTheExchange(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		before := h.spec.Cluster
		h.lead(func(*keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
			h.change(func() { h.spec.Cluster, h.spec.Generation, h.spec.SetBy, h.spec.Cause = before, 3, "me@here", "" })
			pass(2 * time.Hour)
		})
		h.lead(func(k *keep.Keeper) { // another daemon knows it, too
			pass(2 * time.Hour)
			is(t, "members", h.members(), "s1 s2 s3")
			if s := k.Status(); s.Stop != "node" || !strings.Contains(s.Reason, "rolled back") {
				t.Errorf("%+v", s)
			}
			pass(21 * time.Hour)
			is(t, "members", h.members(), "s1 s3 s4")
		})
	})
}

// Bad case 6: two daemons, of which one is deposed without knowing it: its writes fail.
func TestKeeper_BadCase6_ADeposedDaemonChangesNothing(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(*keep.Keeper) {
			pass(time.Minute)
			h.change(func() { h.fail = func(string) error { return cke.ErrDeposed } })
			h.turns("s2", cke.HostRetired)
			pass(5 * time.Minute)
			is(t, "revision", h.spec.Generation, int64(1))
		})
		h.change(func() { h.fail = nil })
		h.lead(func(*keep.Keeper) {
			pass(3 * time.Minute)
			is(t, "revision", h.spec.Generation, int64(2))
		})
	})
}

// A daemon that goes on after a write of which it does not know the outcome reads it again.
func TestKeeper_AnUnknownWriteIsReadAgain(t *testing.T) {
	for _, after := range []bool{false, true} {
		play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
			h.after = after
			failed := false
			h.fail = func(write string) error {
				if write == "spec" && !failed {
					failed = true
					return errors.New("no answer from the store")
				}
				return nil
			}
			h.lead(func(k *keep.Keeper) {
				pass(time.Minute)
				h.turns("s2", cke.HostRetired)
				pass(3 * time.Minute)
				is(t, "members", h.members(), "s1 s3 s4")
				is(t, "revision", h.spec.Generation, int64(2))
				is(t, "changes known", len(k.Status().Log.Changes), 1)
			})
		})
	}
}

// Bad case 6: clocks that are an hour apart. An order that seems to be from long ago is refused, and a read from the future is none.
func TestKeeper_BadCase6_AnOrderFromLongAgoIsRefused(t *testing.T) {
	play(t, 5, cke.InventoryPropose, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			pass(time.Minute)
			h.turns("s2", cke.HostRetired)
			pass(2 * time.Minute)
			o := cke.NewInventoryOrder(k.Status().Change.Hash, "me@here", time.Now().Add(-time.Hour))
			h.change(func() { h.order = &o })
			pass(10 * time.Second)
			is(t, "members", h.members(), "s1 s2 s3")
			if a := k.Status().Log.Answer; a == nil || !strings.Contains(a.Refused, "ordered more than") {
				t.Errorf("%+v", a)
			}
			o = cke.NewInventoryOrder(k.Status().Change.Hash, "me@here", time.Now().Add(time.Hour))
			h.change(func() { h.order = &o })
			pass(10 * time.Second)
			is(t, "members by an order that is dated an hour ahead, with the hash that is shown", h.members(), "s1 s3 s4")
		})
	})
}

func TestKeeper_FollowsWhatOperatorsSet(t *testing.T) {
	play(t, 5, cke.InventoryAuto, func(t *testing.T, h *house) {
		h.lead(func(k *keep.Keeper) {
			set := func(f func(s *cke.InventorySettings)) {
				h.change(func() { s := *h.settings; f(&s); h.settings = &s })
				pass(2 * time.Minute)
			}
			pass(time.Minute)
			set(func(s *cke.InventorySettings) { s.Enabled = false })
			h.turns("s2", cke.HostRetired)
			pass(time.Hour)
			is(t, "members while it is not used", h.members(), "s1 s2 s3")
			is(t, "stop", k.Status().Stop, "off")
			set(func(s *cke.InventorySettings) { s.Enabled, s.Template = true, "a fault" })
			if s := k.Status(); s.Code != cke.CodeInventory || !strings.Contains(s.Reason, "fault") {
				t.Errorf("%+v", s)
			}
			set(func(s *cke.InventorySettings) { s.Template = "a template" })
			pass(2 * time.Minute)
			is(t, "members", h.members(), "s1 s3 s4")
			h.change(func() { h.fails = errors.New("no answer") })
			set(func(s *cke.InventorySettings) { s.SetBy = "me" })
			if s := k.Status(); !strings.Contains(s.Reason, "the last good read is") || s.Hosts[cke.HostHealthy] != 4 {
				t.Errorf("%+v", s)
			}
			h.change(func() { h.settings = nil })
			pass(10 * time.Second)
			is(t, "status", k.Status() == nil, true)
		})
	})
}
