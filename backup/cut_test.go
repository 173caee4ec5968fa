package backup

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A peer stores 137 bytes as a good backup when the snapshot breaks off.
func TestFullWriter_RefusesASnapshotThatWasCutShortOrAltered(t *testing.T) {
	whole := database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 500, []byte("value")) })
	seal := func(snapshot []byte) error {
		t.Helper()
		_, _, err := sieved(t, snapshot, false)
		return err
	}
	if err := seal(whole); err != nil {
		t.Fatal(err)
	}
	cuts := []int{0, 1, 31, 32, 33, 137, 511, 512, 4096, len(whole) - 33, len(whole) - 32, len(whole) - 31, len(whole) - 1}
	for range 20 {
		cuts = append(cuts, rand.IntN(len(whole)))
	}
	for _, n := range cuts {
		if err := seal(whole[:n]); !IsDamage(err) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for range 20 {
		altered := append([]byte(nil), whole...)
		i := rand.IntN(len(whole))
		altered[i] ^= 1
		if err := seal(altered); !IsDamage(err) {
			t.Errorf("byte %d altered: %v", i, err)
		}
	}
	if err := seal(append(append([]byte(nil), whole...), 'x')); !IsDamage(err) {
		t.Errorf("longer: %v", err)
	}
}

// An error of the file that the body is kept in is not lost among the goroutines that fill it.
func TestFullWriter_TellsWhatItCannotWrite(t *testing.T) {
	whole := database(t, 4096, func(db *bolt.DB) { putRecords(t, db, 2, 5000, make([]byte, 500)) })
	dir := t.TempDir()
	w, err := NewFullWriter(filepath.Join(dir, "pages"), filepath.Join(dir, "body"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.body.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(whole)
	if err == nil {
		_, _, err = w.Seal(Header{Place: FullPlace("prod", "l", 0, h0)})
	}
	if !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}
