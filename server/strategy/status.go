package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
	"cke/op"
	"cke/quorum"
)

// certificateWarning is how long before its expiry a certificate is no longer called valid.
const certificateWarning = 14 * 24 * time.Hour

// authorityWarning is the same of an authority: operators have to give all clients something new before it ends.
const authorityWarning = 182 * 24 * time.Hour

// Report returns the status for what was decided. Like Decide it is pure; prev is the previous status, from which times of
// transition are kept. Unknown never counts as ready; the denominator is the declared size.
func Report(in Input, d Decision, prev cke.Status) cke.Status {
	in.noteStarts()
	now := in.Seen.ObservedAt
	prev = Remembered(prev)
	s := cke.Status{
		Cluster: in.Spec.Name, Generation: in.Generation, ObservedGeneration: prev.ObservedGeneration,
		ObservedAt: now, Nodes: in.Seen.Nodes, Etcd: in.Seen.Etcd, Problems: problems(&in, d, prev.Problems), Reason: d.Reason,
		Declared: len(in.Spec.ControlPlane()), Tolerance: tolerance(&in), Spread: spread(&in),
		Operation: prev.Operation, LastOperation: prev.LastOperation, TouchedAt: prev.TouchedAt, RestoreWorkedAt: prev.RestoreWorkedAt, InterruptedOrder: prev.InterruptedOrder, LastErrors: lastErrors(in.Failures), Leader: prev.Leader,
		Inventory: in.Inventory, Backup: in.Backup, Targets: prev.KnownTargets(in.Backup),
		Compared: in.Identity.Compared, Drains: in.leases(), Hibernation: in.Requests.Hibernation,
		Reboots: queueStatus(&in, d, cke.RebootQueue), Repairs: queueStatus(&in, d, cke.RepairQueue), Authorities: replacements(&in), Reached: reached(&in, prev.Reached),
	}
	if !in.Seen.Reached() && len(in.Seen.Nodes) > 0 {
		s.UnreachedSince = cmp.Or(prev.UnreachedSince, now)
	}
	s.Electing, _ = in.electing()
	if l := in.lastLists()[0]; l.Source == cke.MembersRemembered { // voters that no membership names count until a later list
		s.Etcd.Members, s.Etcd.MembersSource, s.Etcd.MembersAt = l.Members, l.Source, l.At
	}
	if lists := in.formerLists(); lists != nil && lists[0].Members != nil { // it may continue
		s.Etcd.Former, s.Etcd.Former.Incarnation = lists[0], in.Identity.Incarnation.BeforeRestores().ID
	}
	s.Etcd.Copied = in.copiedLists()
	if inc := in.Identity.Incarnation; inc != nil {
		s.Incarnation, s.ClusterID = inc.ID, inc.ClusterID
	}
	s.Members = members(&in, prev.Members)
	for i := range s.Members {
		m := &s.Members[i]
		why := canStop(&in, d, *m)
		m.CanStop, m.CannotStopBecause = why == open, string(why)
		if j, ours := in.Identity.Join(m.Join); ours && planned(&in, d, j) {
			m.State, m.Reason = "restarting", d.Reason
		}
	}
	for _, m := range s.Members[:s.Declared] {
		if m.Ready {
			s.Ready++
		}
	}
	s.Health, s.Summary = health(&in, d, s)
	s.Conditions = conditions(&in, d, s, prev.Conditions)
	if s.Health == cke.HealthReady {
		s.ObservedGeneration = in.Generation
	}
	return s
}

// converged: all that the spec wants holds. A pause keeps nothing from being so.
func converged(was *Input, d Decision) bool {
	in := *was
	var omit omission
	if _, backup := d.Operation.(op.Backup); (backup || d.Operation == nil) && in.held() {
		in.Requests.Hold = nil
		omit.backups = true
		d = decide(in, omit)
	}
	switch d.Operation.(type) {
	case op.RenewCertificates, op.LeaseEntry, op.RunEntry, op.NoteEntry: // they are no sign of how all else is
		omit.unnoticed = true
		d = decide(in, omit)
	}
	return d.Converged
}

// tolerance is how many more voters can be lost; -1 without a quorum.
func tolerance(in *Input) int {
	if !in.Seen.Etcd.Quorate {
		return -1
	}
	t := tallyOf(in)
	return t.Tolerance()
}

// memberships are those of the present life. What an abandoned one left is cleaned up and no member.
func memberships(in *Input) []cke.Join {
	if inc := in.Identity.Incarnation; inc == nil || inc.State == cke.Abandoned {
		return nil
	}
	return in.Identity.Joins
}

// members returns the members of the declared control-plane nodes, in their order, then all others.
func members(in *Input, prev []cke.MemberStatus) []cke.MemberStatus {
	var all []cke.MemberStatus
	listed := map[cke.JoinID]bool{}
	for _, n := range in.Spec.ControlPlane() {
		m := cke.MemberStatus{Name: n.Name(), Address: n.Address, Role: "-", State: "waiting", Reason: "no member yet", Lag: -1}
		for _, j := range memberships(in) {
			to, moving := in.moving(j)
			if j.Node.Address == n.Address || moving && to.Address == n.Address {
				m = member(in, j)
				listed[j.ID] = true
			}
		}
		if s := in.node(n); m.Join == "" && !s.Answered() {
			m.State, m.Reason = "unreachable", s.Problem.Message
		}
		all = append(all, m)
	}
	for _, j := range memberships(in) {
		if !listed[j.ID] {
			all = append(all, member(in, j))
		}
	}
	for _, m := range in.strangers() {
		all = append(all, strangerStatus(in, m))
	}
	for i := range all {
		m := &all[i]
		m.Since = in.Seen.ObservedAt
		for _, p := range prev {
			if p.Name != m.Name || p.Join != m.Join {
				continue
			}
			if p.State == m.State && !p.Since.IsZero() {
				m.Since = p.Since
			}
			if m.Applied == 0 { // it does not answer
				m.Applied, m.ProgressAt = p.Applied, p.ProgressAt
			}
			if m.Applied > 0 && m.Applied == p.Applied && !p.ProgressAt.IsZero() {
				m.ProgressAt = p.ProgressAt
			}
			if m.State == p.State && m.Applied <= p.Applied {
				m.Watched = p.Watched + cke.Duration(lookedOn(in))
			}
			m.StorageVersion = cmp.Or(m.StorageVersion, p.StorageVersion)
			// A certificate does not change while nobody can look at it.
			if m.CertNotAfter.IsZero() {
				m.CertNotAfter = p.CertNotAfter
			}
		}
	}
	return all
}

// lookGap is the longest time between two observations in which nothing can have come and gone.
const lookGap = time.Minute

// lookedOn is the time since the last status, if that is no longer than looks are apart: else nobody looked meanwhile, or
// the clock was set.
func lookedOn(in *Input) time.Duration {
	since := in.Seen.ObservedAt.Sub(in.Before.ObservedAt)
	if since < 0 || since > lookGap {
		return 0
	}
	return since
}

// watched is for how long looks, this one included, have told the same of a member whose state is the same still.
func (in *Input) watched(before cke.MemberStatus) time.Duration {
	return time.Duration(before.Watched) + lookedOn(in)
}

// member reports one membership.
func member(in *Input, j cke.Join) cke.MemberStatus {
	m := cke.MemberStatus{Name: j.Node.Name(), Address: j.Node.Address, ClientURL: j.ClientURL(), PeerURL: j.PeerURL(), ID: j.MemberID, Join: j.ID,
		Role: "-", State: "healthy", Lag: -1, Container: memberContainer(in, j)}
	e := in.reply(j)
	if e.Problem == "" && e.MemberID != "" {
		m.ID, m.DBSize, m.Version, m.Role = e.MemberID, e.DBSize, e.Version, role(e)
		m.StorageVersion = e.StorageVersion
		m.Lag, m.DBSizeInUse, m.Revision = lag(in, e), e.DBSizeInUse, e.Revision
	}
	m.CertNotAfter = e.CertNotAfter
	if worth, ok := in.certificates(j); ok && !worth.NotAfter.IsZero() {
		m.CertNotAfter = worth.NotAfter
	}
	if e.Learner {
		m.Applied, m.ProgressAt = e.RaftApplied, in.Seen.ObservedAt
	}
	m.Drift = driftOf(in, j)
	p := memberProblem(in, j)
	if inc := in.Identity.Incarnation; p != nil && inc != nil && (inc.State != cke.Formed || j.StartedAt.IsZero()) {
		m.State, m.Reason = "starting", p.Message
		return m
	}
	if p == nil {
		m.Ready = !e.Learner
		return m
	}
	m.Reason = p.Message
	switch c, there := in.node(j.Node).Of(j.ID); {
	case in.hibernates() && !in.silent(j) && p.Code != cke.CodeDataMissing && !runs(in, j):
		m.State, m.Reason = "hibernated", ""
	case p.Code == cke.CodeDrain:
		m.State = "drained"
	case !in.node(j.Node).Answered():
		m.State = "unreachable"
	case p.Code == cke.CodeDataMissing:
		m.State = "missing" // for so long the grace of lost data runs
	case !there, !c.Running():
		m.State = "stopped"
	default:
		m.State = "unhealthy"
	}
	return m
}

// memberContainer is what carries a member; nil: none was seen.
func memberContainer(in *Input, j cke.Join) *cke.MemberContainer {
	c, there := in.node(j.Node).Of(j.ID)
	if !there {
		return nil
	}
	return &cke.MemberContainer{Name: c.Name, State: c.State, Image: c.Image, ImageID: c.ImageID, Description: c.Description, CPUs: c.CPUs, Memory: c.Memory}
}

func role(e cke.EndpointStatus) string {
	switch {
	case e.Learner:
		return "learner"
	case e.LeaderID == e.MemberID:
		return "leader"
	}
	return "follower"
}

// lag is how far e's applied index is behind the leader's index; -1 if either is not known.
func lag(in *Input, e cke.EndpointStatus) int64 {
	var leader cke.EndpointStatus
	for _, other := range in.replies() {
		leads := other.Problem == "" && other.LeaderID != "" && other.LeaderID == other.MemberID
		if leads && other.RaftTerm >= leader.RaftTerm { // one that was cut off may still take itself for the leader
			leader = other
		}
	}
	index := leader.RaftIndex
	if index == 0 {
		for _, other := range in.replies() { // the leader answers others, who asked it for its index to read linearizably
			if other.Linearizable && !other.Learner {
				index = max(index, other.RaftIndex)
			}
		}
	}
	if e.RaftIndex == 0 || index == 0 {
		return -1
	}
	return int64(max(index, e.RaftApplied) - e.RaftApplied) // they were not asked in the same moment
}

func health(in *Input, d Decision, s cke.Status) (cke.Health, string) {
	inc := in.Identity.Incarnation
	switch {
	case in.Deleting:
		return cke.HealthDeleting, "being deleted; volumes are kept"
	case d.Frozen != nil:
		return cke.HealthFrozen, d.Frozen.Message
	case in.hibernates():
		return cke.HealthHibernated, hibernation(in)
	case inc != nil && inc.State == cke.Restoring:
		if d.Operation != nil {
			return cke.HealthRestoring, fmt.Sprintf("being restored to revision %d", inc.Restore.Snapshot.Revision)
		}
		return cke.HealthRestoring, "not restored yet: " + d.Reason
	case inc == nil || inc.State != cke.Formed:
		if d.Operation != nil {
			return cke.HealthForming, "being bootstrapped"
		}
		if nodes := nodesOf(d.Blockers); nodes != "" {
			return cke.HealthForming, "not bootstrapped yet, waiting for " + nodes
		}
		return cke.HealthForming, "not bootstrapped yet: " + d.Reason
	case in.quorumUnknown():
		return cke.HealthUnknown, unseenSentence(in)
	case !in.Seen.Etcd.Quorate:
		n := len(in.Identity.Joins)
		return cke.HealthLost, fmt.Sprintf("no quorum: %d of %d members serve, %d needed", serving(in), n, quorum.Of(n))
	case s.Ready == s.Declared && converged(in, d):
		return cke.HealthReady, fmt.Sprintf("%s, can lose %s", allServe(s.Declared), canLose(s))
	}
	if updating(in, d, s) {
		return cke.HealthUpdating, progress(d, s)
	}
	return cke.HealthDegraded, "quorum held, can lose " + canLose(s)
}

func allServe(n int) string {
	if n == 1 {
		return "its only member serves"
	}
	return fmt.Sprintf("all %d members serve", n)
}

func more(n int) string { return cke.Count(n, "more member") }

// canLose is how many more members can be lost, and whether any one zone can.
func canLose(s cke.Status) string {
	if s.Spread != nil && s.Spread.AnyOne() {
		return more(s.Tolerance) + ", and any one zone"
	}
	return more(s.Tolerance)
}

func serving(in *Input) int {
	n := 0
	for _, j := range in.Identity.Joins {
		if e := in.reply(j); e.Healthy() && e.Linearizable {
			n++
		}
	}
	return n
}

// problems are what the decision waits for, then why members do not serve and nodes do not answer. A decision that does
// something waits for nothing, but what is wrong elsewhere still is, and so is what an operation failed for that is tried again.
func problems(in *Input, d Decision, prev []cke.Problem) []cke.Problem {
	var all []cke.Problem
	for _, p := range d.Blockers {
		all = append(all, in.expected(p))
	}
	add := func(p *cke.Problem) {
		if p == nil {
			return
		}
		known := in.expected(*p)
		if !slices.ContainsFunc(all, func(q cke.Problem) bool { return sameProblem(known, q) }) {
			all = append(all, known)
		}
	}
	add(d.Frozen)
	for _, p := range failing(in, d) {
		add(&p)
	}
	for _, j := range in.Identity.Joins {
		if planned(in, d, j) {
			continue
		}
		if p := memberProblem(in, j); in.Formed() && !j.StartedAt.IsZero() && (!in.hibernates() || p != nil && p.Code == cke.CodeDataMissing) {
			add(p)
		}
	}
	for _, j := range memberships(in) {
		if !in.hibernates() {
			add(certificateProblem(in, j))
		}
	}
	for _, j := range in.Identity.Joins {
		if in.Formed() {
			add(byHandProblem(in, j))
		}
	}
	if !in.hibernates() && !in.Deleting && d.Operation == nil {
		add(quorumProblem(in))
	}
	for _, p := range ClocksIn(in.Seen).problems() {
		add(&p)
	}
	if noSpace(in) != nil {
		p := noSpaceProblem(in)
		add(&p)
	}
	for _, n := range in.Seen.Nodes {
		if !in.Formed() || !n.Answered() {
			continue
		}
		kept, _ := keptOn(in, n)
		for _, p := range kept {
			add(&p)
		}
	}
	add(in.Unclosed)
	add(writesProblem(in))
	add(authProblem(in))
	for _, p := range strangerProblems(in) {
		add(&p)
	}
	for _, p := range in.allMisnamed() {
		add(&p)
	}
	for _, p := range slices.Concat(in.outdated, in.heldQueued, unrecordedProblems(in), authorityProblems(in)) {
		add(&p)
	}
	for _, n := range in.Seen.Nodes {
		add(n.Problem)
	}
	for _, p := range slices.Concat(inventoryProblems(in.Inventory), queueProblems(in), backupProblems(in)) {
		add(&p)
	}
	for i := range all {
		if p := &all[i]; p.Since.IsZero() {
			p.Since = in.Seen.ObservedAt
			if k := slices.IndexFunc(prev, func(q cke.Problem) bool { return sameProblem(*p, q) }); k >= 0 {
				p.Since = prev[k].Since
			}
		}
	}
	return all
}

func sameProblem(a, b cke.Problem) bool { return a.Node == b.Node && a.Code == b.Code }

func lastErrors(failures map[string]Failure) []cke.LastError {
	var all []cke.LastError
	for _, f := range failures {
		e := cke.LastError{Code: cke.CodeInternal, Description: f.Error, ObservedAt: f.At}
		if len(f.Problems) > 0 {
			e.Code = f.Problems[0].Code
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b cke.LastError) int {
		return cmp.Or(b.ObservedAt.Compare(a.ObservedAt), cmp.Compare(a.Description, b.Description))
	})
	return all
}
