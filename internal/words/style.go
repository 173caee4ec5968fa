package words

import (
	"strings"
	"time"

	"cke"
	"cke/internal/term"
)

// HealthStyle returns the style of a health.
func HealthStyle(h cke.Health) term.Style {
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

// StateStyle returns the style of a member's state.
func StateStyle(m cke.MemberStatus) term.Style {
	switch {
	case m.Ready:
		return term.Green
	case strings.HasPrefix(m.State, "un"), m.State == "missing", m.State == "stopped":
		return term.Red
	}
	return term.Yellow
}

// CertificateStyle returns the style of a certificate that expires at end.
func CertificateStyle(now, end time.Time) term.Style {
	switch left := end.Sub(now); {
	case end.IsZero():
	case left <= 0:
		return term.Alarm
	case left < CertificateSoon:
		return term.Yellow
	}
	return term.Plain
}
