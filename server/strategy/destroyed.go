package strategy

import (
	"cmp"
	"fmt"
	"slices"

	"cke"
)

// deletion is a requested deletion as an order: what it calls destroyed.
func (in *Input) deletion() cke.RestoreOrder {
	return cke.RestoreOrder{Destroyed: in.Destroyed, DestroyedIDs: in.DestroyedIDs}
}

// DestroyedIDs are the ids of the listed members that some names mean as an operator gives them.
func DestroyedIDs(in Input, names []string) (ids []string) {
	o, listed := cke.RestoreOrder{Destroyed: names}, in.named()
	for _, m := range listed {
		if !slices.Contains(ids, m.ID) && in.called(o, m.ID, listed) != "" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// Listed reports whether a listed member has this name or id, or may have the id in a list that only another foreign member has.
func Listed(in Input, name string) bool {
	return in.foreignID(name) || slices.ContainsFunc(in.named(), func(m cke.Member) bool { return m.Name == name || m.ID == name })
}

// foreignID reports whether a name can only be the id of a foreign member.
func (in *Input) foreignID(name string) bool {
	ours := slices.ContainsFunc(slices.Concat(in.Identity.Joins, in.Identity.Ended), func(j cke.Join) bool { return j.MemberID == name })
	return cke.IsMemberID(name) && !ours && !in.namesNode(name)
}

// Ambiguous is the refusal of names that several listed members have; nil: there is no such name.
func Ambiguous(in Input, o cke.RestoreOrder) *cke.Error { return ambiguous(&in, o) }

func ambiguous(in *Input, o cke.RestoreOrder) *cke.Error {
	listed := in.named()
	for _, name := range o.Destroyed {
		if in.namesNode(name) || len(idsNamed(cke.RestoreOrder{DestroyedIDs: o.DestroyedIDs}, name, listed)) == 1 {
			continue
		}
		ids := idsNamed(cke.RestoreOrder{}, name, listed)
		if len(ids) < 2 || slices.ContainsFunc(listed, func(m cke.Member) bool { return m.ID == name }) {
			continue
		}
		return &cke.Error{Code: cke.CodeConfig, Unchanged: true, Try: "etcdctl member list",
			What:  fmt.Sprintf("%d members are called %s, and it is not certain which of them is gone", len(ids), name),
			Facts: []string{"only if its machine is switched off or wiped for good: " + flags(ids)}}
	}
	return nil
}

// flags names members, or nodes, as destroyed.
func flags(names []string) (flags string) {
	for i, name := range names {
		if i > 0 {
			flags += " "
		}
		flags += "--destroyed " + name
	}
	return flags
}

// calledDestroyed is the name by which an order calls a member destroyed; "": it does not. The name of a declared node or of a membership means the
// member of that membership only. Another member is named by its id, or by a name that no other one has; if the order has ids, by none that another
// member had then.
func (in *Input) calledDestroyed(o cke.RestoreOrder, id string) string {
	return in.called(o, id, in.named())
}

func (in *Input) called(o cke.RestoreOrder, id string, listed []cke.Member) string {
	same := func(m cke.Member) bool { return m.ID == id }
	byID := slices.Contains(o.Destroyed, id)
	for _, j := range in.Identity.MayRun() {
		at := slices.ContainsFunc(listed, func(m cke.Member) bool { return same(m) && in.is(m, j) })
		if j.MemberID != "" && j.MemberID == id || at && !byID {
			return in.Identity.NameIn(o.Destroyed, j)
		}
	}
	if byID {
		return id
	}
	for _, m := range listed {
		named := same(m) && m.Name != "" && slices.Contains(o.Destroyed, m.Name) && !in.namesNode(m.Name)
		if ids := idsNamed(o, m.Name, listed); named && len(ids) == 1 && ids[0] == id {
			return m.Name
		}
	}
	return ""
}

// idsNamed are the ids of the members of a list that have a name, of those that an order has if it has any.
func idsNamed(o cke.RestoreOrder, name string, listed []cke.Member) (ids []string) {
	for _, m := range listed {
		if m.Name == name && !slices.Contains(ids, m.ID) && (len(o.DestroyedIDs) == 0 || slices.Contains(o.DestroyedIDs, m.ID)) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// namesNode reports whether a name is that of a declared node or of a membership.
func (in *Input) namesNode(name string) bool {
	_, declared := in.Spec.Node(name)
	return declared || slices.ContainsFunc(in.Identity.MayRun(), func(j cke.Join) bool { return in.Identity.NameIn([]string{name}, j) != "" })
}

// named are the members that names may mean: by the lists of all incarnations that may run, and those of an old cluster as they were put on record.
func (in *Input) named() []cke.Member {
	return slices.Concat(in.allListed(), cke.MembersIn(in.formerLists()), in.oldNamed())
}

func (in *Input) oldNamed() (all []cke.Member) {
	for _, o := range in.oldMembers() {
		all = append(all, cke.Member{ID: o.ID, Name: o.Name})
	}
	return all
}

// nameable is the name of a member that can be used to call it destroyed, beside what an order has already: its own, or its id.
func (in *Input) nameable(o cke.RestoreOrder, m cke.Member) string {
	if m.Name == "" || slices.Contains(o.Destroyed, m.Name) || in.namesNode(m.Name) || len(idsNamed(cke.RestoreOrder{}, m.Name, in.named())) > 1 {
		return m.ID
	}
	return m.Name
}

// shown is what a member that no membership names is called in messages.
func (in *Input) shown(m cke.Member) string {
	if as := in.nameable(cke.RestoreOrder{}, m); as != nameOf(m) {
		return fmt.Sprintf("%s (%s)", nameOf(m), as)
	}
	return nameOf(m)
}

// recorded is an order that a restore under way has, or what is believed of it. One of an earlier ckecli has no ids: it means the members that had
// these names in the list that is on record with it, if there is one.
func (in *Input) recorded(rest *cke.Restoration, o cke.RestoreOrder) cke.RestoreOrder {
	if len(o.DestroyedIDs) > 0 || len(o.Destroyed) == 0 || len(rest.Members) == 0 {
		return o
	}
	o.DestroyedIDs = []string{""} // no member has this id
	of, listed := cke.RestoreOrder{Destroyed: rest.Order.Destroyed}, slices.Concat(rest.Members, in.oldNamed())
	for _, m := range listed {
		if in.called(of, m.ID, listed) != "" {
			o.DestroyedIDs = append(o.DestroyedIDs, m.ID)
		}
	}
	return o
}

// calls are the ids of the listed members that the order of a restore under way calls destroyed, and the names by which it does.
func (in *Input) calls(rest *cke.Restoration) (names map[string]string) {
	o, listed := in.recorded(rest, rest.Order), append(in.named(), rest.Members...)
	for _, m := range listed {
		if name := in.called(o, m.ID, listed); name != "" {
			if names == nil {
				names = map[string]string{}
			}
			names[m.ID] = cmp.Or(names[m.ID], name)
		}
	}
	return names
}

// excused are the ids of the members that are not certainly of a membership, and that a deletion calls destroyed: by its id one that may be, and one of
// which only another foreign member knows.
func (in *Input) excused() (ids []string) {
	o, listed := in.deletion(), in.named()
	for _, m := range listed {
		name := in.called(o, m.ID, listed)
		ours := slices.ContainsFunc(in.Identity.MayRun(), func(j cke.Join) bool { return in.Identity.Certainly(m, j) || name != m.ID && in.is(m, j) })
		if !ours && !slices.Contains(ids, m.ID) && name != "" {
			ids = append(ids, m.ID)
		}
	}
	for _, name := range o.Destroyed {
		if listed := slices.ContainsFunc(listed, func(m cke.Member) bool { return m.ID == name }); !listed && in.foreignID(name) {
			ids = append(ids, name)
		}
	}
	return ids
}

// flagsOf names members of an old cluster as destroyed, beside what an order has already.
func (in *Input) flagsOf(o cke.RestoreOrder, old []cke.OldMember) string {
	var names []string
	for _, m := range old {
		names = append(names, in.nameable(o, cke.Member{ID: m.ID, Name: m.Name}))
	}
	return flags(names)
}
