package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"cke"
	"cke/internal/follow"
	"cke/internal/term"
)

// certificateSoon is how long before its expiry a certificate is shown in yellow.
const certificateSoon = 14 * 24 * time.Hour

// toldStatus is a status as `status` writes it for programs.
type toldStatus struct {
	cke.Status
	// Revision is the stored one; the status may be of an earlier one.
	Revision int64 `json:"revision"`
	// Led reports whether a daemon leads the cluster now.
	Led bool    `json:"led"`
	Age float64 `json:"age"` // of the status, in seconds
	// Hold is there while the cluster is paused.
	Hold *cke.Hold `json:"hold,omitempty"`
}

func (a *app) statusView(sc screen) view {
	if !sc.hold.Active(a.now()) {
		sc.hold = nil
	}
	told := toldStatus{sc.status, sc.revision, sc.led, max(a.age(sc.status).Seconds(), 0), sc.hold}
	return view{data: told, names: []string{sc.status.Cluster}, table: func(w io.Writer, colour, wide bool) error {
		return a.renderStatus(w, sc, colour, wide)
	}}
}

// renderStatus writes one screen.
func (a *app) renderStatus(w io.Writer, sc screen, colour, wide bool) error {
	s := sc.status
	if warning := a.staleness(sc); warning != "" {
		fmt.Fprintln(w, term.Paint(colour, term.Alarm, warning))
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s  %s  %s     %s\n\n", term.Paint(colour, term.Bold, term.Clean(s.Cluster)),
		term.Paint(colour, healthStyle(s.Health), string(s.Health)), term.Clean(s.Summary), a.seen(sc))
	if len(s.Members) > 0 {
		if err := a.memberTable(s, wide).Write(w, colour); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if containers := containerTable(s); wide && containers != nil {
		if err := containers.Write(w, colour); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return a.facts(sc, wide).Write(w, colour)
}

// staleness says so when the status is not of the present.
func (a *app) staleness(sc screen) string {
	age := term.Age(a.age(sc.status))
	switch {
	case !sc.led:
		return fmt.Sprintf("This is how it was %s ago: no daemon leads %s now, so nothing is done for it.", age, sc.status.Cluster)
	case a.age(sc.status) > follow.StaleAfter:
		return fmt.Sprintf("This is how it was %s ago: the leader has reported nothing since.", age)
	}
	return ""
}

// toldScreen reads the screen of the cluster that is meant, and says so when it is not of the present.
func (a *app) toldScreen(ctx context.Context, s store) (cluster string, sc screen, err error) {
	if cluster, err = a.theCluster(ctx, s); err != nil {
		return cluster, sc, err
	}
	if sc, err = readScreen(ctx, s, cluster); err != nil {
		return cluster, sc, err
	}
	if warning := a.staleness(sc); warning != "" {
		fmt.Fprintln(a.stderr, warning)
	}
	return cluster, sc, nil
}

func (a *app) seen(sc screen) string {
	revision := fmt.Sprintf("revision %d", sc.status.Generation)
	switch {
	case sc.revision > sc.status.Generation:
		revision = fmt.Sprintf("revision %d (%d is stored and not observed yet)", sc.status.Generation, sc.revision)
	case sc.status.ObservedGeneration < sc.status.Generation:
		revision += " (not done yet)"
	}
	return revision + ", seen " + a.ago(sc.status.ObservedAt) + " ago"
}

func (a *app) memberTable(s cke.Status, wide bool) *term.Table {
	header := []string{"MEMBER", "ADDRESS", "ROLE", "HEALTH", "LAG", "DB", "VERSION", "CERT"}
	if wide {
		header = append(header, "ID", "JOIN", "SINCE", "REASON")
	}
	t := term.NewTable(header...)
	for _, m := range s.Members {
		t.Add(term.Text(m.Name), term.Text(m.Address), term.Text(m.Role), term.Styled(stateStyle(m), m.State),
			term.Text(lag(m)), term.Text(dbSize(m.DBSize)), term.Text(m.Version), a.certificate(m.CertNotAfter),
			term.Text(m.ID), term.Text(string(m.Join)), term.Text(a.ago(m.Since)), term.Text(m.Reason))
	}
	return t
}

// facts are the labeled lines below the members.
func (a *app) facts(sc screen, wide bool) *term.Labels {
	s, l := sc.status, &term.Labels{}
	if sc.hold.Active(a.now()) {
		l.Add("Paused", term.Styled(term.Yellow, holdText(*sc.hold)))
	}
	for _, d := range s.Drains {
		l.Add("Drained", term.Styled(term.Yellow, fmt.Sprintf("%s, for %s more", d.Text(), a.in(d.Until))))
	}
	if h := s.Hibernation; h != nil {
		l.Add("Hibernated", term.Styled(term.Yellow, fmt.Sprintf("by %s since %s (until `ckecli cluster resume %s`)", h.By, moment(h.Since), s.Cluster)))
	}
	authorityFacts(l, s)
	label := "Problem"
	for _, p := range s.Problems {
		text := follow.ProblemText(p)
		if !p.Since.IsZero() {
			text += " (" + a.ago(p.Since) + ")"
		}
		l.Add(label, term.Styled(term.Yellow, text))
		if p.Remedy != "" {
			l.Add("", term.Text("→ "+p.Remedy))
		}
		label = ""
	}
	if o := s.Operation; o != nil && o.State == cke.RecordRunning {
		l.Add("Operation", term.Textf("#%d %s, for %s: %s", o.ID, o.Type, a.ago(o.Time), s.Reason))
	} else {
		l.Add("Operation", term.Text("none: "+s.Reason))
	}
	if o := s.LastOperation; o != nil {
		style, text := term.Plain, fmt.Sprintf("#%d %s %s %s ago", o.ID, o.Type, o.Outcome(), a.ago(o.Time))
		if o.State == cke.RecordFailed {
			style, text = follow.OutcomeStyle(o.State, o.Refused), text+": "+withCode(o.Description, o.Code)
		}
		l.Add("Last", term.Styled(style, text))
	}
	for _, e := range s.LastErrors {
		if s.LastOperation != nil && s.LastOperation.Description == e.Description {
			continue // shown with the last operation
		}
		l.Add("Error", term.Styled(term.Red, fmt.Sprintf("%s (%s ago)", e.Description, a.ago(e.ObservedAt))))
	}
	a.backupFacts(l, s)
	if c := s.Compared; c != nil {
		cell := term.Textf("equal on %s at revision %d, %s ago", cke.Count(len(c.Hashes), "member"), c.Revision, a.ago(c.At))
		if !c.Equal() {
			cell = term.Styled(term.Alarm, fmt.Sprintf("unequal at revision %d, %s ago: %s", c.Revision, a.ago(c.At), c.Difference()))
		}
		l.Add("Data", cell)
	}
	l.Add("Leader", term.Textf("%s, term %d, %s", s.Leader.Host, s.Leader.Term, a.ago(s.Leader.Since)))
	if wide {
		for _, c := range s.Conditions {
			l.Add(string(c.Type), term.Styled(conditionStyle(c), fmt.Sprintf("%s, %s: %s (%s)", c.Status, c.Reason, c.Message, a.ago(c.Since))))
		}
		if s.ClusterID != "" {
			l.Add("Identity", term.Textf("cluster id %s, incarnation %s", s.ClusterID, s.Incarnation))
		}
	}
	return l
}

func lag(m cke.MemberStatus) string {
	if m.Lag < 0 {
		return "-"
	}
	return fmt.Sprint(m.Lag)
}

func dbSize(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return term.Size(bytes)
}

func (a *app) certificate(end time.Time) term.Cell {
	c := term.Text(a.in(end))
	switch left := end.Sub(a.now()); {
	case end.IsZero():
	case left <= 0:
		c.Style = term.Alarm
	case left < certificateSoon:
		c.Style = term.Yellow
	}
	return c
}

func healthStyle(h cke.Health) term.Style {
	switch h {
	case cke.HealthReady:
		return term.Green
	case cke.HealthLost, cke.HealthFrozen, cke.HealthUnknown:
		return term.Alarm
	case "":
		return term.Plain
	}
	return term.Yellow
}

func stateStyle(m cke.MemberStatus) term.Style {
	switch {
	case m.Ready:
		return term.Green
	case strings.HasPrefix(m.State, "un"), m.State == "missing", m.State == "stopped":
		return term.Red
	}
	return term.Yellow
}

// conditionStyle paints what is not as it should be. Of one condition True is the bad value.
func conditionStyle(c cke.Condition) term.Style {
	bad := cke.False
	switch c.Type {
	case cke.CondClusterIDMismatch:
		bad = cke.True
	case cke.CondProgressing:
		return term.Plain
	}
	switch c.Status {
	case bad:
		return term.Red
	case cke.Unknown:
		return term.Yellow
	}
	return term.Plain
}
