package backup

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

// listedBeside lists a signed full and forged ones, whose headers are what forge makes of one, and returns how much memory the list holds.
func listedBeside(t *testing.T, forged int, forge func(h Header) ([]byte, error)) (all []Lineage, took int64) {
	t.Helper()
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, signer))
	for i := range int64(forged) {
		h := fullHead(2+i, nil)
		h.Format, h.Compression, h.BodySum = FormatVersion, "zstd", strings.Repeat("0", 64)
		doc, err := forge(h)
		if err != nil || len(doc) > maxHeaderJSON {
			t.Fatal(len(doc), err)
		}
		b.Create(t.Context(), h.Place.Name(), Content{Head: headOf(doc)})
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
	took = heap() - before
	if err != nil || len(all) != 1 {
		t.Fatalf("%d lineages, %v", len(all), err)
	}
	runtime.KeepAlive(s)
	return all, took
}

// Who can create objects in a target, without the key, makes readers read a header for each. What a header may hold bounds what that takes of memory: a daemon
// lists the targets of all its clusters.
func TestLineages_ForgedHeadersTakeLittleMemory(t *testing.T) {
	const forged, most = 400, 64 << 20
	all, took := listedBeside(t, forged, func(h Header) ([]byte, error) {
		doc, err := json.Marshal(h)
		doc = append(doc[:len(doc)-1], `,"hashes":[{}`...)
		return append(append(doc, bytes.Repeat([]byte(",{}"), (maxHeaderJSON-len(doc)-2)/3)...), "]}"...), err
	})
	if len(all[0].Untrusted) != forged {
		t.Fatalf("%d of them count", forged-len(all[0].Untrusted))
	}
	if took > most {
		t.Errorf("a list with %d forged fulls of %d KiB holds %d MiB, %d KiB for each", forged, maxHeaderJSON>>10, took>>20, took>>10/forged)
	}
	runtime.KeepAlive(all)
}

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
			all, took := listedBeside(t, forged, func(h Header) ([]byte, error) {
				forge(&h, strings.Repeat("\x7f", maxHeaderJSON-1024))
				doc, err := json.Marshal(h)
				return bytes.Replace(doc, []byte("1234567890123"), bytes.Repeat([]byte("1"), maxHeaderJSON-1024), 1), err
			})
			if took > most {
				t.Errorf("a list with %d forged fulls of %d KiB holds %d MiB, %d KiB for each", forged, maxHeaderJSON>>10, took>>20, took>>10/forged)
			}
			runtime.KeepAlive(all)
		})
	}
}

// A key in base64 may have line ends anywhere, which decoding skips. No forged key is kept, or quoted, with 30 KiB of them.
func TestLineages_KeysOfForgedHeadersTakeLittleMemory(t *testing.T) {
	const forged, most = 400, 8 << 20
	theirs := newSigner(t)
	theirs.public = theirs.public[:4] + PublicKey(strings.Repeat("\n", 30<<10)) + theirs.public[4:]
	all, took := listedBeside(t, forged, func(h Header) ([]byte, error) {
		doc, err := json.Marshal(h)
		if err != nil {
			return nil, err
		}
		return theirs.signed(doc)
	})
	for name, v := range all[0].seen {
		if v.bad == nil && len(v.by) > 44 || v.bad != nil && len(v.bad.Error()) > 1000 {
			t.Fatalf("%s: a key of %d bytes, %v", name, len(v.by), v.bad)
		}
	}
	if took > most {
		t.Errorf("a list with %d forged fulls holds %d MiB, %d KiB for each", forged, took>>20, took>>10/forged)
	}
	runtime.KeepAlive(all)
}
