package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// What no backup covers is refused at once, and not by the leader after the cluster's name was typed.
func TestRestore_RefusesWhatNoBackupCovers(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	covered := fmt.Sprintf("the backups cover revisions %d to %d, %d to %d\n", h.fulls[0], h.last, h.fulls[1], h.last)
	late := fmt.Sprint(h.last + 1)
	past := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	future := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	for _, how := range [][]string{{"--plan"}, {"--confirm", "prod"}, nil} {
		for _, c := range []struct{ flag, value, says string }{
			{"--revision", late, covered},
			{"--revision", "1", covered},
			{"--time", past, "is before the first full of incarnation a1b2, taken "},
			{"--time", future, "is in the future"},
		} {
			stdout, stderr := h.run(exitRefused, append([]string{"restore", c.flag, c.value}, how...)...)
			contains(t, stderr, "error[CKE402]: cannot restore from the backups of prod at ", "target "+h.url, c.says, "Nothing was changed.\n", "Try: ckecli backup list")
			if stdout != "" || strings.Contains(stderr, "goes on from") {
				t.Errorf("a plan is shown of what cannot be done: %s%s", stdout, stderr)
			}
		}
	}
	if asked, err := h.store.RequestsOf(h.ctx(), "prod"); err != nil || len(asked.Tasks) > 0 {
		t.Errorf("%+v, %v", asked.Tasks, err)
	}
}

// The plan says which revision a time stands for.
func TestRestore_PlansWhatThereIs(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	plan := func(args ...string) (p restorePlan) {
		t.Helper()
		stdout, _ := h.run(exitDone, append([]string{"restore", "--plan", "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(stdout), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := plan(); p.Revision != h.last || p.Lineage != "a1b2" || p.Time.IsZero() {
		t.Errorf("the newest: %+v", p)
	}
	stdout, _ := h.run(exitDone, "restore", "--plan")
	contains(t, stdout, fmt.Sprintf("prod continues from the backups of prod in %s, incarnation a1b2, revision %d", h.url, h.last))
	if p := plan("--revision", fmt.Sprint(h.last-1)); p.Revision != h.last-1 || !p.Time.IsZero() {
		t.Errorf("by revision: %+v", p)
	}
	now := time.Now().UTC()
	if p := plan("--time", now.Format(time.RFC3339Nano)); p.Revision != h.last || !p.Time.Equal(now) {
		t.Errorf("by time: %+v", p)
	}
}

func TestRestore_OrdersToIgnoreAHash(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	h.lead("prod")
	h.run(exitDone, "restore", "--ignore-hash", "--confirm", "prod", "--no-wait")
	stdout, _ := h.run(exitDone, "task", "list", "-o", "json")
	contains(t, stdout, `"ignoreHash": true`)
}

func TestRestore_RefusesDamageAndNamesWhatIsSound(t *testing.T) {
	h := newBackedUpHouse(t)
	h.withStore(t, "backup: {target: \""+h.url+"\"}\n")
	deltas := h.objects("delta")
	if err := os.Remove(deltas[len(deltas)-2]); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitDamaged, "restore", "--plan")
	good := h.fulls[1]
	contains(t, stderr, "error[CKE401]: cannot restore from the backups of prod: a backup is damaged\n", fmt.Sprintf("the last good revision is %d\n", good),
		fmt.Sprintf("Try: ckecli restore --from '%s' --source-cluster prod --lineage a1b2 --revision %d\n", h.url, good))
	h.run(exitDone, "restore", "--plan", "--revision", fmt.Sprint(good))
}
