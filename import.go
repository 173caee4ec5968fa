package cke

import (
	"fmt"
	"net/url"
	"slices"
	"time"

	"cke/quorum"
)

// Import is where an incarnation comes from that cke did not bootstrap: an etcd that ran before, the old cluster, whose
// members leave one by one once those of cke vote. Which of them are left is observed.
type Import struct {
	// Members are those of the old cluster when it was put on record.
	Members []OldMember `json:"members"`
	// PlainPeers: they speak to their peers without TLS, and so do members of cke until the last of them has left.
	PlainPeers bool `json:"plainPeers,omitempty"`
	// PeerAuthority: generation 0 of the peer authority is that of the old cluster.
	PeerAuthority bool `json:"peerAuthority,omitempty"`
	// KeepOld: no old member leaves before the operator continues the import.
	KeepOld bool `json:"keepOld,omitempty"`
	// Reverting: the members of cke leave instead.
	Reverting bool `json:"reverting,omitempty"`
	// Turned is the id of the request that changed KeepOld or Reverting last.
	Turned string `json:"turned,omitempty"`
	// EndedAt is when the member list had none of the old members any more: the import is over.
	EndedAt time.Time `json:"endedAt,omitzero"`
}

// OldMember is a member of an old cluster.
type OldMember struct {
	ID   string `json:"id"` // etcd's member id in hex; unlike names and addresses it never means another member
	Name string `json:"name"`
	// URL is the client URL at which it answered cke.
	URL string `json:"url"`
}

// In reports whether a member list has the old member.
func (o OldMember) In(list []Member) bool {
	return slices.ContainsFunc(list, func(m Member) bool { return m.ID == o.ID })
}

// ImportSecret is the name of the secret that cke shows old members: PEM of a client certificate, its key, and the
// authorities of their server certificates. Without it they are asked without TLS.
const ImportSecret = "import/client"

// Subjects of TaskImport: the members of cke leave the old cluster again, or replace its members after all.
const (
	ImportRevert   = "revert"
	ImportContinue = "continue"
)

// Importing returns the import that is under way; nil: none is.
func (i *Incarnation) Importing() *Import {
	if i == nil || i.Import == nil || !i.Import.EndedAt.IsZero() {
		return nil
	}
	return i.Import
}

// imported returns the import that an incarnation in place of this one comes from, which is over: what the old cluster handed over is
// still to be replaced.
func (i *Incarnation) imported(now time.Time) *Import {
	if i == nil || i.Import == nil {
		return nil
	}
	from := *i.Import
	if from.EndedAt.IsZero() {
		from.EndedAt = now.UTC()
	}
	return &from
}

// OldListed returns the members of an old cluster that may serve until a restore of this incarnation has replaced them: those of the
// last member list that is known, or all if none is.
func (i *Incarnation) OldListed(list []Member) (may []OldMember) {
	old := i.BeforeRestores().Importing()
	if old == nil {
		return nil
	}
	for _, o := range old.Members {
		if list == nil || o.In(list) {
			may = append(may, o)
		}
	}
	return may
}

// ImportsFirst reports whether an import is under way that was given no member yet: its first one is added as a cluster is
// bootstrapped, because another cluster of this name may serve.
func (i Identity) ImportsFirst() bool {
	return i.Incarnation.Importing() != nil && len(i.Joins)+len(i.Ended) == 0
}

// Of returns the old member that an answer is from: by its id, or by where it was asked.
func (i *Import) Of(e EndpointStatus) (o OldMember, is bool) {
	if i == nil || e.Join != "" {
		return o, false
	}
	at := slices.IndexFunc(i.Members, func(o OldMember) bool { return o.ID == e.MemberID || o.URL == e.URL })
	if at < 0 {
		return o, false
	}
	return i.Members[at], true
}

// Has reports whether a member is one of the old cluster.
func (i *Import) Has(m Member) bool {
	_, has := i.member(m.ID)
	return has
}

// member returns the old member of an id.
func (i *Import) member(id string) (o OldMember, is bool) {
	if i == nil {
		return o, false
	}
	at := slices.IndexFunc(i.Members, func(o OldMember) bool { return o.ID == id })
	if at < 0 {
		return o, false
	}
	return i.Members[at], true
}

// In returns the entries of a member list that are of the old cluster.
func (i *Import) In(list []Member) (old []Member) {
	for _, m := range list {
		if i.Has(m) {
			old = append(old, m)
		}
	}
	return old
}

// URLs are where the old members are asked.
func (i *Import) URLs() (urls []string) {
	if i == nil {
		return nil
	}
	for _, o := range i.Members {
		urls = append(urls, o.URL)
	}
	return urls
}

// Wants returns what is declared while an import is under way: nothing that carries a member once it is being reverted.
func (i *Import) Wants(c Cluster) Cluster {
	if i == nil || !i.Reverting {
		return c
	}
	c.Nodes = slices.Clone(c.Nodes)
	for n := range c.Nodes {
		c.Nodes[n].ControlPlane = false
	}
	return c
}

// Asked returns the client URLs at which cke asks members: those of memberships, then those of an old cluster.
func (i Identity) Asked() (urls []string) {
	for _, j := range i.Joins {
		urls = append(urls, j.ClientURL())
	}
	for _, url := range i.Incarnation.Importing().URLs() {
		if !slices.Contains(urls, url) { // a member of cke is where an old one was
			urls = append(urls, url)
		}
	}
	return urls
}

// StrangerURL returns where a member that no membership names may be probed: where an old member answered, else see
// StrangerURL.
func (i Identity) StrangerURL(m Member) (string, bool) {
	if o, old := i.Incarnation.Importing().member(m.ID); old {
		return o.URL, true
	}
	return StrangerURL(m, i.Joins)
}

// OthersVote is OthersVote for the memberships of a cluster. Old members are asked, too.
func (i Identity) OthersVote(list []Member, without ...JoinID) bool {
	old := slices.ContainsFunc(i.Incarnation.Importing().In(list), func(m Member) bool { return !m.Learner })
	return old || OthersVote(list, i.Joins, without...)
}

// NewImport returns the incarnation of a cluster whose members are those of an old one. Nothing is stored.
func NewImport(c Cluster, clusterID string, i Import, now time.Time) Incarnation {
	now = now.UTC()
	return Incarnation{ID: randomID(), Token: c.Name + "-" + randomHex(16), State: Formed, ClusterID: clusterID, CreatedAt: now, FormedAt: now, Import: &i}
}

// Importable returns why a cluster cannot be imported with this member list onto the control-plane nodes of c; nil: it can.
func Importable(c Cluster, list []Member) *Error {
	refused := func(try, format string, args ...any) *Error {
		return &Error{Code: CodeOldCluster, What: fmt.Sprintf(format, args...), Unchanged: true, Try: try}
	}
	nodes := c.ControlPlane()
	for i, m := range list {
		_, declared := c.Node(m.Name)
		switch {
		case declared, slices.ContainsFunc(list[:i], func(o Member) bool { return o.Name == m.Name }): // --initial-cluster has one name for each
			return refused("rename it: etcd takes another --name at its next start", "another member or a declared node has the name of member %s of the old cluster", m.Name)
		case m.Learner || m.Name == "":
			return refused("remove it, or wait until it is a voter", "member %s of the old cluster is a learner, or was never started", m.ID)
		case len(m.PeerURLs) != 1:
			return refused("etcdctl member update", "member %s of the old cluster has %d peer URLs, and cke supports one", m.Name, len(m.PeerURLs))
		}
		for _, n := range c.Nodes {
			if m.At(n.Address) {
				return refused("declare other nodes; those of the old cluster can be declared once it has left", "member %s of the old cluster is on %s, which is declared", m.Name, n.Name())
			}
		}
	}
	switch old := len(list); {
	case old == 0:
		return refused("", "the old cluster has no members")
	case len(nodes) < old:
		return refused("declare more control-plane nodes, or remove members of the old cluster with etcdctl first",
			"%s declared, and the old cluster has %s: those of cke could not vote without it", Plural(len(nodes), "control-plane node is", "control-plane nodes are"), Count(old, "member"))
	case len(nodes)+old > quorum.MostVoters:
		return refused("declare fewer, or remove members of the old cluster with etcdctl first",
			"%s and %s of the old cluster are more than %d voters", Count(len(nodes), "control-plane node"), Count(old, "member"), quorum.MostVoters)
	}
	return nil
}

// PlainPeers reports whether the members of a list speak to their peers without TLS. ErrConflict: some do.
func PlainPeers(list []Member) (bool, error) {
	plain := 0
	for _, m := range list {
		for _, text := range m.PeerURLs {
			if u, err := url.Parse(text); err == nil && u.Scheme == "http" {
				plain++
				break
			}
		}
	}
	if plain > 0 && plain < len(list) {
		return false, fmt.Errorf("%d of %d members of the old cluster use TLS between peers: %w", len(list)-plain, len(list), ErrConflict)
	}
	return plain > 0, nil
}
