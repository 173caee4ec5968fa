package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cke"
)

// certificateWarning is how long before its expiry a certificate is no longer called valid.
const certificateWarning = 14 * 24 * time.Hour

// Report turns what was decided into what people and tools read. Like Decide it is pure; prev is the status before,
// from which transition times are kept. Unknown never counts as ready; the denominator is the declared size.
func Report(in Input, d Decision, prev cke.Status) cke.Status {
	now := in.Seen.ObservedAt
	s := cke.Status{
		Cluster: in.Spec.Name, Generation: in.Generation, ObservedGeneration: prev.ObservedGeneration,
		ObservedAt: now, Nodes: in.Seen.Nodes, Problems: d.Blockers, Reason: d.Reason,
		Declared: len(in.Spec.ControlPlane()), Tolerance: tolerance(in),
		Operation: prev.Operation, LastOperation: prev.LastOperation, LastErrors: lastErrors(in.Failures), Leader: prev.Leader,
	}
	if inc := in.Identity.Incarnation; inc != nil {
		s.Incarnation, s.ClusterID = inc.ID, inc.ClusterID
	}
	s.Members = members(in, prev.Members)
	for _, m := range s.Members {
		if _, declared := in.Spec.Node(m.Name); declared && m.Ready {
			s.Ready++
		}
	}
	s.Problems = withNodeProblems(s.Problems, in.Seen.Nodes)
	s.Health, s.Summary = health(in, d, s)
	s.Conditions = conditions(in, d, s, prev.Conditions)
	if s.Health == cke.HealthReady && d.Converged && d.Operation == nil {
		s.ObservedGeneration = in.Generation
	}
	return s
}

// tolerance is how many more voters can be lost; -1 without a quorum.
func tolerance(in Input) int {
	if !in.Seen.Etcd.Quorate {
		return -1
	}
	voters, healthy := 0, 0
	for _, m := range in.Seen.Etcd.Members {
		if m.Learner {
			continue
		}
		voters++
		if slices.ContainsFunc(in.Seen.Etcd.Endpoints, func(e cke.EndpointStatus) bool {
			return e.MemberID == m.ID && e.Healthy() && e.Linearizable
		}) {
			healthy++
		}
	}
	return max(0, healthy-cke.Quorum(voters))
}

func members(in Input, prev []cke.MemberStatus) []cke.MemberStatus {
	var all []cke.MemberStatus
	listed := map[cke.JoinID]bool{}
	for _, n := range in.Spec.ControlPlane() {
		m := cke.MemberStatus{Name: n.Name(), Address: n.Address, Role: "-", State: "waiting", Reason: "no member yet", Lag: -1}
		for _, j := range in.Identity.Joins {
			if j.Node.Address == n.Address {
				m = member(in, j)
				listed[j.ID] = true
			}
		}
		if s := in.node(n); m.Join == "" && !s.Answered() {
			m.State, m.Reason = "unreachable", s.Problem.Message
		}
		all = append(all, m)
	}
	for _, j := range in.Identity.Joins {
		if !listed[j.ID] {
			all = append(all, member(in, j))
		}
	}
	for i := range all {
		all[i].Since = in.Seen.ObservedAt
		for _, p := range prev {
			if p.Name == all[i].Name && p.State == all[i].State && !p.Since.IsZero() {
				all[i].Since = p.Since
			}
			// A certificate does not change while nobody can look at it.
			if p.Join == all[i].Join && all[i].CertNotAfter.IsZero() {
				all[i].CertNotAfter = p.CertNotAfter
			}
		}
	}
	return all
}

// member tells of one membership.
func member(in Input, j cke.Join) cke.MemberStatus {
	m := cke.MemberStatus{Name: j.Node.Name(), Address: j.Node.Address, ID: j.MemberID, Join: j.ID, Role: "-", State: "healthy", Lag: -1}
	e, _ := in.Seen.Etcd.Endpoint(j.ID)
	if e.Problem == "" && e.MemberID != "" {
		m.ID, m.DBSize, m.Version, m.Role = e.MemberID, e.DBSize, e.Version, role(e)
		m.Lag = lag(in.Seen.Etcd, e)
	}
	m.CertNotAfter = e.CertNotAfter
	p := memberProblem(in, j)
	if inc := in.Identity.Incarnation; p != nil && inc != nil && (inc.State == cke.Forming || j.StartedAt.IsZero()) {
		m.State, m.Reason = "starting", p.Message
		return m
	}
	if p == nil {
		m.Ready = !e.Learner
		return m
	}
	m.Reason = p.Message
	switch c, there := in.node(j.Node).Of(j.ID); {
	case !in.node(j.Node).Answered():
		m.State = "unreachable"
	case p.Code == cke.CodeDataMissing, !there:
		m.State = "missing"
	case !c.Running():
		m.State = "stopped"
	default:
		m.State = "unhealthy"
	}
	return m
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

// lag is how far e's applied index is behind the largest known raft index; -1 if e told none.
func lag(s cke.EtcdStatus, e cke.EndpointStatus) int64 {
	if e.RaftIndex == 0 {
		return -1
	}
	newest := e.RaftApplied
	for _, other := range s.Endpoints {
		if other.LeaderID != "" && other.LeaderID == other.MemberID {
			newest = max(newest, other.RaftIndex)
		}
	}
	return int64(newest - e.RaftApplied)
}

func health(in Input, d Decision, s cke.Status) (cke.Health, string) {
	inc := in.Identity.Incarnation
	switch {
	case in.Deleting:
		return cke.HealthDeleting, "being deleted; volumes are kept"
	case d.Frozen != nil:
		return cke.HealthFrozen, d.Frozen.Message
	case inc == nil || inc.State != cke.Formed:
		if len(d.Blockers) > 0 {
			return cke.HealthForming, "not founded yet, waiting for " + nodesOf(d.Blockers)
		}
		return cke.HealthForming, "being founded"
	case !in.Seen.Etcd.Quorate:
		n := len(in.Identity.Joins)
		return cke.HealthLost, fmt.Sprintf("no quorum: %d of %d members serve, %d needed", serving(in), n, cke.Quorum(n))
	case s.Ready == s.Declared && d.Converged && d.Operation == nil:
		return cke.HealthReady, fmt.Sprintf("%s, can lose %s", allServe(s.Declared), more(s.Tolerance))
	}
	return cke.HealthDegraded, "quorum held, can lose " + more(s.Tolerance)
}

func allServe(n int) string {
	if n == 1 {
		return "its only member serves"
	}
	return fmt.Sprintf("all %d members serve", n)
}

func more(n int) string {
	if n == 1 {
		return "1 more member"
	}
	return fmt.Sprintf("%d more members", n)
}

func serving(in Input) int {
	n := 0
	for _, j := range in.Identity.Joins {
		if e, ok := in.Seen.Etcd.Endpoint(j.ID); ok && e.Healthy() && e.Linearizable {
			n++
		}
	}
	return n
}

// withNodeProblems adds problems of nodes that the decision does not name already.
func withNodeProblems(problems []cke.Problem, nodes []cke.NodeStatus) []cke.Problem {
	problems = slices.Clone(problems)
	for _, n := range nodes {
		if n.Problem == nil {
			continue
		}
		same := func(p cke.Problem) bool { return p.Node == n.Problem.Node && p.Code == n.Problem.Code }
		if !slices.ContainsFunc(problems, same) {
			problems = append(problems, *n.Problem)
		}
	}
	return problems
}

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
