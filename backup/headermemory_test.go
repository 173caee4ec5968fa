package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Who can create objects in a target, without the key, makes readers read a header for each. What a header may hold bounds what that takes of memory: a daemon
// lists the targets of all its clusters.
func TestLineages_ForgedHeadersTakeLittleMemory(t *testing.T) {
	const forged, most = 400, 64 << 20
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, signer))
	for i := range int64(forged) {
		h := fullHead(2+i, nil)
		h.Format, h.Compression, h.BodySum = FormatVersion, "zstd", strings.Repeat("0", 64)
		doc, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		doc = append(doc[:len(doc)-1], `,"hashes":[{}`...)
		doc = append(append(doc, bytes.Repeat([]byte(",{}"), (maxHeaderJSON-len(doc)-2)/3)...), "]}"...)
		head := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(doc)))
		head = append(head, doc...)
		sum := sha256.Sum256(head)
		b.Create(context.Background(), h.Place.Name(), Content{Head: append(head, sum[:]...)})
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := ours(b, signer)
	s.Verdicts = new(Verdicts)
	begun := time.Now()
	all, err := s.Lineages(t.Context())
	took := heap() - before
	if err != nil || len(all) != 1 || len(all[0].Untrusted) != forged {
		t.Fatalf("%d lineages, %v", len(all), err)
	}
	if took > most {
		t.Errorf("a listing with %d forged fulls of %d KiB holds %d MiB, %d KiB for each (in %s)", forged, maxHeaderJSON>>10, took>>20, took>>10/forged, time.Since(begun))
	}
	runtime.KeepAlive(all)
}
