//go:build browser

package ui_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/chromium"
)

// The inventory of a cluster in each state: in the words of its status, with nothing amiss on a phone and on a wide screen.
func TestBrowser_TheInventoryOfACluster(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	section := `(document.querySelector("section[aria-labelledby=h-inventory]") || {textContent: ""}).textContent.replace(/\s+/g, " ")`
	for _, width := range []int64{375, 1280} {
		for _, dark := range []bool{false, true} {
			b.Look(width, dark)
			for name := range inventories() {
				b.Open("http://" + h.address + "/clusters/" + name)
				where := fmt.Sprintf("%s at %d, dark %v", name, width, dark)
				for _, fault := range chromium.Eval[[]string](b, audit) {
					t.Errorf("%s: %s", where, fault)
				}
				for _, text := range b.Console() {
					t.Errorf("%s: console: %s", where, text)
				}
				said, s := chromium.Eval[string](b, section), w.clusters[name].status.Inventory
				if !strings.Contains(said, "mode "+string(s.Mode)) || !strings.Contains(said, s.Source) || s.Code == "" && !strings.Contains(strings.ToLower(said), strings.ToLower(s.Reason)) {
					t.Errorf("%s: %s", where, said)
				}
				picture(b, "/inventory/"+name, width, dark)
			}
		}
	}
	if said := chromium.Eval[string](b, section); said == "" {
		t.Error("the last page has no inventory")
	}
	b.Open("http://" + h.address + "/clusters/healthy")
	if said := chromium.Eval[string](b, section); said != "" {
		t.Errorf("a cluster without an inventory shows one: %s", said)
	}
	b.Open("http://" + h.address + "/clusters/proposed")
	if n := chromium.Eval[int](b, `document.querySelectorAll("section[aria-labelledby=h-inventory] .cmd button").length`); n != 1 {
		t.Errorf("%d commands to copy", n)
	}
	w.change("proposed", func(c *stored) {
		c.status.Inventory = &cke.InventoryStatus{Source: "a file", Mode: cke.InventoryPropose, Reason: "all is as it should be", ReadAt: noon}
	})
	b.Until(time.Minute, section+`.includes("No change follows All is as it should be")`)
}
