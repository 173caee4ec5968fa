package backup

import (
	"context"
	"errors"
	"time"
)

// applyAll takes in all deltas.
func (s *Store) applyAll(ctx context.Context, a *applier, deltas []Entry, x *Extracted) error {
	b := fetchAhead(ctx, s.Bucket, deltas)
	defer b.Close()
	d := s.decodeAhead(ctx, b, deltas, a.revision)
	defer d.Close()
	var before Header
	for _, e := range deltas {
		good := max(a.base, a.last)
		h, err := a.apply(d, e)
		if err == nil { // who wrote it is asked before what it says of others
			if err := x.witness.see(h); err != nil {
				if !IsDamage(err) {
					return err
				}
				return &DamagedError{Object: e.Name(), LastGood: good, Err: err}
			}
		}
		if follows := h.follows(before); err == nil && follows != nil {
			return &DamagedError{Object: before.Place.Name(), LastGood: max(a.base, before.Place.Revision-1), Err: follows}
		}
		if err == nil && h.Base.contradicts(a.full) {
			return &DamagedError{Object: a.full.Place.Name(), Err: damaged("%w that %s names", errNotThat, e.Name())}
		}
		before = h
		if err != nil {
			if errors.Is(err, ErrNotFound) {
				err = damaged("%w", errMissing)
			}
			if IsDamage(err) {
				err = &DamagedError{Object: e.Name(), LastGood: good, Err: err}
			}
			return err
		}
		x.history.add(h)
		x.users.known = x.users.known.Later(h.Users())
		for _, hash := range h.Hashes {
			if hash.Revision <= a.revision {
				a.compacted = max(a.compacted, hash.Compacted)
			}
		}
		x.End, x.through = h.End, h.End
		if h.Last > a.revision {
			x.End = a.received
		}
		x.knowHashes(h, a.full, a.base)
	}
	if a.last != a.revision {
		last := deltas[len(deltas)-1]
		return &DamagedError{Object: last.Name(), LastGood: a.last, Err: damaged("the chain ends at revision %d", a.last)}
	}
	return nil
}

// apply takes in the next delta.
func (a *applier) apply(d *decodeAhead, e Entry) (Header, error) {
	a.have = max(a.last, a.base)
	if e.Revision > a.have+1 {
		return Header{}, damaged("it starts at revision %d, but the changes before it end at %d: those between them are missing", e.Revision, a.have)
	}
	for p := range d.parts {
		if p.leases != nil {
			a.leases.observe(*p.leases, a.base)
		}
		for _, r := range p.records {
			if err := a.record(r); err != nil {
				return Header{}, err
			}
		}
		if p.last {
			a.received = p.received
			return p.header, p.err
		}
	}
	return Header{}, errNoMore // the decoding was ended: ctx has
}

// applier takes in the changes that follow a full, and hands them on as records of etcd's database, offline: no etcd runs, so no
// request is too large, no lease expires, and every revision, version and lease comes out as it was.
type applier struct {
	full           Header
	base, revision int64 // of the full; wanted
	compacted      int64 // newest compaction known by then
	leases         *leaseBook
	// add takes the next record. The key is valid until it returns, the value for ever.
	add func(key, value []byte) error

	received time.Time // when the newest wanted change of the delta came that was applied last

	last    int64 // newest main revision applied or passed over
	have    int64 // the same when the delta began: deltas may overlap, and hold the same where they do
	records int64
	key     []byte
}

func newApplier(add func(key, value []byte) error, full Header, revision int64) *applier {
	return &applier{full: full, base: full.Last, revision: revision, have: full.Last, leases: newLeaseBook(revision), add: add}
}

// record applies one change, unless the full or a delta before has it already, or it is newer than what is wanted.
func (a *applier) record(r Record) error {
	if r.Main > a.revision {
		return nil
	}
	a.last = max(a.last, r.Main)
	if r.Main <= a.have {
		return nil
	}
	_, lease, ok := parseKeyValue(r.Value)
	if !ok {
		return damaged("the change of revision %d.%d cannot be read", r.Main, r.Sub)
	}
	a.leases.refer(lease, r.Main)
	a.key = r.AppendKey(a.key[:0])
	a.records++
	return a.add(a.key, r.Value)
}
