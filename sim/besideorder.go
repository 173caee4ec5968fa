package sim

import (
	"errors"
	"slices"
	"strings"

	"cke"
)

var errDamagedBeside = errors.New("the newest identity is damaged")

// refusedBeside is why an order is refused by what lies beside the backups that it reads. Source: cmd/cke, compare.
func (w *World) refusedBeside(id string, o cke.RestoreOrder) error {
	switch {
	case w.target.silent:
		return errSilent
	case w.store.down:
		return errStoreDown
	}
	var all []cke.Beside
	for incarnation := range w.target.beside {
		b := cke.Beside{Incarnation: incarnation, Identity: w.target.newest(incarnation)}
		if w.target.damaged[incarnation] && !slices.Contains(w.store.beside, digest(w.target.last(incarnation))) {
			b.Unread = errDamagedBeside
		}
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b cke.Beside) int { return strings.Compare(a.Incarnation, b.Incarnation) })
	refusal := o.RefusedBeside(w.store.identity, all)
	if refusal == nil || refusal.Code == cke.CodeBackupDamaged && w.recordsCompared(id) {
		return nil
	}
	return refusal
}

// recordsCompared reports whether a restore on record was compared.
func (w *World) recordsCompared(id string) bool {
	return slices.ContainsFunc(w.store.identity.Restores(), func(r cke.Restoration) bool { return r.ID == id && r.Compared })
}
