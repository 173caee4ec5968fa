package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errFoundWrong: a drill has compared a full with a hash that an extract of an earlier revision may not have.
var errFoundWrong = damaged("a drill found that it is damaged, or holds something else than the cluster did")

// advised adds what a person can do where nothing but fulls that were found wrong leads to a state.
func advised(d *DamagedError) *DamagedError {
	if errors.Is(d, errFoundWrong) {
		d.Err = fmt.Errorf("%w; `ckecli backup verify --restore` tries it again, and --ignore-hash restores from it all the same", d.Err)
	}
	return d
}

// mistrust leaves the fulls out of a target that drills found wrong, unless o accepts them or at names the very full.
func (s *Store) mistrust(ctx context.Context, t *target, at At, o ExtractOptions) error {
	if o.drill {
		return nil
	}
	d, err := s.drills(ctx, t.lineage.Name)
	t.wrong, t.accepts = d.wrong, o.IgnoreHash || at.Full != ""
	return err
}

func (t target) foundWrong(c Chain) bool { return slices.Contains(t.wrong, c.Full.ID()) }

// inOrder has chains whose full was found wrong last where they are accepted: only if nothing else leads there.
func (t target) inOrder(chains []Chain) []Chain {
	if !t.accepts {
		return chains
	}
	return slices.SortedStableFunc(slices.Values(chains), func(a, b Chain) int {
		switch wrong := t.foundWrong(a); {
		case wrong == t.foundWrong(b):
			return 0
		case wrong:
			return 1
		}
		return -1
	})
}

// withoutWrong goes by names: it leaves the chains out that Extract passes over, with a note for each before the one that it takes.
func (t target) withoutWrong() (target, error) {
	chains := t.inOrder(t.chains)
	for i, c := range chains {
		if t.accepts || !t.foundWrong(c) {
			t.chains = chains[i:]
			return t, nil
		}
		t.notes = append(t.notes, passNote(c, errFoundWrong))
	}
	rest := t.lineage
	rest.Fulls = slices.DeleteFunc(slices.Clone(rest.Fulls), func(f Entry) bool { return slices.Contains(t.wrong, f.ID()) })
	return t, advised(&DamagedError{Object: chains[0].Full.Name(), LastGood: rest.reach(t.revision), Err: errFoundWrong})
}

func passNote(c Chain, why error) string {
	return fmt.Sprintf("full %s was passed over: %v", c.Full.ID(), why)
}

// acceptedWrong is the note of a state that was restored from a full all the same.
func (t target) acceptedWrong(c Chain) []string {
	if !t.foundWrong(c) {
		return nil
	}
	return []string{fmt.Sprintf("a drill found that full %s is damaged, or holds something else than the cluster did; this was accepted, as asked for", c.Full.ID())}
}
