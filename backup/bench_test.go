package backup_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cke/backup"
)

// filler makes values that compress to about half, as hex digits do.
func filler(seed, n int) string {
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	var b strings.Builder
	for b.Len() < n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		fmt.Fprintf(&b, "%016x", x)
	}
	return b.String()[:n]
}

func changes(from int64, n, valueSize int) []backup.Change {
	cs := make([]backup.Change, n)
	for i := range cs {
		rev := from + int64(i)
		cs[i] = backup.Change{Key: fmt.Appendf(nil, "key/%08d", rev%100_000), Value: []byte(filler(int(rev), valueSize)),
			CreateRevision: rev, ModRevision: rev, Version: 1}
	}
	return cs
}

// BenchmarkDelta fills one delta with changes of 1 KiB.
func BenchmarkDelta(b *testing.B) {
	cs := changes(1, 20_000, 1024)
	b.ResetTimer()
	var content, payload int64
	for range b.N {
		w, err := backup.NewDeltaWriter(1, nil)
		if err != nil {
			b.Fatal(err)
		}
		for i := 0; i < len(cs); i += 100 {
			if err := w.Add(cs[i:i+100], time.Now()); err != nil {
				b.Fatal(err)
			}
		}
		_, h, err := w.Seal(backup.Header{Place: backup.DeltaPlace("prod", "a1b2", 1, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		content, payload = h.Content, w.Payload()
	}
	b.ReportMetric(float64(b.N*len(cs))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(content)/float64(payload), "content/payload")
}
