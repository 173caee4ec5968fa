package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
	"cke/plan"
	"cke/server/strategy"
)

// grayAfter is the age from which what is shown turns gray and shows its age: leaders store a status every 10 s.
const grayAfter = 15 * time.Second

// clock formats times for a page that is rendered at Now; the browser continues the ages.
type clock struct{ Now time.Time }

// Ago is how long ago t was.
func (c clock) Ago(t time.Time) template.HTML { return c.age(t, "ago", words.Ago(c.Now, t)) }

// Seen is Ago of an observation: newer ones come without another rendering.
func (c clock) Seen(t time.Time) template.HTML {
	if t.IsZero() {
		return "-"
	}
	return c.age(t, "seen-at", words.Ago(c.Now, t))
}

// In is how long until t.
func (c clock) In(t time.Time) template.HTML { return c.age(t, "in", words.In(c.Now, t)) }

func (c clock) age(t time.Time, kind, text string) template.HTML {
	if t.IsZero() {
		return "-"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-%s>%s</time>`, t.UTC().Format(time.RFC3339), kind, text)) // nothing from outside
}

// Old reports whether something seen at t is no longer the present.
func (c clock) Old(t time.Time) bool { return c.Now.Sub(t) > grayAfter }

// facts are what is known of one cluster.
type facts struct {
	clock
	Name     string
	S        cke.Status
	Known    bool // a daemon has reported a status
	Spec     cke.Spec
	Led      bool
	Hold     *cke.Hold // nil: none is active
	Records  []cke.Record
	Identity cke.Identity
	Plan     *plan.Plan // nil: none can be made
	Samples  []cke.Sample

	requests  cke.Requests
	revisions []revision
}

// gather reads what is stored of a cluster.
func (p *Page) gather(ctx context.Context, name string) (f facts, err error) {
	f.Name, f.Now = name, p.Now()
	s, err := p.opened()
	if err != nil {
		return f, err
	}
	if f.Spec, err = s.Spec(ctx, name); err != nil {
		return f, err
	}
	if f.revisions, err = p.newest(ctx, s, f.Spec, name); err != nil {
		return f, err
	}
	if f.S, err = s.Status(ctx, name); err == nil {
		f.Known = true
	} else if !errors.Is(err, cke.ErrNotFound) {
		return f, err
	}
	if f.requests, err = s.RequestsOf(ctx, name); err != nil {
		return f, err
	}
	if f.requests.Hold.Active(f.Now) {
		f.Hold = f.requests.Hold
	}
	if f.Identity, err = s.Identity(ctx, name); err != nil {
		return f, err
	}
	if f.Records, err = s.Records(ctx, name, shownRecords); err != nil {
		return f, err
	}
	l, err := leader(ctx, s, name)
	if err != nil {
		return f, err
	}
	f.Led = l != nil
	if p.Curves != nil {
		f.Samples = p.Curves(name, f.Now)
	}
	f.Plan = p.plan(ctx, f)
	return f, nil
}

// leader returns who leads a cluster now; nil: no daemon does.
func leader(ctx context.Context, s Store, name string) (*cke.Leader, error) {
	l, err := s.Leader(ctx, name)
	if errors.Is(err, cke.ErrNotFound) {
		return nil, nil
	}
	return &l, err
}

// planned is a plan with what it was made from.
type planned struct {
	from  string
	until time.Time
	plan  *plan.Plan // nil: none could be made
}

const (
	// planLimit bounds the making of a plan; one that takes longer is not shown.
	planLimit = time.Second
	// A plan is shown for this long while what it depends on seems to be the same, and longer if it took long to make.
	replan, replanShare = time.Minute, 2000
)

// plan makes the plan of a cluster, seldom: it runs the operations on a simulated copy.
func (p *Page) plan(ctx context.Context, f facts) *plan.Plan {
	if !f.Known {
		return nil
	}
	from := fmt.Sprint(f.Spec.Generation, f.S.Health, f.S.Summary, f.S.Reason, f.S.ObservedGeneration, f.Hold != nil, len(f.requests.Tasks), f.requests.Applied, len(f.S.Problems), f.S.Operation)
	p.plans.mu.Lock()
	defer p.plans.mu.Unlock() // one plan at a time
	if was, ok := p.plans.all[f.Name]; ok && was.from == from && f.Now.Before(was.until) {
		return was.plan
	}
	var made *plan.Plan
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, planLimit)
	defer cancel()
	_ = p.guarded(func() error { // without a plan the page is as useful
		if m := plan.Make(ctx, strategy.InputFrom(f.Spec, f.Identity, f.requests, f.S)); ctx.Err() == nil {
			made = &m
		}
		return nil
	})
	if p.plans.all == nil || len(p.plans.all) >= mostTopics {
		p.plans.all = map[string]planned{}
	}
	p.plans.all[f.Name] = planned{from, f.Now.Add(max(replan, replanShare*time.Since(start))), made}
	return made
}

// class returns the class of a style in the style sheet.
func class(s term.Style) string {
	switch s {
	case term.Green:
		return "ok"
	case term.Yellow:
		return "warn"
	case term.Red, term.Alarm:
		return "bad"
	}
	return "plain"
}

// Health is the health of a status; UNKNOWN while there is none.
func (f facts) Health() cke.Health { return cmp.Or(f.S.Health, cke.HealthUnknown) }

// Sentence says the health as one.
func sentence(h cke.Health, known bool) string {
	if !known {
		return "has no status yet"
	}
	switch h {
	case cke.HealthReady:
		return "is ready"
	case cke.HealthForming:
		return "is being bootstrapped"
	case cke.HealthDegraded:
		return "is degraded"
	case cke.HealthLost:
		return "has lost its quorum"
	case cke.HealthUnknown:
		return "cannot be seen"
	case cke.HealthFrozen:
		return "is frozen"
	case cke.HealthDeleting:
		return "is being deleted"
	case cke.HealthUpdating:
		return "is being updated"
	case cke.HealthHibernated:
		return "is hibernated"
	case cke.HealthRestoring:
		return "is being restored"
	}
	return "is " + strings.ToLower(string(h))
}

// Sentence says the health as one, in the past tense if the status is not of the present.
func (f facts) Sentence() string {
	text := sentence(f.S.Health, f.Known)
	if f.Past() {
		text = past(text)
	}
	return text
}

// past is a sentence about the health in the past tense.
func past(text string) string {
	verb, rest, _ := strings.Cut(text, " ")
	return map[string]string{"is": "was", "has": "had", "cannot": "could not"}[verb] + " " + rest
}

// Past reports whether the status is too old to say how the cluster is now.
func (f facts) Past() bool { return f.Stale() != "" && f.Old(f.S.ObservedAt) }

// Stale is the warning that the status is not of the present.
func (f facts) Stale() string {
	if !f.Known {
		return ""
	}
	return words.Staleness(f.Name, f.Now.Sub(f.S.ObservedAt), f.Led)
}

// Revision names the revision.
func (f facts) Revision() string { return words.Revision(f.S, f.Spec.Generation) }

// MayStop says which nodes may be taken down now.
func (f facts) MayStop() string {
	var may []string
	carried := 0
	for _, m := range f.S.Members {
		if m.Join != "" {
			carried++
		}
		if m.CanStop && m.Ready {
			may = append(may, m.Name)
		}
	}
	switch {
	case carried == 0 || f.S.Health == cke.HealthHibernated || f.S.Health == cke.HealthDeleting:
		return ""
	case len(may) == 0:
		return "No node may be taken down now."
	case len(may) == carried && carried > 2:
		return "Any one of the nodes may be taken down now."
	case len(may) == 1:
		return may[0] + " may be taken down now."
	}
	return "One of " + strings.Join(may[:len(may)-1], ", ") + " and " + may[len(may)-1] + " may be taken down now."
}

// Kept is why no node may be taken down, if the reason is the same for all.
func (f facts) Kept() (why string) {
	for _, m := range f.S.Members {
		if m.Join == "" {
			continue
		}
		if m.CanStop || m.CannotStopBecause == "" || why != "" && why != m.CannotStopBecause {
			return ""
		}
		why = m.CannotStopBecause
	}
	return why
}
