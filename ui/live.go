package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is live.
const (
	// mostViewers is how many event streams are open at once, mostTopics how many different pages are live.
	mostViewers, mostTopics = 500, 200
	// beat is how often a stream says that the daemon is there; browsers miss it after 4 s.
	beat = 2 * time.Second
	// settle is how long changes are gathered before a page is rendered again.
	settle = 200 * time.Millisecond
	// Pages are rendered again at least so often: while an operation runs, and while nothing happens.
	runningEvery, idleEvery = time.Second, 30 * time.Second
	// The list of clusters is read again after fleetEvery to fleetMost: sameShare times as long as the reading took, or
	// changedShare times as long as reading and rendering took.
	fleetEvery, fleetMost       = 2 * time.Second, 10 * time.Second
	sameShare, changedShare int = 5000, 500
)

// part is a part of a page. Sum identifies what it shows, apart from ages.
type part struct {
	ID   string
	HTML template.HTML
	Sum  string
}

// image is a page at one time.
type image struct {
	parts []part
	// seen has the time of the observation of each cluster on the page, in milliseconds.
	seen map[string]int64
	// running: an operation is under way.
	running bool
	// trouble is why the image is not of the present; empty: it is.
	trouble string
	// shows is what the list of clusters shows, but for ages.
	shows string
}

// newPart finishes a part.
func newPart(id, html string) part {
	return part{ID: id, HTML: template.HTML(html), Sum: digest([]byte(ageless(html)))} // from a template
}

// ageless is a part without the ages, which the browser keeps right by itself, and without what it gets beside the parts: when
// a cluster was observed.
func ageless(html string) string {
	pieces := strings.Split(html, "<time ")
	for i, piece := range pieces[1:] {
		tag, text, _ := strings.Cut(piece, ">")
		_, after, _ := strings.Cut(text, "<")
		if strings.HasSuffix(tag, "data-seen-at") {
			tag = ""
		}
		pieces[i+1] = tag + "<" + after
	}
	return strings.Join(pieces, "<time ")
}

// sum identifies all parts of an image.
func (i *image) sum() string {
	var b strings.Builder
	for _, p := range i.parts {
		b.WriteString(p.Sum + " ")
	}
	return digest([]byte(b.String()))
}

// hub has a topic for each page that is open in a browser.
type hub struct {
	ctx  context.Context
	page *Page

	mu      sync.Mutex
	topics  map[string]*topic
	viewers int
	renders atomic.Int64 // for tests
}

func newHub(ctx context.Context, p *Page) *hub {
	return &hub{ctx: ctx, page: p, topics: map[string]*topic{}}
}

// topic is one page that is open in at least one browser.
type topic struct {
	viewers int
	stop    context.CancelFunc

	mu    sync.Mutex
	image *image        // nil: not yet
	next  chan struct{} // closed once there is another image
}

// now returns the image, and what is closed once there is another one.
func (t *topic) now() (*image, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.image, t.next
}

func (t *topic) set(i *image) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.image = i
	close(t.next)
	t.next = make(chan struct{})
}

// join adds a viewer of a page; false: there are too many.
func (h *hub) join(key string, q query) (*topic, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[key]
	if h.viewers >= mostViewers || t == nil && len(h.topics) >= mostTopics {
		return nil, false
	}
	if t == nil {
		ctx, cancel := context.WithCancel(h.ctx)
		t = &topic{stop: cancel, next: make(chan struct{})}
		h.topics[key] = t
		go h.run(ctx, t, q)
	}
	t.viewers++
	h.viewers++
	return t, true
}

func (h *hub) leave(key string, t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.viewers--
	if t.viewers--; t.viewers == 0 {
		t.stop()
		delete(h.topics, key)
	}
}

// run renders one page whenever it may have changed, until no browser shows it.
func (h *hub) run(ctx context.Context, t *topic, q query) {
	var changes <-chan struct{}
	for ctx.Err() == nil {
		if changes == nil && q.cluster != "" {
			if s, err := h.page.opened(); err == nil {
				changes = s.Changes(ctx, q.cluster)
			}
		}
		start := time.Now()
		before, _ := t.now()
		i := h.render(ctx, q, before)
		if ctx.Err() != nil {
			return
		}
		if i.trouble != "" && before != nil { // what was known stays
			i.parts, i.seen = before.parts, before.seen
		}
		t.set(i)
		wait := idleEvery
		switch {
		case i.running || i.trouble != "":
			wait = runningEvery
		case q.cluster == "":
			share := sameShare
			if before == nil || before.shows != i.shows {
				share = changedShare
			}
			wait = min(max(fleetEvery, time.Duration(share)*time.Since(start)), fleetMost)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case _, open := <-changes:
			if !open {
				changes = nil
			}
			pause(ctx, settle)
		}
	}
}

// render makes the image of a page after another one.
func (h *hub) render(ctx context.Context, q query, before *image) *image {
	ctx, cancel := context.WithTimeout(ctx, renderLimit)
	defer cancel()
	var i *image
	err := h.page.guarded(func() (err error) {
		i, err = h.page.image(ctx, q, before)
		return err
	})
	if err != nil {
		return &image{trouble: err.Error()}
	}
	return i
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// event is what a stream sends.
type event struct {
	Now   int64                    `json:"now"` // milliseconds
	Seen  map[string]int64         `json:"seen,omitempty"`
	Parts map[string]template.HTML `json:"parts,omitempty"`
	Sums  map[string]string        `json:"sums,omitempty"`
	// Trouble is why the page is not of the present.
	Trouble string `json:"trouble,omitempty"`
}

// serve is one event stream. It holds nothing of its own but what it has sent: the parts are those of all viewers.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	q, err := readQuery(r)
	flusher, can := w.(http.Flusher)
	if err != nil || !can {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	t, ok := h.join(q.key(), q)
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(q.key(), t)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	known := r.Header.Get("Last-Event-ID")
	if known == "" {
		known = r.URL.Query().Get("v")
	}
	s := stream{w: w, flusher: flusher, page: h.page, known: known, sent: map[string]string{}}
	if s.write("retry: 1000\n\n") != nil {
		return
	}
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		i, next := t.now()
		if i != nil && s.send(i) != nil {
			return
		}
		for waiting := true; waiting; {
			select {
			case <-h.ctx.Done():
				return
			case <-r.Context().Done():
				return
			case <-next:
				waiting = false
			case <-beats.C:
				if s.event("", event{Now: h.page.Now().UnixMilli(), Trouble: s.trouble}) != nil {
					return
				}
			}
		}
	}
}

// stream is the writing side of one viewer.
type stream struct {
	w       http.ResponseWriter
	flusher http.Flusher
	page    *Page
	known   string            // the sum of what the browser had when it asked
	sent    map[string]string // sums of what it was sent, by part
	seen    map[string]int64
	trouble string
}

// send sends what differs from what was sent before.
func (s *stream) send(i *image) error {
	e := event{Now: s.page.Now().UnixMilli(), Trouble: i.trouble, Parts: map[string]template.HTML{}, Sums: map[string]string{}}
	s.trouble = i.trouble
	sum := i.sum()
	for _, p := range i.parts {
		if s.sent[p.ID] != p.Sum && s.known != sum {
			e.Parts[p.ID], e.Sums[p.ID] = p.HTML, p.Sum
		}
		s.sent[p.ID] = p.Sum
	}
	if i.parts != nil {
		s.known = ""
	}
	if !maps.Equal(s.seen, i.seen) {
		e.Seen, s.seen = i.seen, i.seen
	}
	return s.event(sum, e)
}

func (s *stream) event(id string, e event) error {
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	b.WriteString("data: ")
	j := json.NewEncoder(&b)
	j.SetEscapeHTML(false)
	if err := j.Encode(e); err != nil { // it ends the line
		return err
	}
	b.WriteString("\n")
	return s.write(b.String())
}

func (s *stream) write(text string) error {
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	s.flusher.Flush()
	return nil
}
