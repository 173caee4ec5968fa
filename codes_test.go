package cke_test

import (
	"fmt"
	"strings"
	"testing"

	"cke"
	"cke/internal/golden"
)

func TestExplain_IsInOrderAndComplete(t *testing.T) {
	last := cke.Code("")
	for _, e := range cke.Explain() {
		if e.Code <= last {
			t.Errorf("%s comes after %s", e.Code, last)
		}
		last = e.Code
		if e.Title == "" || e.Meaning == "" || e.WayOut == "" {
			t.Errorf("%s is not explained in full", e.Code)
		}
	}
}

func TestExplain_DocsAreCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Codes

Every refusal and every problem that cke tells has a code that never changes its meaning.
` + "`ckecli help CODE`" + ` prints the same text.

`)
	for _, e := range cke.Explain() {
		fmt.Fprintf(&b, "- [%s](#%s) %s\n", e.Code, strings.ToLower(string(e.Code)), e.Title)
	}
	for _, e := range cke.Explain() {
		fmt.Fprintf(&b, "\n## %s\n\n**%s.** %s\n\n%s\n", e.Code, e.Title, e.Meaning, e.WayOut)
	}
	golden.Compare(t, "docs/codes.md", b.String())
}
