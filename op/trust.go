package op

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"cke"
)

// keepsTrust refuses files after which a member and another one that runs would not trust each other any more. No phase of an authority's
// replacement does that, as long as the store has all of it: one that is older issues with an authority that others trust no longer.
// A member whose files cannot be read now is passed over, since renewals do not wait for nodes that are away.
func keepsTrust(ctx context.Context, e Env, id cke.Identity, j cke.Join, before cke.CertificateFiles, files []cke.File) error {
	if !before.Hold(e.Now()) {
		return nil // nobody trusts it
	}
	after, err := asOf(ctx, e, id.Authorities.Peer, before, files)
	if errors.Is(err, cke.ErrNotFound) {
		return nil // of an import: others issued what members show to each other, until the authority of the store does
	}
	if err != nil {
		return err
	}
	for _, other := range id.Joins {
		if other.ID == j.ID {
			continue
		}
		m := e.Machines.Machine(other.Node)
		if c, err := m.Container(ctx, other); err != nil || !c.Running() {
			continue
		}
		_, theirs, err := m.Certificates(ctx, other)
		if err != nil || !theirs.Hold(e.Now()) || !trustEachOther(before, theirs) || trustEachOther(after, theirs) {
			continue
		}
		return &cke.Error{Code: cke.CodeOlderStore, What: fmt.Sprintf("the members on %s and %s would not trust each other any more", j.Node.Name(), other.Node.Name()),
			Facts:     []string{"what the store has of the peer authority does not fit what members trust: the store may be older than a replacement of that authority"},
			Unchanged: true, Try: "bring back a copy of the store from after the replacement: docs/store.md"}
	}
	return nil
}

// asOf is what files will be worth to other members once some of them are replaced.
func asOf(ctx context.Context, e Env, r cke.AuthorityRecord, worth cke.CertificateFiles, files []cke.File) (cke.CertificateFiles, error) {
	fingerprint := func(ca cke.CA) (string, error) {
		if ca.Fingerprint != "" {
			return ca.Fingerprint, nil
		}
		ca, err := e.Authority.CA(ctx, cke.PeerAuthority, ca.Generation)
		return ca.Fingerprint, err
	}
	for _, f := range files {
		var err error
		switch f.Path {
		case cke.PeerCertFile:
			worth.PeerSigner, err = fingerprint(r.Signs())
		case cke.PeerCAFile:
			worth.PeerCAs = nil
			for _, ca := range r.Trusted() {
				var one string
				if one, err = fingerprint(ca); err != nil {
					break
				}
				worth.PeerCAs = append(worth.PeerCAs, one)
			}
		}
		if err != nil {
			return worth, err
		}
	}
	return worth, nil
}

func trustEachOther(a, b cke.CertificateFiles) bool {
	return slices.Contains(a.PeerCAs, b.PeerSigner) && slices.Contains(b.PeerCAs, a.PeerSigner)
}
