package pki_test

import (
	"bytes"
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

func paths(files []cke.File) string {
	var all []string
	for _, f := range files {
		all = append(all, strings.TrimPrefix(f.Path, "pki/"))
	}
	return strings.Join(all, " ")
}

// put returns the files that a volume holds after some were written into it.
func put(have, files []cke.File) []cke.File {
	all := slices.Clone(have)
	for _, f := range files {
		all = append(slices.DeleteFunc(all, func(o cke.File) bool { return o.Path == f.Path }), f)
	}
	return all
}

// damage returns files of which one is changed; nil takes it away.
func damage(files []cke.File, path string, data []byte) []cke.File {
	var all []cke.File
	for _, f := range files {
		if f.Path == path {
			if f.Data = data; data == nil {
				continue
			}
		}
		all = append(all, f)
	}
	return all
}

func data(files []cke.File, path string) []byte {
	for _, f := range files {
		if f.Path == path {
			return f.Data
		}
	}
	return nil
}

func TestRenewMember_WritesNothingThatCouldBeSeenHalf(t *testing.T) {
	a, _, c := newAuthority()
	j := join("10.0.0.11", "cp1")
	have, err := a.MemberFiles(t.Context(), j, cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	c.Move(400 * 24 * time.Hour)
	if cke.ReadCertificates(have).Hold(c.Now()) {
		t.Fatal("they did not end")
	}
	files, err := a.RenewMember(t.Context(), j, cke.Authorities{}, have)
	if err != nil {
		t.Fatal(err)
	}
	if got := paths(files); got != "peer.crt server.crt" {
		t.Fatalf("%s is written: a key and its certificate are two files, and somebody may read between them", got)
	}
	for written := range len(files) + 1 { // whoever reads, and whoever dies, between any two of them
		now := put(have, files[:written])
		for _, pair := range [][2]string{{cke.PeerCertFile, cke.PeerKeyFile}, {cke.ServerCertFile, cke.ServerKeyFile}} {
			if _, err := tls.X509KeyPair(data(now, pair[0]), data(now, pair[1])); err != nil {
				t.Errorf("after %d files: %s: %v", written, pair[0], err)
			}
		}
	}
	if got := cke.ReadCertificates(put(have, files)); !got.Hold(c.Now()) || got.EndSoon(c.Now()) {
		t.Errorf("afterwards: %+v at %s", got, c.Now())
	}
}

// Each damage is seen, and mended by the next renewal.
func TestRenewMember_MendsWhatIsDamaged(t *testing.T) {
	a, _, c := newAuthority()
	other, _, _ := newAuthority()
	j := join("10.0.0.11", "cp1")
	good, err := a.MemberFiles(t.Context(), j, cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	again, _ := a.MemberFiles(t.Context(), j, cke.Authorities{})
	foreign, _ := other.MemberFiles(t.Context(), j, cke.Authorities{})
	for _, row := range []struct {
		name   string
		have   []cke.File
		damage string // "": none
		writes string
	}{
		{"nothing", good, "", "peer.crt server.crt"},
		{"a certificate is gone", damage(good, cke.PeerCertFile, nil), "pki/peer.crt is missing", "peer.crt server.crt"},
		{"a certificate is empty", damage(good, cke.ServerCertFile, []byte{}), "pki/server.crt contains no certificate", "peer.crt server.crt"},
		{"a certificate is cut off", damage(good, cke.ServerCertFile, data(good, cke.ServerCertFile)[:100]), "pki/server.crt contains no certificate", "peer.crt server.crt"},
		{"a certificate is for another key", damage(good, cke.PeerCertFile, data(again, cke.PeerCertFile)), "pki/peer.key is not the key of pki/peer.crt", "peer.crt server.crt"},
		{"a certificate is another authority's", damage(damage(good, cke.PeerCertFile, data(foreign, cke.PeerCertFile)), cke.PeerKeyFile, data(foreign, cke.PeerKeyFile)), "pki/peer.crt was not signed by the authority in pki/peer-ca.crt", "peer.crt server.crt"},
		{"a key is gone", damage(good, cke.ServerKeyFile, nil), "pki/server.key is missing", "peer.crt server.crt server.key"},
		{"a key is cut off", damage(good, cke.ServerKeyFile, data(good, cke.ServerKeyFile)[:50]), "pki/server.key contains no key", "peer.crt server.crt server.key"},
		{"an authority is gone", damage(good, cke.PeerCAFile, nil), "pki/peer-ca.crt is missing", "peer-ca.crt peer.crt server.crt"},
		{"the clients' authority is garbage", damage(good, cke.ClientCAFile, []byte("x")), "pki/client-ca.crt contains no certificate", "peer.crt client-ca.crt server.crt"},
		{"all is gone", nil, "pki/peer-ca.crt is missing", "peer-ca.crt peer.crt peer.key client-ca.crt server.crt server.key server-ca.crt"},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := cke.ReadCertificates(row.have)
			if before.Damage != row.damage {
				t.Errorf("damage %q, want %q", before.Damage, row.damage)
			}
			files, err := a.RenewMember(t.Context(), j, cke.Authorities{}, row.have)
			if err != nil {
				t.Fatal(err)
			}
			if got := paths(files); got != row.writes {
				t.Errorf("writes %s, want %s", got, row.writes)
			}
			if after := cke.ReadCertificates(put(row.have, files)); !after.Hold(c.Now()) {
				t.Errorf("afterwards: %+v", after)
			}
		})
	}
}

func TestReadCertificates_TellsWhenAuthoritiesEnd(t *testing.T) {
	a, _, _ := newAuthority()
	files, err := a.MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := a.CAs(t.Context(), cke.Authorities{})
	if err != nil {
		t.Fatal(err)
	}
	got := cke.ReadCertificates(files).AuthorityEnds
	for _, info := range infos {
		if end := got[info.Name]; !end.Equal(info.NotAfter) {
			t.Errorf("%s ends at %s, not %s", info.Name, end, info.NotAfter)
		}
	}
	if len(got) != 3 || len(infos) != 3 {
		t.Errorf("%v, %v", got, infos)
	}
}

func TestReadCertificates_QuotesNoKey(t *testing.T) {
	a, _, _ := newAuthority()
	files, _ := a.MemberFiles(t.Context(), join("10.0.0.11", "cp1"), cke.Authorities{})
	key := data(files, cke.PeerKeyFile)
	got := cke.ReadCertificates(damage(files, cke.PeerKeyFile, bytes.Replace(key, []byte("PRIVATE"), []byte("STRANGE"), 2)))
	if got.Damage != "pki/peer.key is not the key of pki/peer.crt" {
		t.Errorf("%q", got.Damage)
	}
}

func TestCertificateFiles_HoldForTheirTime(t *testing.T) {
	from := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c := cke.CertificateFiles{NotBefore: from, NotAfter: from.AddDate(0, 0, 300)}
	for _, row := range []struct {
		days        int
		hold, soon  bool
		troubleSays string
	}{
		{-1, false, false, "not valid before 2026-05-01"},
		{0, true, false, ""},
		{199, true, false, ""},
		{201, true, true, ""},
		{300, false, true, "expired at 2027-02-25"},
	} {
		now := from.AddDate(0, 0, row.days)
		trouble := c.Trouble(now)
		if c.Hold(now) != row.hold || c.EndSoon(now) != row.soon || (trouble == "") != row.hold || !strings.Contains(trouble, row.troubleSays) {
			t.Errorf("day %d: hold %v, soon %v, %q", row.days, c.Hold(now), c.EndSoon(now), trouble)
		}
	}
	if broken := (cke.CertificateFiles{Damage: "pki/peer.crt is missing"}); broken.Hold(from) || broken.EndSoon(from) || broken.Trouble(from) == "" {
		t.Errorf("%+v", broken)
	}
}
