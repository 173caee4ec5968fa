package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

const (
	// zstdWindow bounds what a reader has to remember; a writer takes twice as much.
	zstdWindow    = 1 << 20
	zstdMaxWindow = 8 << 20
)

// ParseRecipients reads age recipients, one per string. None: nil, and backups are not encrypted.
func ParseRecipients(recipients []string) ([]age.Recipient, error) {
	if len(recipients) == 0 {
		return nil, nil
	}
	rs, err := age.ParseRecipients(strings.NewReader(strings.Join(recipients, "\n")))
	if err != nil {
		return nil, fmt.Errorf("read age recipients: %w", err)
	}
	return rs, nil
}

// RecipientsID tells sets of recipients apart: the digest of their public keys. Empty for none, and for keys that do not show themselves.
func RecipientsID(recipients []age.Recipient) string {
	if len(recipients) == 0 {
		return ""
	}
	var keys []string
	for _, r := range recipients {
		public, ok := r.(fmt.Stringer)
		if !ok {
			return ""
		}
		keys = append(keys, public.String())
	}
	slices.Sort(keys)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(keys), "\n")))
	return hex.EncodeToString(sum[:16])
}

// ParseIdentities reads an age identity file.
func ParseIdentities(file string) ([]age.Identity, error) {
	ids, err := age.ParseIdentities(strings.NewReader(file))
	if err != nil {
		return nil, fmt.Errorf("read age identities: %w", err)
	}
	return ids, nil
}

// Opens reports whether one of the identities opens what is encrypted for these recipients. Nothing else tells: an encrypted body
// does not say for whom it is.
func Opens(recipients []age.Recipient, identities []age.Identity) bool {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, recipients...)
	if err != nil || w.Close() != nil || len(identities) == 0 {
		return false
	}
	_, err = age.Decrypt(&b, identities...)
	return err == nil
}

// zstdOptions are those of every body. Values that repeat nothing are made shorter, too, if they do not use all bytes alike: who
// reads them has less to fetch, to digest and to decrypt. The content has a digest or checksums of its own, so zstd adds none.
func zstdOptions(cores int) []zstd.EOption {
	return []zstd.EOption{
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(cores), zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true),
	}
}

// sealer compresses, encrypts and digests what is written to it. The bytes of a body leave through w.
type sealer struct {
	zstd    io.WriteCloser
	age     io.WriteCloser // nil: no encryption
	out     *digestWriter
	to      string // RecipientsID
	content int64
}

// newSealer begins a body. With beside, it is compressed on several cores, and encrypted, digested and written in a goroutine
// of its own.
func newSealer(w io.Writer, recipients []age.Recipient, beside bool) (*sealer, error) {
	s := &sealer{out: &digestWriter{w: w, h: sha256.New()}, to: RecipientsID(recipients)}
	var next io.Writer = s.out
	if len(recipients) > 0 {
		enc, err := age.Encrypt(s.out, recipients...)
		if err != nil {
			return nil, fmt.Errorf("begin encryption: %w", err)
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

func (s *sealer) Write(p []byte) (int, error) {
	n, err := s.zstd.Write(p)
	s.content += int64(n)
	return n, err
}

// Close completes the body; only then size and sum are valid.
func (s *sealer) Close() error {
	err := s.zstd.Close()
	if s.age != nil {
		err = errors.Join(err, s.age.Close())
	}
	return err
}

// abandon ends what goes on beside. After Close it does nothing.
func (s *sealer) abandon() {
	if f, ok := s.zstd.(*frames); ok {
		f.Close() // what could not be written is of no use any more
	}
}

func (s *sealer) encryption() string {
	if s.age != nil {
		return "age"
	}
	return ""
}

// describe enters what the sealer knows of a body into its header.
func (s *sealer) describe(h *Header) {
	h.Format, h.Compression, h.Encryption, h.Recipients = FormatVersion, "zstd", s.encryption(), s.to
	h.Content, h.BodySize, h.BodySum = s.content, s.out.n, fmt.Sprintf("%x", s.out.h.Sum(nil))
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

// opener reads the content of a body: it checks size and digest of what it reads, decrypts and decompresses.
// Only Finish tells whether all of it was sound.
type opener struct {
	head   Header
	digest *digestReader
	source *readAhead // of what was decrypted; nil: it is short, and read as it is wanted
	zstd   *zstd.Decoder
	body   io.Closer // nil: it is the caller's
	read   int64
	ended  bool
}

func newOpener(head Header, body io.Reader, identities []age.Identity) (*opener, error) {
	o := &opener{head: head, digest: &digestReader{r: uncut{body}, h: sha256.New(), left: head.BodySize}}
	z, err := o.begin(identities)
	if err != nil {
		o.Close()
		return nil, err
	}
	o.zstd = z
	return o, nil
}

func (o *opener) begin(identities []age.Identity) (*zstd.Decoder, error) {
	var plain io.Reader = bufio.NewReaderSize(o.digest, aheadPart)
	if o.head.Encryption == "age" {
		if len(identities) == 0 {
			return nil, fmt.Errorf("%w: none was given, and it is encrypted", ErrKey)
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
			return nil, ErrKey
		}
	}
	if o.head.BodySize > aheadPart {
		o.source = newReadAhead(&judgedReader{plain, o.digest})
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

// Read returns content. It never returns more than the header promises.
func (o *opener) Read(p []byte) (int, error) {
	if o.ended {
		return 0, io.EOF
	}
	n, err := o.zstd.Read(p)
	o.read += int64(n)
	if o.read > o.head.Content {
		return 0, damaged("more content than the header says (%d bytes)", o.head.Content)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = o.judge(err)
	}
	return n, err
}

// WriteTo writes the content that is left, without a copy between. It never writes more than the header promises.
func (o *opener) WriteTo(w io.Writer) (int64, error) {
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
	o   *opener
	w   io.Writer
	err error
}

func (w *openedWriter) Write(p []byte) (n int, err error) {
	w.o.read += int64(len(p))
	if w.o.read > w.o.head.Content {
		w.err = damaged("more content than the header says (%d bytes)", w.o.head.Content)
		return 0, w.err
	}
	n, w.err = w.w.Write(p)
	return n, w.err
}

// Finish reads what is left and checks size and digest of everything.
func (o *opener) Finish() error {
	if _, err := io.Copy(io.Discard, o); err != nil {
		return err
	}
	if err := o.rest(); err != nil {
		return err
	}
	if o.read != o.head.Content {
		return damaged("%d bytes of content instead of %d", o.read, o.head.Content)
	}
	return nil
}

// rest reads what is left of the body and checks all of it.
func (o *opener) rest() error {
	if o.source != nil {
		if _, err := io.Copy(io.Discard, o.source); err != nil { // to its end, where it lets go of the body
			return err
		}
	}
	if _, err := io.Copy(io.Discard, o.digest); err != nil {
		return err
	}
	return o.digest.check(o.head)
}

// Close ends the decoder's workers.
func (o *opener) Close() {
	if o.source != nil {
		o.source.Close()
	}
	if o.zstd != nil {
		o.zstd.Close()
	}
	if o.body != nil {
		o.body.Close() // it was only read
	}
}

// judge tells damage from a store that failed. While a body is read ahead, nobody else looks at the digest.
func (o *opener) judge(err error) error {
	if o.source == nil {
		return o.digest.judge(err)
	}
	if told := o.source.told.Load(); told != nil {
		return *told
	}
	return damaged("%w", err)
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
		d.err = fmt.Errorf("read: %w", err)
		return n, d.err
	}
	if err != nil && d.left > 0 {
		d.err = damaged("truncated: %d bytes are missing", d.left)
		return n, d.err
	}
	return n, nil
}

// judge tells damage from a store that failed: the store's own errors pass through here and are kept.
func (d *digestReader) judge(err error) error {
	if d.err != nil {
		return d.err
	}
	return damaged("%w", err)
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
func (d *digestReader) check(head Header) error {
	if sum := head.bodySum(); string(d.h.Sum(nil)) != string(sum[:]) {
		return damaged("the body does not match its digest")
	}
	if n, _ := io.CopyN(io.Discard, d.r, 1); n != 0 {
		return damaged("something follows the body")
	}
	return nil
}
