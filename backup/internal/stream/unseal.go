package stream

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"cke/backup/internal/damage"
)

// ErrNoKey reports that a body is encrypted and no given identity decrypts it.
var ErrNoKey = errors.New("none of the given identities opens this backup")

// Opener reads the content of a body: it checks size and digest of what it reads, decrypts and decompresses. Only Finish
// reports whether all of it was sound.
type Opener struct {
	facts  Facts
	digest *digestReader
	source *ReadAhead // of what was decrypted; nil: it is short, and read as it is wanted
	zstd   *zstd.Decoder
	read   int64
	ended  bool
}

// NewOpener starts to read a body with the keys to decrypt it.
func NewOpener(f Facts, body io.Reader, identities []age.Identity) (*Opener, error) {
	o := &Opener{facts: f, digest: &digestReader{r: uncut{body}, h: sha256.New(), left: f.Size}}
	z, err := o.begin(identities)
	if err != nil {
		o.Close()
		return nil, err
	}
	o.zstd = z
	return o, nil
}

func (o *Opener) begin(identities []age.Identity) (*zstd.Decoder, error) {
	var plain io.Reader = bufio.NewReaderSize(o.digest, aheadPart)
	if o.facts.Encrypted {
		if len(identities) == 0 {
			return nil, fmt.Errorf("%w: none was given, and it is encrypted", ErrNoKey)
		}
		var err error
		if plain, err = age.Decrypt(plain, identities...); err != nil {
			var none *age.NoIdentityMatchError
			if !errors.As(err, &none) {
				return nil, o.digest.judge(err)
			}
			// A body that is damaged where it names its recipients looks as if it were for others.
			if err := o.rest(); err != nil {
				return nil, err
			}
			return nil, ErrNoKey
		}
	}
	if o.facts.Size > aheadPart {
		o.source = NewReadAhead(&judgedReader{plain, o.digest})
		plain = o.source
	}
	// One core: it needs half as much time again if it spreads its own steps over several.
	z, err := zstd.NewReader(plain, zstd.WithDecoderMaxWindow(zstdMaxWindow), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(1<<62), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, o.judge(err)
	}
	return z, nil
}

// Read returns content, and never more than the header declares.
func (o *Opener) Read(p []byte) (int, error) {
	if o.ended {
		return 0, io.EOF
	}
	n, err := o.zstd.Read(p)
	o.read += int64(n)
	if o.read > o.facts.Content {
		return 0, damage.Errorf("more content than the header says (%d bytes)", o.facts.Content)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = o.judge(err)
	}
	return n, err
}

// WriteTo writes the content that is left, without an extra copy, and never more than the header declares.
func (o *Opener) WriteTo(w io.Writer) (int64, error) {
	if o.ended {
		return 0, nil // the decoder would give its last part again
	}
	o.ended = true
	to := &openedWriter{o: o, w: w}
	n, err := o.zstd.WriteTo(to)
	switch {
	case to.err != nil:
		return n, to.err
	case err != nil:
		return n, o.judge(err)
	}
	return n, nil
}

// openedWriter keeps the errors of a writer apart from those of the decoder.
type openedWriter struct {
	o   *Opener
	w   io.Writer
	err error
}

func (w *openedWriter) Write(p []byte) (n int, err error) {
	w.o.read += int64(len(p))
	if w.o.read > w.o.facts.Content {
		w.err = damage.Errorf("more content than the header says (%d bytes)", w.o.facts.Content)
		return 0, w.err
	}
	n, w.err = w.w.Write(p)
	return n, w.err
}

// Taken returns how much content was read.
func (o *Opener) Taken() int64 { return o.read }

// Finish reads the rest and checks size and digest of everything.
func (o *Opener) Finish() error {
	if _, err := io.Copy(io.Discard, o); err != nil {
		return err
	}
	if err := o.rest(); err != nil {
		return err
	}
	if o.read != o.facts.Content {
		return damage.Errorf("%d bytes of content instead of %d", o.read, o.facts.Content)
	}
	return nil
}

// rest reads what is left of the body and checks all of it.
func (o *Opener) rest() error {
	if o.source != nil {
		if _, err := io.Copy(io.Discard, o.source); err != nil { // to its end, where it lets go of the body
			return err
		}
	}
	if _, err := io.Copy(io.Discard, o.digest); err != nil {
		return err
	}
	return o.digest.check(o.facts.Sum)
}

// Close stops the decoder's workers.
func (o *Opener) Close() {
	if o.source != nil {
		o.source.Close()
	}
	if o.zstd != nil {
		o.zstd.Close()
	}
}

// judge distinguishes damage from a store that failed. While a body is read ahead, no other goroutine reads the digest.
func (o *Opener) judge(err error) error {
	if o.source == nil {
		return o.digest.judge(err)
	}
	if told := o.source.told.Load(); told != nil {
		return *told
	}
	return damage.Errorf("%w", err)
}

// digestReader counts and digests, and stops after the size promised.
type digestReader struct {
	r    io.Reader
	h    hash.Hash
	left int64
	err  error // of the store
}

func (d *digestReader) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > d.left {
		p = p[:d.left]
	}
	n, err := d.r.Read(p)
	d.h.Write(p[:n])
	d.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		d.err = fmt.Errorf("read the object: %w", err)
		return n, d.err
	}
	if err != nil && d.left > 0 {
		d.err = damage.Errorf("truncated: %d bytes are missing", d.left)
		return n, d.err
	}
	return n, nil
}

// judge distinguishes damage from a store that failed: the store's own errors pass through here and are kept.
func (d *digestReader) judge(err error) error {
	if d.err != nil {
		return d.err
	}
	return damage.Errorf("%w", err)
}

// judgedReader reads what is made of a digestReader's bytes.
type judgedReader struct {
	r io.Reader
	d *digestReader
}

func (j *judgedReader) Read(p []byte) (int, error) {
	n, err := j.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = j.d.judge(err)
	}
	return n, err
}

// check also sees that nothing follows.
func (d *digestReader) check(sum [sha256.Size]byte) error {
	if string(d.h.Sum(nil)) != string(sum[:]) {
		return damage.Errorf("the body does not match its digest")
	}
	if n, _ := io.CopyN(io.Discard, d.r, 1); n != 0 {
		return damage.Errorf("data follows the body")
	}
	return nil
}

// Check checks size and digest of a body, which the caller need not be able to decrypt.
func Check(f Facts, body io.Reader) error {
	d := &digestReader{r: body, h: sha256.New(), left: f.Size}
	if _, err := io.Copy(io.Discard, d); err != nil {
		return err
	}
	return d.check(f.Sum)
}
