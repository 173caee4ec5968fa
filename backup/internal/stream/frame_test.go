package stream

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"cke/backup/internal/damage"
)

// A frame that says it is large does not get memory before its bytes are there.
func TestReadFrame_LengthIsNotBelieved(t *testing.T) {
	head := []byte{'E', 0, 0, 0, 0}
	for _, n := range []uint32{MaxFrame, MaxFrame + 1, 1<<32 - 1} {
		binary.BigEndian.PutUint32(head[1:], n)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := ReadFrame(bytes.NewReader(append(head, make([]byte, 1000)...))); !damage.Is(err) {
			t.Errorf("%d: %v", n, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("a frame of %d bytes that is not there took %d", n, used)
		}
	}
}
