package strategy

import (
	"slices"

	"cke"
)

// listsCopied are those of the clusters that a restore replaces where the cluster was declared to be restored, that of the list on record first.
func (in *Input) listsCopied(recorded cke.MemberList) (lists []cke.MemberList) {
	seen, last := in.copiedSeen(), in.Before.Etcd.Copied
	known := false
	for _, id := range clustersOf(slices.Concat(seen, last, in.outside())) {
		now, was, on := cke.OfCluster(seen, id), in.lastOf(id, cke.OfCluster(last, id)), cke.MemberList{}
		is := haveOne(recorded, now) || haveOne(recorded, was)
		if is {
			on = recorded
		}
		of := newestOf(now, was, on)
		for i := range of {
			of[i].ClusterID = id
		}
		if is {
			lists, known = slices.Concat(of, lists), true
		} else {
			lists = append(lists, of...)
		}
	}
	if !known && (recorded.Members != nil || lists == nil) {
		lists = slices.Concat([]cke.MemberList{recorded}, lists)
	}
	return lists
}

// copiedLists are those that the status keeps, the newest one of each cluster.
func (in *Input) copiedLists() (all []cke.MemberList) {
	if !in.Identity.Incarnation.OnlyCopied() {
		return nil
	}
	lists := in.formerLists()
	if lists == nil {
		lists = in.listsCopied(cke.MemberList{})
	}
	for _, l := range lists {
		if l.ClusterID != "" && cke.OfCluster(all, l.ClusterID).Members == nil {
			all = append(all, l)
		}
	}
	return all
}

// copiedSeen are the member lists of those clusters as they are seen, through the members that the restore stops, also those that are not on record. A
// cluster without a quorum of which only the nodes know the incarnation may be over.
func (in *Input) copiedSeen() []cke.MemberList {
	inc := in.Identity.Incarnation
	all := slices.Clone(in.Seen.Etcd.Copied)
	for _, a := range in.Seen.Etcd.Elsewhere {
		if c, stops := in.stopsAt(a); stops {
			all = cke.Gathered(all, cke.MemberList{Incarnation: c.Incarnation, ClusterID: a.ClusterID, Members: a.Members, Source: a.Source, At: a.RaftApplied})
		}
	}
	return slices.DeleteFunc(all, func(l cke.MemberList) bool {
		return l.ClusterID == inc.ClusterID || l.Source != cke.MembersLinearizable && !inc.BeforeRestores().WasReplaced(l.Incarnation)
	})
}

// stopsAt returns the container of a member that answers where it is not on record, and whether a restore stops it.
func (in *Input) stopsAt(a cke.Elsewhere) (cke.Container, bool) {
	for _, j := range in.Identity.MayRun() {
		if j.ID == a.Join && (j.Apart || j.MemberID != "" && j.MemberID != a.MemberID) {
			return cke.Container{}, false
		}
	}
	for _, n := range in.Seen.Nodes {
		if c, there := n.Of(a.Join); there && c.Place == a.Place {
			return c, in.Identity.OnRecord(c.Incarnation, c.Join)
		}
	}
	return cke.Container{}, false
}

// clustersOf are the ids of the clusters of some lists.
func clustersOf(lists []cke.MemberList) (ids []string) {
	for _, l := range lists {
		if !slices.Contains(ids, l.ClusterID) {
			ids = append(ids, l.ClusterID)
		}
	}
	slices.Sort(ids)
	return ids
}

// haveOne reports whether both lists have a member: they are of one cluster.
func haveOne(a, b cke.MemberList) bool {
	return slices.ContainsFunc(a.Members, func(m cke.Member) bool {
		return slices.ContainsFunc(b.Members, func(o cke.Member) bool { return o.ID == m.ID })
	})
}
