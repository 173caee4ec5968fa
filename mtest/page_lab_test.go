//go:build browser

package mtest_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/internal/chromium"
	"cke/mtest/lab"
)

// heard keeps what an open page said, in its order: the headline, who acts, and the operation under way. A reload would lose it.
const heard = `window.heard = []; window.hear = () => {
	const said = ["h1", ".acts", "#part-now .big"].map(q => document.querySelector(q)?.textContent.trim() ?? "-").join(" | ").replace(/\d+[smhd] ago|for \d+[smhd]/g, "");
	if (heard.at(-1) !== said) heard.push(said);
}; hear(); new MutationObserver(hear).observe(document.querySelector("main"), {subtree: true, childList: true, characterData: true})`

// An operator who leaves the page of a cluster open sees that a member was killed, what is done about it, and that it is repaired. Then
// a node loses power, and the daemon is killed.
func TestLabPage_ShowsAFailureAndItsRepairWithoutAReload(t *testing.T) {
	s := newStory(t, 3)
	d := s.daemon("cke1")
	st := s.found()
	t.Cleanup(chromium.Close)
	b := chromium.New(t, storyLimit)
	shot := func(name string) { b.Shot(filepath.Join("..", ".cache", "page", "live-"+name+".png"), false) }
	says := func(selector, text string) string {
		return fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "").includes(%q)`, selector, text)
	}
	b.Look(1280, false)
	b.Open("http://" + s.HTTP + "/clusters/prod")
	b.Until(seenLimit, says("h1", "prod is ready"))
	chromium.Eval[chromium.Void](b, heard)

	name := st.Members[slices.IndexFunc(st.Members, func(m cke.MemberStatus) bool { return m.Role == "follower" })].Name
	n, err := s.Lab.Node(name)
	s.must(err)
	for _, other := range s.nodes { // so that the operation lasts until it was seen
		if other.Name != name {
			s.must(s.Lab.Cut(s.ctx, name, lab.Cut{From: other.Name}))
		}
	}
	s.on(n, killContainer)
	t.Logf("degraded: shown after %s", b.Until(seenLimit, says("h1", "prod is degraded")))
	took := b.Until(seenLimit, says("#part-now .big", "start-members "+name))
	t.Logf("the operation: shown after %s more", took)
	shot("operation")
	s.must(s.Lab.Heal(s.ctx, name))
	t.Logf("ready: shown after %s more", b.Until(readyLimit, says("h1", "prod is ready")))
	all := s.records()
	r := all[slices.IndexFunc(all, func(r cke.Record) bool { return r.Operation == "start-members" })]
	b.Until(seenLimit, fmt.Sprintf(`document.querySelector("#part-history a[href$='/history/%d']") !== null`, r.ID))
	said := chromium.Eval[[]string](b, `heard`)
	t.Logf("the page said:\n%s", strings.Join(said, "\n"))
	inOrder(t, said, "prod is ready | - | ", "prod is degraded | ", fmt.Sprintf("#%d start-members %s", r.ID, name), "prod is ready | - | ")
	shot("repaired")

	s.must(s.Lab.Kill(s.ctx, name))
	t.Logf("no power: shown after %s", b.Until(seenLimit, says("#part-members", "unreachable")))
	b.Until(seenLimit, says(".acts", "You: check power, network and sshd of "+name))
	shot("no-power")
	s.must(s.Lab.Start(s.ctx, name))
	t.Logf("power again: ready after %s", b.Until(readyLimit, says("h1", "prod is ready")))

	d.Kill()
	t.Logf("no daemon: shown after %s", b.Until(seenLimit, says("#live", "The daemon has not answered for")))
	b.Console() // a connection that is refused is on it
	s.daemon("cke1")
	t.Logf("a daemon again: connected after %s", b.Until(seenLimit, chromium.Live))
	b.Until(seenLimit, says("#part-problems", "led by cke1"))
	if chromium.Eval[int](b, `heard.length`) <= len(said) {
		t.Error("the page was loaded again")
	}
	for _, text := range b.Console() {
		if !strings.Contains(text, "ERR_CONNECTION_REFUSED") {
			t.Error(text)
		}
	}
}

// inOrder checks that texts have these parts, one after the other.
func inOrder(t *testing.T, texts []string, parts ...string) {
	t.Helper()
	for _, text := range texts {
		for len(parts) > 0 && strings.Contains(text, parts[0]) {
			parts = parts[1:]
		}
	}
	if len(parts) > 0 {
		t.Errorf("the page did not say %q after what was before it", parts[0])
	}
}
