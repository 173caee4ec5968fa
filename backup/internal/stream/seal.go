package stream

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Facts are what a reader must know of a body.
type Facts struct {
	Size      int64             // of the body
	Sum       [sha256.Size]byte // SHA-256 of the body
	Content   int64             // size of what it holds
	Encrypted bool              // with age, after it was compressed
}

// Sealer compresses, encrypts and digests what is written to it. It writes the body to w.
type Sealer struct {
	zstd    io.WriteCloser
	age     io.WriteCloser // nil: no encryption
	out     *digestWriter
	content int64
}

// NewSealer starts a body for recipients; with none, it is not encrypted. With beside, it is compressed on several cores,
// and encrypted, digested and written in its own goroutine.
func NewSealer(w io.Writer, recipients []age.Recipient, beside bool) (*Sealer, error) {
	s := &Sealer{out: &digestWriter{w: w, h: sha256.New()}}
	var next io.Writer = s.out
	if len(recipients) > 0 {
		enc, err := age.Encrypt(s.out, recipients...)
		if err != nil {
			return nil, fmt.Errorf("start encryption: %w", err)
		}
		s.age, next = enc, enc
	}
	var err error
	if beside {
		s.zstd, err = newFrames(next)
	} else {
		// One core: it needs half as much time again if it spreads its own steps over two.
		s.zstd, err = zstd.NewWriter(next, zstdOptions(1)...)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Write adds content.
func (s *Sealer) Write(p []byte) (int, error) {
	n, err := s.zstd.Write(p)
	s.content += int64(n)
	return n, err
}

// Close completes the body; only then size and sum are valid.
func (s *Sealer) Close() error {
	err := s.zstd.Close()
	if s.age != nil {
		err = errors.Join(err, s.age.Close())
	}
	return err
}

// Abandon stops concurrent work. After Close it does nothing.
func (s *Sealer) Abandon() {
	if f, ok := s.zstd.(*frames); ok {
		f.Close() // what could not be written is of no use any more
	}
}

// Into directs the output to another writer. Call it before anything is written.
func (s *Sealer) Into(w io.Writer) { s.out.w = w }

// Facts returns those of a completed body.
func (s *Sealer) Facts() Facts {
	return Facts{Size: s.out.n, Sum: [sha256.Size]byte(s.out.h.Sum(nil)), Content: s.content, Encrypted: s.age != nil}
}

// digestWriter counts and digests what passes.
type digestWriter struct {
	w io.Writer
	h hash.Hash
	n int64
}

func (d *digestWriter) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	d.h.Write(p[:n])
	d.n += int64(n)
	return n, err
}
