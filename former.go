package cke

import (
	"cmp"
	"slices"
)

// Former is a member of a cluster that a restore replaces, as it is asked before a restored member is started: one of a membership, of an old
// cluster, or a foreign one.
type Former struct {
	// Name is what an order means it by: its node's or, without a membership, its own.
	Name string
	// Join is its membership; its zero value: it has none, so no restore stops it.
	Join Join
	// URL is where it is asked.
	URL string
	// ID is etcd's member id in hex, "": unknown; ClusterID is that of its cluster, "": unknown.
	ID        string
	ClusterID string
	// Others are the ids of members of other memberships that are on record at its URL.
	Others []string
}

// Answers reports whether an answer at the member's URL may be its own, or of another one of its cluster that is not on record: not of
// another membership there, which is asked as well, nor of the cluster with the id next. "": none may answer there.
func (f Former) Answers(e EndpointStatus, next string) bool {
	if e.ClusterID == "" || e.ClusterID == next || slices.Contains(f.Others, e.MemberID) {
		return false
	}
	return f.Join.ID != "" || e.MemberID == f.ID || e.ClusterID == f.ClusterID
}

// Former returns the member of a membership as it is asked.
func (i Identity) Former(j Join) Former {
	return i.former(Former{Name: j.Node.Name(), Join: j, URL: j.ClientURL(), ID: j.MemberID})
}

func (i Identity) former(f Former) Former {
	if inc := i.Incarnation.BeforeRestores(); inc != nil {
		f.ClusterID = inc.ClusterID
	}
	for _, j := range i.MayRun() {
		if j.ID != f.Join.ID && j.MemberID != "" && j.MemberID != f.ID && j.ClientURL() == f.URL {
			f.Others = append(f.Others, j.MemberID)
		}
	}
	return f
}

// Unstopped returns the members that no restore stops, because no membership names them: those of an old cluster, and the foreign ones that
// a member list has, or those of the restores under way. One whose URL nothing reports cannot be asked.
func (i Identity) Unstopped(list []Member) (all []Former) {
	was, joins := list, i.Joins
	for inc := i.Incarnation; inc != nil && inc.State == Restoring && inc.Restore != nil; inc = inc.Restore.Before {
		was, joins = inc.Restore.Members, i.Superseded()
		list = slices.Concat(list, was)
	}
	for _, o := range i.Incarnation.OldListed(was) {
		all = append(all, i.former(Former{Name: o.Name, URL: o.URL, ID: o.ID}))
	}
	for _, m := range list {
		url, known := StrangerURL(m, joins)
		named := slices.ContainsFunc(all, func(f Former) bool { return f.ID == m.ID }) || slices.ContainsFunc(i.MayRun(), func(j Join) bool { return i.Certainly(m, j) })
		if known && !named {
			all = append(all, i.former(Former{Name: cmp.Or(m.Name, m.ID), URL: url, ID: m.ID}))
		}
	}
	return all
}

// Certainly reports whether a listed member is that of a membership. At the peer URL of one whose member id is not known a voter may be foreign,
// unless the cluster was never formed.
func (i Identity) Certainly(m Member, j Join) bool {
	return m.Of(j) && (j.MemberID != "" || m.Learner || i.Incarnation == nil || i.Incarnation.State != Formed)
}

// AskedBeside returns the members that are asked while a restore is under way, beside those of Asked: of their nodes only etcd may answer.
func (i Identity) AskedBeside() (all []Former) {
	if i.Incarnation == nil || i.Incarnation.State != Restoring {
		return nil
	}
	for _, j := range i.Superseded() {
		all = append(all, i.Former(j))
	}
	return append(all, i.Unstopped(nil)...)
}

// AskedUnlisted returns the members that no restore stops and that are asked as long as no member list is read through a quorum, by the one that
// was read last: they may serve alone. Those of Asked, and of AskedBeside, are left out.
func (i Identity) AskedUnlisted(last []Member) []Former {
	if i.Incarnation == nil {
		return nil
	}
	all := i.Unstopped(last)
	if i.Incarnation.State == Restoring { // the restored members may be asked at the same URLs
		all = others(all, i.Unstopped(nil))
	} else {
		asked := i.Asked()
		all = slices.DeleteFunc(all, func(f Former) bool { return slices.Contains(asked, f.URL) })
	}
	return all[:min(len(all), MaxStrangers)]
}

// NotAsked returns those of AskedUnlisted that are to be asked beside what has answered. By an older list another member may be at the URL of one.
func (s EtcdStatus) NotAsked(unlisted []Former) []Former {
	if s.MembersSource == MembersLinearizable {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(unlisted), func(f Former) bool {
		return slices.ContainsFunc(s.Endpoints, func(e EndpointStatus) bool { return e.URL == f.URL && e.MemberID == f.ID })
	})
}
