package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"filippo.io/age"

	"cke/backup/internal/stream"
)

// ErrGap reports that changes are missing between what a delta holds and what was to be added, or that it cannot hold them.
var ErrGap = errors.New("revisions are missing")

// timeGrain is how finely a delta remembers when its changes came.
const timeGrain = time.Second

// DeltaWriter builds one delta in memory: framed, compressed, encrypted. It is not safe for concurrent use.
type DeltaWriter struct {
	body bytes.Buffer
	seal *bodyWriter

	frame     []byte
	frameTime time.Time
	value     []byte // scratch

	first   int64
	last    Record // of the newest change; Sub -1: none yet
	records int64
	begin   time.Time
	end     time.Time
	payload int64

	mark      marker
	clockBack bool
}

// NewDeltaWriter starts a delta whose first change has this revision.
func NewDeltaWriter(first int64, recipients []age.Recipient) (*DeltaWriter, error) {
	w := &DeltaWriter{first: first, last: Record{Main: first - 1, Sub: -1}, mark: newMarker()}
	var err error
	if w.seal, err = newBody(&w.body, recipients, false); err != nil {
		return nil, err
	}
	return w, nil
}

// maxChange bounds the key and value of a change, which shares its frame with smaller ones before it.
const maxChange = stream.MaxFrame - 2*stream.FrameTarget

// Add adds changes, in the order in which etcd sent them and with all changes of a revision in one call. Changes that
// precede the delta are skipped. If a revision is missing, or a change is larger than a delta can hold, it adds nothing and returns ErrGap.
func (w *DeltaWriter) Add(changes []Change, now time.Time) error {
	for len(changes) > 0 && changes[0].ModRevision < w.first {
		changes = changes[1:]
	}
	next := w.last.Main
	for i := range changes {
		switch m := changes[i].ModRevision; {
		case m == next+1:
			next++
		case m != next || i == 0:
			return fmt.Errorf("%w: revision %d follows %d", ErrGap, m, next)
		}
		if c := &changes[i]; len(c.Key)+len(c.Value) > maxChange {
			return fmt.Errorf("%w: a change of revision %d has %d MiB, and deltas hold changes of up to %d", ErrGap, c.ModRevision, (len(c.Key)+len(c.Value))>>20, maxChange>>20)
		}
	}
	for i := range changes {
		if err := w.add(&changes[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (w *DeltaWriter) add(c *Change, now time.Time) error {
	r := Record{Main: c.ModRevision, Tombstone: c.Delete}
	if r.Main == w.last.Main {
		r.Sub = w.last.Sub + 1
	}
	if len(w.frame) >= stream.FrameTarget || len(w.frame) > 0 && now.Sub(w.frameTime).Abs() >= timeGrain {
		if err := w.flushFrame(); err != nil {
			return err
		}
	}
	w.value = appendKeyValue(w.value[:0], c)
	head := uint64(len(w.value)) << 2
	if c.Delete {
		head |= 1
	}
	if len(w.frame) == 0 {
		w.frameTime = now
		w.frame = binary.AppendUvarint(w.frame, uint64(r.Main))
		w.frame = binary.AppendUvarint(w.frame, uint64(r.Sub))
		w.frame = binary.AppendUvarint(w.frame, uint64(max(0, now.UnixMilli())))
	} else if r.Sub == 0 {
		head |= 2
	}
	w.frame = binary.AppendUvarint(w.frame, head)
	w.frame = append(w.frame, w.value...)
	if w.records == 0 {
		w.begin = now
	}
	w.clockBack = w.clockBack || now.Before(w.end)
	w.end = now
	w.mark.add(r, w.value)
	w.last = r
	w.records++
	w.payload += int64(len(c.Key) + len(c.Value))
	return nil
}

func (w *DeltaWriter) flushFrame() error {
	if len(w.frame) == 0 {
		return nil
	}
	err := stream.WriteFrame(w.seal, frameEvents, w.frame)
	if cap(w.frame) > 4*stream.FrameTarget {
		w.frame = nil
	}
	w.frame = w.frame[:0]
	return err
}

// AddLeases records the lease changes observed after the changes added so far, the earliest first.
func (w *DeltaWriter) AddLeases(lists ...LeaseChange) error {
	if err := w.flushFrame(); err != nil {
		return err
	}
	for _, c := range lists {
		if err := stream.WriteFrame(w.seal, frameLeases, c.encode()); err != nil {
			return err
		}
	}
	return nil
}

// Empty reports whether the delta has nothing to store.
func (w *DeltaWriter) Empty() bool { return w.records == 0 }

// Last is the newest revision in the delta; First-1 while it is empty.
func (w *DeltaWriter) Last() int64 { return w.last.Main }

// Mark is the mark of revision Last; empty while the delta is.
func (w *DeltaWriter) Mark() string {
	if w.Empty() {
		return ""
	}
	return w.mark.sum()
}

// Size is the number of bytes held in memory.
func (w *DeltaWriter) Size() int64 { return int64(w.body.Len() + len(w.frame)) }

// Payload is the number of bytes of keys and values added.
func (w *DeltaWriter) Payload() int64 { return w.payload }

// Seal completes the delta for a place whose Revision is First. h provides what the writer of a delta cannot know: place,
// hashes, writer. The DeltaWriter cannot be used again.
func (w *DeltaWriter) Seal(h Header) (Content, Header, error) {
	if err := w.flushFrame(); err != nil {
		return Content{}, h, err
	}
	end := binary.AppendUvarint(nil, uint64(w.last.Main))
	if err := stream.WriteFrame(w.seal, frameEnd, binary.AppendUvarint(end, uint64(w.records))); err != nil {
		return Content{}, h, err
	}
	if err := w.seal.Close(); err != nil {
		return Content{}, h, err
	}
	h.Last, h.Records, h.Begin, h.End = w.last.Main, w.records, w.begin.UTC(), w.end.UTC()
	h.Mark, h.ClockBack = w.Mark(), w.clockBack
	w.seal.describe(&h)
	head, err := h.encode(0)
	if err != nil {
		return Content{}, h, err
	}
	c := Content{Head: head, Body: &memoryBody{data: w.body.Bytes(), sum: h.bodySum()}}
	h.Size, h.Sum = c.Size(), headSum(head)
	return c, h, nil
}
