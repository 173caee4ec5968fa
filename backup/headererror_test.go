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
)

// Who can create objects in a target, without the key, writes headers that are refused for a long text in them. What is wrong with each is kept while the target
// is read, and says no more than a person can read: 10,000 such objects, of 64 KiB, would take all of a daemon's memory.
func TestLineages_WhatIsWrongWithForgedHeadersTakesLittleMemory(t *testing.T) {
	const forged, most = 200, 32 << 20
	for what, forge := range map[string]func(h *Header, long string){
		"compression": func(h *Header, long string) { h.Compression = long },
		"encryption":  func(h *Header, long string) { h.Encryption = long },
		"digest":      func(h *Header, long string) { h.BodySum = long },
		"number":      func(h *Header, long string) { h.Last = 1234567890123 },
	} {
		t.Run(what, func(t *testing.T) {
			b, signer := newShelf(), newSigner(t)
			b.put(t, fullHead(1, signer))
			for i := range int64(forged) {
				h := fullHead(2+i, nil)
				name := h.Place.Name()
				h.Format, h.Compression, h.BodySum = FormatVersion, "zstd", strings.Repeat("0", 64)
				forge(&h, strings.Repeat("\x7f", maxHeaderJSON-1024))
				doc, err := json.Marshal(h)
				doc = bytes.Replace(doc, []byte("1234567890123"), bytes.Repeat([]byte("1"), maxHeaderJSON-1024), 1)
				if err != nil || len(doc) > maxHeaderJSON {
					t.Fatal(len(doc), err)
				}
				head := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(doc)))
				head = append(head, doc...)
				sum := sha256.Sum256(head)
				b.Create(context.Background(), name, Content{Head: append(head, sum[:]...)})
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
			all, err := s.Lineages(t.Context())
			took := heap() - before
			if err != nil || len(all) != 1 {
				t.Fatalf("%d lineages, %v", len(all), err)
			}
			if took > most {
				t.Errorf("a list with %d forged fulls of %d KiB holds %d MiB, %d KiB for each", forged, maxHeaderJSON>>10, took>>20, took>>10/forged)
			}
			runtime.KeepAlive(all)
		})
	}
}
