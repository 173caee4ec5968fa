package cke

import (
	"math"
	"slices"
	"strconv"
)

// MemberList is a member list of one incarnation.
type MemberList struct {
	// Incarnation is the one whose list it is, where that does not follow from where it is.
	Incarnation string `json:"incarnation,omitempty"`
	// ClusterID is that of its cluster, where it is one of several.
	ClusterID string        `json:"clusterID,omitempty"`
	Members   []Member      `json:"members,omitempty"`
	Source    MembersSource `json:"source,omitempty"`
	// At is the index of raft that the member had applied at least that reported it.
	At uint64 `json:"at,omitempty"`
}

// Takes returns the newer one of two lists that members reported: of those that no quorum confirmed that of the member which had applied most.
func (l MemberList) Takes(o MemberList) MemberList {
	rank := map[MembersSource]int{MembersLocal: 1, MembersLinearizable: 2}
	if rank[o.Source] > rank[l.Source] || o.Source == MembersLocal && l.Source == o.Source && o.At > l.At {
		l.Members, l.Source, l.At = o.Members, o.Source, o.At
	}
	return l
}

// NewestLists returns those of two lists of which one is the newest, the likeliest one first. A member that reports its own may have been away while
// others joined. Or it has just started, and has applied more than it says.
func NewestLists(seen, remembered MemberList) []MemberList {
	switch {
	case len(remembered.Members) == 0, seen.Source == MembersLinearizable, len(seen.Members) > 0 && remembered.At <= seen.At:
		return []MemberList{seen}
	case len(seen.Members) == 0:
		return []MemberList{remembered}
	}
	return []MemberList{remembered, seen}
}

// List returns the member list of this observation.
func (s EtcdStatus) List() MemberList {
	return MemberList{Members: s.Members, Source: s.MembersSource, At: s.MembersAt}
}

// Takes returns the answers with a member list of one who had applied this index at least, unless the list that they have is as good.
func (s EtcdStatus) Takes(list []Member, source MembersSource, at uint64) EtcdStatus {
	l := s.List().Takes(MemberList{Members: list, Source: source, At: at})
	s.Members, s.MembersSource, s.MembersAt = l.Members, l.Source, l.At
	return s
}

// TakesFormer is Takes for the list of a member that a restore under way replaces, as it answers. Other members of that cluster, and one that is put
// aside, say nothing of it.
func (s EtcdStatus) TakesFormer(f Former, e EndpointStatus, list []Member, source MembersSource) EtcdStatus {
	l := MemberList{Incarnation: f.Join.Incarnation, ClusterID: e.ClusterID, Members: list, Source: source, At: e.RaftApplied}
	switch {
	case f.Join.ID == "" || f.Join.Apart || e.ClusterID == "":
	case f.ClusterID == e.ClusterID:
		s.Former = s.Former.Takes(l)
	case f.ClusterID == "" && (f.ID == "" || f.ID == e.MemberID): // the id of its cluster is not on record
		s.Copied = Gathered(s.Copied, l)
	}
	return s
}

// Gathered returns member lists, one of each cluster, with another one taken into account.
func Gathered(all []MemberList, l MemberList) []MemberList {
	if l.ClusterID == "" || len(l.Members) == 0 {
		return all
	}
	all = slices.Clone(all)
	if at := slices.IndexFunc(all, func(o MemberList) bool { return o.ClusterID == l.ClusterID }); at >= 0 {
		all[at] = all[at].Takes(l)
		return all
	}
	return append(all, l)
}

// OfCluster returns that one of some member lists which is of a cluster; the zero value: none is.
func OfCluster(all []MemberList, clusterID string) MemberList {
	if at := slices.IndexFunc(all, func(l MemberList) bool { return l.ClusterID == clusterID }); at >= 0 {
		return all[at]
	}
	return MemberList{}
}

// IsMemberID reports whether a text is a member id as etcd writes it. Hashes below 2^32 do not occur, and names may be as short.
func IsMemberID(text string) bool {
	id, err := strconv.ParseUint(text, 16, 64)
	return err == nil && id > math.MaxUint32 && strconv.FormatUint(id, 16) == text
}

// MembersIn returns the members of all lists, one after the other.
func MembersIn(lists []MemberList) (all []Member) {
	for _, l := range lists {
		all = append(all, l.Members...)
	}
	return all
}

// WithList returns member lists, one of each cluster, with this one in the place of that of its cluster.
func WithList(all []MemberList, l MemberList) []MemberList {
	return append(slices.DeleteFunc(slices.Clone(all), func(o MemberList) bool { return o.ClusterID == l.ClusterID }), l)
}

// WithoutIndexes returns the answers without the indexes at which member lists were read.
func (s EtcdStatus) WithoutIndexes() EtcdStatus {
	s.MembersAt, s.Former.At, s.Copied = 0, 0, slices.Clone(s.Copied)
	for i := range s.Copied {
		s.Copied[i].At = 0
	}
	return s
}

// ListOf returns the member list of an incarnation that was read last, also if a restore of it was under way then; the zero value: none is known.
func (s Status) ListOf(inc *Incarnation) MemberList {
	l := s.Etcd.Former
	if inc.Life(s.Incarnation) {
		l = s.Etcd.List()
	} else if !inc.Life(l.Incarnation) {
		return MemberList{}
	}
	l.Source = MembersRemembered
	return l
}

// LastList returns the member list of the incarnation that serves until a restore under way has replaced it, as far as a status has it.
func (s Status) LastList(inc *Incarnation) []Member { return s.ListOf(inc.BeforeRestores()).Members }

// others are those of some members that are none of the others.
func others(all, of []Former) []Former {
	return slices.DeleteFunc(all, func(f Former) bool {
		return slices.ContainsFunc(of, func(o Former) bool { return o.ID == f.ID })
	})
}
