package stream

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// noise is random digits with something alike before each kilobyte, as a database has.
func noise(n int) []byte {
	rng := rand.NewChaCha8([32]byte{7})
	random := make([]byte, 512)
	var b []byte
	for i := 0; len(b) < n; i++ {
		rng.Read(random)
		b = hex.AppendEncode(fmt.Appendf(b, "/registry/pods/%010d/", i), random)
	}
	return b[:n]
}

// sizeInOne is how large it is as one frame.
func sizeInOne(t *testing.T, data []byte) int {
	t.Helper()
	out, _ := sealedAs(t, data, nil, false)
	return out.Len()
}

// sealedAs is a body that holds some content, and what knows its facts.
func sealedAs(t *testing.T, content []byte, to []age.Recipient, beside bool) (*bytes.Buffer, *Sealer) {
	t.Helper()
	var body bytes.Buffer
	s, err := NewSealer(&body, to, beside)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return &body, s
}

// onlyWriter hides ReadFrom, so that the buffer given is used.
type onlyWriter struct{ io.Writer }

// A run of frames is one stream to every reader, whatever the size, and is compressed as well.
func TestFrames_ReadAsOneStream(t *testing.T) {
	for _, size := range []int{1, framePart - 1, framePart, framePart + 1, 5*framePart + 12345} {
		data := noise(size)
		var out bytes.Buffer
		f, err := newFrames(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyBuffer(onlyWriter{f}, struct{ io.Reader }{bytes.NewReader(data)}, make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if one := sizeInOne(t, data); out.Len() > one+one/50+64 {
			t.Errorf("%d bytes are %d compressed, and as one frame %d", size, out.Len(), one)
		}
		z, err := zstd.NewReader(&out, zstd.WithDecoderMaxWindow(zstdMaxWindow))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		z.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d: %v", size, len(got), err)
		}
	}
}

type fullDisk struct{ room int }

var errFullDisk = errors.New("no space left on device")

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.room -= len(p); d.room < 0 {
		return 0, errFullDisk
	}
	return len(p), nil
}

func TestFrames_TellWhatCannotBeWritten(t *testing.T) {
	f, err := newFrames(&fullDisk{room: framePart})
	if err != nil {
		t.Fatal(err)
	}
	data := noise(20 * framePart)
	if _, err := f.Write(data); err != nil && !errors.Is(err, errFullDisk) {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, errFullDisk) {
		t.Errorf("close: %v", err)
	}
}

func TestReadAhead_IsTheSameStream(t *testing.T) {
	data := noise(7*aheadPart + 99)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(data), "halves": iotest.HalfReader(bytes.NewReader(data)), "with its end": iotest.DataErrReader(bytes.NewReader(data))} {
		a := NewReadAhead(r)
		got, err := io.ReadAll(a)
		if err != nil || !bytes.Equal(got, data) || a.told.Load() != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		a.Close()
	}
	a := NewReadAhead(iotest.TimeoutReader(bytes.NewReader(data)))
	if _, err := io.ReadAll(a); !errors.Is(err, iotest.ErrTimeout) || !errors.Is(*a.told.Load(), iotest.ErrTimeout) {
		t.Errorf("%v", err)
	}
	a.Close()
	NewReadAhead(bytes.NewReader(data)).Close() // nobody read it
}
