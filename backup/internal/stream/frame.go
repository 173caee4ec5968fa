package stream

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"cke/backup/internal/damage"
)

// A stream may be a run of frames: type (1 byte), length (4, big endian), payload, CRC-32C of all these (4).
const (
	// FrameTarget is the payload size at which a frame is closed.
	FrameTarget = 256 << 10
	// MaxFrame bounds a payload. etcd can be made to accept larger requests: who writes frames leaves these out.
	MaxFrame = 128 << 20
)

// ErrTooLarge reports that a stream requests more memory than a reader grants.
var ErrTooLarge = errors.New("larger than any reader accepts")

var frameSums = crc32.MakeTable(crc32.Castagnoli)

// WriteFrame writes one frame.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	crc := crc32.Update(crc32.Checksum(head[:], frameSums), frameSums, payload)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(payload); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, crc))
	return err
}

// ReadFrame returns the next frame. The payload is fresh memory, never more than twice what the stream really holds.
func ReadFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, Short(err, "frames")
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n > MaxFrame {
		return 0, nil, damage.Errorf("frame of %d bytes: %w", n, ErrTooLarge)
	}
	payload = make([]byte, 0, min(n, 2*FrameTarget))
	for len(payload) < n {
		if len(payload) == cap(payload) {
			grown := make([]byte, len(payload), min(n, 2*cap(payload)))
			copy(grown, payload)
			payload = grown
		}
		part := payload[len(payload):min(cap(payload), n)]
		if _, err := io.ReadFull(r, part); err != nil {
			return 0, nil, Short(err, "frames")
		}
		payload = payload[:len(payload)+len(part)]
	}
	var sum [4]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return 0, nil, Short(err, "frames")
	}
	crc := crc32.Update(crc32.Checksum(head[:], frameSums), frameSums, payload)
	if binary.BigEndian.Uint32(sum[:]) != crc {
		return 0, nil, damage.Errorf("a frame does not match its checksum")
	}
	return head[0], payload, nil
}
