package main

import (
	"testing"
	"time"

	"cke"
)

// The newest state of an earlier life is restored only on a person's word while backups of the present one were stored: these are missing.
func TestRestore_AnEarlierLifeIsNamedOrNoted(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	l := h.lead("prod")
	spec, err := h.store.Spec(h.ctx(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	inc := cke.NewIncarnation(spec.Wanted(), nil, time.Now())
	if err := l.term.CreateIncarnation(h.ctx(), inc); err != nil {
		t.Fatal(err)
	}
	has := "lineage " + inc.ID + ", has no backups in this target"
	stdout, _ := h.run(exitDone, "restore", "--plan")
	contains(t, stdout, has, "a1b2")
	l.status(cke.Status{Backup: &cke.BackupStatus{Target: h.url, Lineage: inc.ID, Revision: 7}})
	_, stderr := h.run(exitRefused, "restore", "--plan")
	contains(t, stderr, "error[CKE419]", has, "--lineage a1b2")
	h.run(exitDone, "restore", "--plan", "--lineage", "a1b2")
}
