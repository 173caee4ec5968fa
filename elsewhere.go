package cke

import (
	"slices"

	"cke/quorum"
)

// maxElsewhere bounds how many members are asked in one look at places that are not on record.
const maxElsewhere = 2 * quorum.MostVoters

// Elsewhere is what answers at the place that a container was made for, if no current membership is on record for the
// container at that place.
type Elsewhere struct {
	// EndpointStatus is that of the place's client URL; Join is the container's label.
	EndpointStatus
	Place string `json:"place"`
	// Members is the list that was returned there, Source how far it can be trusted.
	Members []Member      `json:"members,omitempty"`
	Source  MembersSource `json:"source,omitempty"`
}

// ToAskElsewhere returns what to ask: the cluster's containers that run where they are not on record. joins are the
// current memberships. A label is not asked on another machine than its container's.
func ToAskElsewhere(cluster string, nodes []NodeStatus, joins []Join) []Elsewhere {
	var all []Elsewhere
	for _, n := range nodes {
		for _, c := range n.Containers {
			onRecord := slices.ContainsFunc(joins, func(j Join) bool { return j.ID == c.Join && c.StandsAt(j) })
			client, _ := placeOf(c.Place)
			host, _ := HostPort(client)
			if !n.Answered() || c.Cluster != cluster || c.State != ContainerRunning || onRecord || client == "" || host != n.Node.Address || len(all) >= maxElsewhere {
				continue
			}
			all = append(all, Elsewhere{EndpointStatus: EndpointStatus{Join: c.Join, URL: client}, Place: c.Place})
		}
	}
	return all
}

// Votes reports whether e is the answer of a voter that its own list has at the container's place, while no
// membership on record names it there: the record is older. A change of place is recorded after the list has it and
// before its container is made.
// Without a quorum the answer counts only for a current membership: a removed member may not know of its removal.
func (i Identity) Votes(e Elsewhere) bool {
	inc := i.Incarnation
	if inc == nil || inc.ClusterID == "" || e.Problem != "" || e.ClusterID != inc.ClusterID || e.MemberID == "" {
		return false
	}
	at := slices.IndexFunc(e.Members, func(m Member) bool { return m.ID == e.MemberID })
	_, peer := placeOf(e.Place)
	if at < 0 || peer == "" || !slices.Contains(e.Members[at].PeerURLs, peer) {
		return false
	}
	for _, j := range i.Joins {
		if j.MemberID == e.MemberID || j.MemberID == "" && j.PeerURL() == peer {
			return j.ID == e.Join && j.PeerURL() != peer
		}
	}
	// One that was put aside has a list of its own: that it serves without the others shows nothing about the record. So has one that ended in
	// this incarnation and lists no member on record: it continued alone. No such membership becomes current again.
	listed := slices.ContainsFunc(i.Joins, func(j Join) bool {
		return slices.ContainsFunc(e.Members, func(m Member) bool { return m.ID == j.MemberID })
	})
	alone := slices.ContainsFunc(i.Ended, func(j Join) bool { return j.ID == e.Join && (j.Apart || inc.Life(j.Incarnation) && !listed) })
	return e.Source == MembersLinearizable && !alone
}

// AskForLeft returns the client URL of the member in a container that was made for a machine with this address; "":
// it does not run, it has no label of its place, or a membership on record is reached there.
func (i Identity) AskForLeft(c Container, address string) string {
	client, _ := placeOf(c.Place)
	if host, _ := HostPort(client); c.State != ContainerRunning || host != address {
		return ""
	}
	if slices.ContainsFunc(i.Joins, func(j Join) bool { return j.ClientURL() == client }) {
		return ""
	}
	return client
}

// LeftAnswers reports whether e, the answer at the URL of AskForLeft, is that of a member of another cluster than the
// current one.
func (i Identity) LeftAnswers(e EndpointStatus) bool {
	return e.Problem == "" && e.MemberID != "" && e.ClusterID != "" && (i.Incarnation == nil || e.ClusterID != i.Incarnation.ClusterID)
}

// VotesElsewhere reports whether any member votes where it is not on record.
func (i Identity) VotesElsewhere(s EtcdStatus) bool { return slices.ContainsFunc(s.Elsewhere, i.Votes) }
