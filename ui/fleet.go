package ui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/words"
)

// query names a page that is live: one cluster, or the clusters that a filter leaves.
type query struct {
	cluster string
	// text is searched for in names, summaries and nodes; health is a health, or "unhealthy".
	text, health string
}

// unhealthy is the filter for every health that needs attention.
const unhealthy = "unhealthy"

// longestSearch bounds the text of a filter, in bytes.
const longestSearch = 64

var errQuery = errors.New("the filter is too long")

func readQuery(r *http.Request) (query, error) {
	q := query{cluster: r.PathValue("name"), text: strings.TrimSpace(r.URL.Query().Get("q")), health: r.URL.Query().Get("health")}
	if q.cluster != "" {
		return query{cluster: q.cluster}, nil
	}
	if len(q.text) > longestSearch || len(q.health) > longestSearch {
		return query{}, errQuery
	}
	return q, nil
}

func (q query) key() string { return q.cluster + "\n" + q.text + "\n" + q.health }

// events is the address of the stream of this page; v is what the browser has.
func (q query) events(v string) string {
	if q.cluster != "" {
		return "/clusters/" + url.PathEscape(q.cluster) + "/events?v=" + v
	}
	values := url.Values{"v": {v}}
	if q.text != "" {
		values.Set("q", q.text)
	}
	if q.health != "" {
		values.Set("health", q.health)
	}
	return "/events?" + values.Encode()
}

// row is one cluster in the list.
type row struct {
	clock
	Name string
	report
	Known bool
	// leader leads the cluster now; it is read where the status does not say so. nil: none does.
	leader *cke.Leader
}

// Health is the health in the list.
func (r row) Health() cke.Health { return cmp.Or(r.S.Health, cke.HealthUnknown) }

// Class is the class of the health. What needs no attention has no color.
func (r row) Class() string {
	if c := class(words.HealthStyle(r.Health())); c != "warn" || !r.healthy() {
		return c
	}
	return "calm"
}

// healthy reports whether the cluster needs no attention.
func (r row) healthy() bool {
	switch r.Health() {
	case cke.HealthReady, cke.HealthUpdating, cke.HealthHibernated:
		return len(r.S.Problems) == 0 && !r.Stale()
	}
	return false
}

// Stale reports whether the status is not of the present.
func (r row) Stale() bool { return !r.Known || r.Now.Sub(r.S.ObservedAt) > words.StaleAfter }

// Brief reports whether a narrow list needs to show no more than the health and the state.
func (r row) Brief() bool { return r.healthy() && !r.BackupsBad() }

// Mark is the shape of the health: a warning where it says nothing of what needs attention.
func (r row) Mark() string {
	switch {
	case r.Stale():
		return "unknown"
	case r.warns():
		return "warning"
	}
	return strings.ToLower(string(r.Health()))
}

// MarkClass is the class of the mark.
func (r row) MarkClass() string {
	if r.warns() {
		return "warn"
	}
	return r.Class()
}

// warns reports whether members are as they should be, and something else is not.
func (r row) warns() bool { return r.Health() == cke.HealthReady && !r.healthy() && !r.Stale() }

// LedBy is the leader daemon of the present.
func (r row) LedBy() string {
	switch {
	case !r.Stale():
		return cmp.Or(r.S.Leader.Host, "-")
	case r.leader != nil:
		return r.leader.Host
	}
	return "no daemon"
}

// Doing is the operation under way, or the reason for none where something is not as it should be.
func (r row) Doing() string {
	if r.Known && r.Stale() {
		return words.Silence(r.Name, r.leader != nil)
	}
	if o := r.S.Operation; o != nil && o.State == cke.RecordRunning {
		return o.Type + ": " + r.S.Reason
	}
	if !r.Known {
		return "no status yet"
	}
	if r.warns() {
		return words.Problem(r.S.Problems[0])
	}
	if r.S.Health == cke.HealthReady || strings.Contains(r.S.Reason, r.S.Summary) && r.S.Summary != "" {
		return ""
	}
	return rest(r.S.Reason)
}

// Restorable is the newest state that can be restored; zero: none is known.
func (r row) Restorable() time.Time {
	if b := r.S.Backup; b != nil && b.Known {
		return b.Time
	}
	return time.Time{}
}

// AllRestorable reports whether all that was written up to the observation can be restored.
func (r row) AllRestorable() bool {
	b := r.S.Backup
	return b != nil && allStored(b)
}

// NoBackups reports whether the cluster file declares no target.
func (r row) NoBackups() bool {
	c, known := r.S.Condition(cke.CondBackupReady)
	return !known || c.Reason == "NotConfigured"
}

// BackupsBad reports whether the backups are not as they should be.
func (r row) BackupsBad() bool {
	c, known := r.S.Condition(cke.CondBackupReady)
	return known && c.Status != cke.True && c.Reason != "NotConfigured"
}

// worst orders rows: what needs attention most comes first.
func (r row) worst() int {
	order := []cke.Health{cke.HealthLost, cke.HealthFrozen, cke.HealthUnknown, cke.HealthDegraded, cke.HealthRestoring, cke.HealthForming, cke.HealthDeleting, cke.HealthUpdating, cke.HealthReady, cke.HealthHibernated}
	at := 4 * slices.Index(order, r.Health())
	switch {
	case !r.Known:
		return at + 1
	case r.Stale():
		return at - 2
	case len(r.S.Problems) > 0:
		return at - 1
	}
	return at
}

// fits reports whether the filter leaves the row.
func (q query) fits(r row) bool {
	switch {
	case q.health == unhealthy && r.healthy():
		return false
	case q.health != "" && q.health != unhealthy && q.health != string(r.Health()):
		return false
	}
	if q.text == "" {
		return true
	}
	text := r.Name + " " + r.S.Summary + " " + r.S.Leader.Host
	for _, m := range r.S.Members {
		text += " " + m.Name + " " + m.Address
	}
	return strings.Contains(strings.ToLower(text), strings.ToLower(q.text))
}

// fleet is what the list shows.
type fleet struct {
	clock
	Rows []row
	// Clusters and Unhealthy count all clusters, whatever the filter leaves; Members and Ready those seen now.
	Clusters, Unhealthy, Members, Ready int
	// Unseen are the members of the Silent clusters, whose status is not of the present; the newest is of LastSeen.
	Unseen, Silent int
	LastSeen       time.Time
	Text, Filter   string
	Healths        []cke.Health
	// Calm is the first row that needs no attention, if others come before it; CalmRows is how many there are.
	Calm     string
	CalmRows int
	// shows differs between lists that show something else than other ages.
	shows string
}

// lately are the rows that were read last, for all viewers.
type lately struct {
	mu      sync.Mutex
	at      time.Time
	rows    []row
	reports map[string]report
	count   int64
}

// rowsFresh is how long rows are shown to other viewers, too.
const rowsFresh = 500 * time.Millisecond

// rows returns the status of every cluster, worst first.
func (p *Page) rows(ctx context.Context) ([]row, error) {
	p.lately.mu.Lock()
	defer p.lately.mu.Unlock()
	if p.lately.rows != nil && time.Since(p.lately.at) < rowsFresh {
		return p.lately.rows, nil
	}
	rows, err := p.readRows(ctx)
	if err != nil {
		return nil, err
	}
	p.lately.rows, p.lately.at = rows, time.Now()
	return rows, nil
}

func (p *Page) readRows(ctx context.Context) ([]row, error) {
	s, err := p.opened()
	if err != nil {
		return nil, err
	}
	names, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	texts, err := s.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	all, reports, now := make([]row, len(names)), map[string]report{}, p.Now()
	for i, name := range names {
		r := row{clock: clock{now}, Name: name}
		if text, stored := texts[name]; stored {
			if r.report, err = p.lately.read(name, text); err != nil {
				return nil, err
			}
			r.Known, reports[name] = true, r.report
		}
		if r.Stale() {
			if r.leader, err = leader(ctx, s, name); err != nil {
				return nil, err
			}
		}
		all[i] = r
	}
	p.lately.reports = reports
	slices.SortStableFunc(all, func(a, b row) int {
		return cmp.Or(cke.CompareBools(a.healthy(), b.healthy()), cmp.Compare(a.worst(), b.worst()), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// report is a status that was read. Before and after are what is stored around the time of the observation; it has another
// number than any before.
type report struct {
	S             cke.Status
	before, after []byte
	number        int64
}

// read decodes a status. A leader stores one again and again while nothing but the time changes.
func (l *lately) read(name string, text []byte) (report, error) {
	before, observed, after := aroundTime(text)
	if r := l.reports[name]; r.after != nil && bytes.Equal(r.before, before) && bytes.Equal(r.after, after) {
		err := r.S.ObservedAt.UnmarshalJSON(observed)
		return r, err
	}
	l.count++
	r := report{before: before, after: after, number: l.count}
	if err := json.Unmarshal(text, &r.S); err != nil {
		return r, fmt.Errorf("read the status of %s: %w", name, err)
	}
	return r, nil
}

// observedAt comes before the time of the observation, a text of JSON, in a status.
const observedAt = `"observedAt":`

// aroundTime cuts a status in JSON at the time of the observation; after is nil if it is not found.
func aroundTime(text []byte) (before, observed, after []byte) {
	at := bytes.Index(text, []byte(observedAt))
	if at < 0 {
		return text, nil, nil
	}
	at += len(observedAt)
	length := bytes.IndexByte(text[at:], ',')
	if length < 0 {
		return text, nil, nil
	}
	return text[:at], text[at : at+length], text[at+length:]
}

// fleet reads the list that a filter leaves.
func (p *Page) fleet(ctx context.Context, q query) (fleet, error) {
	rows, err := p.rows(ctx)
	f := fleet{clock: clock{p.Now()}, Clusters: len(rows), Text: q.text, Filter: q.health, Healths: cke.Healths()}
	var shows strings.Builder
	for _, r := range rows {
		fmt.Fprintln(&shows, r.Name, r.number, r.Stale(), r.Old(r.S.ObservedAt), r.LedBy())
		if !r.healthy() {
			f.Unhealthy++
		}
		switch {
		case r.Known && r.Stale():
			f.Unseen += r.S.Declared
			if f.Silent++; r.S.ObservedAt.After(f.LastSeen) {
				f.LastSeen = r.S.ObservedAt
			}
		default:
			f.Members += r.S.Declared
			f.Ready += r.S.Ready
		}
		if q.fits(r) {
			if r.healthy() {
				if f.CalmRows++; f.CalmRows == 1 && len(f.Rows) > 0 {
					f.Calm = r.Name
				}
			}
			f.Rows = append(f.Rows, r)
		}
	}
	f.shows = shows.String()
	return f, err
}

func (p *Page) fleetPage(ctx context.Context, r *http.Request) (view, error) {
	q, err := readQuery(r)
	if err != nil {
		return view{}, errNoPage
	}
	return p.liveView(ctx, q, view{Title: "Clusters", Kind: "fleet", Data: fleet{Text: q.text, Filter: q.health, Healths: cke.Healths()}})
}

// liveView is a page of parts with their stream.
func (p *Page) liveView(ctx context.Context, q query, v view) (view, error) {
	i, err := p.image(ctx, q, nil)
	if err != nil {
		return v, err
	}
	v.Parts, v.Sum, v.Seen = i.parts, i.sum(), q.cluster
	v.Old = v.Seen != "" && clock{p.Now()}.Old(time.UnixMilli(i.seen[v.Seen]))
	v.Events = q.events(v.Sum)
	return v, nil
}

// image renders the parts of a page.
// before is the one that was rendered last; nil: none was.
func (p *Page) image(ctx context.Context, q query, before *image) (*image, error) {
	if q.cluster == "" {
		f, err := p.fleet(ctx, q)
		if err != nil {
			return nil, err
		}
		i := &image{seen: map[string]int64{}, shows: f.shows}
		for _, r := range f.Rows {
			if r.Known {
				i.seen[r.Name] = r.S.ObservedAt.UnixMilli()
			}
		}
		if before != nil && before.shows == i.shows {
			i.parts = before.parts
			return i, nil
		}
		return i, p.parts(i, f, "fleet-headline", "fleet-rows")
	}
	f, err := p.gather(ctx, q.cluster)
	if err != nil {
		return nil, err
	}
	i := &image{seen: map[string]int64{f.Name: f.S.ObservedAt.UnixMilli()}}
	i.running = f.Running()
	return i, p.parts(i, f, clusterParts...)
}

// clusterParts are the parts of the page of a cluster, in their order.
var clusterParts = []string{"headline", "problems", "members", "now", "next", "inventory", "backups", "curves", "history", "certificates", "file"}

// parts renders parts into an image.
func (p *Page) parts(i *image, data any, names ...string) error {
	p.hub.renders.Add(1)
	for _, name := range names {
		var b strings.Builder
		if err := p.templates.ExecuteTemplate(&b, name, data); err != nil {
			return err
		}
		i.parts = append(i.parts, newPart(name, b.String()))
	}
	return nil
}
