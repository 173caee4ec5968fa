package strategy

import (
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
)

// Rhythm of comparisons of the members' data.
const (
	// compareEvery is how often members are compared while nothing gives another reason to. Hashing reads all data.
	compareEvery = time.Hour
	// compareAgain is the pause after a comparison without a verdict.
	compareAgain = 10 * time.Minute
)

// TouchedAt returns the end of the last risky operation that was not followed by a comparison, by the previous status and by
// the operation that was completed since.
func TouchedAt(s cke.Status) time.Time {
	switch last := s.LastOperation; {
	case last == nil:
	case op.OfName(last.Type).Risky && last.Time.After(s.TouchedAt):
		return last.Time
	case last.Type == op.CompareData{}.Name() && last.State == cke.RecordCompleted:
		return time.Time{}
	}
	return s.TouchedAt
}

// compareDue: nothing else is to be done, and the members were not compared for a while, or not since something was done
// to them that could have left them with different data.
func compareDue(in *Input) verdict {
	inc := in.Identity.Incarnation
	if !in.Formed() || len(in.Identity.Joins) < 2 {
		return pass()
	}
	last := inc.FormedAt
	if c := in.Identity.Compared; c != nil && c.At.After(last) && !wasSetBack(in.Seen.ObservedAt.Sub(c.At)) {
		last = c.At
	}
	why := ""
	if touched := TouchedAt(in.Before); touched.After(last) && !wasSetBack(in.Seen.ObservedAt.Sub(touched)) {
		why = "members are compared: some were started, restarted, added, promoted or moved since the last time"
		if before := in.Before.LastOperation; before != nil && op.OfName(before.Type).Risky {
			why = fmt.Sprintf("members are compared after %s", before.Type)
		}
	} else if age := in.Seen.ObservedAt.Sub(last); age >= compareEvery {
		why = fmt.Sprintf("members were not compared for %s", age.Round(time.Minute))
	}
	if why == "" || !oursServe(in) {
		return pass()
	}
	return act(op.CompareData{Joins: slices.Collect(inTurn(in))}, why).patient(compareAgain).upkeep()
}

// compareAsked compares because an operator asked for it.
func compareAsked(in *Input, t cke.Task) Decision {
	if !in.Seen.Etcd.Quorate {
		return refuse(t, &cke.Error{Code: cke.CodeNoQuorum, What: "members cannot be compared without a quorum", Unchanged: true, Try: "ckecli status"})
	}
	return Decision{Operation: op.CompareData{Joins: slices.Collect(inTurn(in))}, Reason: askedFor(t, "members are compared")}
}

// dataConsistent reports the last comparison, and what etcd itself found.
func dataConsistent(in *Input) cke.Condition {
	if f := in.Identity.Freeze; f.Active() && !f.Kind.TwoClusters() {
		reason := map[cke.FreezeKind]string{cke.FreezeCorrupt: "CorruptAlarm", cke.FreezeUnequalData: "UnequalHashes", cke.FreezeWentBack: "WentBack"}[f.Kind]
		return condition(cke.CondDataConsistent, cke.False, reason, "%s", f.Problem.Message)
	}
	for _, f := range findings(in) {
		switch f.kind {
		case cke.FreezeCorrupt:
			return condition(cke.CondDataConsistent, cke.False, "CorruptAlarm", "%s", f.problem.Message)
		case cke.FreezeWentBack:
			return condition(cke.CondDataConsistent, cke.False, "WentBack", "%s", f.problem.Message)
		}
	}
	switch c := in.Identity.Compared; {
	case c == nil:
		return condition(cke.CondDataConsistent, cke.Unknown, "NotCompared", "the members were not compared yet")
	case !c.Equal():
		return condition(cke.CondDataConsistent, cke.False, "UnequalHashes", "at revision %d %s", c.Revision, c.Difference())
	default:
		return condition(cke.CondDataConsistent, cke.True, "EqualHashes", "%s had the same data at revision %d", cke.Count(len(c.Hashes), "member"), c.Revision)
	}
}
