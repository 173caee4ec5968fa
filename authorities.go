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

// AuthorityNames returns all of them.
func AuthorityNames() []AuthorityName {
	return []AuthorityName{PeerAuthority, ServerAuthority, ClientAuthority}
}

// CA is one recorded generation of an authority; its key is sealed elsewhere.
type CA struct {
	// Generation counts from 0.
	Generation int `json:"generation"`
	// Fingerprint is the SHA-256 of its certificate, in hex; empty: not recorded, because it was never replaced.
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

// AuthorityPhase is the progress of the replacement of an authority.
type AuthorityPhase string

// Phases, in their order. No phase breaks trust: an authority is trusted before the first certificate of it is used,
// and until the last one is gone.
const (
	// AuthoritySteady: it is not being replaced.
	AuthoritySteady AuthorityPhase = ""
	// AuthorityIntroduced: every member comes to trust the next one in addition to the current one.
	AuthorityIntroduced AuthorityPhase = "introduce"
	// AuthorityIssues: certificates are issued by the next one, and both are trusted.
	AuthorityIssues AuthorityPhase = "issue"
	// AuthorityWithdrawn: members stop trusting the former one.
	AuthorityWithdrawn AuthorityPhase = "withdraw"
)

// Number returns which of the three phases it is; 0: none.
func (p AuthorityPhase) Number() int {
	return slices.Index([]AuthorityPhase{AuthoritySteady, AuthorityIntroduced, AuthorityIssues, AuthorityWithdrawn}, p)
}

// AuthorityRecord is one authority of a cluster and what takes its place. The zero value is one that was never replaced.
type AuthorityRecord struct {
	// Current is the one in use before a replacement, and again after it.
	Current CA `json:"current"`
	// Next replaces it; nil: no replacement is under way.
	Next  *CA            `json:"next,omitempty"`
	Phase AuthorityPhase `json:"phase,omitempty"`
	// Since is when the phase started.
	Since time.Time `json:"since,omitzero"`
	// Task is the id of the task that requested the last replacement, By its user.
	Task string `json:"task,omitempty"`
	By   string `json:"by,omitempty"`
}

// Signs returns the one that issues certificates.
func (r AuthorityRecord) Signs() CA {
	if r.Next != nil && r.Phase != AuthorityIntroduced {
		return *r.Next
	}
	return r.Current
}

// Trusted returns those whose certificates are accepted.
func (r AuthorityRecord) Trusted() []CA {
	switch {
	case r.Next == nil:
		return []CA{r.Current}
	case r.Phase == AuthorityWithdrawn:
		return []CA{*r.Next}
	}
	return []CA{r.Current, *r.Next}
}

// Kept returns all whose keys are kept.
func (r AuthorityRecord) Kept() []CA {
	if r.Next == nil {
		return []CA{r.Current}
	}
	return []CA{r.Current, *r.Next}
}

// Advanced returns the record one phase later.
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

// Authorities are those of a cluster. The zero value is a cluster in which none was ever replaced.
type Authorities struct {
	Peer   AuthorityRecord `json:"peer"`
	Server AuthorityRecord `json:"server"`
	Client AuthorityRecord `json:"client"`
}

// Of returns the record of one authority.
func (a Authorities) Of(name AuthorityName) AuthorityRecord { return *a.of(name) }

// With returns a copy with another record of one authority.
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

// Recorded reports whether any was ever replaced or is being replaced: then all of them are recorded.
func (a Authorities) Recorded() bool { return a.Peer.Current.Fingerprint != "" }

// Replacing reports whether any is being replaced.
func (a Authorities) Replacing() bool {
	return slices.ContainsFunc(AuthorityNames(), func(n AuthorityName) bool { return a.Of(n).Next != nil })
}

// WaitsForPerson reports whether only the operator can end the phase: clients must trust the next server authority
// before members use its certificates, and have certificates of the next client authority before members stop
// trusting the former one.
func (a Authorities) WaitsForPerson(name AuthorityName) bool {
	phase := a.Of(name).Phase
	return name == ServerAuthority && phase == AuthorityIntroduced || name == ClientAuthority && phase == AuthorityIssues
}

// Bundle names what members must trust, see BundleOf; empty: still what they were bootstrapped with.
//
// A server's certificate is trusted on the client port, too: the HTTP gateway presents it to its own member.
func (a Authorities) Bundle() string {
	if !a.Recorded() {
		return ""
	}
	return BundleOf(a.PeerCAs(), a.ClientCAs())
}

// PeerCAs returns the fingerprints of the authorities that members must trust on their peer port; empty ones are not recorded.
func (a Authorities) PeerCAs() []string { return fingerprintsOf(a.Peer.Trusted()) }

// ClientCAs returns those that members must trust on their client port, see PeerCAs.
func (a Authorities) ClientCAs() []string {
	return fingerprintsOf(slices.Concat(a.Client.Trusted(), a.Server.Trusted()))
}

func fingerprintsOf(cas []CA) (all []string) {
	for _, c := range cas {
		all = append(all, c.Fingerprint)
	}
	return all
}

// BundleOf names a set of authorities by their fingerprints: those that a member trusts on its peer port, and those
// on its client port.
func BundleOf(peers, clients []string) string {
	sorted := func(all []string) string {
		return strings.Join(slices.Compact(slices.Sorted(slices.Values(all))), " ")
	}
	sum := sha256.Sum256([]byte(sorted(peers) + "\n" + sorted(clients)))
	return hex.EncodeToString(sum[:8])
}
