package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"cke"
)

// peak is a bucket that notes how much memory was in use when its objects were opened.
type peak struct {
	*shelf
	most uint64
	n    int
}

func (b *peak) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	b.mu.Lock()
	if b.n++; b.n%50 == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		b.most = max(b.most, m.HeapAlloc)
	}
	b.mu.Unlock()
	return b.shelf.Open(ctx, name, offset, length)
}

// Forged fulls that claim to be from before the first signed one count. A prune reads their headers, which take half a MiB each, and does not have
// those of all of them in memory at once.
func TestPrune_ForgedOlderFullsTakeLittleMemory(t *testing.T) {
	const forged, most = 400, 64 << 20
	b, signer := &peak{shelf: newShelf()}, newSigner(t)
	b.put(t, fullHead(100_000, signer))
	b.put(t, fullHead(100_001, signer))
	for i := range int64(forged) {
		h := fullHead(2+i, nil)
		h.Format, h.Compression, h.BodySum = FormatVersion, "zstd", strings.Repeat("0", 64)
		doc, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		doc = append(doc[:len(doc)-1], `,"hashes":[{}`...)
		doc = append(append(doc, bytes.Repeat([]byte(",{}"), (maxHeaderJSON-len(doc)-2)/3)...), "]}"...)
		b.Create(t.Context(), h.Place.Name(), Content{Head: headOf(doc)})
	}
	s := ours(b, signer)
	s.Verdicts = new(Verdicts)
	if _, err := s.Lineages(t.Context()); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.most = 0
	if _, err := s.Prune(t.Context(), cke.Retention{Within: cke.Duration(time.Hour)}, true); err != nil {
		t.Fatal(err)
	}
	if took := int64(b.most) - int64(m.HeapAlloc); took > most {
		t.Errorf("a prune beside %d forged fulls has %d MiB of headers in memory, %d KiB for each", forged, took>>20, took>>10/forged)
	}
}
