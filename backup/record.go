package backup

import (
	"encoding/binary"
	"math"
	"time"
)

// Record is one change as etcd stores it in its database.
type Record struct {
	// Main and Sub are the revision: Main counts transactions, Sub the changes in one.
	Main, Sub int64
	Tombstone bool
	// Value is the mvccpb.KeyValue that etcd stores; of a tombstone it holds only the key.
	Value []byte
}

// AppendKey appends the record's key in etcd's bucket "key": 17 bytes, 18 for a tombstone.
func (r Record) AppendKey(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(r.Main))
	b = append(b, '_')
	b = binary.BigEndian.AppendUint64(b, uint64(r.Sub))
	if r.Tombstone {
		b = append(b, 't')
	}
	return b
}

// parseRecordKey reads what AppendKey writes.
func parseRecordKey(k []byte) (r Record, ok bool) {
	if (len(k) != 17 && len(k) != 18) || k[8] != '_' || len(k) == 18 && k[17] != 't' {
		return r, false
	}
	r.Main, r.Sub = int64(binary.BigEndian.Uint64(k)), int64(binary.BigEndian.Uint64(k[9:]))
	r.Tombstone = len(k) == 18
	return r, r.Main >= 0 && r.Sub >= 0
}

func isRecordKey(k []byte) bool {
	_, ok := parseRecordKey(k)
	return ok
}

// Change is one event of a watch.
type Change struct {
	Key, Value                  []byte
	CreateRevision, ModRevision int64
	Version, Lease              int64
	Delete                      bool
	_                           struct{}
}

// Field numbers of mvccpb.KeyValue, shifted and tagged with their wire types.
const (
	tagKey            = 1<<3 | 2
	tagCreateRevision = 2 << 3
	tagModRevision    = 3 << 3
	tagVersion        = 4 << 3
	tagValue          = 5<<3 | 2
	tagLease          = 6 << 3
)

// appendKeyValue appends the change as etcd itself encodes it: fields in order, empty ones left out. A tombstone has
// the key alone, although a watch reports a deletion with its revision.
func appendKeyValue(b []byte, c *Change) []byte {
	b = appendBytes(b, tagKey, c.Key)
	if c.Delete {
		return b
	}
	b = appendInt(b, tagCreateRevision, c.CreateRevision)
	b = appendInt(b, tagModRevision, c.ModRevision)
	b = appendInt(b, tagVersion, c.Version)
	b = appendBytes(b, tagValue, c.Value)
	return appendInt(b, tagLease, c.Lease)
}

func appendBytes(b []byte, tag byte, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

func appendInt(b []byte, tag byte, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tag), uint64(v))
}

// parseKeyValue returns key and lease of an encoded mvccpb.KeyValue without copying; false if it is none.
func parseKeyValue(b []byte) (key []byte, lease int64, ok bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, 0, false
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, 0, false
		}
		b = b[n:]
		switch tag & 7 {
		case 0:
			if tag == tagLease {
				lease = int64(v)
			}
		case 2:
			if v > uint64(len(b)) {
				return nil, 0, false
			}
			if tag == tagKey {
				key = b[:v]
			}
			b = b[v:]
		default:
			return nil, 0, false
		}
	}
	return key, lease, true
}

// An events frame: first revision (main, sub) and time in ms as uvarints, then the records. A record is a uvarint of
// its value's length ×4, +2 if it opens the next main revision, +1 if it is a tombstone, and then the value. The first
// record of a frame has the frame's revision. Main revisions grow by one and subs count from 0, so that a gap cannot
// even be written down.
type eventsReader struct {
	rest  []byte
	next  Record
	first bool
	time  time.Time
}

func newEventsReader(payload []byte) (*eventsReader, error) {
	var v [3]uint64
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(payload); n <= 0 || v[i] > math.MaxInt64 {
			return nil, damaged("an events frame has no revision")
		}
		payload = payload[n:]
	}
	return &eventsReader{
		rest: payload, next: Record{Main: int64(v[0]), Sub: int64(v[1])}, first: true, time: time.UnixMilli(int64(v[2])).UTC(),
	}, nil
}

// Next returns the next record; false at the end. The value is part of the frame.
func (e *eventsReader) Next() (Record, bool, error) {
	if len(e.rest) == 0 {
		return Record{}, false, nil
	}
	head, n := binary.Uvarint(e.rest)
	if n <= 0 || head>>2 > uint64(len(e.rest)-n) {
		return Record{}, false, damaged("a record is longer than its frame")
	}
	switch {
	case e.first:
		e.first = false
	case head&2 != 0:
		e.next.Main, e.next.Sub = e.next.Main+1, 0
	default:
		e.next.Sub++
	}
	r := e.next
	r.Tombstone = head&1 != 0
	size := int(head >> 2)
	r.Value = e.rest[n : n+size : n+size]
	e.rest = e.rest[n+size:]
	return r, true, nil
}
