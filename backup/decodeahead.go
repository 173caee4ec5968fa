package backup

import (
	"context"
	"errors"
	"sync"
	"time"

	"cke/internal/contain"
)

const (
	// decodedRecords is how many changes are handed over at once, decodedBytes how much of values, and decodedParts how many such
	// parts wait at most.
	decodedRecords = 1000
	decodedBytes   = 1 << 20
	decodedParts   = 4
)

// errNoMore stops decoding what is no longer needed.
var errNoMore = errors.New("closed")

// decodeAhead reads deltas in their order in a goroutine of its own, while those before are applied.
type decodeAhead struct {
	parts chan decoded
	quit  chan struct{}
	wg    sync.WaitGroup
}

// decoded is some of what a delta holds, or its end.
type decoded struct {
	leases  *LeaseChange // before the records
	records []Record
	last    bool
	header  Header
	// received is when the newest of its changes came that are wanted.
	received time.Time
	err      error
}

// decodeAhead starts; Close ends it. It ends by itself with the last delta, or with the first that cannot be read. Changes up to a revision are
// wanted.
func (s *Store) decodeAhead(ctx context.Context, b Bucket, deltas []Entry, revision int64) *decodeAhead {
	d := &decodeAhead{parts: make(chan decoded, decodedParts), quit: make(chan struct{})}
	d.wg.Go(contain.Work(func() {
		defer close(d.parts)
		for _, e := range deltas {
			end := decoded{last: true}
			end.err = contain.Do(func() (err error) {
				end.header, err = d.decode(ctx, s, b, e, func(t time.Time, first Record) error {
					if first.Main <= revision {
						end.received = t
					}
					return nil
				})
				return err
			})
			if d.send(end) != nil || end.err != nil {
				return
			}
		}
	}, func(error) {}))
	return d
}

func (d *decodeAhead) decode(ctx context.Context, s *Store, b Bucket, e Entry, frame func(t time.Time, first Record) error) (Header, error) {
	var records []Record
	bytes := 0
	flush := func(c *LeaseChange) error {
		if c == nil && len(records) == 0 {
			return nil
		}
		p := decoded{records: records}
		records, bytes = nil, 0
		if err := d.send(p); err != nil || c == nil {
			return err
		}
		return d.send(decoded{leases: c})
	}
	h, err := readDelta(ctx, b, e.Place, s.Identities, deltaVisitor{
		frame: frame,
		record: func(r Record) error {
			if records == nil {
				records = make([]Record, 0, decodedRecords)
			}
			records, bytes = append(records, r), bytes+len(r.Value)
			if len(records) < decodedRecords && bytes < decodedBytes {
				return nil
			}
			return flush(nil)
		},
		leases: func(c LeaseChange) error { return flush(&c) },
	})
	if err == nil {
		err = flush(nil)
	}
	return h, err
}

func (d *decodeAhead) send(p decoded) error {
	select {
	case d.parts <- p:
		return nil
	case <-d.quit:
		return errNoMore
	}
}

// Close waits for pending work.
func (d *decodeAhead) Close() {
	close(d.quit)
	d.wg.Wait()
}
