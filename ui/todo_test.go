package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Nothing on a page that is not of the present allows to take a node down.
func TestPage_WhatIsOldAllowsNothing(t *testing.T) {
	p := page(t, everything())
	for name, may := range map[string]bool{"healthy": true, "stale": false} {
		_, body := get(t, p, "/clusters/"+name)
		if is := strings.Contains(text(body), "ay be taken down"); is != may {
			t.Errorf("%s: %v", name, is)
		}
	}
}

// The list counts what is seen now, and says of the rest how it was, when, and whether a daemon leads it.
func TestPage_TheListCountsNothingOldAsServing(t *testing.T) {
	w := newWorld()
	all := states()
	w.clusters["healthy"], w.clusters["stale"] = all["healthy"], all["stale"]
	_, body := get(t, page(t, w), "/")
	has(t, "/", body, "3 of 3 members serve. Last seen 7m ago: 3 more members, of 1 cluster.",
		"stale was READY 7m ago", "was 3/3 - Last seen: all 3 members serve, can lose 1 more member.no daemon leads stale now, so nothing is done for it")
	_, row, _ := strings.Cut(body, `data-seen="stale"`)
	row, _, _ = strings.Cut(row, "</tr>")
	if strings.Contains(row, "boot-1") || !strings.Contains(row, "no daemon</td>") || strings.Contains(row, "#m-leader") || strings.Count(row, "#m-unknown") != 3 {
		t.Errorf("%s", row)
	}
	w = newWorld()
	w.clusters["stale"], w.clusters["silent"] = all["stale"], all["silent"]
	w.clusters["stale"].status.ObservedAt = noon.Add(-3 * time.Hour)
	_, body = get(t, page(t, w), "/")
	has(t, "/", body, "2 of 2 clusters need attention Last seen 7m ago or earlier: 6 members, of 2 clusters.", "the leader has reported nothing since")
	if _, row, _ = strings.Cut(body, `data-seen="silent"`); !strings.Contains(row, "boot-1</td>") {
		t.Errorf("the list does not name who leads: %s", row)
	}
}

// What is in backticks is code, and a backtick alone stays one.
func TestPage_ShowsCommandsInTextsAsCode(t *testing.T) {
	w := everything()
	s := w.clusters["degraded"].status
	s.Reason, s.Problems[0].Message, w.clusters["degraded"].records[0].Reason = "waits: `ckecli <x>`", "runs `a`, not `b", "by `ckecli y`"
	_, body := get(t, page(t, w), "/clusters/degraded")
	for _, want := range []string{"Waits: <code>ckecli &lt;x&gt;</code>", "<b>cp3: runs <code>a</code>, not `b</b>", "by <code>ckecli y</code>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// While it is unknown whether there is a quorum, no node is offered to be replaced.
func TestPage_OffersNoLastResortWhileNothingIsSeen(t *testing.T) {
	_, body := get(t, page(t, everything()), "/clusters/unseen")
	said := text(body)
	if strings.Contains(said, "ckecli replace") || strings.Index(said, "CKE324") > strings.Index(said, "CKE215") {
		t.Errorf("%s", said)
	}
	has(t, "unseen", body, "You: check the network between this management host and the nodes.", "Only if at least 2 of the 3 are gone for good: ckecli recover --cluster unseen")
}

// A long failure is cut behind a word in the history, and is there in full on the page of its operation.
func TestPage_CutsTextsBehindAWord(t *testing.T) {
	w := everything()
	r := &w.clusters["degraded"].records[2]
	r.Error = "cp3: image: " + strings.Repeat("unpronounceable ", 200) + "the end"
	p := page(t, w)
	_, body := get(t, p, "/clusters/degraded/history")
	said := text(body)
	if !strings.Contains(said, "unpronounceable …") || strings.Contains(said, "the end") {
		t.Error("the failure is not cut behind a word")
	}
	if _, body = get(t, p, fmt.Sprintf("/clusters/degraded/history/%d", r.ID)); !strings.Contains(text(body), strings.TrimSpace(r.Error)) {
		t.Error("the page of the operation lacks its failure")
	}
	r.Error = strings.Repeat("x", 5000)
	if _, body = get(t, p, "/clusters/degraded/history"); !strings.Contains(text(body), "xxx …") {
		t.Error("one long word is not cut")
	}
}
