package sim_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/op"
)

// Requirement D6: lost data is made good at once while changes wait for a person or for a window, which may be a week
// away. What a person changed meanwhile waits on.
func TestConsent_IsNotNeededToPutBackWhatWasLost(t *testing.T) {
	for _, mode := range []cke.ReconcileMode{cke.ReconcileManual, cke.ReconcileWindow} {
		play(t, 4, func(s *stage) {
			s.tell = t.Logf
			all := s.Nodes()
			s.declare(all[:3]...)
			s.daemon()
			s.until(time.Minute, s.ready(all[:3]...))
			c := s.Store().Spec().Cluster
			c.Nodes = s.cluster(all).Nodes
			c.Options.Etcd.Version = "3.6.15"
			c.Policies.Reconcile = mode
			if mode == cke.ReconcileWindow {
				c.Policies.Window = cke.Window{Schedule: "0 2 * * 6", Duration: cke.Duration(time.Hour)}
			}
			c.Policies.Replace = cke.ReplacePolicy{Mode: cke.ReplaceAuto, Grace: cke.Duration(time.Minute)}
			s.Store().SetSpec(c)
			all[1].EmptyVolumes()
			again := func() bool {
				id, status := s.Store().Identity(), s.told()
				return len(id.Ended) == 1 && id.Ended[0].Repair && len(id.Joins) == 3 && status.Ready == 3 && status.Tolerance == 1
			}
			if !s.until(5*time.Minute, again) {
				d, status := s.latest().now()
				t.Fatalf("%s: not put back: %s / %s %s", mode, d.Reason, status.Health, status.Summary)
			}
			s.pass(5 * time.Minute)
			id := s.Store().Identity()
			if _, carries := id.On(all[3].Declared()); carries {
				t.Errorf("%s: the new node waits for nobody", mode)
			}
			restarts := slices.ContainsFunc(s.Store().Records(), func(r cke.Record) bool { return r.Operation == op.RestartMember{}.Name() })
			for _, j := range id.Joins {
				if j.Etcd.Version != cke.DefaultEtcdVersion || restarts {
					t.Errorf("%s: %s runs %s, which nobody has agreed to", mode, j.Node.Name(), j.Etcd.Version)
				}
			}
			if v := s.Violations(); v != nil {
				t.Error(v)
			}
		})
	}
}
