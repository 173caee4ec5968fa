package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"runtime"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"cke/backup/internal/stream"
)

// sealedDelta is a small delta as it lies in a store.
func sealedDelta(t testing.TB, recipients []age.Recipient) []byte {
	t.Helper()
	w, err := NewDeltaWriter(5, recipients)
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_700_000_000_000)
	for rev := int64(5); rev < 20; rev++ {
		c := []Change{{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), int(rev)), CreateRevision: rev, ModRevision: rev, Version: 1, Lease: rev % 3}}
		c = append(c, Change{Key: []byte("gone"), ModRevision: rev, Delete: true})
		if err := w.Add(c, now.Add(time.Duration(rev)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.AddLeases(LeaseChange{Low: 10, High: 19, Reset: true, Granted: []Lease{{1, 60}, {2, 70}}, Gone: []int64{9}}); err != nil {
		t.Fatal(err)
	}
	c, _, err := w.Seal(Header{Place: DeltaPlace("prod", "l", 5, 0, 5)})
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]byte(nil), c.Head...), c.Body.(*memoryBody).data...)
}

// readAll reads bytes as an object of any kind, as far as they can be read.
func readAll(data []byte, ids []age.Identity) (records int, err error) {
	r := bytes.NewReader(data)
	h, _, err := readHeader(r)
	if err != nil {
		return 0, err
	}
	err = readDeltaBody(h, r, ids, deltaVisitor{
		record: func(Record) error { records++; return nil },
		leases: func(LeaseChange) error { return nil },
	})
	return records, err
}

// FuzzReader: any bytes are refused or read, without a panic and without more memory than a reader grants. Two of three
// times the digests are made right, so that what is wrong behind them is believed: of a header, and of a body, or of what
// is compressed in a body.
func FuzzReader(f *testing.F) {
	whole := sealedDelta(f, nil)
	_, head, err := readHeader(bytes.NewReader(whole))
	if err != nil {
		f.Fatal(err)
	}
	doc, body := head[len(magic)+4:len(head)-sha256.Size], whole[len(head):]
	f.Add(uint8(0), whole, []byte{})
	f.Add(uint8(0), whole[:len(whole)/2], []byte{})
	f.Add(uint8(0), []byte(magic+"\xff\xff\xff\xff"), []byte{})
	f.Add(uint8(1), doc, body)
	f.Add(uint8(1), doc[:len(doc)/2], body)
	f.Add(uint8(2), doc, content(f, body))
	f.Fuzz(func(t *testing.T, kind uint8, first, second []byte) {
		data := append(bytes.Clone(first), second...)
		switch kind % 3 {
		case 1:
			data = resealed(first, second, -1)
		case 2:
			packed, _ := sealed(t, second, nil, false)
			data = resealed(first, packed.Bytes(), int64(len(second)))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = readAll(data, nil)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20+20*uint64(len(data)) {
			t.Errorf("%d bytes were allocated for %d", used, len(data))
		}
	})
}

// content is what is compressed in a body.
func content(t testing.TB, body []byte) []byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// resealed is an object with a header of these bytes; if they are one, it tells the body's size and digest, and the size of
// its content unless that is -1.
func resealed(doc, body []byte, content int64) []byte {
	var h Header
	if json.Unmarshal(doc, &h) == nil {
		sum := sha256.Sum256(body)
		h.BodySize, h.BodySum = int64(len(body)), hex.EncodeToString(sum[:])
		if content >= 0 {
			h.Content = content
		}
		if again, err := json.Marshal(h); err == nil {
			doc = again
		}
	}
	return append(headOf(doc), body...)
}

// headOf is the head of an object with a header of these bytes.
func headOf(doc []byte) []byte {
	head := append([]byte(magic), binary.BigEndian.AppendUint32(nil, uint32(len(doc)))...)
	head = append(head, doc...)
	sum := sha256.Sum256(head)
	return append(head, sum[:]...)
}

// What a fuzzer makes of an object gets past the digests.
func TestResealed_IsRead(t *testing.T) {
	whole := sealedDelta(t, nil)
	_, head, err := readHeader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := readAll(resealed(head[len(magic)+4:len(head)-sha256.Size], whole[len(head):], -1), nil); n != 30 || err != nil {
		t.Errorf("%d records, %v", n, err)
	}
}

// FuzzContent goes past the digests: it reads any bytes as the content of a delta.
func FuzzContent(f *testing.F) {
	f.Add([]byte{frameEvents, 0, 0, 0, 5, 5, 0, 0, 2, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, payload []byte) {
		var framed bytes.Buffer
		for _, kind := range []byte{frameEvents, frameLeases, frameEnd, 'x'} {
			framed.Reset()
			if err := stream.WriteFrame(&framed, kind, payload); err != nil {
				t.Fatal(err)
			}
			k, p, err := stream.ReadFrame(&framed)
			if err != nil || k != kind || !bytes.Equal(p, payload) {
				t.Fatalf("frame %q came back as %q: %v", kind, k, err)
			}
			c := deltaChecker{h: Header{Place: Place{Revision: 5}}, last: Record{Main: 4}, visit: deltaVisitor{
				record: func(r Record) error { parseKeyValue(r.Value); leaseTTL(r.Value); return nil },
			}}
			_ = c.frame(kind, payload)
		}
		_, _, _ = stream.ReadFrame(bytes.NewReader(payload))
		parseKeyValue(payload)
		parseRecordKey(payload)
		if l, err := decodeLeases(payload); err == nil {
			again, err := decodeLeases(l.encode())
			if err != nil || len(again.Granted) != len(l.Granted) || len(again.Gone) != len(l.Gone) {
				t.Errorf("%+v came back as %+v: %v", l, again, err)
			}
		}
		ParsePlace(string(payload))
	})
}

func TestSealedDelta_EveryFlippedBitIsNoticed(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, rs := range [][]age.Recipient{nil, {id.Recipient()}} {
		whole := sealedDelta(t, rs)
		if n, err := readAll(whole, []age.Identity{id}); err != nil || n != 30 {
			t.Fatalf("%d records, %v", n, err)
		}
		for i := range whole {
			data := bytes.Clone(whole)
			data[i] ^= 1
			if _, err := readAll(data, []age.Identity{id}); err == nil {
				t.Errorf("bit flipped in byte %d of %d", i, len(whole))
			}
			if _, err := readAll(whole[:i], []age.Identity{id}); err == nil {
				t.Errorf("cut at %d of %d", i, len(whole))
			}
		}
	}
}

// A gap cannot be written.
func TestDeltaWriter_RefusesGapsAndPassesOverWhatItHas(t *testing.T) {
	add := func(w *DeltaWriter, revs ...int64) error {
		var cs []Change
		for _, r := range revs {
			cs = append(cs, Change{Key: []byte("k"), ModRevision: r, CreateRevision: r, Version: 1})
		}
		return w.Add(cs, time.Now())
	}
	w, err := NewDeltaWriter(10, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := add(w, 8, 9, 9, 10, 10, 11); err != nil || w.Last() != 11 || w.records != 3 {
		t.Fatalf("last %d, %d records, %v", w.Last(), w.records, err)
	}
	for _, bad := range [][]int64{{13}, {12, 14}, {11, 12}, {5_000_000_000}} {
		if err := add(w, bad...); err == nil {
			t.Errorf("%v was taken after 11", bad)
		}
		if w.Last() != 11 || w.records != 3 {
			t.Errorf("%v left something behind", bad)
		}
	}
}

func TestPlace_NamesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cluster := rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,39}`).Draw(t, "cluster")
		lineage := rapid.StringMatching(`[a-f0-9]{12}`).Draw(t, "lineage")
		rev := rapid.Int64Range(1, 1<<62).Draw(t, "revision")
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "time")).UTC()
		full := FullPlace(cluster, lineage, rev, at)
		delta := DeltaPlace(cluster, lineage, rapid.Int64Range(1, rev).Draw(t, "stream"), rapid.Int64Range(0, 1e10-1).Draw(t, "sequence"), rev)
		for _, p := range []Place{full, delta} {
			if got, ok := ParsePlace(p.Name()); !ok || got != p {
				t.Errorf("%s came back as %+v, %v", p.Name(), got, ok)
			}
		}
	})
}
