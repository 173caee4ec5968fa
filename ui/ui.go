// Package ui serves the status page: every cluster, whichever daemon leads it, from what is stored. It is read-only.
//
// Pages are rendered on the server. A page of one cluster, and the list of all, consist of parts: while a page is open,
// an event stream sends the parts that changed. Each part is rendered once for all viewers.
package ui

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/gzipped"
)

//go:embed assets templates
var files embed.FS

// Store is what the page reads. Its contract is that of storage.Store.
type Store interface {
	Clusters(ctx context.Context) ([]string, error)
	Spec(ctx context.Context, cluster string) (cke.Spec, error)
	SpecLog(ctx context.Context, cluster string) ([]cke.Spec, error)
	Status(ctx context.Context, cluster string) (cke.Status, error)
	// Statuses returns the status of every cluster that has one, in JSON.
	Statuses(ctx context.Context) (map[string][]byte, error)
	Identity(ctx context.Context, cluster string) (cke.Identity, error)
	RequestsOf(ctx context.Context, cluster string) (cke.Requests, error)
	Leader(ctx context.Context, cluster string) (cke.Leader, error)
	Records(ctx context.Context, cluster string, n int) ([]cke.Record, error)
	Record(ctx context.Context, cluster string, id int64) (cke.Record, error)
	// Changes sends a value at once, and then whenever what is stored of the cluster may have changed. It closes when ctx
	// or the store is done.
	Changes(ctx context.Context, cluster string) <-chan struct{}
}

// Config is what a page is made of.
type Config struct {
	// Store returns the store, or why it cannot be read.
	Store   func() (Store, error)
	Version string
	Now     func() time.Time
	Log     *slog.Logger
	// Curves returns the last 24 hours of a cluster, if this daemon leads it; nil: nothing is kept.
	Curves func(cluster string, now time.Time) []cke.Sample
}

// Page is the status page.
type Page struct {
	Config
	templates *template.Template
	assets    map[string]asset
	hub       *hub
	plans     plans
	lately    lately
	compared  compared
	gate      chan struct{} // bounds the pages that are rendered at once
}

// Bounds.
const (
	// renderLimit bounds what one page asks of the store.
	renderLimit = 4 * time.Second
	// renderedAtOnce is how many pages are rendered at once.
	renderedAtOnce = 4
	// shownRecords is how many operations the page of a cluster lists, listedRecords the page of its history.
	shownRecords, listedRecords = 12, 500
	// shownRevisions is how many revisions of the cluster file the page of a cluster lists.
	shownRevisions = 5
	// shownText is how much of one text from outside is shown, in bytes.
	shownText = 2000
)

// New makes the page. Its streams end with ctx.
func New(ctx context.Context, c Config) *Page {
	p := &Page{Config: c, assets: map[string]asset{}, gate: make(chan struct{}, renderedAtOnce)}
	p.hub = newHub(ctx, p)
	for _, name := range []string{"style.css", "page.js"} {
		p.assets[name] = newAsset(name)
	}
	p.templates = template.Must(template.New("").Funcs(p.functions()).ParseFS(files, "templates/*.html"))
	return p
}

// asset is a file that never changes under its path, so that browsers keep it.
type asset struct {
	path, kind   string
	text, packed []byte
}

func newAsset(name string) asset {
	text, err := files.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	a := asset{text: text, packed: gzipped.Bytes(text), kind: "text/css; charset=utf-8"}
	base, ext, _ := strings.Cut(name, ".")
	if ext == "js" {
		a.kind = "text/javascript; charset=utf-8"
	}
	a.path = fmt.Sprintf("/ui/%s-%s.%s", base, digest(text), ext)
	return a
}

func digest(text []byte) string {
	h := fnv.New64a()
	h.Write(text)
	return strconv.FormatUint(h.Sum64(), 36)
}

// security is what every answer says: nothing is loaded from elsewhere, and no script or style is in the page itself.
const security = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'"

// Handler serves the page. It answers only GET.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, a := range p.assets {
		mux.HandleFunc("GET "+a.path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			gzipped.Send(w, r, 0, a.kind, a.text, func([]byte) []byte { return a.packed })
		})
	}
	mux.HandleFunc("GET /{$}", p.page(p.fleetPage))
	mux.HandleFunc("GET /clusters/{name}", p.page(p.clusterPage))
	mux.HandleFunc("GET /clusters/{name}/history", p.page(p.historyPage))
	mux.HandleFunc("GET /clusters/{name}/history/{id}", p.page(p.recordPage))
	mux.HandleFunc("GET /clusters/{name}/revisions", p.page(p.revisionsPage))
	mux.HandleFunc("GET /clusters/{name}/revisions/{id}", p.page(p.revisionPage))
	mux.HandleFunc("GET /help", p.page(p.codesPage))
	mux.HandleFunc("GET /help/{code}", p.page(p.codePage))
	mux.HandleFunc("GET /events", p.hub.serve)
	mux.HandleFunc("GET /clusters/{name}/events", p.hub.serve)
	mux.HandleFunc("GET /", p.page(func(context.Context, *http.Request) (view, error) { return view{}, errNoPage }))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", security)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

// view is a page that is about to be rendered.
type view struct {
	// Title is the title; Crumbs lead to the page.
	Title  string
	Here   string // what the path ends with; empty: the title
	Crumbs []crumb
	// Kind names the template of the content, Data is what it shows; or Parts are its content, already rendered.
	Kind  string
	Data  any
	Parts []part
	// Events is the address of the event stream; empty: the page does not change.
	Events string
	// Sum identifies the parts.
	Sum string
	// Retry: the page is about something that may pass.
	Retry bool
	// Seen is the cluster that the page shows, Old: its status is not of the present.
	Seen string
	Old  bool
	Now  time.Time
	// Style and Script are the paths of the assets.
	Style, Script, Version string
	status                 int // of HTTP; 0: 200
}

type crumb struct{ Path, Text string }

var errNoPage = errors.New("there is no such page")

// page serves one page, or the error in its place.
func (p *Page) page(make func(context.Context, *http.Request) (view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), renderLimit)
		defer cancel()
		v, err := p.rendered(ctx, r, make)
		if err != nil {
			v = p.errorView(err)
		}
		v.Now, v.Version = p.Now(), p.Version
		v.Style, v.Script = p.assets["style.css"].path, p.assets["page.js"].path
		var b bytes.Buffer
		if err := p.templates.ExecuteTemplate(&b, "page", v); err != nil {
			p.Log.Error("a page could not be rendered", "path", r.URL.Path, "error", err)
			http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
			return
		}
		gzipped.Send(w, r, v.status, "text/html; charset=utf-8", b.Bytes(), gzipped.Bytes)
	}
}

// rendered makes a page, few at once.
func (p *Page) rendered(ctx context.Context, r *http.Request, make func(context.Context, *http.Request) (view, error)) (v view, err error) {
	select {
	case p.gate <- struct{}{}:
		defer func() { <-p.gate }()
		err = p.guarded(func() (err error) {
			v, err = make(ctx, r)
			return err
		})
		return v, err
	case <-ctx.Done():
		return view{}, ctx.Err()
	}
}

// guarded turns a panic into an error: a fault of the page must not end the daemon.
func (p *Page) guarded(do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = errors.New("fault in the status page; the daemon's log has more")
			p.Log.Error("fault in the status page", "fault", fault, "stack", string(debug.Stack()))
		}
	}()
	return do()
}

// failure is what an error page shows.
type failure struct {
	Title, Text, Code, Try string
	Facts                  []string
}

// errorView is the page of an error.
func (p *Page) errorView(err error) view {
	f, status := failure{Title: "The page cannot be shown", Text: err.Error()}, http.StatusServiceUnavailable
	var coded *cke.Error
	switch {
	case errors.Is(err, errNoPage):
		f, status = failure{Title: "There is no such page", Text: "The address leads to nothing here."}, http.StatusNotFound
	case errors.Is(err, cke.ErrNotFound):
		f, status = failure{Title: "There is no such thing", Text: "It does not exist, or no longer: " + err.Error()}, http.StatusNotFound
	case errors.As(err, &coded):
		f.Code, f.Text, f.Facts, f.Try = string(coded.Code), coded.What, coded.Facts, coded.Try
		if coded.Code == cke.CodeCluster { // it cannot be the name of a cluster
			status = http.StatusNotFound
		}
		if coded.Err != nil {
			f.Facts = append(f.Facts[:len(f.Facts):len(f.Facts)], coded.Err.Error())
		}
	}
	return view{Title: f.Title, Crumbs: []crumb{{"/", "All clusters"}}, Kind: "error", Data: f, Retry: status == http.StatusServiceUnavailable, status: status}
}

// opened returns the store.
func (p *Page) opened() (Store, error) { return p.Store() }

// plans are the newest plans, which take longer to compute than the rest of a page.
type plans struct {
	mu  sync.Mutex
	all map[string]planned
}
