package op

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cke"
)

// keepsTrust refuses files that end the trust between a member and another one that runs, or take back what a replacement of an authority has done.
// No phase of a replacement does either, as long as the store has all of it: one that is older issues with an authority that members or clients
// trust no longer.
func keepsTrust(ctx context.Context, e Env, id cke.Identity, j cke.Join, before cke.CertificateFiles, files []cke.File) error {
	if before.Damage != "" {
		return nil // no member trusts it
	}
	all, err := fingerprinted(ctx, e, id.Authorities)
	if errors.Is(err, cke.ErrNotFound) && id.Incarnation != nil && id.Incarnation.Import != nil {
		return nil // of an import: others issued what members show to each other, until the authority of the store does
	}
	if err != nil {
		return err
	}
	after := asOf(all, before, files)
	if name := takenBack(all, before, after); name != "" {
		return olderTrust(name, fmt.Sprintf("the certificates of the member on %s would be of another %s authority", j.Node.Name(), name))
	}
	for i, theirs := range othersTrust(ctx, e, id, j) {
		if theirs.Hold(e.Now()) && trustEachOther(before, theirs) && !trustEachOther(after, theirs) {
			return olderTrust(cke.PeerAuthority, fmt.Sprintf("the members on %s and %s would not trust each other any more", j.Node.Name(), id.Joins[i].Node.Name()))
		}
	}
	return nil
}

// trustLimit bounds how long others are asked: what is written does not wait for nodes that are away or slow.
const trustLimit = 10 * time.Second

// othersTrust is what the files of the other members that run are worth, by the index of the membership.
func othersTrust(ctx context.Context, e Env, id cke.Identity, j cke.Join) []cke.CertificateFiles {
	ctx, cancel := context.WithTimeout(ctx, trustLimit)
	defer cancel()
	all := make([]cke.CertificateFiles, len(id.Joins))
	var wg sync.WaitGroup
	for i, other := range id.Joins {
		if other.ID == j.ID {
			continue
		}
		wg.Go(func() {
			m := e.Machines.Machine(other.Node)
			if c, err := m.Container(ctx, other); err != nil || !c.Running() {
				return
			}
			if _, worth, err := m.Certificates(ctx, other); err == nil {
				all[i] = worth
			}
		})
	}
	wg.Wait()
	return all
}

func olderTrust(name cke.AuthorityName, what string) error {
	return &cke.Error{Code: cke.CodeOlderStore, What: what,
		Facts:     []string{fmt.Sprintf("what the store has of the %s authority does not fit what members have: the store may be older than a replacement of that authority", name)},
		Unchanged: true, Try: "bring back a copy of the store from after the replacement: docs/store.md"}
}

// fingerprinted are the authorities with all fingerprints: none is on record while none was ever replaced.
func fingerprinted(ctx context.Context, e Env, all cke.Authorities) (cke.Authorities, error) {
	for _, name := range cke.AuthorityNames() {
		r := all.Of(name)
		if r.Current.Fingerprint != "" {
			continue
		}
		ca, err := e.Authority.CA(ctx, name, r.Current.Generation)
		if err != nil {
			return all, err
		}
		r.Current.Fingerprint = ca.Fingerprint
		all = all.With(name, r)
	}
	return all, nil
}

// asOf is what a member's files will be worth once some of them are replaced.
func asOf(all cke.Authorities, worth cke.CertificateFiles, files []cke.File) cke.CertificateFiles {
	for _, f := range files {
		switch f.Path {
		case cke.PeerCertFile:
			worth.PeerSigner = all.Peer.Signs().Fingerprint
		case cke.ServerCertFile:
			worth.ServerSigner = all.Server.Signs().Fingerprint
		case cke.PeerCAFile:
			worth.PeerCAs = all.PeerCAs()
		case cke.ClientCAFile:
			worth.ClientCAs = all.ClientCAs()
		}
	}
	return worth
}

// takenBack returns the authority of which a member would get a certificate, or lose the trust, that is not what a replacement does next; empty: none.
func takenBack(all cke.Authorities, before, after cke.CertificateFiles) cke.AuthorityName {
	for _, name := range []cke.AuthorityName{cke.PeerAuthority, cke.ServerAuthority} {
		r, was, is := all.Of(name), before.SignedBy(name), after.SignedBy(name)
		if was != "" && was != is && !(r.Next != nil && was == r.Current.Fingerprint && is == r.Next.Fingerprint) {
			return name
		}
	}
	withdrawn := func(fingerprint string) bool {
		return slices.ContainsFunc(cke.AuthorityNames(), func(name cke.AuthorityName) bool {
			return all.Of(name).Phase == cke.AuthorityWithdrawn && all.Of(name).Current.Fingerprint == fingerprint
		})
	}
	without := func(all, some []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(some, f) })
	}
	lost := func(was, is []string) bool { // no phase adds one and takes another one away
		return len(without(is, was)) > 0 && slices.ContainsFunc(without(was, is), func(f string) bool { return !withdrawn(f) })
	}
	switch {
	case lost(before.PeerCAs, after.PeerCAs):
		return cke.PeerAuthority
	case lost(before.ClientCAs, after.ClientCAs):
		return cke.ClientAuthority
	}
	return ""
}

func trustEachOther(a, b cke.CertificateFiles) bool {
	return slices.Contains(a.PeerCAs, b.PeerSigner) && slices.Contains(b.PeerCAs, a.PeerSigner)
}
