package strategy

import (
	"fmt"
	"slices"

	"cke"
)

// conditions are named statements, each a pure function of what Report was given.
func conditions(in *Input, d Decision, s cke.Status, prev []cke.Condition) []cke.Condition {
	all := []cke.Condition{
		ready(d, s), allMembersReady(s), quorate(in, s), clusterIDMismatch(in),
		certificatesValid(in, s), dataVolumesReady(in), dataConsistent(in), progressing(in, d), held(in),
		hibernates(in), drained(in), backupReady(in), clocksAgree(in),
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
	switch s.Health {
	case cke.HealthReady:
		return condition(cke.CondReady, cke.True, "AllServing", "%s", s.Summary)
	case cke.HealthUnknown:
		return condition(cke.CondReady, cke.Unknown, "NotSeen", "%s", s.Summary)
	}
	reason := map[cke.Health]string{
		cke.HealthForming: "Forming", cke.HealthDegraded: "Degraded", cke.HealthLost: "QuorumLost",
		cke.HealthFrozen: "Frozen", cke.HealthDeleting: "Deleting", cke.HealthRestoring: "Restoring", cke.HealthHibernated: "Hibernated", cke.HealthUpdating: "Updating",
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
	var unseen []string
	for _, m := range s.Members[:s.Declared] {
		switch {
		case m.State == "unreachable" && m.Join != "":
			unseen = append(unseen, m.Name)
		case !m.Ready:
			return condition(cke.CondAllMembersReady, cke.False, "SomeNotServing", "%d of %d declared members serve", s.Ready, s.Declared)
		}
	}
	return condition(cke.CondAllMembersReady, cke.Unknown, "NodeSilent", "%d of %d declared members are known to serve; %s", s.Ready, s.Declared, doNotAnswer(unseen))
}

func quorate(in *Input, s cke.Status) cke.Condition {
	switch inc := in.Identity.Incarnation; {
	case in.Seen.Etcd.Quorate:
		return condition(cke.CondQuorate, cke.True, "LinearizableRead", "a linearizable read succeeded; can lose %s", more(s.Tolerance))
	case inc != nil && (inc.State == cke.Restoring || inc.State == cke.Awaiting):
		return condition(cke.CondQuorate, cke.False, "Restoring", "the cluster serves once it is restored")
	case inc == nil || inc.State != cke.Formed:
		return condition(cke.CondQuorate, cke.False, "NotFounded", "the cluster has not been bootstrapped")
	}
	if in.hibernates() {
		return condition(cke.CondQuorate, cke.False, "Hibernated", "no member may run")
	}
	if in.quorumUnknown() {
		return condition(cke.CondQuorate, cke.Unknown, "NotSeen", "%s", unseenSentence(in))
	}
	return condition(cke.CondQuorate, cke.False, "QuorumLost", "no linearizable read succeeds")
}

func clusterIDMismatch(in *Input) cke.Condition {
	if f := in.Identity.Freeze; f.Active() && f.Kind.TwoClusters() {
		return condition(cke.CondClusterIDMismatch, cke.True, "Frozen", "%s", f.Problem.Message)
	}
	for _, f := range findings(in) {
		if f.kind.TwoClusters() {
			reason := "Frozen"
			if in.Identity.Freeze.Tolerates(f.text) {
				reason = "Lifted"
			}
			return condition(cke.CondClusterIDMismatch, cke.True, reason, "%s", f.problem.Message)
		}
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

func dataVolumesReady(in *Input) cke.Condition {
	if inc := in.Identity.Incarnation; inc != nil && (inc.State == cke.Restoring || inc.State == cke.Awaiting) {
		return condition(cke.CondDataVolumesReady, cke.False, "Restoring", "the data of the members is being restored")
	}
	if !in.Formed() || len(in.Identity.Joins) == 0 {
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
	if names := keptElsewhere(in); names != nil {
		return condition(cke.CondDataVolumesReady, cke.True, "KeptElsewhere", "every member's volume is there; those of %s are where the file had them before: data is not moved, a new membership uses the new place", and(names))
	}
	return condition(cke.CondDataVolumesReady, cke.True, "AllThere", "every member's volume is there")
}

// keptElsewhere names the nodes whose member's volume is not named, or does not lie, as the file says now.
func keptElsewhere(in *Input) []string {
	var names []string
	o := in.Spec.Options.Etcd
	for _, j := range in.Identity.Joins {
		if j.Etcd.VolumeRoot != o.VolumeRoot || j.Volume != o.Volume(j.ID) {
			names = append(names, j.Node.Name())
		}
	}
	return names
}

func progressing(in *Input, d Decision) cke.Condition {
	switch {
	case d.Frozen != nil:
		return condition(cke.CondProgressing, cke.False, "Frozen", "%s", d.Reason)
	case d.Operation != nil:
		return condition(cke.CondProgressing, cke.True, "Operation", "%s", d.Operation.Name())
	case heldBack(in, d):
		return condition(cke.CondProgressing, cke.False, "Failing", "%s", d.Reason)
	case in.hibernates():
		return condition(cke.CondProgressing, cke.False, "Hibernated", "%s", d.Reason)
	case in.held():
		return condition(cke.CondProgressing, cke.False, "Paused", "%s", d.Reason)
	case d.Converged:
		return condition(cke.CondProgressing, cke.False, "Done", "%s", d.Reason)
	}
	return condition(cke.CondProgressing, cke.False, "Waiting", "%s", d.Reason)
}

func held(in *Input) cke.Condition {
	if v := paused(in); v.given() {
		return condition(cke.CondPaused, cke.True, "Asked", "%s", v.Reason)
	}
	return condition(cke.CondPaused, cke.False, "NotAsked", "changes are not paused")
}

// hibernates is True once every member is known to be stopped.
func hibernates(in *Input) cke.Condition {
	if !in.hibernates() {
		return condition(cke.CondHibernated, cke.False, "NotAsked", "no hibernation was requested")
	}
	for _, j := range in.Identity.Joins {
		switch {
		case in.silent(j):
			return condition(cke.CondHibernated, cke.Unknown, "NodeSilent", "%s does not answer; its member may run", j.Node.Name())
		case runs(in, j):
			return condition(cke.CondHibernated, cke.False, "Stopping", "the member of %s runs", j.Node.Name())
		}
	}
	return condition(cke.CondHibernated, cke.True, "Asked", "%s", asleep(in, 0))
}

func drained(in *Input) cke.Condition {
	for _, d := range in.leases() {
		return condition(cke.CondDrained, cke.True, "Asked", "%s", d.Text())
	}
	return condition(cke.CondDrained, cke.False, "NotAsked", "no node is drained")
}

// heldBack reports whether an operation that failed waits for its next try.
func heldBack(in *Input, d Decision) bool {
	for _, f := range in.Failures {
		if len(f.Problems) > 0 && slices.Contains(d.Blockers, f.Problems[0]) {
			return true
		}
	}
	return false
}
