package backup

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who can create files in a directory that is a target keeps no reader waiting for ever: what is no regular file is no object, under whatever name it is asked for.
func TestFind_APipeUnderTheNameOfASignature(t *testing.T) {
	d, signer := Dir(t.TempDir()), newSigner(t)
	h := fullHead(1, signer)
	h.Format, h.Compression, h.BodySum = FormatVersion, "zstd", strings.Repeat("0", 64)
	head, err := h.encode(0)
	if err != nil {
		t.Fatal(err)
	}
	s := ours(d, signer)
	name := s.fileName("a1b2", fileVerified, when(100), []byte("{}"))
	for name, data := range map[string][]byte{h.Place.Name(): head, name: []byte("{}"), signatureOf(name) + "x": nil} {
		if err := d.Create(t.Context(), name, Content{Head: data}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Find(t.Context(), At{}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(string(d), signatureOf(name)), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { _, err := s.Find(ctx, At{}); done <- err }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("a restore waits for ever, also after its context has ended")
	}
}
