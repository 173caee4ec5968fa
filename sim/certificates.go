package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cke"
)

// certificates are the files without which etcd does not start: each certificate with its key. What is in them is the
// number of the key, and in a certificate when it was issued and by whom.
var certificates = []string{cke.PeerCertFile, cke.PeerKeyFile, cke.ServerCertFile, cke.ServerKeyFile}

// issuedBefore is how long before it is issued a certificate starts to hold.
const issuedBefore = time.Hour

// defaultLife is how long certificates last.
const defaultLife = 365 * 24 * time.Hour

// certificate is a certificate of a simulated member, or, without a time, a key.
type certificate struct {
	key    int
	at     time.Time
	signer string
}

func (c certificate) file(path string) cke.File {
	return cke.File{Path: path, Mode: 0o600, Data: fmt.Appendf(nil, "%d %d %s", c.key, c.at.UnixNano(), c.signer)}
}

// readCertificate returns what a file holds; nothing that is of use has the key 0.
func readCertificate(data []byte) certificate {
	key, at, _ := strings.Cut(string(data), " ") // by hand: it is read wherever two members speak
	at, signer, _ := strings.Cut(at, " ")
	k, err := strconv.Atoi(key)
	if err != nil {
		return certificate{}
	}
	nanos, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return certificate{}
	}
	return certificate{key: k, at: time.Unix(0, nanos).UTC(), signer: signer}
}

// MemberFiles implements cke.Authority.
func (a authority) MemberFiles(ctx context.Context, _ cke.Join, all cke.Authorities) (files []cke.File, err error) {
	return a.issue(ctx, "MemberFiles", all, nil)
}

// RenewMember implements cke.Authority.
func (a authority) RenewMember(ctx context.Context, _ cke.Join, all cke.Authorities, have []cke.File) ([]cke.File, error) {
	return a.issue(ctx, "RenewMember", all, have)
}

func (a authority) issue(ctx context.Context, name string, all cke.Authorities, have []cke.File) (files []cke.File, err error) {
	keys := map[string]int{}
	for _, f := range have {
		keys[f.Path] = readCertificate(f.Data).key
	}
	err = a.d.call(ctx, Call{Port: "ca", Name: name}, nil, cke.Node{}, func(bool) error {
		w := a.d.world
		for i := 0; i < len(certificates); i += 2 {
			key := keys[certificates[i+1]]
			if key == 0 {
				w.keys++
				key = w.keys
				files = append(files, certificate{key: key}.file(certificates[i+1]))
			}
			files = append(files, certificate{key: key, at: a.d.host(), signer: signerOf(i, all)}.file(certificates[i]))
		}
		for _, f := range bundles(all) {
			if !slices.ContainsFunc(have, func(o cke.File) bool { return o.Path == f.Path && string(o.Data) == string(f.Data) }) {
				files = append(files, f)
			}
		}
		return nil
	})
	return files, err
}

// signerOf is who signs the certificate of this index.
func signerOf(i int, all cke.Authorities) string {
	if i == 0 {
		return recorded(cke.PeerAuthority, all.Peer.Signs())
	}
	return recorded(cke.ServerAuthority, all.Server.Signs())
}

// Certificates implements cke.Machine.
func (m machine) Certificates(ctx context.Context, j cke.Join) (files []cke.File, worth cke.CertificateFiles, err error) {
	err = m.of(ctx, j, "Certificates", false, func(n *Node, c *container, _ bool) error {
		if v := c.volume(); v != nil {
			worth = v.certificates(n.world.certificateLife())
		}
		for _, path := range append(slices.Clone(certificates), peerBundle, clientBundle) {
			if v := c.volume(); v != nil && v.files[path] {
				files = append(files, cke.File{Path: path, Data: v.tls[path]})
			}
		}
		return nil
	})
	return files, worth, err
}

// putFiles writes files. Half done, the first one is there, and the others are as they were.
func (v *volume) putFiles(files []cke.File, half bool) {
	if v.tls == nil {
		v.tls = map[string][]byte{}
	}
	v.damage, v.worth = "", nil
	for i, f := range files {
		if half && i > 0 {
			return
		}
		v.files[f.Path], v.tls[f.Path] = true, f.Data
	}
}

// certificates is what the files of a volume are worth. It is read once, until the files or the incarnation change.
func (v *volume) certificates(life time.Duration) cke.CertificateFiles {
	if v.worth == nil || v.worthFor != life {
		worth := v.readCertificates(life)
		v.worth, v.worthFor = &worth, life
	}
	return *v.worth
}

// signer is who signed what stands in a file.
type signer struct {
	data []byte
	name string
}

// signerOf is who signed the certificate for peers, 0, or for clients, 1. Files are replaced, never written into.
func (v *volume) signerOf(which int) string {
	data, s := v.tls[certificates[2*which]], &v.signers[which]
	if len(data) == 0 {
		return ""
	}
	if len(s.data) == 0 || &data[0] != &s.data[0] {
		*s = signer{data, readCertificate(data).signer}
	}
	return s.name
}

func (v *volume) readCertificates(life time.Duration) cke.CertificateFiles {
	if v.damage != "" {
		return cke.CertificateFiles{Damage: v.damage}
	}
	var all cke.CertificateFiles
	for _, path := range []string{peerBundle, clientBundle} {
		if len(v.tls[path]) == 0 || !v.files[path] {
			return cke.CertificateFiles{Damage: path + " is missing"}
		}
	}
	all.PeerCAs, all.ClientCAs = strings.Fields(string(v.tls[peerBundle])), strings.Fields(string(v.tls[clientBundle]))
	for i := 0; i < len(certificates); i += 2 {
		for _, path := range certificates[i : i+2] {
			if !v.files[path] {
				return cke.CertificateFiles{Damage: path + " is missing"}
			}
		}
		cert, key := readCertificate(v.tls[certificates[i]]), readCertificate(v.tls[certificates[i+1]])
		if cert.key == 0 || cert.key != key.key {
			return cke.CertificateFiles{Damage: fmt.Sprintf("%s is not the key of %s", certificates[i+1], certificates[i])}
		}
		if bundle := [][]string{all.PeerCAs, all.ClientCAs}[i/2]; !slices.Contains(bundle, cert.signer) {
			return cke.CertificateFiles{Damage: certificates[i] + " was not signed by an authority that the member trusts"}
		} else if i == 0 {
			all.PeerSigner = cert.signer
		} else {
			all.ServerSigner = cert.signer
		}
		if from := cert.at.Add(-issuedBefore); all.NotBefore.Before(from) {
			all.NotBefore = from
		}
		if end := cert.at.Add(life); all.NotAfter.IsZero() || end.Before(all.NotAfter) {
			all.NotAfter = end
		}
	}
	return all
}

// filesOf are files that a member starts with, as they are issued at a time.
func filesOf(now time.Time, all cke.Authorities) []cke.File {
	files := bundles(all)
	for i, path := range certificates {
		c := certificate{key: 1}
		if i%2 == 0 {
			c.at, c.signer = now, signerOf(i, all)
		}
		files = append(files, c.file(path))
	}
	return files
}

// certify gives a volume certificates that are worth what was seen; nil: fresh ones.
func (v *volume) certify(now time.Time, all cke.Authorities, seen *cke.CertificateFiles) {
	if seen != nil && !seen.NotAfter.IsZero() {
		now = seen.NotAfter.Add(-defaultLife)
	}
	v.files, v.tls = map[string]bool{}, nil
	v.putFiles(filesOf(now, all), false)
	if seen == nil {
		return
	}
	v.damage, v.worth = seen.Damage, nil
	if seen.Bundle() == "" || !all.Recorded() {
		return
	}
	v.putFiles([]cke.File{bundleFile(peerBundle, seen.PeerCAs), bundleFile(clientBundle, seen.ClientCAs),
		certificate{key: 1, at: now, signer: seen.PeerSigner}.file(certificates[0]), certificate{key: 1, at: now, signer: seen.ServerSigner}.file(certificates[2])}, false)
}

// trusted reports whether others accept the member in a container: its certificates hold. Nodes have the right time. What
// the operator runs has certificates of his own.
func (c *container) trusted() bool {
	v := c.volume()
	return c.Cluster == "" || v != nil && v.certificates(c.node.world.certificateLife()).Hold(c.node.world.now())
}

// CertificatesLast sets how long certificates are valid from now on, also those that exist.
func (w *World) CertificatesLast(d time.Duration) {
	w.change(fmt.Sprintf("certificates are valid for %v", d), func() { w.certificates = d })
}

func (w *World) certificateLife() time.Duration {
	if w.certificates > 0 {
		return w.certificates
	}
	return defaultLife
}

// DamageCertificate leaves a member's nth certificate or key cut off, behind the engine's back.
func (n *Node) DamageCertificate(nth int) {
	n.change("a certificate file is damaged", func() {
		for _, c := range n.sorted() {
			if v := c.volume(); v != nil && v.tls[certificates[nth]] != nil {
				v.tls[certificates[nth]], v.worth = nil, nil
			}
		}
	})
}

// AgeCertificates makes the certificates on a node older by a part of their validity, as if no daemon had led for so long.
func (n *Node) AgeCertificates(part float64) {
	n.change(fmt.Sprintf("certificates are older by %.2f of their validity", part), func() {
		for _, v := range n.volumes {
			v.age(time.Duration(part * float64(n.world.certificateLife())))
		}
	})
}

// age lets the certificates of a volume have been issued so much earlier.
func (v *volume) age(by time.Duration) {
	for i := 0; i < len(certificates); i += 2 {
		if c := readCertificate(v.tls[certificates[i]]); c.key != 0 {
			c.at = c.at.Add(-by)
			v.tls[certificates[i]], v.worth = c.file("").Data, nil
		}
	}
}

// EndCertificates makes all certificates of members expire, as if daemons had been away for years.
func (w *World) EndCertificates() {
	w.change("certificates expire", func() {
		for _, n := range w.nodes {
			for _, v := range n.volumes {
				v.age(2 * w.certificateLife())
			}
		}
	})
}
