package backup

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"filippo.io/age"

	"cke/backup/internal/stream"
)

// The content of a delta is a run of frames of these types.
const (
	frameEvents byte = 'E'
	frameLeases byte = 'L'
	frameEnd    byte = 'Z' // the last one; its payload repeats the last revision and the number of records
)

// deltaVisitor gets what a delta holds, in order. Values stay valid.
type deltaVisitor struct {
	// record gets every change.
	record func(r Record) error
	// leases gets every list of leases; may be nil.
	leases func(c LeaseChange) error
	// frame gets the time and the first revision of every run of changes; may be nil.
	frame func(t time.Time, first Record) error
}

// readDelta visits the delta at a place. After an error nothing of what was visited can be trusted.
func readDelta(ctx context.Context, b Bucket, p Place, ids []age.Identity, v deltaVisitor) (Header, error) {
	body, err := b.Open(ctx, p.Name(), 0, -1)
	if err != nil {
		return Header{}, fmt.Errorf("open %s: %w", p.Name(), err)
	}
	defer body.Close()
	h, _, err := readHeader(body)
	if err == nil {
		err = h.at(p)
	}
	if err == nil {
		err = readDeltaBody(h, body, ids, v)
	}
	if err != nil {
		return h, fmt.Errorf("%s: %w", p.Name(), err)
	}
	return h, nil
}

func readDeltaBody(h Header, body io.Reader, ids []age.Identity, v deltaVisitor) error {
	o, err := openBody(h, body, ids)
	if err != nil {
		return err
	}
	defer o.Close()
	c := deltaChecker{h: h, visit: v, last: Record{Main: h.Place.Revision - 1}}
	for !c.ended {
		kind, payload, err := stream.ReadFrame(o)
		if err != nil {
			return err
		}
		if err := c.frame(kind, payload); err != nil {
			return err
		}
	}
	before := o.Taken()
	if err := o.Finish(); err != nil {
		return err
	}
	if o.Taken() != before {
		return damaged("data follows the last frame")
	}
	return nil
}

// deltaChecker sees that a delta is contiguous and as its header says.
type deltaChecker struct {
	h       Header
	visit   deltaVisitor
	last    Record
	records int64
	ended   bool
}

func (c *deltaChecker) frame(kind byte, payload []byte) error {
	switch kind {
	case frameEvents:
		return c.events(payload)
	case frameLeases:
		l, err := decodeLeases(payload)
		if err != nil || c.visit.leases == nil {
			return err
		}
		return c.visit.leases(l)
	case frameEnd:
		last, n := binary.Uvarint(payload)
		records, m := binary.Uvarint(payload[max(n, 0):])
		if n <= 0 || m <= 0 || int64(last) != c.last.Main || int64(records) != c.records {
			return damaged("its end frame does not match its changes")
		}
		if c.h.Last != c.last.Main || c.h.Records != c.records {
			return damaged("it holds %d changes up to revision %d, its header says %d up to %d",
				c.records, c.last.Main, c.h.Records, c.h.Last)
		}
		c.ended = true
		return nil
	}
	return damaged("unknown frame %q", kind)
}

func (c *deltaChecker) events(payload []byte) error {
	e, err := newEventsReader(payload)
	if err != nil {
		return err
	}
	if c.visit.frame != nil {
		if err := c.visit.frame(e.time, e.next); err != nil {
			return err
		}
	}
	for {
		r, ok, err := e.Next()
		if err != nil || !ok {
			return err
		}
		follows := r.Main == c.last.Main && r.Sub == c.last.Sub+1 && c.records > 0 || r.Main == c.last.Main+1 && r.Sub == 0
		if !follows {
			return damaged("revision %d.%d follows %d.%d", r.Main, r.Sub, c.last.Main, c.last.Sub)
		}
		c.last = r
		c.records++
		if c.visit.record != nil {
			if err := c.visit.record(r); err != nil {
				return err
			}
		}
	}
}
