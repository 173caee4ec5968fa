package ui_test

import (
	"regexp"
	"strings"
	"testing"
)

// Members of one zone are beside each other, on the page of their cluster and in the list; without zones they are in the
// order of the cluster file.
func TestPage_MembersAreGroupedByZone(t *testing.T) {
	p := page(t, everything())
	_, list := get(t, p, "/")
	for name, want := range map[string]struct{ cards, marks string }{
		"seven":   {"[zone rack1] cp1 cp4 cp7 [zone rack2] cp2 cp5 [zone rack3] cp3 cp6", "3 2 2"},
		"crowded": {"[zone rack1] cp1 cp2 cp3 [zone rack2] cp4 [no zone] cp5", "3 1 1"},
		"zones":   {"[zone rack1] cp1 [zone rack2] cp2 [zone rack3] cp3", "1 1 1"},
		"healthy": {"cp1 cp2 cp3", "3"},
	} {
		_, body := get(t, p, "/clusters/"+name)
		_, body, _ = strings.Cut(body, `id="h-members"`)
		body, _, _ = strings.Cut(body, "</section>")
		var cards []string
		for _, m := range regexp.MustCompile(`role="group" aria-label="([^"]*)"|<h3><svg[^>]*><use [^>]*></svg>([^<]*)`).FindAllStringSubmatch(body, -1) {
			if m[1] != "" {
				m[2] = "[" + m[1] + "]"
			}
			cards = append(cards, m[2])
		}
		if got := strings.Join(cards, " "); got != want.cards {
			t.Errorf("%s: cards %q, want %q", name, got, want.cards)
		}
		_, row, _ := strings.Cut(list, `<tr data-seen="`+name+`"`)
		_, row, _ = strings.Cut(row, `class="ms"`)
		row, _, _ = strings.Cut(row, "</span>")
		var marks []string
		for part := range strings.SplitSeq(row, "<i></i>") {
			marks = append(marks, string(rune('0'+strings.Count(part, "<svg"))))
		}
		if got := strings.Join(marks, " "); got != want.marks {
			t.Errorf("%s: marks %q, want %q", name, got, want.marks)
		}
	}
}
