package cke_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/internal/golden"
)

// docs/codes.md has the texts; each code has one, and nothing else has.
func TestExplain_EachCodeInOrderAndInFull(t *testing.T) {
	source, err := os.ReadFile("codes.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared, explained []string
	for _, m := range regexp.MustCompile(`"(CKE\d+)"`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, m[1])
	}
	slices.Sort(declared)
	var index strings.Builder
	for _, e := range cke.Explanations() {
		explained = append(explained, string(e.Code))
		if e.Title == "" || e.Meaning == "" || e.WayOut == "" {
			t.Errorf("%s: write **Title.** and what it means on one line, an empty one, and what to do on another", e.Code)
		}
		fmt.Fprintf(&index, "- [%s](#%s) %s\n", e.Code, strings.ToLower(string(e.Code)), e.Title)
	}
	if !slices.Equal(declared, explained) {
		t.Errorf("codes.go has %q, docs/codes.md explains %q", declared, explained)
	}
	if page := golden.Read(t, "docs/codes.md"); !strings.Contains(page, "\n\n"+index.String()+"\n") {
		t.Errorf("the index of docs/codes.md is to be\n%s", index.String())
	}
}
