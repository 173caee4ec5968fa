//go:build browser

package ui_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"cke"
	"cke/internal/chromium"
	"cke/internal/term"
	"cke/server/strategy"
)

// Every page, in both themes and three widths: nothing on the console, no horizontal scrolling, enough contrast, names
// for all that has a role, and the words of the status.
func TestBrowser_EveryPageInEveryWidthAndTheme(t *testing.T) {
	w := everything()
	w.clusters["hostile"] = hostile()
	h, b := newHost(t, w), newTab(t)
	paths := []string{"/", "/?health=LOST", "/?q=nothing", "/clusters/healthy/history", "/clusters/healthy/history/39", "/clusters/healthy/revisions", "/clusters/healthy/revisions/3", "/help", "/help/CKE201"}
	for _, name := range slices.Sorted(maps.Keys(w.clusters)) {
		paths = append(paths, "/clusters/"+name)
	}
	for _, width := range []int64{375, 1280, 2560} {
		for _, dark := range []bool{false, true} {
			b.Look(width, dark)
			for _, path := range paths {
				b.Open("http://" + h.address + path)
				where := fmt.Sprintf("%s at %d, dark %v", path, width, dark)
				for _, fault := range chromium.Eval[[]string](b, audit) {
					t.Errorf("%s: %s", where, fault)
				}
				for _, text := range b.Console() {
					t.Errorf("%s: console: %s", where, text)
				}
				if s := w.clusters[strings.TrimPrefix(path, "/clusters/")]; s != nil && s.status != nil && width == 1280 && path != "/clusters/hostile" {
					said := chromium.Eval[string](b, `document.querySelector("main").textContent`)
					has(t, where, said, s.status.Summary)
					has(t, where, said, saidOf(s.status.Reason))
				}
				if !strings.Contains(path, "?") {
					picture(b, path, width, dark)
				}
			}
		}
	}
	b.Run(chromedp.Navigate("http://" + h.address + "/nothing"))
	if said := chromium.Eval[string](b, `document.body.innerText`); !strings.Contains(said, "There is no such page") {
		t.Errorf("404: %s", said)
	}
}

// picture keeps a picture for people to look at.
func picture(b *chromium.Tab, path string, width int64, dark bool) {
	if width == 2560 {
		return
	}
	theme := "light"
	if dark {
		theme = "dark"
	}
	name := fmt.Sprintf("%s-%d-%s.png", strings.Trim(strings.ReplaceAll(path, "/", "-"), "-"), width, theme)
	b.Shot(filepath.Join("..", ".cache", "page", name), true)
}

// The theme follows the system, can be switched, and is remembered.
func TestBrowser_RemembersTheTheme(t *testing.T) {
	h, b := newHost(t, everything()), newTab(t)
	ground := func() string { return chromium.Eval[string](b, `getComputedStyle(document.body).backgroundColor`) }
	b.Look(1280, false)
	b.Open("http://" + h.address + "/")
	light := ground()
	b.Look(1280, true)
	if ground() == light {
		t.Error("the page does not follow the system")
	}
	b.Run(chromedp.Click("#theme"))
	if ground() != light || chromium.Eval[string](b, `document.querySelector("#theme").textContent`) != "Theme: light" {
		t.Errorf("the theme is not light")
	}
	b.Open("http://" + h.address + "/clusters/healthy")
	if ground() != light {
		t.Error("the theme is not remembered")
	}
	b.Run(chromedp.Click("#theme"), chromedp.Click("#theme"))
	if chromium.Eval[string](b, `document.querySelector("#theme").textContent`) != "Theme: system" || ground() == light {
		t.Error("the theme is not the system's again")
	}
	chromium.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}})
	if ground() != light || chromium.Eval[string](b, `getComputedStyle(document.querySelector("#theme")).display`) != "none" {
		t.Error("the page is printed dark, or with buttons")
	}
	// Reduced motion is honored, for nothing ever moves.
	if moved := chromium.Eval[int](b, `[...document.querySelectorAll("*")].filter(e => getComputedStyle(e).transitionDuration !== "0s" || getComputedStyle(e).animationName !== "none").length`); moved != 0 {
		t.Errorf("%d elements move", moved)
	}
}

// A member that stops is shown without a reload; what has the focus keeps it, and nothing scrolls.
func TestBrowser_ChangesByItself(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	b.Look(1280, false)
	b.Open("http://" + h.address + "/clusters/healthy")
	chromium.Eval[chromium.Void](b, `window.same = document.querySelector("#part-history"); same.querySelector("a[href$='/history/40']").focus({preventScroll: true}); scrollTo(0, 300); window.place = () => Math.round(document.querySelector("#h-members").getBoundingClientRect().top); window.before = place()`)
	degraded := scene("healthy", 3, func(in *strategy.Input) { silentNode(in, 3) })
	w.change("healthy", func(c *stored) { c.status = degraded.status })
	took := b.Until(5*time.Second, `document.querySelector("h1").textContent === "healthy is degraded"`)
	t.Logf("shown after %s", took)
	if !chromium.Eval[bool](b, `document.querySelector("#part-members").textContent.includes("unreachable") && same.isConnected && document.activeElement.textContent.startsWith("#40") && place() === before`) {
		t.Errorf("focus %q, at %d, before %d", chromium.Eval[string](b, `document.activeElement.textContent`), chromium.Eval[int](b, `place()`), chromium.Eval[int](b, `before`))
	}
	w.change("healthy", func(c *stored) {
		r := c.records[0]
		r.ID, r.StartedAt, r.EndedAt = 43, noon, noon.Add(time.Second)
		c.records = slices.Insert(c.records, 0, r)
	})
	b.Until(5*time.Second, `document.querySelector("#part-history a[href$='/history/43']") !== null`)
	if at := chromium.Eval[string](b, `document.activeElement.textContent`); at == "" || !chromium.Eval[bool](b, `document.querySelector("#part-history").contains(document.activeElement)`) {
		t.Errorf("the focus is at %q", at)
	}
	b.Open("http://" + h.address + "/")
	w.change("lost", func(c *stored) { c.status.Summary = "another summary" })
	b.Until(10*time.Second, `document.querySelector("table").textContent.includes("another summary")`)
	for _, text := range b.Console() {
		t.Error(text)
	}
}

// A daemon that is gone is named within 5 s, and once it is back nothing jumps.
func TestBrowser_SaysThatTheDaemonIsGone(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	b.Look(1280, false)
	for _, path := range []string{"/clusters/degraded", "/"} {
		b.Open("http://" + h.address + path)
		chromium.Eval[chromium.Void](b, `window.nodes = [...document.querySelectorAll("h1, section, table, tr, li")]; window.places = () => [...document.querySelectorAll("h1, h2, tr, li")].map(e => Math.round(e.getBoundingClientRect().top)).join(); window.before = places()`)
		h.down()
		if took := b.Until(5*time.Second, `document.querySelector("#live").textContent.startsWith("The daemon has not answered for")`); took > 5*time.Second {
			t.Errorf("%s: after %s", path, took)
		}
		if !chromium.Eval[bool](b, `document.documentElement.classList.contains("gone") && document.querySelector("[aria-live]").textContent.includes("The daemon does not answer")`) {
			t.Errorf("%s: nothing says so", path)
		}
		if !chromium.Eval[bool](b, `places() === before`) {
			t.Errorf("%s: something moved when the daemon was gone", path)
		}
		h.up()
		b.Until(15*time.Second, chromium.Live)
		if !chromium.Eval[bool](b, `places() === before && nodes.every(e => e.isConnected) && !document.documentElement.classList.contains("gone")`) {
			t.Errorf("%s: something moved when the daemon was back", path)
		}
	}
	w.breaks(errStore)
	b.Until(15*time.Second, `document.querySelector("#live").textContent.includes("the store does not answer")`)
	w.breaks(nil)
	b.Until(15*time.Second, chromium.Live)

	w.breaks(errStore) // a page that could not be shown appears by itself
	b.Open("http://" + h.address + "/clusters/degraded")
	if !chromium.Eval[bool](b, `document.querySelector("main").textContent.includes("the store does not answer")`) {
		t.Error("the page does not say why it cannot be shown")
	}
	w.breaks(nil)
	b.Until(15*time.Second, `document.querySelector("h1")?.textContent === "degraded is degraded"`)
}

// Where event streams are refused, the page reads itself again.
func TestBrowser_ReadsItselfWhereStreamsAreRefused(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	h.refuses.Store(true)
	b.Open("http://" + h.address + "/clusters/healthy")
	degraded := scene("healthy", 3, func(in *strategy.Input) { silentNode(in, 3) })
	w.change("healthy", func(c *stored) { c.status = degraded.status })
	b.Until(20*time.Second, `document.querySelector("h1").textContent === "healthy is degraded" && `+chromium.Live)
	w.breaks(errStore)
	b.Until(20*time.Second, `document.querySelector("#live").textContent.includes("the store does not answer")`)
	w.breaks(nil)
	h.refuses.Store(false)
	b.Until(20*time.Second, chromium.Live)
}

// Ages grow by themselves, in the units of ckecli, and what is older than 15 s turns gray.
func TestBrowser_AgesAreHonest(t *testing.T) {
	w := everything()
	h, b := newHost(t, w), newTab(t)
	b.Open("http://" + h.address + "/clusters/stale")
	if !chromium.Eval[bool](b, `document.querySelector("main").classList.contains("old") && document.querySelector(".meta").textContent.includes("7m ago")`) {
		t.Error("a status of 7 minutes ago is not shown as old")
	}
	b.Until(5*time.Second, `document.querySelector("#live").textContent === "Connected"`)
	b.Open("http://" + h.address + "/clusters/silent")
	if got := chromium.Eval[string](b, `[...document.querySelectorAll(".curves li")].map(e => [...e.querySelectorAll("p:not(.range)")].map(p => p.innerText).join(" ") + Math.round(e.querySelector(".end").getBBox().x)).join("\n")`); strings.Count(got, ", until 7m ago995") != 5 || strings.Count(got, "- ") != 5 {
		t.Errorf("curves of a cluster whose leader daemon is silent:\n%s", got)
	}
	b.Open("http://" + h.address + "/?q=stale")
	if got := chromium.Eval[string](b, `document.querySelector("tr[data-seen=stale]").innerText`); !strings.Contains(got, "was 3/3") || !strings.Contains(got, "no daemon leads stale now") || strings.Contains(got, "boot-1") {
		t.Errorf("a cluster whose status is old, in the list:\n%s", got)
	}
	b.Open("http://" + h.address + "/clusters/healthy")
	w.mu.Lock()
	w.end = time.Now()
	w.mu.Unlock()
	b.Until(25*time.Second, `document.querySelector("main").classList.contains("old") && /seen 1[5-9]s ago/.test(document.querySelector(".meta").textContent)`)
	spans := []time.Duration{0, 59 * time.Second, time.Minute, 59*time.Minute + 59*time.Second, time.Hour, 47*time.Hour + 59*time.Minute, 48 * time.Hour, 900 * time.Hour}
	for _, span := range spans {
		at := h.config.Now().Add(-span - 300*time.Millisecond)
		got := chromium.Eval[string](b, fmt.Sprintf(`new Promise(done => { const t = document.createElement("time"); t.dateTime = %q; t.dataset.ago = ""; document.body.append(t); setTimeout(() => { done(t.textContent); t.remove(); }, 600); })`, at.Format(time.RFC3339Nano)))
		if want := []string{term.Age(span), term.Age(span + 1300*time.Millisecond)}; !slices.Contains(want, got) {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
}

// Without JavaScript the page has the same content, and reloads itself.
func TestBrowser_WorksWithoutJavaScript(t *testing.T) {
	h, b := newHost(t, everything()), newTab(t)
	chromium.Call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.Run(chromedp.Navigate("http://" + h.address + "/clusters/degraded"))
	said := chromium.Eval[string](b, `document.body.innerText`)
	refresh := chromium.Eval[string](b, `document.querySelector("meta[http-equiv=refresh]").content`)
	if !strings.Contains(said, "degraded is degraded") || !strings.Contains(said, "Reloads every 10 s") || strings.Contains(said, "Theme:") || refresh != "10" {
		t.Errorf("refresh %q\n%s", refresh, said)
	}
}

// The pictures of the documentation.
func TestBrowser_Pictures(t *testing.T) {
	w := newWorld()
	for name, from := range map[string]string{"prod": "degraded", "staging": "updating", "billing": "healthy", "search": "healthy", "archive": "hibernated"} {
		w.clusters[name] = states()[from]
		w.clusters[name].status.Cluster = name
		for _, n := range w.clusters[name].status.Nodes {
			n.Containers[0].Cluster, n.Volumes[0].Cluster = name, name
		}
		for i := range w.clusters[name].log {
			w.clusters[name].log[i].Cluster.Name = name
		}
	}
	dir := filepath.Join("..", ".cache", "page")
	if *update {
		dir = filepath.Join("..", "docs", "images")
	}
	h, b := newHost(t, w), newTab(t)
	b.Look(1280, false)
	b.Open("http://" + h.address + "/clusters/prod")
	b.Shot(filepath.Join(dir, "cluster.png"), false)
	b.Look(1280, true)
	b.Open("http://" + h.address + "/")
	b.Shot(filepath.Join(dir, "fleet.png"), false)
	for _, name := range []string{"cluster.png", "fleet.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() > 150_000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// A list of 300 clusters is usable in every width.
func TestBrowser_ManyClusters(t *testing.T) {
	w := newWorld()
	for i := range 300 {
		name := fmt.Sprintf("cluster-with-a-long-name-%03d", i)
		w.clusters[name] = scene(name, 3+i%3*2, nil)
	}
	h, b := newHost(t, w), newTab(t)
	for _, width := range []int64{375, 1280, 2560} {
		for _, dark := range []bool{false, true} {
			b.Look(width, dark)
			b.Open("http://" + h.address + "/")
			for _, fault := range chromium.Eval[[]string](b, audit) {
				t.Errorf("%d, dark %v: %s", width, dark, fault)
			}
		}
	}
	if n := chromium.Eval[int](b, `document.querySelectorAll("tbody tr").length`); n != 300 {
		t.Errorf("%d rows", n)
	}
	if s := w.clusters["cluster-with-a-long-name-000"].status.Health; s != cke.HealthReady {
		t.Errorf("the fixture is %s", s)
	}
}
