package cke

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Beside is what is known of the identity that lies beside the backups of one incarnation.
type Beside struct {
	Incarnation string
	// Identity is the newest one that can be read; its zero value: none can, or there is none.
	Identity Identity
	// Unread is why a newer one cannot be read, which may name other members; nil: there is none.
	Unread error
}

// ID names what an order accepts that restores although a newer identity cannot be read.
func (b Beside) ID() string { return b.Incarnation + "/identity" }

// knows reports whether an incarnation is on record, as current, replaced or abandoned.
func (i *Incarnation) knows(id string) bool {
	return i.Life(id) || i.WasReplaced(id) || i.WasAbandoned(id)
}

// LifeBeside is the incarnation whose members a restore stops: the present one or, in a cluster that was declared to be restored, the last one
// that it replaces; "": there is none.
func (i Identity) LifeBeside() string {
	inc := i.BackedUp().Incarnation
	switch {
	case inc == nil:
		return ""
	case inc.State != Awaiting:
		return inc.ID
	case len(inc.Replaced) == 0:
		return ""
	}
	return inc.Replaced[len(inc.Replaced)-1]
}

// BringsSecond reports whether other data would make a second cluster of this name if a target has one: no incarnation is on record that it takes the
// place of.
func (i Identity) BringsSecond() bool {
	return i.LifeBeside() == "" || i.Incarnation.State == Abandoned
}

// restoresTo reports whether a restore under way makes an incarnation, and started none of its members.
func (i Identity) restoresTo(incarnation string) bool {
	return i.Incarnation.Life(incarnation) && i.Incarnation.State == Restoring && !i.Started()
}

// ComparesBeside reports whether a restore compares this identity with what lies beside the backups of an incarnation: all members
// of one that was replaced before are known.
func (i Identity) ComparesBeside(incarnation string) bool {
	life := i.LifeBeside()
	if life == "" || i.Started() && i.Incarnation.State == Restoring {
		return false
	}
	return incarnation == life || i.restoresTo(incarnation) || !i.Incarnation.knows(incarnation)
}

// OnlyDeclared reports whether a cluster was declared to be restored and continues an incarnation: no daemon compares it with the target of its
// cluster file, which may have a newer identity than the one that an order reads.
func (i Identity) OnlyDeclared() bool {
	inc := i.BackedUp().Incarnation
	return inc != nil && inc.State == Awaiting && i.ComparesBeside(i.LifeBeside())
}

// LacksBeside returns what the identity beside the backups of an incarnation has and this one does not: what Lacks returns of the incarnation
// whose members a restore stops, and a restore that replaced it.
func (i Identity) LacksBeside(b Beside) (all []Lacking) {
	if !i.ComparesBeside(b.Incarnation) {
		return nil
	}
	life, later := i.LifeBeside(), b.Identity.Incarnation
	if b.Incarnation == life {
		all = i.Lacks(b.Identity, life)
	}
	if later.WasReplaced(life) && (!i.Incarnation.knows(later.ID) || i.restoresTo(later.ID) && later.State == Formed) {
		all = append(all, Lacking{ID: later.ID, What: "the restore that made incarnation " + later.ID, Restored: true})
	}
	return all
}

// Accepts reports whether the operator accepted what an id names.
func (o RestoreOrder) Accepts(id string) bool { return slices.Contains(o.Accepted, id) }

// RefusedBeside is why a restore from backups is refused by what lies beside them: members that this store does not have may serve, and no
// restore stops them. nil: it is not. Ends of memberships refuse none: who ended is on record, and is stopped.
func (o RestoreOrder) RefusedBeside(id Identity, all []Beside) *Error {
	var has, accept []string
	var unread []Beside
	accepted := func(l string) bool { return o.Accepts(l) || id.BackedUp().Freeze.Tolerates(OlderStore([]string{l})) }
	for _, b := range all {
		for _, l := range id.LacksBeside(b) {
			if !l.Ended && !accepted(l.ID) {
				has, accept = append(has, l.What), append(accept, "--accept "+l.ID)
			}
		}
		if b.Unread != nil && id.ComparesBeside(b.Incarnation) {
			unread = append(unread, b)
		}
	}
	if has == nil {
		return o.RefusedUnread(id, unread)
	}
	return &Error{Code: CodeOlderStore, What: fmt.Sprintf("the store is older than the cluster: the identities beside the backups have %s, which the store does not have", strings.Join(has, ", ")), Unchanged: true,
		Facts: []string{"members that the store does not have may serve, and would serve beside the restored ones",
			"bring back a newer copy of the store, or store the newest cluster file and put the memberships on record again: ckecli cluster reclaim",
			"if all that came since is gone for good, add: " + strings.Join(accept, " ")}, Try: "ckecli status"}
}

// RefusedUnread is why a restore is refused where newer identities beside the backups than the one that is used cannot be read; nil: the
// order accepts that.
func (o RestoreOrder) RefusedUnread(known Identity, unread []Beside) *Error {
	unread = slices.DeleteFunc(slices.Clone(unread), func(b Beside) bool { return o.Accepts(b.ID()) })
	if len(unread) == 0 {
		return nil
	}
	e := &Error{Code: CodeBackupDamaged, What: "the newest identity beside the backups of " + o.Source + " cannot be read, and an older one may not name all members", Unchanged: true}
	var accept []string
	for _, b := range unread {
		e.Facts, accept = append(e.Facts, b.Unread.Error()), append(accept, "--accept "+b.ID())
	}
	e.Facts = append(e.Facts, known.knownMembers())
	e.Try = "the same command with " + strings.Join(accept, " ") + ", once no other member serves"
	return e
}

// AcceptedUnread describes what an order accepts of what cannot be read.
func (o RestoreOrder) AcceptedUnread(known Identity, unread []Beside) (notes []string) {
	for _, b := range unread {
		if o.Accepts(b.ID()) {
			notes = append(notes, fmt.Sprintf("the newest identity beside the backups of incarnation %s cannot be read, which is accepted: %v; %s", b.Incarnation, b.Unread, known.knownMembers()))
		}
	}
	return notes
}

func (i Identity) knownMembers() string {
	var nodes []string
	for _, j := range i.MayRun() {
		nodes = append(nodes, fmt.Sprintf("%s (%s)", j.Node.Name(), j.Node.Address))
	}
	return "the members that are known are those on " + cmp.Or(strings.Join(nodes, ", "), "no node") + "; members that were added later are not known, and may still serve"
}
