package main

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"cke"
)

// The daemon serves the page from its store, sends what changes, and open pages do not keep it from ending.
func TestPage_ShowsWhatIsStoredAndFollowsIt(t *testing.T) {
	h := newHost(t)
	h.config("probe_interval: 500ms")
	p := h.launch()
	p.awaitServing()
	if code, body := p.get("/"); code != 200 || !strings.Contains(body, "No cluster is declared") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := p.get("/clusters/prod"); code != 404 || !strings.Contains(body, "All clusters") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := p.get("/clusters/No%20Name"); code != 404 || !strings.Contains(body, "is not a cluster name") {
		t.Errorf("%d %s", code, body)
	}
	s := h.store()
	declare(t, s, "prod")
	<-s.WatchStatus(t.Context(), "prod")
	if code, body := p.get("/clusters/prod"); code != 200 || !strings.Contains(body, "prod is being bootstrapped") || !strings.Contains(body, "led by boot-1") {
		t.Errorf("%d %s", code, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.http+"/clusters/prod/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", stream.Status, stream.Header)
	}
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	await := func(text string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("the stream ended without %q: %v", text, lines.Err())
	}
	await("prod is being bootstrapped")
	if err := s.SetHold(t.Context(), "prod", cke.Hold{Reason: "switch maintenance", By: "ann@boot-1", Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	await("switch maintenance")
	start := time.Now()
	p.stop()
	for lines.Scan() { // up to its end
	}
	if took := time.Since(start); took > stopLimit/2 {
		t.Errorf("with an open page, stopping took %s", took)
	}
}

// A client that takes nothing of what it asked for is dropped.
func TestListenHTTP_DropsAClientThatReadsNothing(t *testing.T) {
	was := writeLimit
	writeLimit = 50 * time.Millisecond
	t.Cleanup(func() { writeLimit = was })
	failed := make(chan error)
	l, handler, err := listenHTTP(cke.HTTPConfig{Listen: freeAddress(t)}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				failed <- err
				return
			}
		}
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-failed:
	case <-time.After(startLimit):
		t.Error("the server still writes")
	}
}
