package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"cke/backup/internal/pages"
)

// mergeQuick is the way of Compact that keeps few pages of the full, up to where it is accepted.
func mergeQuick(file string, data []byte, revision int64) (err error) {
	defer pages.Guard(&err)()
	head, err := pages.ParseHead(data[:min(len(data), 2*pages.MaxPageSize)], int64(len(data)))
	if err != nil {
		return err
	}
	m, err := newMerger(file, Header{Last: revision, Content: int64(len(data)) + sha256.Size}, head, revision+1)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.a.record(Record{Main: revision + 1, Value: appendKeyValue(nil, &Change{Key: []byte("k"), Lease: 7})}); err != nil {
		return err
	}
	added, err := m.plan(false, false)
	if err != nil {
		return err
	}
	kept := m.sieve()
	if _, err := kept.Write(data); err != nil {
		return err
	}
	if err := kept.KeepLeaf(); err != nil {
		return err
	}
	return m.assemble(context.Background(), added)
}

// damageAtRandom alters up to three places of a database, most of them numbers that lead somewhere.
func damageAtRandom(r *rand.Rand, data []byte) {
	size := os.Getpagesize()
	pages := len(data) / size
	for range 1 + r.IntN(3) {
		at := r.IntN(pages) * size
		switch r.IntN(7) {
		case 0:
			data[at+r.IntN(16)] = byte(r.IntN(256))
		case 1:
			data[at+16+r.IntN(16*40)] = byte(r.IntN(256))
		case 2:
			binary.LittleEndian.PutUint64(data[at+16+8+16*r.IntN(10):], uint64(r.IntN(pages+2)))
		case 3:
			binary.LittleEndian.PutUint16(data[at+10:], uint16(r.IntN(300)))
		case 4:
			copy(data[at:at+size], data[size*r.IntN(pages):][:size])
		case 5:
			binary.LittleEndian.PutUint32(data[at+12:], uint32(r.IntN(8)))
		case 6:
			data[at+r.IntN(size)] ^= 1 << r.IntN(8)
		}
	}
	if r.IntN(2) == 0 {
		resum(data)
	}
}

// What the quick way of Compact accepts, the one that reads the whole file accepts: nothing is merged into a full on which no
// delta could be applied later.
func TestCompact_TheQuickWayRefusesWhatTheWholeRefuses(t *testing.T) {
	all := realDatabases(t)
	dir := t.TempDir()
	rounds := 1500
	if testing.Short() {
		rounds = 150
	}
	both, refused := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // to be repeated
		data := append([]byte(nil), all[1+r.IntN(2)]...)
		damageAtRandom(r, data)
		file := filepath.Join(dir, "x")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := InspectSnapshot(file)
		if err != nil {
			refused++
			continue
		}
		if mergeQuick(filepath.Join(dir, "quick"), data, info.Revision) != nil {
			refused++
			continue
		}
		if err := mergeOne(context.Background(), file, info.Revision); err != nil {
			t.Errorf("seed %d: the quick way accepts what the whole one refuses: %v", seed, err)
			continue
		}
		both++
	}
	if t.Logf("%d accepted by both, %d refused", both, refused); both < rounds/20 || refused < rounds/20 {
		t.Error("the damage is of one kind only")
	}
}
