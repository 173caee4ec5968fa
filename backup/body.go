package backup

import (
	"fmt"
	"io"

	"filippo.io/age"

	"cke/backup/internal/stream"
)

// bodyWriter writes the body of an object.
type bodyWriter struct {
	*stream.Sealer
	to string // RecipientsID
}

// newBody starts a body. With beside, it is compressed and written in goroutines of their own.
func newBody(w io.Writer, recipients []age.Recipient, beside bool) (*bodyWriter, error) {
	s, err := stream.NewSealer(w, recipients, beside)
	if err != nil {
		return nil, err
	}
	return &bodyWriter{Sealer: s, to: RecipientsID(recipients)}, nil
}

// describe enters what is known of a complete body into its header.
func (b *bodyWriter) describe(h *Header) {
	f := b.Facts()
	h.Format, h.Compression, h.Encryption, h.Recipients = FormatVersion, "zstd", "", b.to
	if f.Encrypted {
		h.Encryption = "age"
	}
	h.Content, h.BodySize, h.BodySum = f.Content, f.Size, fmt.Sprintf("%x", f.Sum)
}

// factsOf are those that a header has of its body.
func factsOf(h Header) stream.Facts {
	return stream.Facts{Size: h.BodySize, Sum: h.bodySum(), Content: h.Content, Encrypted: h.Encryption == "age"}
}

// bodyReader reads the content of an object.
type bodyReader struct {
	*stream.Opener
	head Header
	body io.Closer // nil: it is the caller's
}

// openBody starts to read the body that a header describes.
func openBody(h Header, body io.Reader, identities []age.Identity) (*bodyReader, error) {
	o, err := stream.NewOpener(factsOf(h), body, identities)
	if err != nil {
		return nil, err
	}
	return &bodyReader{Opener: o, head: h}, nil
}

// Close stops reading.
func (b *bodyReader) Close() {
	b.Opener.Close()
	if b.body != nil {
		b.body.Close() // it was only read
	}
}
