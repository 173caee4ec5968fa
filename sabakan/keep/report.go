package keep

import (
	"slices"

	"cke"
	"cke/sabakan"
)

// maxNotes bounds what a status tells beside the outcome.
const maxNotes = 20

// report is the status after a choice.
func (w *work) report(in sabakan.Input) *cke.InventoryStatus {
	s := &cke.InventoryStatus{Source: w.source.String(), Mode: w.template.Inventory.Mode, ReadAt: w.read.Good.ReadAt, Failures: w.read.Failures, Failure: in.Problem,
		Reason: w.choice.Reason, Code: w.choice.Code, Stop: string(w.choice.Stop), Notes: w.choice.Notes[:min(len(w.choice.Notes), maxNotes)], Log: w.shownLog(),
		Change: proposal(&w.choice), Override: proposal(w.override)}
	if s.ReadAt.IsZero() {
		s.ReadAt = w.after.ReadAt // by the leader before
		return s
	}
	s.Hosts = map[cke.HostState]int{}
	for _, h := range in.Read.Hosts {
		s.Hosts[h.State]++
	}
	for _, m := range sabakan.Machines(in) {
		if m.Unfit == "" && m.Use != sabakan.UseMember {
			s.Candidates++
		}
	}
	return s
}

// proposal is the change of a choice; nil: it has none.
func proposal(c *sabakan.Choice) *cke.InventoryProposal {
	if c == nil || c.Change == nil {
		return nil
	}
	p := c.Change
	return &cke.InventoryProposal{Hash: p.Hash, Cause: p.Cause, Reason: c.Reason, Old: p.Old, New: p.New, Confirm: p.Confirm, Auto: p.Auto, Forget: p.Forget}
}

// shownLog are the changes, and those rolled back, of the last day, without what they replaced: the revisions show that.
func (w *work) shownLog() cke.InventoryLog {
	l := w.after.InventoryLog
	since := w.c.Now().Add(-daytime)
	l.Changes = slices.DeleteFunc(slices.Clone(l.Changes), func(c cke.InventoryChange) bool { return c.At.Before(since) && c.RolledBackAt.Before(since) })
	for i := range l.Changes {
		l.Changes[i].Before = nil
	}
	return l
}
