package ui

import (
	"slices"
	"strings"
	"time"

	"cke"
	"cke/internal/words"
)

// inventory is what is known of the inventory of a cluster, and what follows from it.
type inventory struct {
	cke.InventoryStatus
	// Told: a problem has the reason.
	Told bool
	// Heading says what becomes of it.
	Heading string
	// Confirm are the reasons for which the operator has to confirm what Command applies; Against applies in spite of Stop what Instead says.
	Confirm                   []string
	Command, Instead, Against string
	// Machines counts them; Members and Spares are the nodes that were declared from it.
	Machines        string
	Members, Spares []string
	// Changes are those of the last day, the newest first.
	Changes []applied
}

// applied is a change that was stored.
type applied struct {
	At   time.Time
	Text string
}

// Inventory is nil if the leader daemon reads none.
func (f facts) Inventory() *inventory {
	s := f.S.Inventory
	if s == nil {
		return nil
	}
	i := &inventory{InventoryStatus: *s, Heading: "No change follows", Machines: words.Machines(s)}
	i.Told = slices.ContainsFunc(f.S.Problems, func(p cke.Problem) bool { return strings.HasSuffix(p.Message, s.Reason) })
	apply := func(p *cke.InventoryProposal) string {
		return "ckecli sabakan apply " + p.Hash + " --cluster " + f.Name
	}
	switch {
	case s.Change != nil && s.Change.Auto:
		i.Heading = "A change follows, and cke stores it"
	case s.Change != nil:
		i.Heading, i.Confirm, i.Command = "A change follows, and waits for you", s.Change.Confirm, apply(s.Change)
	case s.Override != nil:
		i.Heading, i.Confirm, i.Instead, i.Against = "A change is held back", s.Override.Confirm, s.Override.Reason, apply(s.Override)
	case s.Stop == "off":
		i.Heading = "Not in use"
	case s.Stop != "":
		i.Heading = "Nothing is changed"
	}
	for _, n := range f.Spec.Cluster.Nodes {
		serial := n.Annotations[cke.AnnotationSerial]
		switch {
		case serial == "":
		case n.ControlPlane:
			i.Members = append(i.Members, serial)
		default:
			i.Spares = append(i.Spares, serial)
		}
	}
	for _, c := range slices.Backward(s.Log.Changes) {
		i.Changes = append(i.Changes, applied{c.At, words.InventoryChange(c)})
	}
	return i
}

// Waits are the notes that are no problems.
func (i *inventory) Waits() []cke.InventoryNote {
	return slices.DeleteFunc(slices.Clone(i.Notes), func(n cke.InventoryNote) bool { return n.Code != "" })
}
