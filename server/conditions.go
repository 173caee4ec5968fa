package server

import (
	"fmt"
	"slices"
	"time"

	"cke"
)

// conditions are named statements, each a pure function of what Report was given.
func conditions(in Input, d Decision, s cke.Status, prev []cke.Condition) []cke.Condition {
	all := []cke.Condition{
		ready(d, s), allMembersReady(s), quorate(in, s), clusterIDMismatch(in),
		certificatesValid(in, s), dataVolumesReady(in), progressing(in, d), held(in),
	}
	for i := range all {
		all[i].Since = in.Seen.ObservedAt
		for _, p := range prev {
			if p.Type == all[i].Type && p.Status == all[i].Status && !p.Since.IsZero() {
				all[i].Since = p.Since
			}
		}
	}
	return all
}

func condition(t cke.ConditionType, status cke.Truth, reason, format string, args ...any) cke.Condition {
	return cke.Condition{Type: t, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func ready(d Decision, s cke.Status) cke.Condition {
	if s.Health == cke.HealthReady {
		return condition(cke.CondReady, cke.True, "AllServing", "%s", s.Summary)
	}
	reason := map[cke.Health]string{
		cke.HealthForming: "Forming", cke.HealthDegraded: "Degraded", cke.HealthLost: "QuorumLost",
		cke.HealthFrozen: "Frozen", cke.HealthDeleting: "Deleting",
	}[s.Health]
	for _, p := range d.Blockers {
		if p.Code == cke.CodeBlankNodes {
			reason = "BlankNodes"
		}
	}
	return condition(cke.CondReady, cke.False, reason, "%s", d.Reason)
}

func allMembersReady(s cke.Status) cke.Condition {
	if s.Ready == s.Declared {
		return condition(cke.CondAllMembersReady, cke.True, "AllServing", "%d of %d declared members serve", s.Ready, s.Declared)
	}
	return condition(cke.CondAllMembersReady, cke.False, "SomeNotServing", "%d of %d declared members serve", s.Ready, s.Declared)
}

func quorate(in Input, s cke.Status) cke.Condition {
	switch inc := in.Identity.Incarnation; {
	case in.Seen.Etcd.Quorate:
		return condition(cke.CondQuorate, cke.True, "LinearizableRead", "a linearizable read succeeded; can lose %s", more(s.Tolerance))
	case inc == nil || inc.State != cke.Formed:
		return condition(cke.CondQuorate, cke.False, "NotFounded", "the cluster has not been founded")
	}
	return condition(cke.CondQuorate, cke.False, "QuorumLost", "no linearizable read succeeds")
}

func clusterIDMismatch(in Input) cke.Condition {
	if d, is := frozen(in); is {
		return condition(cke.CondClusterIDMismatch, cke.True, "Frozen", "%s", d.Frozen.Message)
	}
	if inc := in.Identity.Incarnation; inc == nil || inc.ClusterID == "" {
		return condition(cke.CondClusterIDMismatch, cke.Unknown, "NotFounded", "no cluster id is on record yet")
	}
	for _, e := range in.Seen.Etcd.Endpoints {
		if e.ClusterID != "" {
			return condition(cke.CondClusterIDMismatch, cke.False, "SameID", "every member that answers has the recorded cluster id")
		}
	}
	return condition(cke.CondClusterIDMismatch, cke.Unknown, "NoAnswer", "no member answers")
}

func certificatesValid(in Input, s cke.Status) cke.Condition {
	unknown := len(memberships(in)) == 0
	var first cke.MemberStatus
	for _, m := range s.Members {
		switch {
		case m.Join == "":
		case m.CertNotAfter.IsZero():
			unknown = true
		case first.Join == "" || m.CertNotAfter.Before(first.CertNotAfter):
			first = m
		}
	}
	end := first.CertNotAfter.Format(time.RFC3339)
	switch {
	case first.Join != "" && first.CertNotAfter.Before(in.Seen.ObservedAt.Add(certificateWarning)):
		return condition(cke.CondCertificatesValid, cke.False, "Expiring", "the certificate of %s ends at %s", first.Name, end)
	case unknown:
		return condition(cke.CondCertificatesValid, cke.Unknown, "NotSeen", "not every member showed its certificate")
	}
	return condition(cke.CondCertificatesValid, cke.True, "Valid", "the first one ends at %s, that of %s", end, first.Name)
}

func dataVolumesReady(in Input) cke.Condition {
	if !in.formed() || len(in.Identity.Joins) == 0 {
		return condition(cke.CondDataVolumesReady, cke.False, "NotFounded", "the cluster has no data yet")
	}
	for _, j := range in.Identity.Joins {
		if p := dataProblem(in, j); p != nil {
			return condition(cke.CondDataVolumesReady, cke.False, "DataMissing", "%s: %s", p.Node, p.Message)
		}
	}
	for _, j := range in.Identity.Joins {
		if !in.node(j.Node).Answered() {
			return condition(cke.CondDataVolumesReady, cke.Unknown, "NodeSilent", "%s does not answer", j.Node.Name())
		}
	}
	return condition(cke.CondDataVolumesReady, cke.True, "AllThere", "every member's volume is there")
}

func progressing(in Input, d Decision) cke.Condition {
	switch {
	case d.Operation != nil:
		return condition(cke.CondProgressing, cke.True, "Operation", "%s", d.Operation.Name())
	case d.Frozen != nil:
		return condition(cke.CondProgressing, cke.False, "Frozen", "%s", d.Reason)
	case heldBack(in, d):
		return condition(cke.CondProgressing, cke.False, "Failing", "%s", d.Reason)
	case in.Hold.Active(in.Seen.ObservedAt):
		return condition(cke.CondProgressing, cke.False, "Paused", "%s", d.Reason)
	case d.Converged:
		return condition(cke.CondProgressing, cke.False, "Done", "%s", d.Reason)
	}
	return condition(cke.CondProgressing, cke.False, "Waiting", "%s", d.Reason)
}

func held(in Input) cke.Condition {
	if d, is := paused(in); is {
		return condition(cke.CondPaused, cke.True, "Asked", "%s", d.Reason)
	}
	return condition(cke.CondPaused, cke.False, "NotAsked", "nobody asked for a pause")
}

// heldBack reports whether an operation that failed waits for its next try.
func heldBack(in Input, d Decision) bool {
	for _, f := range in.Failures {
		if len(f.Problems) > 0 && slices.Contains(d.Blockers, f.Problems[0]) {
			return true
		}
	}
	return false
}
