//go:build browser

package ui_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"cke"
	"cke/internal/chromium"
)

// widths are those of a phone, of a laptop and of a large screen.
var widths = []int64{375, 1280, 2560}

// tree returns the names of what the accessibility tree of the open page has, by role.
func tree(b *chromium.Tab) map[string][]string {
	nodes := map[string][]string{}
	for _, n := range chromium.Call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.ReplaceAll(strings.Trim(string(n.Name.Value), `"`), " :", ":") // where only a reader has the second part
		}
		nodes[role] = append(nodes[role], name)
	}
	return nodes
}

// The accessibility tree has the headline, the sections, tables with captions and cells, pictures with texts, and one live
// region, also on a phone, where tables are drawn as lists.
func TestBrowser_AccessibilityTree(t *testing.T) {
	h, b := newHost(t, everything()), newTab(t)
	for _, width := range widths {
		b.Look(width, false)
		for path, all := range map[string]map[string][]string{
			"/clusters/degraded": {
				"heading":      {"degraded is degraded", "History all operations"},
				"region":       {"Members 2 of 3 serve", "Now"},
				"table":        {"Operations, newest first", "When certificates and authorities expire"},
				"navigation":   {"Path"},
				"image":        {"84MB in use of 2.1GB, 21MB free inside"},
				"link":         {"CKE201", "#41 restart-member cp2"},
				"button":       {"Theme: system", "Copy"},
				"columnheader": {"When", "Operation", "Took", "Why"},
				"rowheader":    {"#41 restart-member cp2"},
			},
			"/clusters/seven": {"group": {"zone rack1", "zone rack2", "zone rack3"}},
			"/": {
				"table":        {"Clusters, those that need attention first"},
				"columnheader": {"Cluster", "Members", "Can lose", "State", "Restorable", "Seen", "Leader"},
				"search":       {""},
			},
		} {
			b.Open("http://" + h.address + path)
			nodes := tree(b)
			for role, wants := range all {
				for _, want := range wants {
					if !slices.Contains(nodes[role], want) {
						t.Errorf("%s at %d: no %s %q among %q", path, width, role, want, nodes[role])
					}
				}
				if role != "region" && role != "search" && slices.Contains(nodes[role], "") {
					t.Errorf("%s at %d: a %s has no name", path, width, role)
				}
			}
			rows := chromium.Eval[int](b, `document.querySelectorAll("tr").length`)
			if n := len(nodes["row"]); n != rows {
				t.Errorf("%s at %d: %d rows of %d", path, width, n, rows)
			}
			if n := chromium.Eval[int](b, `document.querySelectorAll("[aria-live],[role=status],[role=alert]").length`); n != 1 {
				t.Errorf("%s at %d: %d live regions", path, width, n)
			}
		}
	}
}

// All that a mouse reaches, the Tab key reaches, and shows that it has the focus.
func TestBrowser_Keyboard(t *testing.T) {
	w := newWorld()
	for name, c := range states() {
		if name == "degraded" || name == "healthy" || name == "seven" { // a short list has the same stops as a long one
			w.clusters[name] = c
		}
	}
	h, b := newHost(t, w), newTab(t)
	for _, width := range widths {
		for _, path := range []string{"/clusters/degraded", "/"} {
			where := fmt.Sprintf("%s at %d", path, width)
			b.Look(width, false)
			b.Open("http://" + h.address + path)
			b.Run(chromedp.KeyEvent(kb.Tab))
			if at := chromium.Eval[string](b, `document.activeElement.className`); at != "skip" {
				t.Errorf("%s: the first stop is %q", where, at)
			}
			all := chromium.Eval[int](b, `document.querySelectorAll("a[href],button:not([hidden]),input,select,summary").length`)
			reached := map[string]bool{}
			for range all + 5 {
				at := chromium.Eval[string](b, `(() => { const e = document.activeElement; if (e === document.body) return ""; const s = getComputedStyle(e); return s.outlineStyle === "none" ? "unseen " + e.outerHTML : [...document.querySelectorAll("*")].indexOf(e) + ""; })()`)
				if strings.HasPrefix(at, "unseen") {
					t.Errorf("%s: the focus is not visible: %s", where, at)
				}
				if at != "" {
					reached[at] = true
				}
				b.Run(chromedp.KeyEvent(kb.Tab))
			}
			if len(reached) < all {
				t.Errorf("%s: Tab reaches %d of %d", where, len(reached), all)
			}
		}
	}
}

// A page on paper has all members and commands, without what only a screen can do.
func TestBrowser_Print(t *testing.T) {
	h, b := newHost(t, everything()), newTab(t)
	b.Look(1280, false)
	for _, path := range []string{"/", "/clusters/degraded", "/clusters/seven"} {
		b.Open("http://" + h.address + path)
		chromium.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		faults := chromium.Eval[[]string](b, `(() => {
			const faults = [], root = document.documentElement, shown = (e) => e.getBoundingClientRect().height > 1;
			if (root.scrollWidth > root.clientWidth) faults.push("is cut: " + root.scrollWidth + " of " + root.clientWidth);
			for (const e of document.querySelectorAll("button, #live, footer")) if (shown(e)) faults.push("prints " + e.outerHTML.slice(0, 80));
			for (const e of document.querySelectorAll(".members li, .cmd code, h1, h2, tbody tr")) if (!shown(e) && !e.closest(".vh, thead")) faults.push("lacks " + e.textContent.slice(0, 80));
			return faults; })()`)
		for _, fault := range faults {
			t.Errorf("%s: %s", path, fault)
		}
		chromium.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: ""})
	}
}

// A page without a cluster is as usable as one with some.
func TestBrowser_NoCluster(t *testing.T) {
	h, b := newHost(t, newWorld()), newTab(t)
	for _, width := range widths {
		for _, dark := range []bool{false, true} {
			b.Look(width, dark)
			b.Open("http://" + h.address + "/")
			for _, fault := range chromium.Eval[[]string](b, audit) {
				t.Errorf("%d, dark %v: %s", width, dark, fault)
			}
			if said := chromium.Eval[string](b, `document.querySelector("main").innerText`); !strings.Contains(said, "No cluster is declared") || !strings.Contains(said, "ckecli cluster set cluster.yml") {
				t.Errorf("%d: %s", width, said)
			}
		}
	}
}

// While a page is open, another daemon starts to lead: the page names it with its term, and its own curves end.
func TestBrowser_AnotherDaemonLeads(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	b.Look(1280, false)
	b.Open("http://" + h.address + "/clusters/healthy")
	if n := chromium.Eval[int](b, `document.querySelectorAll(".curves li").length`); n == 0 {
		t.Fatal("the leader daemon shows no curves")
	}
	w.change("healthy", func(s *stored) {
		s.deposed = h.config.Now().Add(-3 * time.Minute)
		s.status.Leader = cke.Leader{Host: "boot-2", Term: 8, Since: s.deposed}
	})
	b.Until(10*time.Second, `document.querySelector(".meta").textContent.includes("led by boot-2, term 8")`)
	took := b.Until(time.Minute, `[...document.querySelectorAll(".curves li")].every(e => e.querySelector(".end") && e.textContent.includes(", until 3m ago"))`)
	t.Logf("the curves end after %s", took)
	if at := chromium.Eval[string](b, `document.querySelector("h1").textContent`); at != "healthy is ready" {
		t.Errorf("after another daemon started to lead: %q", at)
	}
	for _, text := range b.Console() {
		t.Error(text)
	}
}
