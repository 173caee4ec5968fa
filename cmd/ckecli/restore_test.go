package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestRestore_IsRefusedBeforeAnythingIsAsked(t *testing.T) {
	h := declared(t)
	target := "file://" + filepath.Join(h.dir, "none")
	for _, c := range []struct {
		exit int
		says string
		args []string
	}{
		{exitRefused, "CKE405", []string{"restore"}}, // no target in the cluster file
		{exitUsage, "cannot be used together", []string{"restore", "--from", target, "--revision", "3", "--time", "10m"}},
		{exitUsage, "cancel", []string{"restore", "--cancel", "--plan"}},
		{exitDamaged, "CKE404", []string{"restore", "--from", target, "--confirm", "prod"}},
		{exitRefused, "is in the store already", []string{"restore", "--from", target, "--file", h.write("again.yml", clusterFile)}},
		{exitNoStatus, "CKE108", []string{"restore", "--cancel"}},
	} {
		if _, stderr := h.run(c.exit, c.args...); c.says != "" {
			contains(t, stderr, c.says)
		}
	}
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) != 0 {
		t.Errorf("%+v, %v", asked.Tasks, err)
	}
}

// A restore moves revisions on by a thousand million, which nobody has written.
func TestRestore_TellsHowMuchIsLost(t *testing.T) {
	for _, c := range []struct {
		present, restored int64
		want              string
	}{
		{30, 25, "5 revisions after it are lost"},
		{30, 30, "nothing is lost as far as is known"},
		{1_000_000_031, 1_000_000_030, "1 revision after it is lost"},
		{1_000_000_032, 25, "what was written after it is lost; the cluster was restored since, so revisions do not show how much that is"},
	} {
		if got := lostText(c.present, c.restored, time.Time{}); got != c.want {
			t.Errorf("%d of %d: %s", c.restored, c.present, got)
		}
	}
}

// What a member without an answer holds is not known, and backups may lead further.
func TestRecover_NamesBackupsThatLeadFurther(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	inc := h.incarnation(l, "")
	j := inc.Founders[0]
	for stored, noted := range map[int64]bool{30: false, 31: true} {
		l.status(cke.Status{
			Health: cke.HealthLost, Members: []cke.MemberStatus{{Name: j.Node.Name(), Join: j.ID, State: "unhealthy"}},
			Etcd:   cke.EtcdStatus{Endpoints: []cke.EndpointStatus{{Join: j.ID, RaftTerm: 2, RaftApplied: 40, Revision: 30}}},
			Backup: &cke.BackupStatus{Target: "file:///b", Lineage: inc.ID, Known: true, Connected: true, Revision: stored},
		})
		stdout, _ := h.run(exitDone, "recover", "--plan")
		if got := strings.Contains(stdout, "led to revision 31"); got != noted {
			t.Errorf("stored to %d:\n%s", stored, stdout)
		}
	}
}

// From a status of long ago no survivor is chosen: members may have served without it since.
func TestRecover_ChoosesFromNoOldStatus(t *testing.T) {
	h := declared(t)
	l := h.lead("prod")
	inc := h.incarnation(l, "")
	j := inc.Founders[0]
	seen := cke.Status{Health: cke.HealthLost, Members: []cke.MemberStatus{{Name: j.Node.Name(), Join: j.ID, State: "unhealthy"}},
		Etcd: cke.EtcdStatus{Endpoints: []cke.EndpointStatus{{Join: j.ID, RaftTerm: 2, RaftApplied: 40, Revision: 30}}}}
	seen.ObservedAt = time.Now().Add(-7 * time.Hour)
	l.status(seen)
	h.silence = 100 * time.Millisecond
	if _, stderr := h.run(exitRefused, "recover", "--plan"); !strings.Contains(stderr, "is 7h") {
		t.Error(stderr)
	}
	// Here the clock is behind: the status may be old all the same.
	seen.ObservedAt = time.Now().Add(3 * time.Hour)
	l.status(seen)
	if _, stderr := h.run(exitRefused, "recover", "--plan"); !strings.Contains(stderr, "ahead of this host's clock") {
		t.Error(stderr)
	}
	// A clock that is ahead hides no daemon that observes.
	h.silence = limit
	c := h.start("recover", "--plan")
	for over := false; !over; {
		seen.ObservedAt = seen.ObservedAt.Add(time.Second)
		l.status(seen)
		select {
		case <-c.ended:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.must(exitDone)
}

// A restore that was on record may be canceled at any time, by cke or by an operator, whether it had stopped members or not.
func TestRestore_SaysWhyItReplacedNothing(t *testing.T) {
	full := cke.Record{Operation: "restore", State: cke.RecordFailed, Code: cke.CodeNotStored, Error: "the target is full", Refusal: &cke.Refusal{What: "the target is full, so the restore was called off"}}
	other := cke.Record{Operation: "backup", State: cke.RecordCompleted}
	waited := cke.Record{Operation: "cancel-restore", State: cke.RecordCompleted, Reason: "it waited for 2h0m"}
	for want, records := range map[string][]cke.Record{
		"was called off":        {other, full},
		"it waited for 2h0m":    {waited, full},
		"the history shows why": {other},
	} {
		err := notRestored("prod", records, "ckecli history prod")
		var e *cke.Error
		if !errors.As(err, &e) || !strings.Contains(e.What+strings.Join(e.Facts, ""), want) || (e.Code == cke.CodeNotStored) != (want == "was called off") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
