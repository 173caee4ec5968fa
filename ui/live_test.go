package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"cke"
	"cke/ui"
)

// event is what a browser gets.
type event struct {
	Now     int64
	Seen    map[string]int64
	Parts   map[string]string
	Trouble string
}

// viewer is an open stream.
type viewer struct {
	t      *testing.T
	events chan event
	answer *http.Response
}

// watch opens the stream of a page.
func watch(t *testing.T, s *httptest.Server, path string) *viewer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	v := &viewer{t, make(chan event, 100), answer}
	go func() {
		defer close(v.events)
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e event
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is && json.Unmarshal([]byte(data), &e) == nil {
				v.events <- e
			}
		}
	}()
	return v
}

// until returns the next event that fits.
func (v *viewer) until(what string, fits func(event) bool) event {
	v.t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case e, open := <-v.events:
			if !open {
				v.t.Fatalf("the stream ended before %s", what)
			}
			if fits(e) {
				return e
			}
		case <-late:
			v.t.Fatalf("not in time: %s", what)
		}
	}
}

func served(t *testing.T, p *ui.Page) *httptest.Server {
	s := httptest.NewServer(p.Handler())
	t.Cleanup(s.CloseClientConnections)
	return s
}

func TestStream_SendsWhatChangedAndNothingElse(t *testing.T) {
	t.Parallel()
	w := everything()
	v := watch(t, served(t, page(t, w)), "/clusters/healthy/events")
	first := v.until("the whole page", func(e event) bool { return len(e.Parts) > 0 })
	if len(first.Parts) != 11 || first.Seen["healthy"] != noon.Add(-2*time.Second).UnixMilli() || first.Now != noon.UnixMilli() {
		t.Errorf("%d parts, %v, %d", len(first.Parts), first.Seen, first.Now)
	}
	w.change("healthy", func(c *stored) { c.status.ObservedAt = noon.Add(-time.Second) })
	e := v.until("another observation", func(e event) bool { return e.Seen != nil })
	if len(e.Parts) != 0 || e.Seen["healthy"] != noon.Add(-time.Second).UnixMilli() {
		t.Errorf("the same state, seen again, sent %v, %v", e.Parts, e.Seen)
	}
	w.change("healthy", func(c *stored) { c.status.Members[1].State, c.status.Members[1].Ready = "stopped", false })
	if e = v.until("a member stopped", func(e event) bool { return len(e.Parts) > 0 }); e.Parts["members"] == "" || e.Parts["history"] != "" || !strings.Contains(e.Parts["members"], "stopped") {
		t.Errorf("a stopped member sent %d parts", len(e.Parts))
	}
	v.until("a beat", func(e event) bool { return len(e.Parts) == 0 && e.Seen == nil })

	w.breaks(errStore)
	w.change("healthy", func(*stored) {})
	if e = v.until("trouble", func(e event) bool { return e.Trouble != "" }); len(e.Parts) != 0 || !strings.Contains(e.Trouble, "deadline exceeded") {
		t.Errorf("%+v", e)
	}
	w.breaks(nil)
	if e = v.until("the store is back", func(e event) bool { return e.Trouble == "" }); len(e.Parts) != 0 {
		t.Errorf("what is as before was sent again: %d parts", len(e.Parts))
	}
}

// The list of clusters is rendered again only if a status says something else: leaders store one every ten seconds.
func TestStream_TheListIsRenderedOnceWhileOnlyTimePasses(t *testing.T) {
	t.Parallel()
	w := everything()
	p := page(t, w)
	v := watch(t, served(t, p), "/events")
	v.until("the whole list", func(e event) bool { return len(e.Parts) == 2 })
	before := p.Renders()
	w.change("healthy", func(c *stored) { c.status.ObservedAt = noon.Add(-time.Second) })
	e := v.until("another observation", func(e event) bool { return e.Seen["healthy"] == noon.Add(-time.Second).UnixMilli() })
	if n := p.Renders() - before; n != 0 || len(e.Parts) != 0 {
		t.Errorf("the same state, seen again, was rendered %d times, and sent %d parts", n, len(e.Parts))
	}
	w.change("healthy", func(c *stored) { c.status.Ready, c.status.Summary = 2, "one member stopped" })
	if e = v.until("a change", func(e event) bool { return len(e.Parts) > 0 }); !strings.Contains(e.Parts["fleet-rows"], "one member stopped") {
		t.Errorf("%v", e.Parts)
	}
	w.change("healthy", func(c *stored) { c.status.ObservedAt = noon.Add(-time.Hour) })
	if e = v.until("a status that is old", func(e event) bool { return len(e.Parts) > 0 }); !strings.Contains(e.Parts["fleet-rows"], "was READY") {
		t.Errorf("%v", e.Parts)
	}
	w.breaks(errStore)
	v.until("trouble", func(e event) bool { return e.Trouble != "" })
	w.breaks(nil)
	if e = v.until("the store is back", func(e event) bool { return e.Trouble == "" }); len(e.Parts) != 0 {
		t.Errorf("what is as before was sent again: %d parts", len(e.Parts))
	}
}

// A browser that has the page already gets nothing; one that has another one gets all of it.
func TestStream_ContinuesWhereTheBrowserIs(t *testing.T) {
	t.Parallel()
	w := everything()
	s := served(t, page(t, w))
	_, body := get(t, page(t, w), "/clusters/healthy")
	_, address, _ := strings.Cut(body, `data-events="`)
	address, _, _ = strings.Cut(address, `"`)
	if e := watch(t, s, address).until("the first event", func(event) bool { return true }); len(e.Parts) != 0 || e.Seen["healthy"] == 0 {
		t.Errorf("%d parts, %v", len(e.Parts), e.Seen)
	}
	if e := watch(t, s, "/clusters/healthy/events?v=other").until("the first event", func(event) bool { return true }); len(e.Parts) != 11 {
		t.Errorf("%d parts", len(e.Parts))
	}
}

// A part is rendered once for all viewers, and as many streams are open as the bound allows.
func TestStream_ManyViewersCostOneRendering(t *testing.T) {
	t.Parallel()
	w := everything()
	p := page(t, w)
	h := p.Handler()
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan struct{}, ui.MostViewers)
	for range ui.MostViewers {
		all.Go(func() {
			h.ServeHTTP(&sink{got: got, until: "revision 99"}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/clusters/healthy/events", nil))
		})
	}
	eventually(t, "all viewers are there", func() bool { return p.Viewers() == ui.MostViewers })
	refused := httptest.NewRecorder()
	h.ServeHTTP(refused, httptest.NewRequest(http.MethodGet, "/clusters/healthy/events", nil))
	if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
		t.Errorf("one viewer too many: %d", refused.Code)
	}
	before := p.Renders()
	w.change("healthy", func(c *stored) { c.status.Generation, c.status.ObservedGeneration = 99, 99 })
	for range ui.MostViewers {
		<-got
	}
	if n := p.Renders() - before; n > 3 {
		t.Errorf("a change was rendered %d times for %d viewers", n, ui.MostViewers)
	}
	cancel()
	all.Wait()
	if n := p.Viewers(); n != 0 {
		t.Errorf("%d viewers are left", n)
	}
}

// sink takes a stream, and reports once that it has a text.
type sink struct {
	header http.Header
	got    chan struct{}
	until  string
	once   sync.Once
}

func (s *sink) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}
func (s *sink) WriteHeader(int) {}
func (s *sink) Flush()          {}
func (s *sink) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.until) {
		s.once.Do(func() { s.got <- struct{}{} })
	}
	return len(b), nil
}

// stuck takes nothing: its first write waits.
type stuck struct {
	sink
	free chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.free
	return len(b), nil
}

// A reader that takes nothing delays no other one, and its stream ends once its connection does.
func TestStream_ASlowReaderDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := everything()
	p := page(t, w)
	slow := &stuck{free: make(chan struct{})}
	free := sync.OnceFunc(func() { close(slow.free) })
	t.Cleanup(free) // also where the test fails before: what serves the reader would wait for ever
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.Handler().ServeHTTP(slow, httptest.NewRequestWithContext(ctx, http.MethodGet, "/clusters/healthy/events", nil))
	}()
	eventually(t, "the slow reader is there", func() bool { return p.Viewers() == 1 })
	v := watch(t, served(t, p), "/clusters/healthy/events")
	v.until("the page", func(e event) bool { return len(e.Parts) > 0 })
	w.change("healthy", func(c *stored) { c.status.Reason = "another reason" })
	v.until("a change", func(e event) bool { return len(e.Parts) > 0 })
	cancel()
	free()
	<-done
}

// A cluster that is deleted while its page is open is named as such, and the streams end with the daemon.
func TestStream_EndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	w := everything()
	ctx, stop := context.WithCancel(t.Context())
	p := ui.New(ctx, config(w))
	v := watch(t, served(t, p), "/clusters/healthy/events")
	v.until("the page", func(e event) bool { return len(e.Parts) > 0 })
	w.change("healthy", func(*stored) { delete(w.clusters, "healthy") })
	v.until("it is gone", func(e event) bool { return strings.Contains(e.Trouble, cke.ErrNotFound.Error()) })
	stop()
	for range v.events {
	}
}

// A fault in the page is an error on the page, and the daemon continues.
func TestPage_AFaultIsAnErrorPage(t *testing.T) {
	w := everything()
	c := config(w)
	c.Curves = func(string, time.Time) []cke.Sample { panic("a fault") }
	p := ui.New(t.Context(), c)
	code, body := get(t, p, "/clusters/healthy")
	if code != http.StatusServiceUnavailable {
		t.Errorf("%d", code)
	}
	has(t, "page", body, "fault in the status page")
	watch(t, served(t, p), "/clusters/healthy/events").until("the fault", func(e event) bool { return strings.Contains(e.Trouble, "fault in the status page") })
	if code, _ := get(t, p, "/"); code != http.StatusOK {
		t.Errorf("the list: %d", code)
	}
}

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
