package strategy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/op"
)

// Input is all that Decide may know: what is wanted, who the cluster is, what was seen, what failed lately.
type Input struct {
	// Spec is the wanted cluster with defaults filled in, Generation its revision.
	Spec       cke.Cluster
	Generation int64
	// SetAt is when the spec was set.
	SetAt    time.Time
	Deleting bool
	// DeletionAt is when the deletion was asked for.
	DeletionAt time.Time
	// Sealed: the deletion is not canceled any more, and nodes are being marked.
	Sealed bool
	// Destroyed names the nodes that a deletion does not wait for.
	Destroyed []string
	Identity  cke.Identity
	Seen      cke.Observation
	// Requests is what people ask for.
	Requests cke.Requests
	// Backup is how the backups stand; nil: none are taken, or nothing is known yet.
	Backup *cke.BackupStatus
	// Before is the status that was told last; times of transition are read from it.
	Before cke.Status
	// Failures are the operations that failed since they last succeeded, keyed by FailureKey.
	Failures map[string]Failure
	// Completed are the operations that completed, keyed by FailureKey.
	Completed map[string]Completion

	// outdated are requests of a store that is older than the cluster.
	outdated []cke.Problem
	// ignoreCertificates: none is renewed; ignoreUpkeep: no operation of upkeep is chosen.
	ignoreCertificates, ignoreUpkeep bool
	// unrecordedStarts are the memberships that were started without a start on record; see noteStarts.
	unrecordedStarts []cke.JoinID
}

// Decision is what to do now: one operation or none, and always why.
type Decision struct {
	// Rule is the name of the rule that decided; empty: none applied. Held are the rules above it that apply and are held back.
	Rule string
	Held []string
	// Operation is nil when there is nothing to do, or when something has to be waited for.
	Operation op.Operation
	// Reason is a sentence for a person; never empty.
	Reason string
	// Blockers are what is waited for, node by node.
	Blockers []cke.Problem
	// Frozen is why nothing may be changed until a person decides; nil otherwise.
	Frozen *cke.Problem
	// Converged: all that the spec wants is so. An operation may look after it all the same.
	Converged bool
	// Upkeep: the operation looks after what is there, and is no step to what the spec wants.
	Upkeep bool
	// Task is the id of the task that the operation is for; empty: nobody asked.
	Task string
	// Part: the task goes on after the operation, however that ends.
	Part bool
	// Again is how long to wait before looking again at the latest; zero: no need beyond the usual probe.
	Again time.Duration
}

// Decide chooses exactly one operation, or none, by the first rule that matches. It is pure: no input but in, no
// clock but in.Seen.ObservedAt, and it always gives a reason.
func Decide(in Input) Decision {
	in.noteStarts()
	return untilLeasesEnd(&in, withBackup(&in, decide(&in)))
}

// DecideChange is Decide, but for operations of upkeep: what it returns is the next step to what the spec wants, or why
// there is none.
func DecideChange(in Input) Decision {
	in.ignoreUpkeep = true
	return Decide(in)
}

func decide(in *Input) Decision {
	var held *Decision
	for _, rule := range rules {
		d, matched := rule.decide(in)
		if !matched || in.ignoreUpkeep && d.Upkeep {
			continue
		}
		d.Operation = pinVolumes(in, d.Operation)
		wanted := d.Operation != nil
		d = withClock(in, d)
		if rule.voluntary {
			d = withConsent(in, d)
		}
		d = backOff(in, d, rule.patience)
		if d.Operation == nil && (rule.waits || wanted && (rule.yields || rule.voluntary)) {
			before := d.beside(held) // a variable of its own: d stays off the heap
			before.Held = append(before.Held, rule.name)
			held = &before
			continue
		}
		d.Rule = rule.name
		return d.beside(held)
	}
	return Decision{Reason: "nothing to do", Converged: true}.beside(held)
}

// beside puts an operation that is held back before a decision that was made in spite of it.
func (d Decision) beside(held *Decision) Decision {
	if held == nil {
		return d
	}
	d.Held = held.Held
	switch {
	case d.Operation != nil:
		d.Converged = d.Converged && held.Converged
		return d
	case d.Converged:
		return *held
	}
	blockers := slices.Clone(held.Blockers)
	for _, b := range d.Blockers {
		if !slices.ContainsFunc(held.Blockers, func(h cke.Problem) bool { return h.Code == b.Code && h.Node == b.Node }) {
			blockers = append(blockers, b)
		}
	}
	if len(d.Blockers) == 0 || len(blockers) > len(held.Blockers) {
		d.Reason = held.Reason + "; " + d.Reason
	} else { // it says nothing new
		d.Reason = held.Reason
	}
	d.Blockers = blockers
	if d.Again == 0 || held.Again < d.Again {
		d.Again = held.Again
	}
	return d
}

// rule is one case of the strategy. Its condition and its choice stand in one function, which returns false when
// the case is not given.
type rule struct {
	name   string
	decide func(*Input) (Decision, bool)
	// yields: the rules below are asked while the operation is held back, since it is not what they depend on.
	yields bool
	// waits: the rules below are asked also while the rule itself wants nothing done yet: what it waits for may be theirs to do.
	waits bool
	// voluntary: the cluster serves as well without the change; the file's policy says when it may be made.
	voluntary bool
	// patience is the least pause after a failure; zero: that of every operation.
	patience time.Duration
}

// rules in the order in which they are asked. Reasons for the order: docs/strategy.md.
var rules = [...]rule{
	{name: "delete", decide: deleteCluster},
	{name: "restore asked", decide: restoreAsked},
	{name: "frozen", decide: frozen},
	{name: "paused", decide: paused},
	{name: "restoring", decide: restoring},
	{name: "forming", decide: formingCluster},
	{name: "hibernated", decide: hibernated},
	{name: "renew certificates that do not hold", decide: brokenCertificates, yields: true},
	{name: "stop members put aside", decide: putAside, yields: true},
	{name: "start stopped members", decide: startStopped, yields: true},
	{name: "let engines start members", decide: keptDown, yields: true},
	{name: "look in full", decide: lookInFull},
	{name: "start members with other options", decide: startChanged, yields: true, voluntary: true},
	{name: "record starts", decide: recordStart, yields: true},
	{name: "remove what a canceled restore prepared", decide: cleanUpPrepared, yields: true},
	{name: "no quorum", decide: withoutQuorum},
	{name: "let clients write", decide: letWrite, yields: true},
	{name: "clean up abandoned lives", decide: cleanUp, yields: true},
	{name: "bootstrap", decide: bootstrapCluster},
	{name: "member list unknown", decide: listUnknown},
	{name: "authentication refuses cke", decide: authRefuses},
	{name: "asked", decide: asked, yields: true},
	{name: "ended membership", decide: endedMembership},
	{name: "remove unhealthy strangers", decide: unhealthyStrangers, voluntary: true},
	{name: "change of address", decide: changeAddress, voluntary: true, waits: true},
	{name: "remove unhealthy members of undeclared nodes", decide: removeUnhealthy, voluntary: true},
	{name: "promote", decide: promote, yields: true},
	{name: "replace lost data", decide: replaceLost, waits: true},
	{name: "stop strays", decide: strays, yields: true},
	{name: "renew certificates", decide: renewCertificates, yields: true, patience: renewAgain},
	{name: "issue certificates of the next authority", decide: reissueCertificates, yields: true},
	{name: "withdraw stuck learners", decide: stuckLearner},
	{name: "finish adding", decide: finishAdding, yields: true, waits: true},
	{name: "replace authorities", decide: advanceAuthority, yields: true},
	{name: "containers that could found", decide: couldFound, waits: true},
	{name: "drift", decide: drift, voluntary: true, waits: true},
	{name: "database full", decide: fullDatabase, yields: true, waits: true},
	{name: "remove volumes of learners", decide: learnerVolumes, yields: true, patience: purgeAgain},
	{name: "add members", decide: addMember, voluntary: true, waits: true},
	{name: "remove healthy strangers", decide: healthyStrangers, voluntary: true},
	{name: "remove healthy members of undeclared nodes", decide: removeHealthy, voluntary: true},
	{name: "catching up", decide: catchingUp},
	{name: "wait for members", decide: waitForMembers},
	{name: "finding is over", decide: findingOver, yields: true},
	{name: "compare data", decide: compareDue, yields: true, patience: compareAgain},
	{name: "defragment", decide: fragmented, voluntary: true, patience: defragmentAgain},
	{name: "remove old volumes", decide: expiredVolumes, yields: true, patience: purgeAgain},
	{name: "wait for leases", decide: waitForLeases},
}

// Rules are the names of all rules, in the order in which they are asked.
func Rules() []string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.name
	}
	return names
}

// deleteCluster: a person asked for it. It needs every member's node, since a member that goes on running would be
// a cluster that nobody knows of. An abandoned life is none: too few of its founders are left to have a quorum.
func deleteCluster(in *Input) (Decision, bool) {
	if !in.Deleting || newlyOlder(in) {
		return Decision{}, false
	}
	inc := in.Identity.Incarnation
	if in.awaitsRestore() {
		return Decision{Operation: op.DeleteCluster{}, Reason: "deletion was asked for; the cluster was declared to be restored, and what its nodes carry stays as it is"}, true
	}
	var blockers []cke.Problem
	for _, j := range in.Identity.MayRun() {
		switch n := in.node(j.Node); {
		case n.Answered():
		case in.destroyed(n.Node.Name()) || in.destroyed(j.Node.Name()): // the operator confirmed that its machine is gone for good
		case inc == nil: // no member is stopped
		case inc.State != cke.Abandoned:
			p := *n.Problem
			p.Remedy = fmt.Sprintf("bring it back; if its machine is destroyed: ckecli cluster delete %s --destroyed %s", in.Spec.Name, j.Node.Name())
			blockers = append(blockers, p)
		}
	}
	if f := olderStore(in); f != nil && (len(in.mayServe()) > 0 || in.Identity.VotesElsewhere(in.Seen.Etcd)) { // its members would go on running
		if d, asked := reclaimAnswer(in); asked {
			return d, true
		}
		p := f.problem
		for _, u := range append(in.mayServe(), in.elsewhere()...) { // what cannot serve any more is not waited for
			p.Remedy += fmt.Sprintf("; if that is refused, on %s: docker update --restart=no %s && docker stop %s", u.Node.Address, u.Name, u.Name)
		}
		blockers = append(blockers, p)
	}
	if blockers != nil {
		return Decision{Reason: "deletion waits: " + list(blockers), Blockers: blockers}, true
	}
	del := op.DeleteCluster{Nodes: answering(in)}
	if inc != nil { // else memberships on record are another incarnation's: a restore that was cut off left them
		del.Joins = toFence(in, nil)
	}
	return Decision{Operation: del, Reason: "deletion was asked for; volumes are kept"}, true
}

// destroyed reports whether the operator who asked for the deletion named a machine as gone for good, by a name that means no other one.
func (in *Input) destroyed(name string) bool {
	return slices.Contains(in.Destroyed, name) && in.misnamed(name) == nil
}

// cleanUp: a node carries something of a life of this cluster that was abandoned before it served anybody.
func cleanUp(in *Input) (Decision, bool) {
	inc := in.Identity.Incarnation
	var left []cke.Join
	var held []cke.Problem
	for _, n := range in.Seen.Nodes {
		if !n.Answered() {
			continue
		}
		kept, seen := keptOn(in, n)
		held = append(held, kept...)
		add := func(cluster, life, name string, id cke.JoinID) {
			if cluster == in.Spec.Name && inc.WasAbandoned(life) && !seen[id] {
				seen[id] = true
				left = append(left, cke.Join{ID: id, Incarnation: life, Node: n.Node, Volume: name, Etcd: in.Spec.Options.Etcd})
			}
		}
		for _, c := range n.Containers {
			add(c.Cluster, c.Incarnation, c.Name, c.Join)
		}
		for _, v := range n.Volumes {
			add(v.Cluster, v.Incarnation, v.Name, v.Join)
			for _, j := range in.Identity.Joins {
				// An engine that dies while it makes a volume may forget its labels. The name is of this founder alone.
				if v.Cluster == "" && v.Name == j.Volume && n.Node.Address == j.Node.Address {
					add(in.Spec.Name, j.Incarnation, v.Name, j.ID)
				}
			}
		}
	}
	if left == nil {
		return refused(list(held), held...), held != nil && inc.State == cke.Abandoned
	}
	return Decision{Operation: op.CleanUp{Left: left}, Reason: "an abandoned founding left containers or volumes; it never served a client"}, true
}

// cleanUpPrepared removes members of a canceled restore whose containers never ran, also without a quorum: what they brought may be what
// fills the disks of members that serve.
func cleanUpPrepared(in *Input) (Decision, bool) {
	d, _ := cleanUp(in)
	o, cleans := d.Operation.(op.CleanUp)
	if !cleans || !in.Formed() {
		return Decision{}, false
	}
	o.Left = slices.DeleteFunc(o.Left, func(j cke.Join) bool {
		c, there := in.node(j.Node).Of(j.ID)
		return !there || c.State != cke.ContainerCreated || c.EverRan()
	})
	d.Operation = o
	return d, len(o.Left) > 0
}

// keptOn are the containers of abandoned lives that are kept on a node that answers, and their memberships.
func keptOn(in *Input, n cke.NodeStatus) (kept []cke.Problem, of map[cke.JoinID]bool) {
	of = map[cke.JoinID]bool{}
	for _, c := range n.Containers {
		if p := keepsWrites(in, n, c); p != nil {
			kept, of[c.Join] = append(kept, *p), true
		}
	}
	return kept, of
}

// keepsWrites is why a container of an abandoned life is kept; nil: it is not. What the record says of a founder is known of the last
// one only; one of those before is asked where its container was made for.
func keepsWrites(in *Input, n cke.NodeStatus, c cke.Container) *cke.Problem {
	if c.Cluster != in.Spec.Name || !in.Identity.Incarnation.WasAbandoned(c.Incarnation) {
		return nil
	}
	j, known := in.Identity.Join(c.Join)
	if !known {
		j = cke.Join{ID: c.Join, Incarnation: c.Incarnation, Node: n.Node, StartedAt: c.StartedAt}
	}
	return olderThanFounder(in, j, c)
}

// Failure is an operation that failed since it last succeeded.
type Failure struct {
	Count int
	// At is when it last failed.
	At       time.Time
	Error    string
	Problems []cke.Problem
}

// FailureKey tells operations apart for back-off: by name and targets.
func FailureKey(o op.Operation) string { return o.Name() + " " + strings.Join(o.Targets(), ",") }

// Bounds of the back-off after a failed operation.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
	// lastAddRetry is for adding a member whose learner was taken back: each one leaves a volume and a record.
	lastAddRetry = 5 * time.Minute
)

// backOff holds an operation back that failed a short time ago. The pause doubles with each failure up to lastRetry
// and is spread by ±20 %, by cluster and count, so that many clusters do not retry at one moment.
func backOff(in *Input, d Decision, patience time.Duration) Decision {
	if d.Operation == nil {
		return d
	}
	f, wait := holdBack(in, d.Operation, patience)
	if wait <= 0 {
		return repeated(in, d)
	}
	return Decision{
		Reason:   fmt.Sprintf("%s failed %s and is tried again in %s: %s", d.Operation.Name(), times(f.Count), wait.Round(100*time.Millisecond), f.Error),
		Blockers: f.Problems,
		Again:    wait,
		Frozen:   d.Frozen, Converged: d.Converged,
	}
}

// holdBack is how long an operation waits after it failed.
func holdBack(in *Input, o op.Operation, patience time.Duration) (Failure, time.Duration) {
	f, failed := in.Failures[FailureKey(o)]
	if !failed {
		return f, 0
	}
	longest := lastRetry
	if _, adds := o.(op.AddMember); adds && f.Count >= withdrawAfter {
		longest = lastAddRetry
	}
	pause := max(retryAfter(in.Spec.Name, f.Count, longest), patience)
	since := in.Seen.ObservedAt.Sub(f.At)
	if wasSetBack(since) { // it would be held back for as long as that
		return f, 0
	}
	return f, min(pause, pause-since)
}

func retryAfter(cluster string, count int, longest time.Duration) time.Duration {
	d := min(firstRetry<<min(max(count-1, 0), 12), longest)
	spread := uint32(2166136261) // FNV-1a
	for _, b := range []byte(fmt.Sprintf("%s/%d", cluster, count)) {
		spread = (spread ^ uint32(b)) * 16777619
	}
	return d*4/5 + d*2/5*time.Duration(spread%1000)/1000
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times in a row", n)
}

// node returns what was seen of a machine; a machine that was not looked at is a problem of its own.
func (in *Input) node(n cke.Node) cke.NodeStatus {
	for _, s := range in.Seen.Nodes {
		if s.Node.Address == n.Address {
			return s
		}
	}
	return cke.NodeStatus{Node: n, Problem: &cke.Problem{Code: cke.CodeUnreachable, Node: n.Name(), Message: "not looked at yet"}}
}

// reached is a join whose node is reached as it is declared now: SSH access may have changed since it was made.
func (in *Input) reached(j cke.Join) cke.Join {
	j.Node = in.node(j.Node).Node
	return j
}

// Formed reports whether the cluster has served, or may have.
func (in *Input) Formed() bool {
	inc := in.Identity.Incarnation
	return inc != nil && inc.State == cke.Formed
}

// list joins the problems' messages, each behind its node.
func list(problems []cke.Problem) string {
	var all []string
	for _, p := range problems {
		if p.Node != "" {
			all = append(all, p.Node+": "+p.Message)
		} else {
			all = append(all, p.Message)
		}
	}
	return strings.Join(all, "; ")
}
