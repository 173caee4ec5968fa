package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cke"
	"cke/op"
	"cke/quorum"
)

// drift: a member runs with other options than declared. One is restarted at a time, followers first, the leader last;
// the next waits until all voters are healthy again.
func drift(in *Input) verdict {
	turn := slices.Collect(inTurn(in))
	if i := slices.IndexFunc(turn, in.heldBySnapshots); i > 0 { // all others wait for that one
		turn[0], turn[i] = turn[i], turn[0]
	}
	for _, j := range turn {
		m, there := in.listed(j)
		if _, wanted := in.declared(j); !wanted || !there || in.silent(j) {
			continue // a machine that does not answer cannot restart what runs on it; others may be seen to
		}
		next, stale, byHand, unlike := in.optionsOf(j), in.staleTrust(j), limitsByHand(in, j), unlikeRecord(in, j)
		if next.Equal(j.Etcd) && !stale && byHand == "" && unlike == "" {
			continue
		}
		what := difference(j.Etcd, next)
		switch {
		case !next.Equal(j.Etcd):
		case unlike != "":
			what = "options"
		case byHand != "":
			what = "limits"
		}
		var unlikes []string
		if what != "" || !stale {
			unlikes = append(unlikes, "runs with other "+what+" than declared")
		}
		if stale { // which set is named, so that the restart for the next one is no repetition of this one
			unlikes = append(unlikes, fmt.Sprintf("trusts other certificate authorities than it should (set %.8s)", in.Identity.Authorities.Bundle()))
		}
		told := strings.Join(unlikes, ", and ")
		if why := mayRun(in, next.Version); why != "" && (unlike != "" || !next.Equal(j.Etcd)) {
			return note(fmt.Sprintf("not applied: %s: %s", what, why), cke.Problem{Code: cke.CodeNotApplied, Node: j.Node.Name(), Message: why})
		}
		first := firstOf(in, next.Version)
		if err := noFreshBackup(in); first && err != nil {
			return note(fmt.Sprintf("not applied: %s: a change of version requires a fresh backup, and %v", what, err),
				cke.Problem{Code: cke.CodeStaleBackup, Message: err.Error(), Remedy: cke.WayOut(cke.CodeStaleBackup)})
		}
		if next.Version != versionOf(in, j) && noSpace(in) != nil {
			p := noSpaceProblem(in)
			return note("not applied: "+what+": etcd is out of space", p)
		}
		if g := cmp.Or(mayRestart(in, m), noneLags(in)); g != open && settling(in) && serving(in) == len(in.Identity.Joins) {
			return note(fmt.Sprintf("%s %s, and is restarted next: %s", j.Node.Name(), told, g))
		} else if g != open {
			return note(fmt.Sprintf("%s %s, and restarting it waits: %s", j.Node.Name(), told, g),
				cke.Problem{Code: cke.CodeQuorum, Node: j.Node.Name(), Message: string(g)})
		}
		if in.fewVoters() && roomForMore(in) {
			return pass() // with another voter it goes without a gap
		}
		if g := mayInterrupt(in, m); g != open {
			return note(fmt.Sprintf("%s %s, and restarting it interrupts service: %s", j.Node.Name(), told, g),
				cke.Problem{Code: cke.CodeInterrupt, Node: j.Node.Name(), Message: string(g), Remedy: cke.WayOut(cke.CodeInterrupt)})
		}
		restart := op.RestartMember{Join: j, Etcd: next, Backup: first, Bundle: in.Identity.Authorities.Bundle(), Gap: in.fewVoters()}
		restart.Runs, restart.Image = runsInstead(in, j)
		return act(restart, j.Node.Name()+" "+told).voluntary()
	}
	return pass()
}

// heldBySnapshots reports whether a voter answers and does not serve, since it writes a snapshot after every entry while clients write more
// than that allows: it serves once it is restarted without that, and not by waiting.
func (in *Input) heldBySnapshots(j cke.Join) bool {
	e := in.reply(j)
	return op.WritesSnapshots(j.Etcd) && e.MemberID != "" && e.Problem == "" && !e.Linearizable && !e.Learner
}

// optionsOf is how a member is to run: as declared, but for its volume and its ports, which a membership keeps.
func (in *Input) optionsOf(j cke.Join) cke.EtcdOptions {
	return in.Spec.Options.Etcd.PlacedAs(j.Etcd)
}

// newOptions is how a new member is to run: as declared, once all members do that are to stay. Until then it runs as the
// leader does, lest it be the first with what waits for consent or for a backup, or may not run beside the others. It gets the log
// of whoever leads: until every voter has a snapshot behind what a version cannot read, it runs as they do, and is restarted then.
func (in *Input) newOptions() cke.EtcdOptions {
	declared := in.Spec.Options.Etcd
	differs := false
	now := declared
	for j := range inTurn(in) {
		_, wanted := in.declared(j)
		unread := op.NeedsSnapshot(versionOf(in, j), declared.Version)
		if m, there := in.listed(j); !wanted && !unread || !there || m.Learner {
			continue
		}
		differs = differs || unread || !in.optionsOf(j).Equal(j.Etcd)
		now = op.Lasting(j.Etcd) // the leader's comes last
	}
	if !differs {
		return declared
	}
	return now.PlacedAs(declared)
}

// roomForMore reports whether a declared node can take a member now. One on which adding has failed may need what is
// declared for it to succeed.
func roomForMore(in *Input) bool {
	o := addMember(in).Operation
	return o != nil && in.Failures[FailureKey(o)].Count == 0
}

// startChanged: a member does not start, and the file wants it to run with other options. They may be what cures it: an
// operator has reverted what did not work. With or without a quorum, starting a member that does not run harms none.
func startChanged(in *Input) verdict {
	if !in.Formed() {
		return pass()
	}
	return in.startAsDeclared().voluntary()
}

func (in *Input) startAsDeclared() verdict {
	for j := range inTurn(in) {
		if _, wanted := in.declared(j); !wanted && in.Seen.Etcd.Quorate || !in.down(j) {
			continue // without a quorum it is needed for its own removal
		}
		next := in.optionsOf(j)
		if !mayRunInstead(in, j, next.Version) {
			next.Version, next.Image = j.Etcd.Version, j.Etcd.Image // all else may cure it
		}
		why := fmt.Sprintf("other %s are declared", difference(j.Etcd, next))
		if next.Equal(j.Etcd) {
			if why = cmp.Or(unlikeRecord(in, j), misplacedContainer(in, j)); why == "" {
				continue
			}
		}
		return act(op.StartChanged{Join: in.reached(j), Etcd: next, Silent: in.silentSinceStart(j), AwaitServing: RunningMembers(in)+1 >= quorum.Of(len(in.Identity.Joins)), Restore: in.underRestore()}, fmt.Sprintf("%s does not start, and %s", j.Node.Name(), why))
	}
	return pass()
}

// underRestore is the restore under way whose members may be started, as far as a start needs it; the zero value: none is.
func (in *Input) underRestore() op.Restore {
	inc := in.Identity.Incarnation
	if inc == nil || inc.State != cke.Restoring {
		return op.Restore{}
	}
	return op.Restore{Incarnation: inc.ID, Gone: gone(in, in.recorded(inc.Restore, inc.Restore.Order), nil), Started: true}
}

// down reports whether a member was started, does not start although its node answers and its data may be there, and may
// be started. Its container is missing where the engine refused to make the one that was asked for.
func (in *Input) down(j cke.Join) bool {
	n := in.node(j.Node)
	if !n.Answered() || j.StartedAt.IsZero() || in.drained(j.Node) != nil || in.keptOut(j) || dataProblem(in, j) != nil {
		return false
	}
	c, there := n.Of(j.ID)
	return there && (c.State == cke.ContainerRestarting || misplacedContainer(in, j) != "") || !(there && c.Running()) && in.failedToStart(j) || in.silentSinceStart(j)
}

// silentSinceStart reports whether a member runs, has answered nobody since cke failed to start it, and is not needed while it is made
// again: the others are a quorum, or there are none.
func (in *Input) silentSinceStart(j cke.Join) bool {
	c, there := in.node(j.Node).Of(j.ID)
	if !there || c.State != cke.ContainerRunning || in.reply(j).Problem == "" || !in.failedToStart(j) {
		return false
	}
	if !in.Seen.Etcd.Quorate {
		return len(in.Identity.Joins) == 1 && in.votes() <= 1 && in.importing() == nil
	}
	m, listed := in.listed(j)
	t := tallyOf(in)
	return listed && leaseGate(in, m) == open && t.Pause(0) == ""
}

// failedToStart reports whether starting the member as it is on record has failed since it last succeeded.
func (in *Input) failedToStart(j cke.Join) bool {
	for key, f := range in.Failures {
		name, targets, _ := strings.Cut(key, " ")
		nodes := strings.Split(targets, ",")
		here := func(p cke.Problem) bool { return p.Node == j.Node.Name() }
		if op.OfName(name).Starts && slices.Contains(nodes, j.Node.Name()) && (len(nodes) == 1 || slices.ContainsFunc(f.Problems, here)) {
			return true
		}
	}
	return false
}

// tooOldForData are the last words of an etcd that finds that the cluster has continued to a later minor version. Source: etcd,
// membership.mustDetectDowngrade and serverversion.MustDetectDowngrade.
const tooOldForData = "invalid downgrade"

// mayRunInstead reports whether a member that does not start with one version may be started with another. A later minor, to which
// there is no way back, is tried only where it ran before, etcd itself says that the data needs it, or a member runs it. While a
// member that answers is of a minor, the cluster has not left it, and all can run it. Without any, what wrote the data is not
// known but for being one minor version away at most, and of what version databases were when they were seen last.
// etcd refuses to start on data that is too new for it, and leaves it as it is; but a member that is on record with such a
// version waits for somebody to name a version in between. Nor may it leave the minors that read what 3.5 wrote, unless it had done
// so before, as etcd itself says: that takes a start as it ran.
func mayRunInstead(in *Input, j cke.Join, version string) bool {
	is, ok := parseVersion(j.Etcd.Version)
	want, valid := parseVersion(version)
	left := leftRecord(in, j)
	if !ok || !valid || want.Minor > is.Minor+1 || want.Minor < is.Minor-1 || op.NeedsSnapshot(j.Etcd.Version, version) && want.Minor > j.Newest && !left {
		return false
	}
	if want.Minor > is.Minor {
		return want.Minor <= j.Newest || left || runsMinor(in, want.Minor)
	}
	served := slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool {
		_, ok := parseVersion(e.Version)
		return ok
	})
	return !served && want.Minor >= leftBehind(in) || want == is || runsMinor(in, want.Minor)
}

// leftRecord reports whether etcd itself says that every member ran a later minor than is on record for this one. What a container that
// was made with other options said is about those.
func leftRecord(in *Input, j cke.Join) bool {
	c, _ := in.node(j.Node).Of(j.ID)
	return strings.Contains(c.LastWords, tooOldForData) && c.MadeWith(j.Etcd)
}

// laterMinor is what to do about a member whose data is too new for the version that is on record and declared, as after an older
// store; empty: it is not so. cke names no version that nobody has declared.
func laterMinor(in *Input, j cke.Join) string {
	is, ok := parseVersion(j.Etcd.Version)
	want, _ := parseVersion(in.optionsOf(j).Version)
	if !ok || want.Minor > is.Minor || !leftRecord(in, j) {
		return ""
	}
	return fmt.Sprintf("declare options.etcd.version %d.%d.x: etcd reports that the cluster has run it", is.Major, is.Minor+1)
}

// leftBehind is the minor version below which no etcd starts on the members' databases any more, as far as they told; 0: none did.
func leftBehind(in *Input) (minor int) {
	for _, m := range in.Before.Members {
		if v, ok := parseVersion(m.StorageVersion); ok && slices.ContainsFunc(in.Identity.Joins, func(j cke.Join) bool { return j.ID == m.Join }) {
			minor = max(minor, v.Minor)
		}
	}
	return minor
}

// runsMinor reports whether a member that answers runs some patch level of a minor version.
func runsMinor(in *Input, minor int) bool {
	return slices.ContainsFunc(in.replies(), func(e cke.EndpointStatus) bool {
		v, ok := parseVersion(e.Version)
		return ok && v.Minor == minor
	})
}

// difference names what differs between two descriptions of a member.
func difference(a, b cke.EtcdOptions) string { return strings.Join(a.Differences(b), ", ") }

// mayRun says why no member may run a version now; "" when one may. etcd bears one minor step up, from the floor of the
// minor before, with every member on the same minor, and the step back while one of them has not taken it: until then the
// cluster's version stays. Source: etcd docs, upgrade guides 3.6 and 3.7, "Rollback".
func mayRun(in *Input, version string) string {
	want, ok := parseVersion(version)
	if !ok {
		return fmt.Sprintf("invalid version %q", version)
	}
	for _, e := range in.replies() {
		has, ok := parseVersion(e.Version)
		switch {
		case !ok:
			return "a member has not reported its version"
		case has.Minor == want.Minor+1 && runsMinor(in, want.Minor):
			// not all have taken the step up
		case has.Minor > want.Minor:
			return fmt.Sprintf("a member runs %s, and none runs 3.%d any more; there is no way back by a restart", e.Version, want.Minor)
		case want.Minor > has.Minor+1:
			return fmt.Sprintf("a member runs %s; upgrades go one minor version at a time", e.Version)
		case want.Minor == has.Minor+1 && has.Compare(cke.UpgradeFloor(has.Minor)) < 0:
			return fmt.Sprintf("a member runs %s; before 3.%d every member must run %s or newer", e.Version, want.Minor, cke.UpgradeFloor(has.Minor))
		}
	}
	return ""
}

// mayJoin says why a new member may not run a version; "" when it may. etcd lets nobody join who is older than the cluster,
// or more than a minor version ahead of it. Source: etcd, etcdserver.isCompatibleWithCluster.
func mayJoin(in *Input, version string) string {
	want, ok := parseVersion(version)
	oldest := ""
	least := want
	for _, e := range in.replies() {
		if has, told := parseVersion(e.Version); told && (oldest == "" || has.Minor < least.Minor) {
			oldest, least = e.Version, has
		}
	}
	switch {
	case !ok || oldest == "" || want.Minor == least.Minor || want.Minor == least.Minor+1:
		return ""
	case want.Minor < least.Minor:
		return fmt.Sprintf("%s is declared, and the members run %s and newer", version, oldest)
	}
	return fmt.Sprintf("%s is declared, and a member runs %s; upgrades go one minor version at a time", version, oldest)
}

func parseVersion(s string) (cke.Version, bool) {
	v, ok := cke.ParseVersion(s)
	return v, ok && v.Major == 3
}
