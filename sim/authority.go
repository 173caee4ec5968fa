package sim

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cke"
)

// authority issues certificates; see certificate.
type authority struct{ d *Daemon }

var _ cke.Authority = authority{}

// Ensure implements cke.Authority.
func (a authority) Ensure(ctx context.Context, _ cke.Authorities) error {
	return a.d.call(ctx, Call{Port: "ca", Name: "Ensure", Writes: true}, nil, cke.Node{}, func(bool) error {
		w := a.d.world
		for _, name := range cke.AuthorityNames() {
			w.makeCA(name, w.store.identity.Authorities.Of(name).Current.Generation)
		}
		return nil
	})
}

// ClientTLS implements cke.Authority.
func (a authority) ClientTLS(context.Context, cke.Authorities) (*tls.Config, error) {
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}

// CA implements cke.Authority.
func (a authority) CA(ctx context.Context, name cke.AuthorityName, generation int) (ca cke.CA, err error) {
	err = a.d.call(ctx, Call{Port: "ca", Name: "CA"}, nil, cke.Node{}, func(bool) error {
		var there bool
		if ca, there = a.d.world.cas[cke.AuthoritySecret(name, generation)]; !there {
			return cke.ErrNotFound
		}
		return nil
	})
	return ca, err
}

// CreateCA implements cke.Authority.
func (a authority) CreateCA(ctx context.Context, name cke.AuthorityName, generation int) (ca cke.CA, err error) {
	err = a.d.call(ctx, Call{Port: "ca", Name: "CreateCA", Writes: true}, nil, cke.Node{}, func(bool) error {
		ca = a.d.world.makeCA(name, generation)
		return nil
	})
	return ca, err
}

// Bundles implements cke.Authority.
func (a authority) Bundles(ctx context.Context, all cke.Authorities) (files []cke.File, err error) {
	err = a.d.call(ctx, Call{Port: "ca", Name: "Bundles"}, nil, cke.Node{}, func(bool) error {
		files = bundles(all)
		return nil
	})
	return files, err
}

// makeCA makes a generation of an authority, if there is none.
func (w *World) makeCA(name cke.AuthorityName, generation int) cke.CA {
	secret := cke.AuthoritySecret(name, generation)
	ca, there := w.cas[secret]
	if !there {
		ca = cke.CA{Generation: generation, Fingerprint: fingerprintOf(name, generation), NotAfter: w.host(0).Add(10 * 365 * 24 * time.Hour).UTC()}
		w.cas[secret] = ca
	}
	return ca
}

// fingerprintOf is what names a simulated authority.
func fingerprintOf(name cke.AuthorityName, generation int) string {
	return string(name) + "-" + strconv.Itoa(generation)
}

// recorded is the fingerprint of one on record; those that never were have that of their generation.
func recorded(name cke.AuthorityName, c cke.CA) string {
	if c.Fingerprint != "" {
		return c.Fingerprint
	}
	return fingerprintOf(name, c.Generation)
}

func trusted(all cke.Authorities, names ...cke.AuthorityName) []string {
	var prints []string
	for _, name := range names {
		for _, c := range all.Of(name).Trusted() {
			prints = append(prints, recorded(name, c))
		}
	}
	return prints
}

// Files that tell a simulated member whom to trust: fingerprints.
const (
	peerBundle   = cke.PeerCAFile
	clientBundle = cke.ClientCAFile
)

func bundles(all cke.Authorities) []cke.File {
	return []cke.File{bundleFile(peerBundle, trusted(all, cke.PeerAuthority)), bundleFile(clientBundle, trusted(all, cke.ClientAuthority, cke.ServerAuthority))}
}

func bundleFile(path string, prints []string) cke.File {
	return cke.File{Path: path, Mode: 0o644, Data: []byte(strings.Join(prints, " "))}
}

// person is what the clients of operators have: a certificate, and authorities that they know members by.
type person struct {
	signer string
	trust  []string
}

// ClientsRenew gives clients certificates as they are issued now, and the authorities to trust.
func (w *World) ClientsRenew() {
	w.change("clients get new certificates", func() { w.clients = clientsOf(w.store.identity.Authorities) })
}

func clientsOf(all cke.Authorities) person {
	return person{signer: recorded(cke.ClientAuthority, all.Client.Signs()), trust: trusted(all, cke.ServerAuthority)}
}

// takes reports whether a member and a client take each other's certificate.
func (c *container) takes(p person) bool {
	return slices.Contains(c.clientCAs, p.signer) && slices.Contains(p.trust, c.volume().signerOf(1))
}

// knows reports whether two members take each other's certificates. What the operator runs has some that all take.
func (c *container) knows(other *container) bool {
	if c.Cluster == "" || other.Cluster == "" {
		return true
	}
	return slices.Contains(c.peerCAs, other.volume().signerOf(0)) && slices.Contains(other.peerCAs, c.volume().signerOf(0))
}

// checkTrust looks whether members whose certificates hold take those of each other, of clients and of daemons. Where a
// call that nobody waited for any more has put older files into a volume, nothing is claimed.
func (c *checker) checkTrust() {
	w := c.world
	if c.formed == nil {
		return
	}
	var running []*container
	for _, p := range w.running(w.history()) {
		v := p.c.volume()
		lasts := slices.ContainsFunc(w.store.identity.Joins, func(j cke.Join) bool { return j.ID == p.c.Join })
		if lasts && !v.late && p.c.trusted() {
			running = append(running, p.c)
		}
	}
	daemon := clientsOf(w.store.identity.Authorities)
	for i, one := range running {
		for _, other := range running[i+1:] {
			if !one.knows(other) {
				c.violated("the members on %s and %s distrust each other", one.node.name, other.node.name)
			}
		}
		if !one.takes(daemon) {
			c.violated("the member on %s and cke distrust each other", one.node.name)
		}
		if !one.takes(w.clients) {
			c.violated("the member on %s and clients distrust each other", one.node.name)
		}
	}
}

// CAs are the names of the authorities whose keys are in the store.
func (w *World) CAs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.cas))
}

// Hasten puts on record that the replacement of an authority has come to a phase, whatever members run with.
func (w *World) Hasten(name cke.AuthorityName, phase cke.AuthorityPhase) {
	w.change(fmt.Sprintf("the %s authority is at phase %s", name, phase), func() {
		all := w.store.identity.Authorities
		for _, n := range cke.AuthorityNames() {
			r := all.Of(n)
			r.Current = w.makeCA(n, 0)
			if n == name {
				next := w.makeCA(n, 1)
				r.Next, r.Phase = &next, phase
			}
			all = all.With(n, r)
		}
		w.store.identity.Authorities = all
		w.store.version++
	})
}
