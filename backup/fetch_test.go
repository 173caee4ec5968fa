package backup

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
)

// Where a full is digested on its way, the digest that the snapshot itself ends with is compared, too.
func TestFetchFull_ASnapshotThatItsOwnDigestDoesNotFitIsDamaged(t *testing.T) {
	data := random(8 * snapshotBlock)
	right := sha256.Sum256(data)
	for name, tc := range map[string]struct {
		end   [sha256.Size]byte
		sound bool
	}{
		"right": {right, true},
		"wrong": {sha256.Sum256(nil), false},
	} {
		content := append(bytes.Clone(data), tc.end[:]...)
		body, seal := sealed(t, content, nil, false)
		h := Header{Place: FullPlace("prod", "l", 5, h0), Last: 5}
		seal.describe(&h)
		head, err := h.encode(0)
		if err != nil {
			t.Fatal(err)
		}
		s := &Store{Bucket: Dir(t.TempDir()), Cluster: "prod"}
		if err := s.Bucket.Create(t.Context(), h.Place.Name(), BodyContent(head, body.Bytes())); err != nil {
			t.Fatal(err)
		}
		sum := newDigestGuard()
		_, err = s.saveFull(t.Context(), h.Place, filepath.Join(t.TempDir(), "db"), sum, false, &witness{s: s})
		if (err == nil) != tc.sound || err != nil && !IsDamage(err) {
			t.Errorf("%s: %v", name, err)
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(content)); tc.sound && sum.whole() != want {
			t.Errorf("%s: digest of the file is not %s", name, want)
		}
	}
}
