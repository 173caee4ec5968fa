// Package words says in words what a stored status and a record mean. ckecli and the status page both use it, so that they
// cannot disagree.
package words

import (
	"fmt"
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

const (
	// StaleAfter is the age from which a status is no longer taken for the present: leaders store one at least every 10 s.
	StaleAfter = 30 * time.Second
	// CertificateSoon is how long before its expiry a certificate is shown in yellow.
	CertificateSoon = 14 * 24 * time.Hour
)

// Ago is how long ago t was, as "4m".
func Ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return term.Age(now.Sub(t))
}

// In is how long until t, as "312d"; "expired" when that has passed.
func In(now, t time.Time) string {
	switch left := t.Sub(now); {
	case t.IsZero():
		return "-"
	case left <= 0:
		return "expired"
	default:
		return term.Age(left)
	}
}

// Due is when something is to come.
func Due(now, t time.Time) string {
	if !t.After(now) {
		return "now"
	}
	return "in " + In(now, t)
}

// Moment is a time that others can compare with their clocks.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Staleness says that a status is not of the present; empty: it is.
func Staleness(cluster string, age time.Duration, led bool) string {
	if led && age <= StaleAfter {
		return ""
	}
	return fmt.Sprintf("This is how it was %s ago: %s.", term.Age(age), Silence(cluster, led))
}

// Silence says why a status is not of the present.
func Silence(cluster string, led bool) string {
	if !led {
		return fmt.Sprintf("no daemon leads %s now, so nothing is done for it", cluster)
	}
	return "the leader has reported nothing since"
}

// Revision names the revision of a status, and the stored one if the status does not know it yet.
func Revision(s cke.Status, stored int64) string {
	revision := fmt.Sprintf("revision %d", s.Generation)
	switch {
	case stored > s.Generation:
		revision = fmt.Sprintf("revision %d (%d is stored and not observed yet)", s.Generation, stored)
	case s.ObservedGeneration < s.Generation:
		revision += " (not done yet)"
	}
	return revision
}

// Lag is how many raft entries a member is behind.
func Lag(m cke.MemberStatus) string {
	if m.Lag < 0 {
		return "-"
	}
	return fmt.Sprint(m.Lag)
}

// DBSize is the size of a database.
func DBSize(bytes int64) string {
	if bytes <= 0 {
		return "-"
	}
	return term.Size(bytes)
}

// Hold is a pause in a line: why, by whom, since when and until when.
func Hold(h cke.Hold) string {
	until := "resumed"
	if !h.Until.IsZero() {
		until = Moment(h.Until)
	}
	return term.Clean(fmt.Sprintf("%s by %s since %s (until %s)", h.Reason, h.By, Moment(h.Since), until))
}

// Hibernation is a hibernation in a line.
func Hibernation(cluster string, h cke.Hibernation) string {
	return fmt.Sprintf("by %s since %s (until `ckecli cluster resume %s`)", h.By, Moment(h.Since), cluster)
}

// Drain is a maintenance lease in a line.
func Drain(now time.Time, d cke.Drain) string {
	if d.Until.IsZero() {
		return d.Text()
	}
	return fmt.Sprintf("%s, for %s more", d.Text(), In(now, d.Until))
}

// Authority is an authority that is being replaced.
func Authority(r cke.AuthorityStatus) string {
	return fmt.Sprintf("%s: being replaced, phase %d of 3: %s", r.Name, r.Phase.Number(), Phase(r.Phase))
}

// Phase is what happens in a phase of the replacement of an authority.
func Phase(p cke.AuthorityPhase) string {
	switch p {
	case cke.AuthorityIntroduced:
		return "members start to trust both"
	case cke.AuthorityIssues:
		return "certificates are issued by the next one"
	}
	return "members stop trusting the former one"
}

// Problem is a problem in one line: code, node, message.
func Problem(p cke.Problem) string {
	text := p.Message
	if p.Node != "" && !strings.HasPrefix(text, p.Node) {
		text = p.Node + ": " + text
	}
	return term.Clean(WithCode(text, p.Code))
}

// Operation is the operation that is under way, or the reason for none.
func Operation(now time.Time, s cke.Status) string {
	if o := s.Operation; o != nil && o.State == cke.RecordRunning {
		return fmt.Sprintf("#%d %s, for %s: %s", o.ID, o.Type, Ago(now, o.Time), s.Reason)
	}
	return "none: " + s.Reason
}

// Last is an operation that is over.
func Last(now time.Time, o cke.OperationStatus) string {
	text := fmt.Sprintf("#%d %s %s %s ago", o.ID, o.Type, o.Outcome(), Ago(now, o.Time))
	if o.State == cke.RecordFailed {
		text += ": " + WithCode(o.Description, o.Code)
	}
	return text
}

// Compared is the last comparison of the members' data.
func Compared(now time.Time, c cke.Comparison) string {
	if !c.Equal() {
		return fmt.Sprintf("unequal at revision %d, %s ago: %s", c.Revision, Ago(now, c.At), c.Difference())
	}
	return fmt.Sprintf("equal on %s at revision %d, %s ago", cke.Count(len(c.Hashes), "member"), c.Revision, Ago(now, c.At))
}

// Led is the daemon that leads.
func Led(now time.Time, l cke.Leader) string {
	return fmt.Sprintf("%s, term %d, %s", l.Host, l.Term, Ago(now, l.Since))
}

// WithCode is the text of an error with its code, if it has one of its own.
func WithCode(text string, code cke.Code) string {
	if code == "" || code == cke.CodeInternal {
		return text
	}
	return text + " [" + string(code) + "]"
}
