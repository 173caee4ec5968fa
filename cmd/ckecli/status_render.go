package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"cke"
	"cke/internal/term"
	"cke/internal/words"
)

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
		term.Paint(colour, words.HealthStyle(s.Health), string(s.Health)), term.Clean(s.Summary), words.Revision(s, sc.revision)+", seen "+a.ago(s.ObservedAt)+" ago")
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
	return words.Staleness(sc.status.Cluster, a.age(sc.status), sc.led)
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

func (a *app) memberTable(s cke.Status, wide bool) *term.Table {
	header := []string{"MEMBER", "ADDRESS", "ROLE", "HEALTH", "LAG", "DB", "VERSION", "CERT"}
	if wide {
		header = append(header, "ID", "JOIN", "SINCE", "REASON")
	}
	t := term.NewTable(header...)
	for _, m := range s.Members {
		t.Add(term.Text(m.Name), term.Text(m.Address), term.Text(m.Role), term.Styled(words.StateStyle(m), m.State),
			term.Text(words.Lag(m)), term.Text(words.DBSize(m.DBSize)), term.Text(m.Version), a.certificate(m.CertNotAfter),
			term.Text(m.ID), term.Text(string(m.Join)), term.Text(a.ago(m.Since)), term.Text(m.Reason))
	}
	return t
}

// facts are the labeled lines below the members.
func (a *app) facts(sc screen, wide bool) *term.Labels {
	s, l := sc.status, &term.Labels{}
	if sc.hold.Active(a.now()) {
		l.Add("Paused", term.Styled(term.Yellow, words.Hold(*sc.hold)))
	}
	for _, d := range s.Drains {
		l.Add("Drained", term.Styled(term.Yellow, words.Drain(a.now(), d)))
	}
	if h := s.Hibernation; h != nil {
		l.Add("Hibernated", term.Styled(term.Yellow, words.Hibernation(s.Cluster, *h)))
	}
	if text := words.Queue(s.Reboots); text != "" {
		l.Add("Reboots", term.Text(text))
	}
	if text := words.Queue(s.Repairs); text != "" {
		l.Add("Repairs", term.Text(text))
	}
	if s.Spread != nil {
		l.Add("Zones", term.Text(words.Zones(*s.Spread)))
		if s.Spread.Advice != "" {
			l.Add("", term.Text("→ "+s.Spread.Advice))
		}
	}
	a.inventoryFacts(l, s, wide)
	authorityFacts(l, s)
	label := "Problem"
	for _, p := range s.Problems {
		text := words.Problem(p)
		if !p.Since.IsZero() {
			text += " (" + a.ago(p.Since) + ")"
		}
		l.Add(label, term.Styled(term.Yellow, text))
		if p.Remedy != "" {
			l.Add("", term.Text("→ "+p.Remedy))
		}
		label = ""
	}
	l.Add("Operation", term.Text(words.Operation(a.now(), s)))
	if o := s.LastOperation; o != nil {
		style := term.Plain
		if o.State == cke.RecordFailed {
			style = words.OutcomeStyle(o.State, o.Refused)
		}
		l.Add("Last", term.Styled(style, words.Last(a.now(), *o)))
	}
	for _, e := range s.LastErrors {
		if s.LastOperation != nil && s.LastOperation.Description == e.Description {
			continue // shown with the last operation
		}
		l.Add("Error", term.Styled(term.Red, fmt.Sprintf("%s (%s ago)", e.Description, a.ago(e.ObservedAt))))
	}
	a.backupFacts(l, s)
	if c := s.Compared; c != nil {
		style := term.Plain
		if !c.Equal() {
			style = term.Alarm
		}
		l.Add("Data", term.Styled(style, words.Compared(a.now(), *c)))
	}
	l.Add("Leader", term.Text(words.Led(a.now(), s.Leader)))
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

func (a *app) certificate(end time.Time) term.Cell {
	return term.Styled(words.CertificateStyle(a.now(), end), a.in(end))
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
