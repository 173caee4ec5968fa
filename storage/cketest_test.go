package storage

import (
	"errors"
	"testing"

	"cke"
	"cke/cketest"
)

// A term keeps every sentence of the port, as the simulated one does: see sim.
func TestTerm_KeepsThePortsSentences(t *testing.T) {
	s := newStore(t)
	n := 0
	cketest.Ledger(t, func(t *testing.T, scene func(*testing.T, cketest.Store)) {
		n++
		name := string(rune('a' + n - 1))
		c := setCluster(t, s, name).Cluster.WithDefaults()
		term := campaign(t, s, name, "here")
		ctx := testContext(t)
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		scene(t, cketest.Store{
			Ledger: term, Cluster: c,
			Ask:       func(task cke.Task) { must(s.AddTask(ctx, name, task)) },
			AskDelete: func() { must(s.RequestDelete(ctx, name, "me@here")) }, CancelDelete: func() {
				if err := s.CancelDelete(ctx, name); !errors.Is(err, cke.ErrConflict) { // sealed
					must(err)
				}
			},
			Hibernate: func(on bool) {
				if on {
					must(s.SetHibernation(ctx, name, "me@here"))
				} else {
					must(s.EndHibernation(ctx, name))
				}
			},
			Older: func(may bool) {
				if !may {
					_, err := s.RaiseSchema(ctx, "me@here")
					must(err)
					return
				}
				_, err := s.client.Delete(ctx, s.keys.version())
				must(err)
				_, err = s.Schema(ctx)
				must(err)
			},
			Depose: func() { must(term.Resign(ctx)) },
		})
	})
}
