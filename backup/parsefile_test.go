package backup

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// What is written is parsed, and nothing else.
func TestParseFile(t *testing.T) {
	s := &Store{Cluster: "prod", Now: func() time.Time { return time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC) }}
	for _, at := range []time.Time{s.now(), s.now().Add(1234567 * time.Microsecond), {}, time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)} {
		name := s.fileName("a1b2", FileIdentity, at, []byte("x"))
		got, sum, ok := parseFile(name)
		if !ok || !got.Equal(at.Truncate(time.Millisecond)) || s.fileName("a1b2", FileIdentity, got, []byte("x")) != name || sum != fmt.Sprintf("%x", sha256.Sum256([]byte("x"))) {
			t.Errorf("%s: %v, %s, %v", name, got, sum, ok)
		}
		if signedBy(signatureOf(name)) != name {
			t.Errorf("its signature: %s", signedBy(signatureOf(name)))
		}
	}
	sum := strings.Repeat("0a", 32)
	for _, base := range []string{"zzzz-" + sum, "-" + sum, sum, "20261101T000000.000Z", "20261101T000000.000Z-", "20261101T000000.000Z-" + sum[1:], "20261101T000000.000Z-" + sum + "0", "20261101T000000.000Z-" + strings.ToUpper(sum),
		"20261101T000000.000z-" + sum, "20261101T000000,000Z-" + sum, "20261101T000000Z-" + sum, "20261301T000000.000Z-" + sum, "20260230T000000.000Z-" + sum, "20261101T240000.000Z-" + sum, "20261101T000060.000Z-" + sum, "100000101T000000.000Z-" + sum,
		"sub/20261101T000000.000Z-" + sum, " 20261101T000000.000Z-" + sum, "20261101T000000.000Z-" + sum + "\n", "20261101T000000.000Z-" + sum + "/"} {
		if _, _, ok := parseFile("prod/a1b2/identity/" + base); ok {
			t.Errorf("%q is parsed", base)
		}
	}
}

// An earlier version signed the name that anybody gave to a copy. It counts for nothing, in whatever folder, and what follows does.
func TestFiles_ANameOfNoWriterCountsForNothingThoughItIsSigned(t *testing.T) {
	for _, form := range []string{"zzzz", "20261101T000900.000z", "99991231T235959.999Z", "x/20261101T000900.000Z"} {
		b, signer := newShelf(), newSigner(t)
		s := ours(b, signer)
		bad := func(kind FileKind, text string) {
			t.Helper()
			name := fmt.Sprintf("prod/a1b2/%s/%s-%x", kind, form, sha256.Sum256([]byte(text)))
			b.Create(t.Context(), name, Content{Head: []byte(text)})
			if err := s.signFile(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []FileKind{FileIdentity, FileSpec} {
			bad(kind, "forged")
			for _, text := range []string{"one", "two"} {
				if err := s.PutFile(t.Context(), "a1b2", kind, []byte(text)); err != nil {
					t.Fatal(err)
				}
				f, err := s.TrustedFile(t.Context(), "a1b2", kind)
				if err != nil || string(f.Data) != text || f.Newer != nil {
					t.Errorf("%s %s: %q, newer %v, %v; want %q", kind, form, f.Data, f.Newer, err, text)
				}
			}
		}
		bad(fileDiverged, `{"why": "forged"}`)
		if d, _, err := s.Diverged(t.Context(), "a1b2"); err != nil || d != nil {
			t.Errorf("%s: diverged: %+v, %v", form, d, err)
		}
		bad(fileVerified, `{"full": "forged"}`)
		if v, err := s.LastVerified(t.Context(), "a1b2"); err != nil || v != nil {
			t.Errorf("%s: verified: %+v, %v", form, v, err)
		}
		bad(filePruning, `[{"stream": 2, "from": 1, "to": 9}]`)
		l := Lineage{Name: "a1b2"}
		all, err := b.List(t.Context(), "prod/a1b2/")
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			l.add(o)
		}
		if told, _, err := s.readPruning(t.Context(), &l); err != nil || told != nil {
			t.Errorf("%s: pruning: %+v, %v", form, told, err)
		}
	}
}
