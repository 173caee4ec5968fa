package ui_test

import (
	"strings"
	"testing"
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
