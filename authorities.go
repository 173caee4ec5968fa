package cke

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// AuthorityName names one of a cluster's certificate authorities.
type AuthorityName string

// The authorities of a cluster.
const (
	// PeerAuthority signs what members show to each other.
	PeerAuthority AuthorityName = "peer"
	// ServerAuthority signs what members show to clients.
	ServerAuthority AuthorityName = "server"
	// ClientAuthority signs what clients, cke among them, show to members.
	ClientAuthority AuthorityName = "client"
)

// AuthorityNames are all of them.
func AuthorityNames() []AuthorityName {
	return []AuthorityName{PeerAuthority, ServerAuthority, ClientAuthority}
}

// CA is one generation of an authority as it stands on record; its key is sealed elsewhere.
type CA struct {
	// Generation counts from 0.
	Generation int `json:"generation"`
	// Fingerprint is the SHA-256 of its certificate, in hex; empty: not on record, since it was never replaced.
	Fingerprint string    `json:"fingerprint,omitempty"`
	NotAfter    time.Time `json:"notAfter,omitzero"`
}

// AuthoritySecret is the name of the secret that holds a generation of an authority, certificate and key together.
func AuthoritySecret(name AuthorityName, generation int) string {
	if generation == 0 {
		return "pki/" + string(name) + "-ca"
	}
	return fmt.Sprintf("pki/%s-ca.%d", name, generation)
}

// AuthorityPhase is how far the replacement of an authority has come.
type AuthorityPhase string

// Phases, in their order. Nobody distrusts anybody in any of them: who is to be trusted is so before he is needed, and
// until nobody needs him any more.
const (
	// AuthoritySteady: it is not being replaced.
	AuthoritySteady AuthorityPhase = ""
	// AuthorityIntroduced: every member comes to trust the next one beside the present one.
	AuthorityIntroduced AuthorityPhase = "introduce"
	// AuthorityIssues: certificates are issued by the next one, and both are trusted.
	AuthorityIssues AuthorityPhase = "issue"
	// AuthorityWithdrawn: no member is to trust the former one any more.
	AuthorityWithdrawn AuthorityPhase = "withdraw"
)

// Number is which of the three phases it is; 0: none.
func (p AuthorityPhase) Number() int {
	return slices.Index([]AuthorityPhase{AuthoritySteady, AuthorityIntroduced, AuthorityIssues, AuthorityWithdrawn}, p)
}

// AuthorityRecord is one authority of a cluster and what takes its place. The zero value is one that was never replaced.
type AuthorityRecord struct {
	// Current is the one that there was before a replacement, or is after it.
	Current CA `json:"current"`
	// Next takes its place; nil: nothing does.
	Next  *CA            `json:"next,omitempty"`
	Phase AuthorityPhase `json:"phase,omitempty"`
	// Since is when the phase began.
	Since time.Time `json:"since,omitzero"`
	// Task is the one that asked for the last replacement, By who did.
	Task string `json:"task,omitempty"`
	By   string `json:"by,omitempty"`
}

// Signs is the one that issues certificates.
func (r AuthorityRecord) Signs() CA {
	if r.Next != nil && r.Phase != AuthorityIntroduced {
		return *r.Next
	}
	return r.Current
}

// Trusted are those whose certificates are taken.
func (r AuthorityRecord) Trusted() []CA {
	switch {
	case r.Next == nil:
		return []CA{r.Current}
	case r.Phase == AuthorityWithdrawn:
		return []CA{*r.Next}
	}
	return []CA{r.Current, *r.Next}
}

// Kept are all whose keys are kept.
func (r AuthorityRecord) Kept() []CA {
	if r.Next == nil {
		return []CA{r.Current}
	}
	return []CA{r.Current, *r.Next}
}

// Advanced is the record one phase later.
func (r AuthorityRecord) Advanced(at time.Time) AuthorityRecord {
	r.Since = at.UTC()
	switch r.Phase {
	case AuthorityIntroduced:
		r.Phase = AuthorityIssues
	case AuthorityIssues:
		r.Phase = AuthorityWithdrawn
	case AuthorityWithdrawn:
		r.Phase, r.Current, r.Next = AuthoritySteady, *r.Next, nil
	}
	return r
}

// Authorities are those of a cluster. The zero value is a cluster of which none was ever replaced.
type Authorities struct {
	Peer   AuthorityRecord `json:"peer"`
	Server AuthorityRecord `json:"server"`
	Client AuthorityRecord `json:"client"`
}

// Of returns the record of one.
func (a Authorities) Of(name AuthorityName) AuthorityRecord { return *a.of(name) }

// With returns them with another record of one.
func (a Authorities) With(name AuthorityName, r AuthorityRecord) Authorities {
	*a.of(name) = r
	return a
}

func (a *Authorities) of(name AuthorityName) *AuthorityRecord {
	switch name {
	case PeerAuthority:
		return &a.Peer
	case ServerAuthority:
		return &a.Server
	}
	return &a.Client
}

// Recorded reports whether any was ever replaced, or is being so: then all of them are known.
func (a Authorities) Recorded() bool { return a.Peer.Current.Fingerprint != "" }

// Replacing reports whether any is being replaced.
func (a Authorities) Replacing() bool {
	return slices.ContainsFunc(AuthorityNames(), func(n AuthorityName) bool { return a.Of(n).Next != nil })
}

// WaitsForPerson reports whether only a person can say that the phase is over: clients are to trust the next server
// authority before members show certificates of it, and to have certificates of the next client authority before members
// cease to trust the former one.
func (a Authorities) WaitsForPerson(name AuthorityName) bool {
	phase := a.Of(name).Phase
	return name == ServerAuthority && phase == AuthorityIntroduced || name == ClientAuthority && phase == AuthorityIssues
}

// Bundle names what members are to trust, see BundleOf; empty: it was never another than what they were founded with.
//
// A server's certificate is trusted on the client port, too: the gateway for HTTP shows it to its own member.
func (a Authorities) Bundle() string {
	if !a.Recorded() {
		return ""
	}
	var peers, clients []string
	for _, c := range a.Peer.Trusted() {
		peers = append(peers, c.Fingerprint)
	}
	for _, c := range slices.Concat(a.Client.Trusted(), a.Server.Trusted()) {
		clients = append(clients, c.Fingerprint)
	}
	return BundleOf(peers, clients)
}

// BundleOf names a set of authorities by their fingerprints: those that a member trusts on its peer port, and those on its
// client port.
func BundleOf(peers, clients []string) string {
	sorted := func(all []string) string {
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), " ")
	}
	sum := sha256.Sum256([]byte(sorted(peers) + "\n" + sorted(clients)))
	return hex.EncodeToString(sum[:8])
}
