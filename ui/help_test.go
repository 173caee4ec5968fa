package ui_test

import (
	"regexp"
	"testing"

	"cke"
)

// The page of a code has the text of `ckecli help CODE`.
func TestPage_HelpIsThatOfEachCode(t *testing.T) {
	p := page(t, newWorld())
	for _, e := range cke.Explanations() {
		path := "/help/" + string(e.Code)
		_, body := get(t, p, path)
		has(t, path, body, string(e.Code)+" "+e.Title, e.Meaning, "Way out", e.WayOut)
	}
}

// A page needs its style and its script, and nothing else, to be complete: two requests, which are sent at once.
func TestPage_IsCompleteAfterTwoMoreRequests(t *testing.T) {
	w := everything()
	p := page(t, w)
	for name := range w.clusters {
		path := "/clusters/" + name
		_, body := get(t, p, path)
		if all := regexp.MustCompile(`<(?:script|img|iframe|object|embed|video|audio|source)[^>]* (?:src|data)=|<link[^>]*rel="(?:stylesheet|preload|modulepreload)"`).FindAllString(body, -1); len(all) != 2 {
			t.Errorf("%s asks for %q", path, all)
		}
		for _, m := range regexp.MustCompile(`<link[^>]*rel="stylesheet"[^>]*href="([^"]*)"`).FindAllStringSubmatch(body, -1) {
			if _, style := get(t, p, m[1]); regexp.MustCompile(`@import|url\(`).MatchString(style) {
				t.Errorf("%s asks for more", m[1])
			}
		}
	}
}
