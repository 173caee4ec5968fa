package cke

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxArchived bounds how many archived volumes are put on record at a time: the store takes all in one transaction. The next
// ones are found, and reclaimed, after these.
const maxArchived = 40

// Reclaim is a set of memberships to record again after the store lost them because it was restored from an older
// copy.
type Reclaim struct {
	// Members are memberships whose member is in the member list, including those on record with another place; Archived
	// those of which only a volume is left, with no container or one that is not started by anything.
	Members  []Join
	Archived []Join
	// Found are the nodes that the containers of Members were found on: their machines may have other addresses by now than those
	// that they are recorded with, where they serve.
	Found map[JoinID]Node
	// Ends are memberships on record whose member has left the list, on the nodes of Members, or that ended according to
	// marks or to the identity beside the backups.
	Ends []Join
	// Apart are memberships on record whose member is in the list, and that ended according to a mark: the operator had
	// put their members aside.
	Apart []Join
}

// IDs returns the memberships to record.
func (r Reclaim) IDs() []JoinID {
	var ids []JoinID
	for _, j := range slices.Concat(r.Members, r.Archived) {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// Changes returns the memberships on record that end or are put aside; never nil.
func (r Reclaim) Changes() []JoinID {
	ids := []JoinID{}
	for _, j := range slices.Concat(r.Ends, r.Apart) {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// Writes returns the memberships as they are stored, at a time.
func (r Reclaim) Writes(now time.Time) []Join {
	all := slices.Clone(r.Members)
	for _, j := range slices.Concat(r.Archived, r.Ends) {
		j.EndedAt = now.UTC()
		all = append(all, j)
	}
	return append(all, r.Apart...)
}

// PlanReclaim derives what was lost from the labels of containers and volumes, from etcd's member list, and from what is known of
// the identity beside the backups. c is the declared cluster with defaults. An error says what cannot be derived from them.
func PlanReclaim(c Cluster, id Identity, seen Observation, b *BackupStatus) (Reclaim, *Error) {
	r := Reclaim{Found: map[JoinID]Node{}}
	member := func(j Join, u Unrecorded) {
		r.Members, r.Found[j.ID] = append(r.Members, j), u.Node
	}
	refuse := func(try, format string, args ...any) (Reclaim, *Error) {
		return Reclaim{}, &Error{Code: CodeOlderStore, What: "cannot reclaim memberships of " + c.Name, Facts: []string{fmt.Sprintf(format, args...)}, Unchanged: true, Try: try}
	}
	inc := id.Incarnation
	if inc != nil && inc.State == Restoring && !id.Started() {
		return refuse("ckecli restore --cancel", "a restore is being prepared, which has to be canceled first")
	}
	if inc == nil || inc.State != Formed {
		return refuse("bring back a newer copy of the store", "the store has no record of a cluster that serves")
	}
	if over := id.IsOver(seen.Nodes); over != nil && id.Freeze.Active() {
		return refuse("bring back a copy of the store from after the restore", "a mark on %s says that a restore replaced incarnation %s, which the store has", over[0].Name(), inc.ID)
	}
	marked := id.EndedByMarks(seen.Nodes)
	members, known := seen.Etcd.list(inc.ClusterID)
	switch {
	case known:
	case len(marked) > 0:
		return refuse("store the newest cluster file: ckecli cluster set --no-wait FILE", "no member list could be read through a quorum, and the membership of %s ended, according to a mark on its node: the members may be on nodes that this cluster file does not name", marked[0].Node.Name())
	default:
		return refuse("ckecli status", "it is unknown which memberships have members: no member list could be read through a quorum. Start stopped members on their nodes with docker start; members that got other certificate authorities after the copy was made answer only with a newer copy of the store")
	}
	found := id.Unrecorded(c.Name, seen.Nodes)
	for _, u := range found {
		if !inc.Life(u.Incarnation) && id.StoreIsOlder(u, seen.Nodes) {
			return refuse("bring back a copy of the store from after the restore", "%s on %s belongs to incarnation %s: a restore replaced incarnation %s, which the store has", u.Name, u.Node.Name(), u.Incarnation, inc.ID)
		}
	}
	found = slices.DeleteFunc(found, func(u Unrecorded) bool { return !inc.Life(u.Incarnation) })
	for _, e := range seen.Etcd.Elsewhere { // those that moved since
		if j, lasts := id.Join(e.Join); lasts && id.Votes(e) {
			u, there := carrying(j, c, seen.Nodes)
			at := slices.IndexFunc(members, func(m Member) bool { return m.ID == e.MemberID })
			if there && at >= 0 {
				member(u.moved(j, c, id, seen, members[at]), u)
			}
		}
	}
	for _, m := range members {
		u, carrier := carrierOf(m, found, seen.Etcd.Elsewhere)
		if carrier && id.names(m) {
			continue // the record of its membership is there
		}
		if carrier {
			j := u.join(c, id, seen, m)
			j.Apart = slices.ContainsFunc(seen.Nodes, func(n NodeStatus) bool { return n.Marks(j.ID) })
			member(j, u)
			found = slices.DeleteFunc(found, func(f Unrecorded) bool { return f.Join == u.Join })
			continue
		}
		if n, silent := silentAt(m, seen.Nodes); silent && !id.names(m) {
			return refuse("bring "+n.Name()+" back first", "%s does not answer, but may carry the membership of member %s", n.Name(), m.ID)
		}
	}
	for _, u := range found {
		if u.Container != nil && !u.Container.Down() {
			return refuse(fmt.Sprintf("on %s, if it carries no member: docker update --restart=no %s && docker stop %s", u.Node.Address, u.Name, u.Name),
				"container %s on %s runs or may be started by its engine, but it is unknown which member it carries", u.Name, u.Node.Name())
		}
	}
	for _, u := range found[:min(len(found), maxArchived)] {
		r.Archived = append(r.Archived, u.join(c, id, seen, Member{}))
	}
	lacks := id.StillLacking(b)
	if i := slices.IndexFunc(lacks, func(l Lacking) bool { return l.Restored }); i >= 0 {
		return refuse("bring back a copy of the store from after the restore", "the identity beside the backups says that a restore replaced incarnation %s, which the store has: it made incarnation %s", inc.ID, lacks[i].ID)
	}
	for _, j := range id.Joins {
		listed := slices.ContainsFunc(members, func(m Member) bool { return m.ID == j.MemberID })
		if Ends(lacks, j.ID) && listed { // an end is recorded once the member has left the list, for good
			return refuse("ckecli cluster evidence", "etcd lists the member of %s, whose membership ended according to the identity beside the backups: a second cluster of this name may serve", j.Node.Name())
		}
		if slices.ContainsFunc(r.Members, func(m Join) bool { return m.ID == j.ID }) {
			continue
		}
		ended := slices.ContainsFunc(marked, func(m Join) bool { return m.ID == j.ID })
		taken := slices.ContainsFunc(r.Members, func(m Join) bool { return m.Node.Address == j.Node.Address })
		switch {
		case taken && listed:
			return refuse("ckecli etcd members", "%s carries two memberships with members", j.Node.Name())
		case ended && listed:
			j.Apart = true
			r.Apart = append(r.Apart, j)
		case taken || ended || Ends(lacks, j.ID):
			r.Ends = append(r.Ends, j)
		}
	}
	if len(r.Ends) > 0 && !(Identity{Incarnation: id.Incarnation, Joins: slices.Concat(r.Members, id.Joins)}).OthersVote(members, r.Changes()...) {
		return refuse("store the newest cluster file: ckecli cluster set --no-wait FILE", "no membership on record would be left whose member votes, and no node of this cluster file carries a member that does")
	}
	return r, nil
}

// names reports whether a membership on record is that of a member.
func (i Identity) names(m Member) bool {
	return slices.ContainsFunc(i.Joins, func(j Join) bool { return j.MemberID != "" && j.MemberID == m.ID })
}

// list is the member list that was read through a quorum of the cluster, also where its members are not on record; false: none was.
func (s EtcdStatus) list(clusterID string) ([]Member, bool) {
	if s.MembersSource == MembersLinearizable {
		return s.Members, true
	}
	for _, e := range s.Elsewhere {
		if e.Source == MembersLinearizable && e.ClusterID == clusterID {
			return e.Members, true
		}
	}
	return nil, false
}

// carrierOf returns the container that carries a member: the one that it answers from, else one that was made for its peer URL.
func carrierOf(m Member, found []Unrecorded, answers []Elsewhere) (Unrecorded, bool) {
	for _, u := range found {
		if slices.ContainsFunc(answers, func(e Elsewhere) bool { return e.Join == u.Join && e.Problem == "" && e.MemberID == m.ID }) {
			return u, true
		}
	}
	var carriers []Unrecorded
	for _, u := range found {
		if u.Container != nil && slices.Contains(m.PeerURLs, u.Container.PeerURL()) {
			carriers = append(carriers, u)
		}
	}
	if len(carriers) > 1 { // the others belong to memberships that ended
		carriers = slices.DeleteFunc(carriers, func(u Unrecorded) bool { return !u.Container.active() })
	}
	if len(carriers) != 1 {
		return Unrecorded{}, false
	}
	return carriers[0], true
}

// carrying returns the container of a membership on record, wherever it is seen.
func carrying(j Join, c Cluster, nodes []NodeStatus) (Unrecorded, bool) {
	for _, n := range nodes {
		if k, there := n.Of(j.ID); there && k.Cluster == c.Name && n.Answered() {
			return Unrecorded{Node: n.Node, Name: k.Name, Incarnation: k.Incarnation, Join: j.ID, Container: &k, Volume: true}, true
		}
	}
	return Unrecorded{}, false
}

// moved is a membership on record at the place that its container was made for.
func (u Unrecorded) moved(j Join, c Cluster, id Identity, seen Observation, m Member) Join {
	now := u.join(c, id, seen, m)
	j.Node, j.ClientPort, j.PeerPort, j.PlainPeers, j.Etcd, j.Bundle, j.MemberID = now.Node, now.ClientPort, now.PeerPort, now.PlainPeers, now.Etcd, cmp.Or(now.Bundle, j.Bundle), m.ID
	return j
}

// silentAt returns the node at a member's peer URL, if it does not answer.
func silentAt(m Member, nodes []NodeStatus) (Node, bool) {
	for _, n := range nodes {
		at := slices.ContainsFunc(m.PeerURLs, func(peer string) bool {
			host, _ := HostPort(peer)
			return host == n.Node.Address
		})
		if at && !n.Answered() {
			return n.Node, true
		}
	}
	return Node{}, false
}

// join is the membership that u carries the labels of; m is its member, or nothing.
func (u Unrecorded) join(c Cluster, id Identity, seen Observation, m Member) Join {
	j := NewJoin(c, u.Node, u.Incarnation)
	j.ID, j.Volume, j.MemberID = u.Join, u.Name, m.ID
	if m.Name != "" {
		j.Member = m.Name
	}
	k := u.Container
	if k == nil {
		return j
	}
	if client, peer := placeOf(k.Place); client != "" {
		host, port := HostPort(client)
		if j.ClientPort = port; m.ID != "" && host != j.Node.Address {
			j.Node.Address, j.Node.Zone = host, "" // it serves there until it is moved to the declared address, of which alone the zone is known
		}
		_, j.PeerPort = HostPort(peer)
		j.PlainPeers = peer != httpsURL(HostPort(peer))
		j.Etcd.ClientPort, j.Etcd.PeerPort = j.ClientPort, j.PeerPort
	}
	j.StartedAt = k.StartedAt
	if m.Name != "" && j.StartedAt.IsZero() {
		j.StartedAt = seen.ObservedAt
	}
	if k.Certificates != nil && id.Authorities.Bundle() != "" {
		j.Bundle = k.Certificates.Bundle()
	}
	j.Etcd = u.options(j, id, seen)
	return j
}

// options are those that the container was made with. Where its digest is that of none that are known they are the declared
// ones with the version and the image that run: it is then restarted with what is declared.
func (u Unrecorded) options(j Join, id Identity, seen Observation) EtcdOptions {
	runs := j.Etcd
	runs.Image = u.Container.Image
	runs.Version = cmp.Or(runs.TaggedVersion(), runs.Version)
	for _, e := range seen.Etcd.Endpoints {
		if e.MemberID == j.MemberID && e.Version != "" {
			runs.Version = e.Version
		}
	}
	known := []EtcdOptions{j.Etcd, runs}
	for _, other := range slices.Concat(id.Joins, id.Ended) {
		known = append(known, other.Etcd.PlacedAs(j.Etcd))
	}
	for _, o := range known {
		if u.Container.Options != "" && u.Container.MadeWith(o) {
			return o
		}
	}
	return runs
}
