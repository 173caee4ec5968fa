package backup

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// It hastens the disk and changes nothing; after it, the file can be synced as ever.
func TestWriteback_LeavesWhatIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	back, err := newWriteback(path)
	if err != nil {
		t.Fatal(err)
	}
	data := random(3*writebackPart + 12345)
	to := writtenBack{f, back}
	for rest := data; len(rest) > 0; {
		n, err := to.Write(rest[:min(len(rest), 1<<20)])
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	for range 2 {
		if err := back.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syncFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := newWriteback(path + "/none"); err == nil {
		t.Error("a file that is not there was opened")
	}
}

// random is as many bytes that repeat nothing.
func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}
