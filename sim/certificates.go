package sim

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cke"
)

// certificates are the files without which etcd does not start: each certificate with its key. What is in them is the
// number of the key, and in a certificate when it was issued.
var certificates = []string{"certs/peer.crt", "certs/peer.key", "certs/server.crt", "certs/server.key"}

// issuedBefore is how long before it is issued a certificate begins to hold.
const issuedBefore = time.Hour

// defaultLife is how long certificates last.
const defaultLife = 365 * 24 * time.Hour

// certificate is a certificate of a simulated member, or, without a time, a key.
type certificate struct {
	key int
	at  time.Time
}

func (c certificate) file(path string) cke.File {
	return cke.File{Path: path, Mode: 0o600, Data: fmt.Appendf(nil, "%d %d", c.key, c.at.UnixNano())}
}

// readCertificate returns what a file holds; nothing that is of use has the key 0.
func readCertificate(data []byte) certificate {
	key, at, _ := strings.Cut(string(data), " ") // by hand: it is read wherever two members speak
	k, err := strconv.Atoi(key)
	if err != nil {
		return certificate{}
	}
	nanos, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return certificate{}
	}
	return certificate{key: k, at: time.Unix(0, nanos).UTC()}
}

// MemberFiles implements cke.Authority.
func (a authority) MemberFiles(ctx context.Context, j cke.Join) (files []cke.File, err error) {
	return a.issue(ctx, "MemberFiles", nil)
}

// RenewMember implements cke.Authority.
func (a authority) RenewMember(ctx context.Context, _ cke.Join, have []cke.File) ([]cke.File, error) {
	return a.issue(ctx, "RenewMember", have)
}

func (a authority) issue(ctx context.Context, name string, have []cke.File) (files []cke.File, err error) {
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
			files = append(files, certificate{key: key, at: w.host()}.file(certificates[i]))
		}
		return nil
	})
	return files, err
}

// Certificates implements cke.Machine.
func (m machine) Certificates(ctx context.Context, j cke.Join) (files []cke.File, worth cke.CertificateFiles, err error) {
	err = m.of(ctx, j, "Certificates", false, func(n *Node, c *container, _ bool) error {
		if v := c.volume(); v != nil {
			worth = v.certificates(n.world.certificateLife())
		}
		for _, path := range certificates {
			if v := c.volume(); v != nil && v.files[path] {
				files = append(files, cke.File{Path: path, Data: v.tls[path]})
			}
		}
		return nil
	})
	return files, worth, err
}

// putFiles writes files. Half done, the first one is there, and the second one begun.
func (v *volume) putFiles(files []cke.File, half bool) {
	if v.tls == nil {
		v.tls = map[string][]byte{}
	}
	v.damage = ""
	for i, f := range files {
		if half && i > 1 {
			return
		}
		v.files[f.Path], v.tls[f.Path] = true, f.Data
		if half && i == 1 {
			v.tls[f.Path] = nil
		}
	}
}

// certificates is what the files of a volume are worth.
func (v *volume) certificates(life time.Duration) cke.CertificateFiles {
	if v.damage != "" {
		return cke.CertificateFiles{Damage: v.damage}
	}
	var all cke.CertificateFiles
	for i := 0; i < len(certificates); i += 2 {
		for _, path := range certificates[i : i+2] {
			if !v.files[path] {
				return cke.CertificateFiles{Damage: path + " is not there"}
			}
		}
		cert, key := readCertificate(v.tls[certificates[i]]), readCertificate(v.tls[certificates[i+1]])
		if cert.key == 0 || cert.key != key.key {
			return cke.CertificateFiles{Damage: fmt.Sprintf("%s is not the key of %s", certificates[i+1], certificates[i])}
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

// CertificatesOf are files that a member starts with, as they are issued at a time.
func CertificatesOf(now time.Time) []cke.File {
	var files []cke.File
	for i, path := range certificates {
		c := certificate{key: 1}
		if i%2 == 0 {
			c.at = now
		}
		files = append(files, c.file(path))
	}
	return files
}

// certify gives a volume certificates that are worth what was seen; nil: fresh ones.
func (v *volume) certify(now time.Time, seen *cke.CertificateFiles) {
	if seen != nil && !seen.NotAfter.IsZero() {
		now = seen.NotAfter.Add(-defaultLife)
	}
	v.files, v.tls = map[string]bool{}, nil
	v.putFiles(CertificatesOf(now), false)
	if seen != nil {
		v.damage = seen.Damage
	}
}

// trusted reports whether others accept the member in a container: its certificates hold. Nodes have the right time. What
// a person runs has certificates of his own.
func (c *container) trusted() bool {
	v := c.volume()
	return c.Cluster == "" || v != nil && v.certificates(c.node.world.certificateLife()).Hold(c.node.world.now())
}

// CertificatesLast sets how long certificates last from now on, also those that are there.
func (w *World) CertificatesLast(d time.Duration) {
	w.change(fmt.Sprintf("certificates last %v", d), func() { w.certificates = d })
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
				v.tls[certificates[nth]] = nil
			}
		}
	})
}

// EndCertificates lets all certificates of members have ended, as if daemons had been away for years.
func (w *World) EndCertificates() {
	w.change("certificates end", func() {
		for _, n := range w.nodes {
			for _, v := range n.volumes {
				for i := 0; i < len(certificates); i += 2 {
					if c := readCertificate(v.tls[certificates[i]]); c.key != 0 {
						c.at = c.at.Add(-2 * w.certificateLife())
						v.tls[certificates[i]] = c.file("").Data
					}
				}
			}
		}
	})
}
