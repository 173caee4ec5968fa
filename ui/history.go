package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cke"
	"cke/internal/scrub"
	"cke/plan"
)

// of is a page below that of a cluster.
func of(cluster, title, kind string, data any, more ...crumb) view {
	path := "/clusters/" + cluster
	return view{Title: title + " · " + cluster, Here: title, Crumbs: append([]crumb{{"/", "All clusters"}, {path, cluster}}, more...), Kind: kind, Data: data}
}

// listed is the page of the history.
type listed struct {
	clock
	Name    string
	History []shared
}

func (p *Page) historyPage(ctx context.Context, r *http.Request) (view, error) {
	name := r.PathValue("name")
	s, err := p.opened()
	if err != nil {
		return view{}, err
	}
	if _, err := s.Spec(ctx, name); err != nil {
		return view{}, err
	}
	records, err := s.Records(ctx, name, listedRecords)
	c := clock{p.Now()}
	return of(name, "History", "history-page", listed{c, name, history(c, records)}), err
}

// recorded is the page of one operation.
type recorded struct {
	shownOp
	Name string
}

func (p *Page) recordPage(ctx context.Context, r *http.Request) (view, error) {
	name := r.PathValue("name")
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return view{}, errNoPage
	}
	s, err := p.opened()
	if err != nil {
		return view{}, err
	}
	record, err := s.Record(ctx, name, id)
	if err != nil {
		return view{}, err
	}
	return of(name, fmt.Sprintf("Operation %d", id), "record-page", recorded{showOp(clock{p.Now()}, record), name}, crumb{"/clusters/" + name + "/history", "History"}), nil
}

// revision is one stored revision of a cluster file.
type revision struct {
	clock
	Name     string
	Revision int64
	SetAt    time.Time
	SetBy    string
	// First: the one before it is not kept.
	First   bool
	Changes []string
	lines   func() []line
}

// Lines are the lines of the file, with what changed.
func (r revision) Lines() []line { return r.lines() }

// revisions compares each revision with the one before, without secrets.
func revisions(c clock, name string, log []cke.Spec) (all []revision) {
	s := scrub.New(log)
	for i, spec := range log {
		r := revision{clock: c, Name: name, Revision: spec.Generation, SetAt: spec.SetAt, SetBy: spec.SetBy, First: i+1 == len(log)}
		if !r.First {
			for _, change := range plan.Changes(scrub.Values(log[i+1].Wanted()), scrub.Values(spec.Wanted())) {
				r.Changes = append(r.Changes, string(s.Text([]byte(change))))
			}
			if len(r.Changes) == 0 {
				r.Changes = []string{secretChange(log[i+1], spec)}
			}
		}
		r.lines = func() []line {
			before := ""
			if !r.First {
				before = fileText(s, log[i+1])
			}
			return diff(before, fileText(s, spec))
		}
		all = append(all, r)
	}
	return all
}

// secretChange says what changed where nothing that may be shown did.
func secretChange(before, after cke.Spec) string {
	if len(plan.Changes(before.Wanted(), after.Wanted())) > 0 {
		return "a value of options.etcd.extra_env, which is not shown"
	}
	return "nothing that members run with"
}

func fileText(s scrub.Scrubber, spec cke.Spec) string {
	text, err := s.Cluster(spec.Cluster)
	if err != nil {
		return "# the file cannot be written: " + err.Error() + "\n"
	}
	return string(text)
}

// compared are the newest revisions of cluster files, which are compared once.
type compared struct {
	mu  sync.Mutex
	all map[string]comparedFile
}

type comparedFile struct {
	of        cke.Spec // its text left out
	revisions []revision
}

// newest returns the newest revisions of a cluster file, the current one as given.
func (p *Page) newest(ctx context.Context, s Store, spec cke.Spec, name string) ([]revision, error) {
	p.compared.mu.Lock()
	was, ok := p.compared.all[name]
	p.compared.mu.Unlock()
	if ok && was.of.Generation == spec.Generation && was.of.SetAt.Equal(spec.SetAt) {
		return was.revisions, nil
	}
	log, err := s.SpecLog(ctx, name)
	if err != nil {
		return nil, err
	}
	all := revisions(clock{}, name, log[:min(len(log), shownRevisions+1)])
	all = all[:min(len(all), shownRevisions)]
	p.compared.mu.Lock()
	defer p.compared.mu.Unlock()
	if p.compared.all == nil || len(p.compared.all) >= mostTopics {
		p.compared.all = map[string]comparedFile{}
	}
	p.compared.all[name] = comparedFile{cke.Spec{Generation: spec.Generation, SetAt: spec.SetAt}, all}
	return all, nil
}

// Revisions are the newest revisions of the cluster file.
func (f facts) Revisions() []revision {
	all := slices.Clone(f.revisions)
	for i := range all {
		all[i].clock = f.clock
	}
	return all
}

// filed is a page about revisions.
type filed struct {
	clock
	Name      string
	Revisions []revision
}

func (p *Page) revisionsPage(ctx context.Context, r *http.Request) (view, error) {
	f, err := p.log(ctx, r)
	return of(f.Name, "Cluster file", "revisions-page", f), err
}

func (p *Page) revisionPage(ctx context.Context, r *http.Request) (view, error) {
	f, err := p.log(ctx, r)
	if err != nil {
		return view{}, err
	}
	for _, rev := range f.Revisions {
		if strconv.FormatInt(rev.Revision, 10) == r.PathValue("id") {
			return of(f.Name, fmt.Sprintf("Revision %d", rev.Revision), "revision-page", rev, crumb{"/clusters/" + f.Name + "/revisions", "Cluster file"}), nil
		}
	}
	return view{}, errNoPage
}

func (p *Page) log(ctx context.Context, r *http.Request) (filed, error) {
	f := filed{clock: clock{p.Now()}, Name: r.PathValue("name")}
	s, err := p.opened()
	if err != nil {
		return f, err
	}
	log, err := s.SpecLog(ctx, f.Name)
	if err != nil {
		return f, err
	}
	f.Revisions = revisions(f.clock, f.Name, log)
	return f, nil
}

// line is one line of a file, and what became of it.
type line struct{ Class, Sign, Text string }

// mostLines bounds the files that are compared line by line.
const mostLines = 2000

// diff compares two texts line by line, by their longest common subsequence.
func diff(before, after string) (all []line) {
	a, b := lines(before), lines(after)
	if before == "" {
		a = b // nothing to compare with
	}
	if len(a) > mostLines || len(b) > mostLines {
		a = b
	}
	common := make([][]int16, len(a)+1)
	for i := range common {
		common[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all = append(all, line{"same", " ", a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			all = append(all, line{"less", "-", a[i]})
			i++
		default:
			all = append(all, line{"more", "+", b[j]})
			j++
		}
	}
	return all
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// codes is the page of all codes.
func (p *Page) codesPage(context.Context, *http.Request) (view, error) {
	return view{Title: "Codes", Crumbs: []crumb{{"/", "All clusters"}}, Kind: "codes", Data: cke.Explanations()}, nil
}

func (p *Page) codePage(_ context.Context, r *http.Request) (view, error) {
	e, known := cke.Explain(cke.Code(strings.ToUpper(r.PathValue("code"))))
	if !known {
		return view{}, errNoPage
	}
	return view{Title: string(e.Code), Crumbs: []crumb{{"/", "All clusters"}, {"/help", "Codes"}}, Kind: "code", Data: e}, nil
}
