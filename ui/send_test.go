package ui_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
)

// ask asks for a page with an Accept-Encoding.
func ask(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
	r.Header.Set("Accept-Encoding", accept)
	h.ServeHTTP(w, r)
	return w
}

// A browser gets compressed what others get as it is: the list of 100 clusters with style and script in at most 60 kB.
func TestPage_IsSentCompressedToWhoReadsThat(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		name := fmt.Sprintf("cluster-%03d", i)
		w.clusters[name] = scene(name, 3, nil)
	}
	h := page(t, w).Handler()
	sent := 0
	paths := []string{"/"}
	for _, m := range regexp.MustCompile(`(?:href|src)="(/ui/[^"]*)"`).FindAllStringSubmatch(ask(h, "/", "").Body.String(), -1) {
		paths = append(paths, m[1])
	}
	for _, path := range append(paths, "/no-such-page") {
		plain, small := ask(h, path, "br, gzip;q=0"), ask(h, path, "br;q=1.0, gzip; q=0.8")
		if plain.Header().Get("Content-Encoding") != "" || small.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: headers %v and %v", path, plain.Header(), small.Header())
		}
		sent += small.Body.Len()
		r, err := gzip.NewReader(small.Body)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if body, err := io.ReadAll(r); err != nil || !bytes.Equal(body, plain.Body.Bytes()) || small.Code != plain.Code || plain.Header().Get("Content-Type") != small.Header().Get("Content-Type") {
			t.Errorf("%s: %d, and compressed %d with other content: %v", path, plain.Code, small.Code, err)
		}
	}
	if len(paths) != 3 || sent > 60_000 {
		t.Errorf("%d bytes are sent for %v", sent, paths)
	}
	for accept, want := range map[string]string{"": "", "*": "", "identity": "", "GZIP": "gzip", "gzip;q=0.000": "", "deflate,gzip": "gzip"} {
		if got := ask(h, "/", accept).Header().Get("Content-Encoding"); got != want {
			t.Errorf("%q gets %q", accept, got)
		}
	}
}
