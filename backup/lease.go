package backup

import (
	"cmp"
	"encoding/binary"
	"math"
	"time"
)

// SafeTTL is given to a lease that keys refer to and of which nothing else is known: it expired before its TTL could be
// read. Its keys were about to be deleted, so a short TTL is correct; without a lease they would remain forever.
const SafeTTL = 60 * time.Second

// Lease is a lease of etcd.
type Lease struct {
	ID int64 `json:"id"`
	// TTL is the granted time, in seconds.
	TTL int64 `json:"ttl"`
}

// LeaseChange is what was seen of the leases while revisions went from Low to High: the list was requested after Low and
// was received before High.
type LeaseChange struct {
	Low, High int64
	// Reset means that Granted is the whole list, and leases that are not in it have ended.
	Reset bool
	// Granted are new leases; Gone have ended. A lease in both was not there when the list was made: it was granted and had ended before, or it was
	// granted after that.
	Granted []Lease
	Gone    []int64
}

// A leases frame: low, high, flags (1: reset), number granted, each (id: 8 bytes, ttl: uvarint), number gone, ids.
func (c LeaseChange) encode() []byte {
	b := binary.AppendUvarint(nil, uint64(c.Low))
	b = binary.AppendUvarint(b, uint64(c.High))
	flags := byte(0)
	if c.Reset {
		flags = 1
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(c.Granted)))
	for _, l := range c.Granted {
		b = binary.BigEndian.AppendUint64(b, uint64(l.ID))
		b = binary.AppendUvarint(b, uint64(l.TTL))
	}
	b = binary.AppendUvarint(b, uint64(len(c.Gone)))
	for _, id := range c.Gone {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	return b
}

func decodeLeases(b []byte) (c LeaseChange, err error) {
	bad := damaged("invalid frame of leases")
	number := func() int64 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > math.MaxInt64 {
			b = nil
			return -1
		}
		b = b[n:]
		return int64(v)
	}
	c.Low, c.High = number(), number()
	if c.Low < 0 || c.High < c.Low || len(b) == 0 {
		return c, bad
	}
	c.Reset, b = b[0]&1 != 0, b[1:]
	granted := number()
	if granted < 0 || granted > int64(len(b))/9 {
		return c, bad
	}
	for range granted {
		if len(b) < 9 {
			return c, bad
		}
		l := Lease{ID: int64(binary.BigEndian.Uint64(b))}
		b = b[8:]
		if l.TTL = number(); l.TTL < 0 {
			return c, bad
		}
		c.Granted = append(c.Granted, l)
	}
	gone := number()
	if gone < 0 || gone != int64(len(b))/8 || len(b)%8 != 0 {
		return c, bad
	}
	for ; len(b) > 0; b = b[8:] {
		c.Gone = append(c.Gone, int64(binary.BigEndian.Uint64(b)))
	}
	return c, nil
}

// leaseBook follows the leases up to one revision, from a full whose own leases are reported in the end only. So it follows what
// became of any lease twice: as if the full had it, and as if not.
type leaseBook struct {
	at            int64 // the revision that is being restored
	low           int64
	whole         bool // a list had all leases, so that from there on what no list has is known to have ended
	with, without leaseState
	// referred are leases that changes name of which lists may be too early to have them: id → newest revision that names it. A list that is repeated
	// follows changes that were made after it.
	referred map[int64]int64
	times    map[int64]int64 // what later lists say of the time granted, by id: changes up to the revision may name such leases
}

// leaseState is what is known of leases.
type leaseState struct {
	// others: every lease is there, too, that is neither known nor gone.
	others bool
	known  map[int64]int64 // id → time granted
	gone   map[int64]struct{}
}

func newLeaseBook(at int64) *leaseBook {
	empty := func(others bool) leaseState {
		return leaseState{others: others, known: map[int64]int64{}, gone: map[int64]struct{}{}}
	}
	return &leaseBook{at: at, with: empty(true), without: empty(false), referred: map[int64]int64{}, times: map[int64]int64{}}
}

// refer notes that a record of this revision names a lease.
func (b *leaseBook) refer(lease, revision int64) {
	if lease != 0 && revision > b.low {
		b.referred[lease] = revision
	}
}

// observe takes a list of leases in. base is the revision of the full: lists from before it are in its file already.
func (b *leaseBook) observe(c LeaseChange, base int64) {
	if c.High < base {
		return
	}
	there, others := c.split()
	for _, l := range others { // changes after the list may name them
		b.times[l.ID] = l.TTL
	}
	if c.High > b.at {
		// Seen after the revision wanted: what has ended by then may be alive at it, what is new may not be there yet.
		for _, l := range there {
			b.times[l.ID] = l.TTL
		}
		return
	}
	if c.Low < base {
		b.with.show(there) // what the full has may be newer: ended, its keys would never expire
	} else {
		b.with.observe(c, there)
	}
	b.without.observe(c, there)
	b.end(c)
	if b.whole {
		if b.low = max(b.low, c.Low); c.Reset { // what earlier lists showed counts no more: this one may be of another daemon, from a member that lags
			b.low = c.Low
		}
	}
}

// end forgets leases that only changes up to a list name: neither that nor one before it has them, so they had ended, and their keys with them.
func (b *leaseBook) end(c LeaseChange) {
	for _, id := range c.Gone {
		if b.referred[id] <= c.Low {
			delete(b.referred, id)
		}
	}
	if b.whole = b.whole || c.Reset; !b.whole {
		return
	}
	for id, revision := range b.referred {
		if revision <= c.Low {
			delete(b.referred, id)
		}
	}
}

// split returns the leases that were there when the list was made, and the others that it names with their times.
func (c LeaseChange) split() (there, others []Lease) {
	gone := make(map[int64]struct{}, len(c.Gone))
	for _, id := range c.Gone {
		gone[id] = struct{}{}
	}
	for _, l := range c.Granted {
		if _, is := gone[l.ID]; is {
			others = append(others, l)
		} else {
			there = append(there, l)
		}
	}
	return there, others
}

// most is how many leases there are at most, if the full has some.
func (b *leaseBook) most(full int64) int64 {
	return full + int64(len(b.without.known)+len(b.referred))
}

// settle returns all leases at the revision; full are those of the full.
func (b *leaseBook) settle(full map[int64]int64) map[int64]int64 {
	leases := map[int64]int64{}
	for id, ttl := range full {
		if b.with.has(id) {
			leases[id] = ttl
		}
	}
	enter := func(s *leaseState, wanted bool) {
		for id, ttl := range s.known {
			if _, is := full[id]; is == wanted {
				leases[id] = ttl
			}
		}
	}
	enter(&b.with, true)
	enter(&b.without, false)
	for id := range b.referred {
		if _, there := leases[id]; !there {
			leases[id] = cmp.Or(b.times[id], full[id], int64(SafeTTL/time.Second))
		}
	}
	return leases
}

func (s *leaseState) has(id int64) bool {
	if _, ok := s.known[id]; ok {
		return true
	}
	_, gone := s.gone[id]
	return s.others && !gone
}

// observe takes in a list, which has some leases that were there when it was made.
func (s *leaseState) observe(c LeaseChange, there []Lease) {
	if c.Reset {
		s.others = false
		clear(s.known)
		clear(s.gone)
	}
	s.show(there)
	for _, id := range c.Gone {
		delete(s.known, id)
		if s.others {
			s.gone[id] = struct{}{}
		}
	}
}

// show takes in the leases that a list has, and not what it lacks.
func (s *leaseState) show(there []Lease) {
	for _, l := range there {
		s.grant(l)
	}
}

func (s *leaseState) grant(l Lease) {
	s.known[l.ID] = l.TTL
	delete(s.gone, l.ID)
}
