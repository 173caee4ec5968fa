package sim

import (
	"time"

	"cke"
)

// Situations are those that schedules have to reach.
func Situations() []Situation {
	return []Situation{LandedLate, Elected, NoQuorum, HostsApart, DeposedWithin, DeclaredAgain, BeforeDeletion, TwoHistories, FormerStarted, BesideKept, BesideGivenUp, BesideLost, BesideDamaged, ReturnSeen, ReturnRecorded,
		AgentGranted, AgentWaits, AgentRefused, AgentBack, AgentLost, AgentSilent, AgentBeside, AgentOutlives}
}

// CertificatesOf are files that a member starts with, as they are issued at a time.
func CertificatesOf(now time.Time) []cke.File { return filesOf(now, cke.Authorities{}) }
