package strategy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
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

// The queue of a store that is older than the cluster is held: what it asks for may be done already. A lease of it is over.
func TestReboots_OfAnOlderStoreAreHeld(t *testing.T) {
	s := rebootable(3, 3).in(2, cke.EntryLeased, time.Minute)
	held := cke.HoldRequests(time.Time{}, s.Requests)
	s.Identity.Freeze = &cke.Freeze{ID: "f", Kind: cke.FreezeOlderStore, Held: held, LiftedAt: noon}
	in := strategy.NewInput(cke.Spec{Cluster: s.Spec}, s.Identity, s.Requests, s.Seen, nil, s.Before)
	in.UnderWay = s.UnderWay
	if d := strategy.Decide(in); done(d) != "note n2 , released" || len(in.Requests.Reboots.Entries) > 0 || len(s.Requests.Reboots.Entries) != 1 {
		t.Errorf("%q: %s", done(d), d.Reason)
	}
	st := strategy.Report(in, strategy.Decide(in), cke.Status{})
	if !slices.ContainsFunc(st.Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeOlderStore && strings.Contains(p.Message, "1 reboot")
	}) {
		t.Errorf("%+v", st.Problems)
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
