package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// errFoundWrong: a drill has compared a full with a hash that an extract of an earlier revision may not have.
var errFoundWrong = damaged("a restore drill found that it is damaged, or that its data differs from the cluster's")

// advised adds what the operator can do where nothing but fulls that were found wrong leads to a state.
func advised(d *DamagedError) *DamagedError {
	if errors.Is(d, errFoundWrong) {
		d.Err = fmt.Errorf("%w; `ckecli backup verify --restore` tests it again, and --ignore-hash restores from it anyway", d.Err)
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
	t.doubted = slices.DeleteFunc(slices.Clone(d.wrong), func(id string) bool { return slices.Contains(d.damaged, id) })
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
	rest, _ := t.lineage.without(t.wrong)
	return t, advised(&DamagedError{Object: chains[0].Full.Name(), LastGood: rest.reach(t.revision), Err: errFoundWrong})
}

func passNote(c Chain, why error) string {
	return fmt.Sprintf("full %s was skipped: %v", c.Full.ID(), why)
}

// acceptedWrong is the note of a state that was restored from a full all the same.
func (t target) acceptedWrong(c Chain) []string {
	if !t.foundWrong(c) {
		return nil
	}
	return []string{fmt.Sprintf("a restore drill found that full %s is damaged, or that its data differs from the cluster's; this was accepted, as requested", c.Full.ID())}
}

// LeaveOutWrong removes the fulls from l that a restore drill found wrong, or that were read whole and are damaged. It returns these.
func (s *Store) LeaveOutWrong(ctx context.Context, l *Lineage) (wrong []Entry, err error) {
	d, err := s.drills(ctx, l.Name)
	if err == nil {
		*l, wrong = l.without(d.wrong)
	}
	return wrong, err
}

// without returns the lineage without some of its fulls, by id, and those of them that it had.
func (l Lineage) without(ids []string) (rest Lineage, out []Entry) {
	l.Fulls = slices.DeleteFunc(slices.Clone(l.Fulls), func(f Entry) bool {
		is := slices.Contains(ids, f.ID())
		if is {
			out = append(out, f)
		}
		return is
	})
	return l, out
}
