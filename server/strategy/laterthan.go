package strategy

import (
	"fmt"
	"slices"
	"strings"

	"cke"
)

// laterThan: no incarnation on record was formed, and marks show that the store, or what the cluster was declared from, is
// older than a cluster of this name. An operator who names an incarnation of the cluster knows which one it is; the data of
// another cluster says nothing of what may serve.
func laterThan(in *Input, o cke.RestoreOrder) *cke.Error {
	found, own := markedLater(in), o.Source == in.Spec.Name
	if found == nil || own && o.Lineage != "" {
		return nil
	}
	e := &cke.Error{Code: cke.CodeOlderStore, What: "cannot restore: " + found[0].Message, Unchanged: true, Try: "ckecli restore --plan, then with --lineage NAME"}
	for _, p := range found {
		e.Facts = append(e.Facts, p.Node+": it has such a mark")
	}
	if !own {
		e.Try = found[0].Remedy
		return e
	}
	e.Facts = append(e.Facts, "restore with a newer record of the cluster, if there is one; if nothing that came later serves, name the incarnation to restore: --lineage NAME")
	return e
}

// endedSince: memberships that ended according to marks are current ones in the record from which a cluster was declared, and not all
// members that took their place are seen. Those may serve on any nodes, whatever is restored. What this store deleted was stopped, and
// what a quorum of members lists is known.
func endedSince(in *Input, o cke.RestoreOrder) *cke.Error {
	if !in.awaitsRestore() || in.Seen.Etcd.MembersSource == cke.MembersLinearizable {
		return nil
	}
	known := append(slices.Clone(o.Accepted), in.Identity.Deleted...)
	ended := slices.DeleteFunc(in.Identity.EndedByMarks(in.Seen.Nodes), func(j cke.Join) bool { return slices.Contains(known, string(j.ID)) })
	if len(ended) <= len(in.successors(ended)) {
		return nil
	}
	accept := make([]string, len(ended))
	for i, j := range ended {
		accept[i] = "--accept " + string(j.ID)
	}
	return &cke.Error{Code: cke.CodeOlderStore, Unchanged: true,
		What: fmt.Sprintf("cannot restore: the identity from which the cluster was declared is older than the cluster: the membership of %s ended, according to marks on nodes", namesOf(ended)),
		Facts: []string{"members that took their place may serve on nodes that the identity does not name, and would serve beside the restored ones",
			"if there is a newer identity beside other backups of the cluster: ckecli cluster delete, which removes only the declaration, then restore from there",
			"if all that came since is gone for good, add: " + strings.Join(accept, " ")}, Try: "ckecli status"}
}

// successors are memberships that are seen, that the record lacks, and that may have taken the place of some that ended.
func (in *Input) successors(ended []cke.Join) (ids []cke.JoinID) {
	for _, n := range in.Seen.Nodes {
		add := func(owner, life string, id cke.JoinID) {
			same := slices.ContainsFunc(ended, func(j cke.Join) bool { return j.Incarnation == life })
			if n.Answered() && owner == in.Spec.Name && same && !in.Identity.Has(id) && !n.Marks(id) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		for _, c := range n.Containers {
			add(c.Cluster, c.Incarnation, c.Join)
		}
		for _, v := range n.Volumes {
			add(v.Cluster, v.Incarnation, v.Join)
		}
	}
	return ids
}
