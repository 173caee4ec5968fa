package backup

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// The content of a delta is a run of frames: type (1 byte), length (4, big endian), payload, CRC-32C of all these (4).
const (
	frameEvents byte = 'E'
	frameLeases byte = 'L'
	frameEnd    byte = 'Z' // the last one; its payload repeats the last revision and the number of records

	// frameTarget is the payload size at which a frame is closed.
	frameTarget = 256 << 10
	// maxFrame bounds a payload. It holds any request that etcd can be made to accept.
	maxFrame = 128 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func writeFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	crc := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	if _, err := w.Write(payload); err != nil {
		return err
	}
	_, err := w.Write(binary.BigEndian.AppendUint32(nil, crc))
	return err
}

// readFrame returns the next frame. The payload is fresh memory, never more than twice what the stream really holds.
func readFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, short(err, "frames")
	}
	n := int(binary.BigEndian.Uint32(head[1:]))
	if n > maxFrame {
		return 0, nil, damaged("frame of %d bytes: %w", n, ErrLimit)
	}
	payload = make([]byte, 0, min(n, 2*frameTarget))
	for len(payload) < n {
		if len(payload) == cap(payload) {
			grown := make([]byte, len(payload), min(n, 2*cap(payload)))
			copy(grown, payload)
			payload = grown
		}
		part := payload[len(payload):min(cap(payload), n)]
		if _, err := io.ReadFull(r, part); err != nil {
			return 0, nil, short(err, "frames")
		}
		payload = payload[:len(payload)+len(part)]
	}
	var sum [4]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return 0, nil, short(err, "frames")
	}
	crc := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
	if binary.BigEndian.Uint32(sum[:]) != crc {
		return 0, nil, damaged("a frame does not match its checksum")
	}
	return head[0], payload, nil
}
