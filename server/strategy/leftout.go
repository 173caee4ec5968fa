package strategy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"cke"
	"cke/op"
	"cke/quorum"
)

// ballot is who votes in one incarnation of the cluster, as far as its newest member list reports.
type ballot struct {
	// voters is how many voters that list has.
	voters int
	// sure are voters that may continue; maybe are those that may continue of which that list does not say that they vote: learners, which may
	// have been promoted since, and members that it does not have.
	sure, maybe []string
	// changing: nobody says that the list is the newest, so that a voter may have been removed since.
	changing bool
	// strangers are those of them that no membership names.
	strangers []cke.Member
}

// of returns of how many voters those that may continue could be a quorum; 0: of none.
func (b ballot) of() int { return quorum.Could(b.voters, len(b.sure), len(b.maybe), b.changing) }

// out are all that may continue.
func (b ballot) out() []string { return slices.Concat(b.sure, b.maybe) }

// count takes a member into account.
func (b *ballot) count(name string, votes, goesOn bool) {
	if votes {
		b.voters++
	}
	switch {
	case goesOn && votes:
		b.sure = append(b.sure, name)
	case goesOn:
		b.maybe = append(b.maybe, name)
	}
}

// couldServe: members that may continue must not have a quorum among themselves. A node that is left out counts also while
// it answers: it may be cut off before its member is stopped. So does one that is named as destroyed while it answers and runs a member.
func couldServe(in *Input, o cke.RestoreOrder) *cke.Error {
	for _, b := range in.ballots(o) {
		n := b.of()
		if n == 0 {
			continue
		}
		e := &cke.Error{Code: cke.CodeFence, What: "cannot restore: the nodes left out could still form a quorum of the cluster as it was",
			Facts: []string{fmt.Sprintf("%s may still run, and could be %d of %d members; %d are a quorum", and(b.out()), min(len(b.out()), n), n, quorum.Of(n)),
				"name a machine that is switched off or wiped for good with --destroyed NODE"}}
		var names []string
		for _, m := range b.strangers {
			names = append(names, in.nameable(o, m))
		}
		if names != nil {
			e.Facts = append(e.Facts, "members that no membership of cke names, if they are gone for good: "+flags(names))
		}
		for _, s := range in.Seen.Nodes {
			if slices.Contains(o.Destroyed, s.Node.Name()) && in.stillRuns(s) {
				e.Facts = append(e.Facts, fmt.Sprintf("%s was named as destroyed, answers and runs a member: stop its container or switch the machine off", s.Node.Name()))
			}
		}
		if o.Survivor != "" {
			e.What = "cannot recover: members that cannot be reached could be serving the cluster"
			e.Facts = append(e.Facts, "a member that runs and does not answer cke may serve clients: let this management host reach its client port, see `ckecli status`")
		}
		return e
	}
	return nil
}

// servesUnseen: a recovery is for a cluster that has lost its quorum. A member that runs and does not answer this host may answer
// its clients.
func (in *Input) servesUnseen(j cke.Join, o cke.RestoreOrder) bool {
	return !in.Seen.Etcd.Quorate && !slices.Contains(o.Destroyed, j.Node.Name()) && !in.silent(j) && !down(in, j)
}

// ballots are those of all incarnations that may still run.
func (in *Input) ballots(o cke.RestoreOrder) (all []ballot) {
	mayGoOn := func(n cke.Node) bool {
		s := in.node(n)
		if slices.Contains(o.Destroyed, n.Name()) {
			return in.stillRuns(s)
		}
		return !s.Answered() || slices.Contains(o.Without, n.Name())
	}
	lives := map[string][]cke.Join{}
	for _, j := range in.Identity.MayRun() {
		lives[j.Incarnation] = append(lives[j.Incarnation], j)
	}
	if len(lives) == 0 {
		return []ballot{unknownBallot(in, mayGoOn)}
	}
	goesOn := func(j cke.Join) bool { return mayGoOn(j.Node) || o.Survivor != "" && in.servesUnseen(j, o) }
	strangerGoesOn := func(m cke.Member) bool {
		n, seen := in.stopped(m)
		return !in.gone(o, m.ID) && (!seen || mayGoOn(n))
	}
	for _, life := range slices.Sorted(maps.Keys(lives)) {
		lists := in.listsOf(life)
		for _, l := range lists {
			all = append(all, in.ballot(l, lives[life], goesOn, strangerGoesOn))
		}
		if lists[0].Members != nil && in.copied(life) { // the record or the list may be the newer one
			all = append(all, in.ballot(cke.MemberList{}, lives[life], goesOn, strangerGoesOn))
		}
		ended := func(j cke.Join) bool { // one that is put aside is marked, too, and votes until it is replaced, which a copy may not know
			marked := slices.ContainsFunc(in.Seen.Nodes, func(n cke.NodeStatus) bool { return n.Answered() && n.Marks(j.ID) })
			return cke.Ends(in.Identity.StillLacking(in.Backup), j.ID) || marked && (!j.Apart || in.copied(life))
		}
		if left := slices.DeleteFunc(slices.Clone(lives[life]), ended); len(left) < len(lives[life]) { // they vote no more
			all = append(all, in.ballot(cke.MemberList{}, left, goesOn, strangerGoesOn))
		}
	}
	return all
}

// ballot is that of the memberships of an incarnation, by its member list, and of the voters that no membership names.
func (in *Input) ballot(l cke.MemberList, joins []cke.Join, goesOn func(cke.Join) bool, strangerGoesOn func(cke.Member) bool) ballot {
	b, list := ballot{changing: l.Source != cke.MembersLinearizable}, l.Members
	for _, j := range joins {
		if votes := in.votesBy(list, j); votes || !j.StartedAt.IsZero() {
			b.count(j.Node.Name(), votes, goesOn(j))
		}
	}
	for _, m := range list {
		ours := slices.ContainsFunc(joins, func(j cke.Join) bool { return in.is(m, j) })
		if ours || in.onceOurs(m) {
			continue
		}
		goes := strangerGoesOn(m)
		if b.count(in.shown(m), !m.Learner, goes); goes {
			b.strangers = append(b.strangers, m)
		}
	}
	return b
}

// stopped returns the node of a member that no membership names and whose container a restore stops: it is of a replaced incarnation, or of
// any where the cluster was declared to be restored, and was made for that node. On another one it is that of a copied disk. One that does not run is
// only there for that if nothing has its peer port: an operator may have added a member of their own at its URLs.
func (in *Input) stopped(m cke.Member) (cke.Node, bool) {
	for _, n := range in.Seen.Nodes {
		for _, c := range n.Containers {
			ours := c.Cluster == in.Spec.Name && (in.awaitsRestore() || in.Identity.Incarnation.WasReplaced(c.Incarnation)) && !in.Identity.Has(c.Join)
			peer := c.PeerURL()
			runs := c.Running() || n.PeerPort == cke.PortClosed
			if host, _ := cke.HostPort(peer); n.Answered() && ours && runs && host == n.Node.Address && slices.Contains(m.PeerURLs, peer) {
				return n.Node, true
			}
		}
	}
	return cke.Node{}, false
}

// votesBy reports whether a membership votes by a member list. Without one all do that were started.
func (in *Input) votesBy(list []cke.Member, j cke.Join) bool {
	if list == nil {
		return !j.StartedAt.IsZero()
	}
	return in.hasVoter(list, j)
}

// hasVoter reports whether a member list has the membership as a voter.
func (in *Input) hasVoter(list []cke.Member, j cke.Join) bool {
	return slices.ContainsFunc(list, func(m cke.Member) bool { return in.is(m, j) && !m.Learner })
}

// listsOf are the member lists of an incarnation of which one is the newest that is known, the likeliest one first. There is at least one, which is
// empty where none is known.
func (in *Input) listsOf(life string) []cke.MemberList {
	copied := in.copied(life)
	switch last := in.lastLists(); {
	case in.Identity.Incarnation.Life(life):
		return last
	case in.awaitsRestore() && copied && in.lists(last[0].Members, life):
		return last[:1]
	}
	for i := in.Identity.Incarnation; i != nil && i.Restore != nil; i = i.Restore.Before {
		switch b := i.Restore.Before; {
		case b.Life(life):
			return in.listsBefore(i)
		case copied && b != nil && b.State == cke.Awaiting:
			of := slices.DeleteFunc(in.listsBefore(i), func(l cke.MemberList) bool { return !in.lists(l.Members, life) })
			if len(of) > 0 {
				return of
			}
		}
	}
	return []cke.MemberList{{}}
}

// listsBefore are those of the incarnation that a restore replaces. It may serve until then, and the list that is on record may be outdated.
func (in *Input) listsBefore(i *cke.Incarnation) []cke.MemberList {
	recorded := cke.MemberList{Members: i.Restore.Members, Source: cke.MembersRemembered, At: i.Restore.MembersAt}
	b := i.Restore.Before
	switch inc := in.Identity.Incarnation; {
	case inc.State != cke.Restoring || b == nil || !inc.BeforeRestores().Life(b.ID):
		return []cke.MemberList{recorded}
	case b.State == cke.Awaiting:
		return in.listsCopied(recorded)
	}
	return newestOf(in.Seen.Etcd.Former, in.lastOf(b.ClusterID, in.Before.ListOf(b)), recorded)
}

// outside are the member lists by which restores under way stopped no member.
func (in *Input) outside() (all []cke.MemberList) {
	for i := in.Identity.Incarnation; i != nil && i.State == cke.Restoring && i.Restore != nil; i = i.Restore.Before {
		all = append(all, i.Restore.Outside...)
	}
	return all
}

// lastOf is the list of a cluster that was read last, as the last status has it, or a restore under way.
func (in *Input) lastOf(clusterID string, last cke.MemberList) cke.MemberList {
	for _, l := range in.outside() {
		if l.ClusterID == clusterID && clusterID != "" && (len(last.Members) == 0 || l.At > last.At) {
			last = l
		}
	}
	last.Source = cke.MembersRemembered
	return last
}

// newestOf are those of three lists of one cluster of which one is the newest: as it is seen, as the last status has it, and as a restore has it on
// record.
func newestOf(seen, last, recorded cke.MemberList) []cke.MemberList {
	newest := recorded
	if len(last.Members) > 0 && last.At >= recorded.At { // else the status was stored before the record
		newest = last
	}
	lists := cke.NewestLists(seen, newest)
	outranked := !reflect.DeepEqual(lists[0].Members, recorded.Members) && lists[0].Source != cke.MembersLinearizable
	if outranked && recorded.Members != nil && recorded.At == 0 { // an earlier cke recorded it: it may be the newest
		lists = append(lists, recorded)
	}
	return lists
}

// readSince are the member lists of what a restore under way replaces that differ from the one on record, against which its order was judged.
func (in *Input) readSince() []cke.MemberList {
	recorded := in.Identity.Incarnation.Restore.Members
	return slices.DeleteFunc(in.formerLists(), func(l cke.MemberList) bool { return l.Members == nil || reflect.DeepEqual(l.Members, recorded) })
}

// readBeside reports whether there is one that a restore under way does not know, and by which members that it leaves running could be a quorum.
func (in *Input) readBeside(r op.Restore) bool {
	if i := in.Identity.Incarnation; i == nil || i.State != cke.Restoring || in.Identity.Started() || in.Seen.Partial {
		return false
	}
	return slices.ContainsFunc(in.readSince(), func(l cke.MemberList) bool {
		known := slices.ContainsFunc(r.Known, func(k cke.MemberList) bool { return reflect.DeepEqual(k.Members, l.Members) })
		return !known && r.LeavesQuorum(in.Identity, l) != nil
	})
}

// formerLists are those of the incarnation that continues if the restores under way are canceled; nil: there is none, or it was only declared.
func (in *Input) formerLists() []cke.MemberList {
	for i := in.Identity.Incarnation; i != nil && i.State == cke.Restoring && i.Restore != nil && i.Restore.Before != nil; i = i.Restore.Before {
		if i.Restore.Before.State != cke.Restoring {
			return in.listsBefore(i)
		}
	}
	return nil
}

// copied reports whether only a copy of the record names an incarnation: the cluster was declared to be restored, and has
// another id since.
func (in *Input) copied(life string) bool {
	inc := in.Identity.Incarnation
	return inc.OnlyCopied() && inc.BeforeRestores().WasReplaced(life)
}

// lists reports whether a member list may be that of an incarnation: it names no member of another one alone.
func (in *Input) lists(list []cke.Member, life string) bool {
	other := false
	for _, j := range in.Identity.MayRun() {
		switch named := slices.ContainsFunc(list, func(m cke.Member) bool { return in.is(m, j) }); {
		case named && j.Incarnation == life:
			return true
		case named:
			other = true
		}
	}
	return !other
}

// unknownBallot is that of a cluster of which this store knows no incarnation: a management host before may have had one, on
// the declared nodes.
func unknownBallot(in *Input, mayGoOn func(cke.Node) bool) (b ballot) {
	for _, n := range in.Spec.ControlPlane() {
		b.count(n.Name(), true, mayGoOn(n))
	}
	return b
}

// allListed are the members by the newest lists of all incarnations that may still run.
func (in *Input) allListed() []cke.Member {
	lists := in.lastLists()
	for _, j := range in.Identity.Superseded() {
		lists = slices.Concat(lists, in.listsOf(j.Incarnation))
	}
	return cke.MembersIn(lists)
}

// lastList is the newest member list of this incarnation that any member reported; nil: none is known.
func (in *Input) lastList() []cke.Member { return in.lastLists()[0].Members }

// lastLists are the member lists of this incarnation of which one is the newest, the likeliest one first, see cke.NewestLists.
func (in *Input) lastLists() []cke.MemberList {
	return cke.NewestLists(in.Seen.Etcd.List(), in.Before.ListOf(in.Identity.Incarnation))
}
