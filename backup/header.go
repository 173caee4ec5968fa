package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"cke/backup/internal/stream"
)

const (
	magic = "ckeback1"
	// FormatVersion is the version of the format that this package writes. Readers refuse a higher one.
	FormatVersion = 1
	// maxHeaderJSON bounds the header; real ones have less than 1 KiB.
	maxHeaderJSON = 64 << 10
	// headRead is what one request for a header fetches.
	headRead = 4 << 10
)

// Header is stored in clear text at the head of every object: what can be known without a key.
type Header struct {
	Format int   `json:"format"`
	Place  Place `json:"place"`
	// Last is the newest revision in the object; for a full its revision.
	Last int64 `json:"last"`
	// Begin and End are when the object's data was received, by the clock of the writer.
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end"`
	// Records counts a delta's changes.
	Records int64 `json:"records,omitempty"`
	// Leases counts a full's leases.
	Leases int64 `json:"leases,omitempty"`
	// Compacted is the revision that a full was compacted to; 0 means never.
	Compacted int64 `json:"compacted,omitempty"`
	// Stored is the revision that deltas, or earlier fulls, had reached in the target when a full was started: later
	// changes, up to the full's own revision, are still to come in deltas. 0 means unknown.
	Stored int64 `json:"stored,omitempty"`
	// AuthRevision is etcd's revision of users and roles; AuthEnabled is set if clients had to authenticate. In deltas of
	// earlier versions it is false.
	AuthRevision uint64 `json:"authRevision,omitempty"`
	AuthEnabled  bool   `json:"authEnabled,omitempty"`
	// Origin is the state that the cluster of this incarnation was restored from; nil: it was bootstrapped, or the writer
	// did not record it.
	Origin *Origin `json:"origin,omitempty"`
	// After names the delta before this object: the one that a delta continues, or the newest one stored when a full was
	// started. For the first delta of a stream it is the last one of the stream before. nil means that there was none.
	After *Link `json:"after,omitempty"`
	// Base names the newest full that led to a delta when it was sealed; nil if none was stored yet.
	Base *Link `json:"base,omitempty"`
	// Mark is the digest of all changes of revision Last, see MarkOf; empty in objects of earlier releases and in fulls
	// that they merged.
	Mark string `json:"mark,omitempty"`
	// RaftIndex is how far the cluster's log had been applied when the object was made; 0 means unknown.
	RaftIndex uint64 `json:"raftIndex,omitempty"`
	// Watched is since when the watch that received a delta had been unbroken; zero means unknown.
	Watched time.Time `json:"watched,omitzero"`
	// ClockBack is set if the writer's clock was put back between two changes of a delta, so `Begin` and `End` do not bound
	// their times.
	ClockBack bool `json:"clockBack,omitempty"`
	// Content is the size of the body's content before compression.
	Content int64 `json:"content"`
	// Compression is "zstd"; Encryption is "age" or empty. Data is compressed first.
	Compression string `json:"compression"`
	Encryption  string `json:"encryption,omitempty"`
	// Recipients identifies for whom a body is encrypted, see RecipientsID. Empty: it is not encrypted, or an older
	// program wrote it.
	Recipients string `json:"recipients,omitempty"`
	// BodySize and BodySum (SHA-256, hex) are of the bytes after the header.
	BodySize int64  `json:"bodySize"`
	BodySum  string `json:"bodySum"`
	// Size is the size of the whole object, including this header. It is not stored in the header, but set when that is
	// written or read.
	Size int64 `json:"-"`
	// Sum is the SHA-256 (hex) at the end of the head, by which links name the object. Like Size, it is not stored in the
	// header.
	Sum string `json:"-"`
	// Hashes are etcd's own hashes of its data, to check what is restored.
	Hashes []Hash `json:"hashes,omitempty"`
	// Writer and Term identify the daemon that wrote the object, and its term.
	Writer      string `json:"writer,omitempty"`
	Term        int64  `json:"term,omitempty"`
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// Signature is the key and the proof; nil if the object is not signed. It is the last field, and covers all others.
	Signature *Signature `json:"signature,omitempty"`
	// SignedTip is set if the newest of the objects that a full was merged from is signed.
	SignedTip bool `json:"signedTip,omitempty"`
	// Signer signs the header when it is written; nil means no signature.
	Signer *Signer `json:"-"`
	// Merged is set if a full was made from an older one and deltas, not by etcd.
	Merged bool `json:"merged,omitempty"`
}

// Hash is a value of etcd's HashKV.
type Hash struct {
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"` // -1: never
	Hash      uint32 `json:"hash"`
}

// IsOf reports whether a hash covers no more than what a full or delta holds. One from before the compaction that a full
// went through covers more.
func (x Hash) IsOf(h Header) bool { return max(0, x.Compacted) >= h.Compacted }

// encode returns the head of an object: magic, length, JSON, SHA-256 of these three. It is at least room bytes long: white
// space after the JSON fills it up.
func (h Header) encode(room int) ([]byte, error) {
	h.Signature = nil // it would be that of another header
	doc, err := json.Marshal(h)
	if err == nil && h.Signer != nil {
		doc, err = h.Signer.signed(doc)
	}
	if err != nil {
		return nil, err
	}
	if short := room - (len(magic) + 4 + len(doc) + sha256.Size); short > 0 {
		doc = append(doc, bytes.Repeat([]byte{' '}, short)...)
	}
	if len(doc) > maxHeaderJSON {
		return nil, fmt.Errorf("header of %d bytes: %w", len(doc), errLimit)
	}
	b := make([]byte, 0, len(magic)+4+len(doc)+sha256.Size)
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(doc)))
	b = append(b, doc...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// readHeader reads and checks the head of an object and returns it with the header.
func readHeader(r io.Reader) (Header, []byte, error) {
	var h Header
	r = stream.Uncut(r)
	fixed := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return h, nil, stream.Short(err, "header")
	}
	if string(fixed[:len(magic)]) != magic {
		return h, nil, damaged("not a backup object: it does not start with %q", magic)
	}
	n := binary.BigEndian.Uint32(fixed[len(magic):])
	if n > maxHeaderJSON {
		return h, nil, damaged("header of %d bytes: %w", n, errLimit)
	}
	head := make([]byte, len(fixed)+int(n)+sha256.Size)
	copy(head, fixed)
	if _, err := io.ReadFull(r, head[len(fixed):]); err != nil {
		return h, nil, stream.Short(err, "header")
	}
	signed := head[:len(head)-sha256.Size]
	if sum := sha256.Sum256(signed); !bytes.Equal(sum[:], head[len(signed):]) {
		return h, nil, damaged("header does not match its digest")
	}
	if err := json.Unmarshal(signed[len(fixed):], &h); err != nil {
		return h, nil, damaged("header: %s", shown(err.Error()))
	}
	h.Size = int64(len(head)) + h.BodySize
	h.Sum = headSum(head)
	if h.Signature != nil {
		if err := h.Signature.checkSignature(signed[len(fixed):]); err != nil {
			return h, nil, err
		}
	}
	if h.Format > FormatVersion {
		return h, nil, &newerFormatError{h.Format, h.Signature}
	}
	return h, head, h.check()
}

// newerFormatError: an object has a format that this program does not know. Whether that is so depends on who signed it; nil: nobody.
type newerFormatError struct {
	format int
	by     *Signature
}

func (e *newerFormatError) Error() string {
	return fmt.Sprintf("format %d is newer than this program supports (%d): use a newer program", e.format, FormatVersion)
}

// shown is a text of a header as errors quote it: anybody can write one of 64 KiB, and errors of many objects are kept.
func shown(text string) string {
	const most = 200
	if len(text) > most {
		return strings.Clone(text[:most]) + "…"
	}
	return text
}

func (h Header) check() error {
	sum, err := hex.DecodeString(h.BodySum)
	switch {
	case err != nil || len(sum) != sha256.Size:
		return damaged("header: invalid body digest %q", shown(h.BodySum))
	case h.Compression != "zstd":
		return damaged("header: unknown compression %q", shown(h.Compression))
	case h.Encryption != "" && h.Encryption != "age":
		return damaged("header: unknown encryption %q", shown(h.Encryption))
	case h.BodySize < 0 || h.Content < 0:
		return damaged("header: negative size")
	case h.Place.Revision < 1 || h.Last < h.Place.Revision:
		return damaged("header: invalid revisions %d to %d", h.Place.Revision, h.Last)
	case !h.After.valid(), !h.Base.valid():
		return damaged("header: a link names no object")
	case h.Place.Kind == KindFull && h.Last != h.Place.Revision:
		return damaged("header: a full with two revisions")
	}
	return nil
}

func (h Header) bodySum() (sum [sha256.Size]byte) {
	b, _ := hex.DecodeString(h.BodySum)
	copy(sum[:], b)
	return sum
}

// ReadHeader fetches and checks the header of the object at a place, and that the object belongs there. It does not read
// the body.
func ReadHeader(ctx context.Context, b Bucket, p Place) (Header, error) {
	h, _, err := readHead(ctx, b, p)
	return h, err
}

func readHead(ctx context.Context, b Bucket, p Place) (Header, []byte, error) {
	r, err := b.Open(ctx, p.Name(), 0, headRead)
	if err != nil {
		return Header{}, nil, fmt.Errorf("open %s: %w", p.Name(), err)
	}
	h, head, err := readHeader(r)
	r.Close()
	if IsDamage(err) {
		// A header longer than one request fetches looks truncated: read again without a limit.
		if r, err = b.Open(ctx, p.Name(), 0, -1); err != nil {
			return Header{}, nil, fmt.Errorf("open %s: %w", p.Name(), err)
		}
		h, head, err = readHeader(r)
		r.Close()
	}
	if err == nil {
		err = h.at(p)
	}
	if err != nil {
		return Header{}, nil, fmt.Errorf("%s: %w", p.Name(), err)
	}
	return h, head, nil
}

// at refuses an object that lies under another object's name.
func (h Header) at(p Place) error {
	if h.Place.Name() != p.Name() {
		return damaged("the object belongs at %s", shown(h.Place.Name()))
	}
	return nil
}

// judgeFormat turns an error about a newer format into damage of that object, unless a key that is trusted has signed it: any client can
// write any number.
func (s *Store) judgeFormat(err error) error {
	var newer *newerFormatError
	if errors.As(err, &newer) && s.judges() && !s.trusts(newer.by) {
		return damaged("%w: %w", ErrUntrusted, err)
	}
	return err
}
