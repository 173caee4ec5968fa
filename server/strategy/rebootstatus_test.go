package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/op"
	"cke/server/strategy"
)

// What an entry waits for is in the status in each phase of the cluster, and while its command is not started.
func TestReboots_SayWhyTheyRest(t *testing.T) {
	leased := func() *scene { return rebootable(3, 3).in(2, cke.EntryLeased, time.Second) }
	for name, row := range map[string]struct {
		scene *scene
		waits string
	}{
		"paused":          {rebootable(3, 3).queued(2).held(), "the cluster is paused"},
		"hibernated":      {rebootable(3, 3).queued(2).hibernated(), "the cluster is hibernated"},
		"leased":          {leased(), "its command is about to be started"},
		"leased, paused":  {leased().held(), "the cluster is paused"},
		"leased, refused": {leased().with(func(s *scene) { s.UnderWay.Commands = nil }), "the configuration of the daemon that leads has no command power-cycle"},
	} {
		if st := row.scene.report(); st.Reboots.Entries[0].Waits != row.waits {
			t.Errorf("%s: %q", name, st.Reboots.Entries[0].Waits)
		}
	}
}

// heldQueue is the scene with its queue in a store that was found to be older than the cluster, which an operator has accepted.
func heldQueue(s *scene) strategy.Input {
	s.Identity.Freeze = &cke.Freeze{ID: "f", Kind: cke.FreezeOlderStore, Held: cke.HoldRequests(time.Time{}, s.Requests), LiftedAt: noon, OverAt: noon}
	in := strategy.NewInput(cke.Spec{Cluster: s.Spec}, s.Identity, s.Requests, s.Seen, nil, s.Before)
	in.UnderWay, in.Failures = s.UnderWay, s.Failures
	return in
}

// heldFailed lets the note of an entry on n4 have failed.
func heldFailed(s *scene) *scene {
	return s.failed(op.NoteEntry{Entry: *s.entry(4)}, 1, 0)
}

// The queue of a store that is older than the cluster is held: what it asks for may be done already. What is under way is canceled, and
// watched to its end like all that operators cancel: no other node goes down before.
func TestReboots_OfAnOlderStoreAreHeld(t *testing.T) {
	canceled := func(s *scene) { s.entry(2).Canceled = true }
	for name, row := range map[string]struct {
		scene *scene
		left  int    // entries that rules see
		does  string // as done says
		held  bool   // a problem is reported
	}{
		"queued": {rebootable(3, 3).queued(2), 0, "", true},
		"failed": {rebootable(3, 3).in(2, cke.EntryFailed, time.Hour), 0, "", true},
		"leased": {rebootable(3, 3).in(2, cke.EntryLeased, time.Minute).stopped(2), 1, "note n2 to cancel", true},
		"leased, and it could not be canceled a moment ago": {heldFailed(rebootable(3, 4).in(4, cke.EntryLeased, time.Minute)), 1, "", true},
		"leased and canceled":                               {rebootable(3, 3).in(2, cke.EntryLeased, time.Minute).stopped(2).with(canceled), 1, "note n2 canceled, released", false},
		"its command runs":                                  {rebootable(3, 3).in(2, cke.EntryRebooting, time.Minute).stopped(2).knowing(2, func(k *cke.EntrySeen) { k.Running = true }), 1, "", true},
		"its command has run":                               {rebootable(3, 3).in(2, cke.EntryRebooting, time.Minute).stopped(2).showing(2, "1"), 1, "note n2 to cancel", true},
		"it is not to be run":                               {rebootable(3, 3).in(2, cke.EntryRebooting, time.Minute).stopped(2).showing(2, "1").with(canceled), 1, "note n2 canceled, released", false},
		"it was silent since":                               {rebootable(3, 3).in(2, cke.EntryRebooting, time.Hour).silent(2).with(canceled), 1, "note n2 canceled, released", false},
		"it returns":                                        {rebootable(3, 3).in(2, cke.EntryReturning, time.Hour), 1, "note n2 to cancel", true},
		"it never came back":                                {rebootable(3, 3).in(2, cke.EntryReturning, time.Hour).silent(2).with(canceled), 1, "note n2 canceled, released", false},
	} {
		in := heldQueue(row.scene)
		if left := len(in.Requests.Reboots.Entries); left != row.left || len(row.scene.Requests.Reboots.Entries) != 1 {
			t.Errorf("%s: %d entries are seen", name, left)
		}
		d := strategy.Decide(in)
		if done(d) != row.does {
			t.Errorf("%s: %q: %s", name, done(d), d.Reason)
		}
		st := strategy.Report(in, d, cke.Status{})
		if held := slices.ContainsFunc(st.Problems, func(p cke.Problem) bool {
			return p.Code == cke.CodeOlderStore && strings.Contains(p.Message, "1 reboot")
		}); held != row.held {
			t.Errorf("%s: %+v", name, st.Problems)
		}
		why := strategy.RestoreRefusal(in, cke.RestoreOrder{Target: "file:///b"})
		if held := why != nil && why.Code == cke.CodeOlderStore && strings.Contains(why.Try, "reboot-queue cancel --all"); held != row.held {
			t.Errorf("%s: a restore: %+v", name, why)
		}
	}
}

// The status has each entry with what it waits for, and a failed one as a problem with its remedy.
func TestReboots_InTheStatus(t *testing.T) {
	if st := rebootable(3, 3).report(); st.Reboots != nil {
		t.Errorf("%+v", st.Reboots)
	}
	s := rebootable(3, 5).queued(1, 2).in(3, cke.EntryFailed, time.Hour).in(4, cke.EntryRebooting, time.Minute)
	s.entry(3).Error = "no power"
	st := s.silent(4).report()
	var waits []string
	for _, e := range st.Reboots.Entries {
		waits = append(waits, e.Node+": "+e.Waits)
	}
	want := []string{"n1: 1 reboot is under way (max_concurrent)", "n2: 1 reboot is under way (max_concurrent)", "n3: no power", "n4: it does not answer"}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Error(diff)
	}
	at := slices.IndexFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeReboot })
	if at < 0 || st.Problems[at].Node != "n3" || !strings.Contains(st.Problems[at].Remedy, "reboot-queue retry n3") || !st.Problems[at].Since.Equal(noon.Add(-time.Hour)) {
		t.Errorf("%+v", st.Problems)
	}
	s.UnderWay.Commands = nil
	st = s.report()
	if !slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeReboot && p.Node == "" }) {
		t.Errorf("%+v", st.Problems)
	}
}
