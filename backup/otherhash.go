package backup

import (
	"context"
	"slices"
)

// header returns the header of an object of the lineage, which is asked for once. It is nil if nothing that it says counts: it cannot be read now,
// or no trusted key signed it.
func (k *leading) header(ctx context.Context, e Entry) *Header {
	h, asked := k.heads[e.Name()]
	if asked {
		return h
	}
	if read, err := k.s.headerIn(ctx, k.lineage, e); err == nil && k.s.counts(read) {
		h = &read
	}
	k.heads[e.Name()] = h
	return h
}

// counts reports whether what a header says counts beside other objects.
func (s *Store) counts(h Header) bool { return !s.judges() || s.trusts(h.Signature) }

// knowOthers takes in hashes of objects that are not read for a state: of the fulls between the one that it is restored from and the state, and
// unless there is one of a later revision than the full's, of the delta that ends with the full and of others of its revision. Where nothing is wrong,
// that is one header. A full that a drill found wrong says nothing here, unless it is just damaged.
func (x *Extracted) knowOthers(ctx context.Context, full Header) {
	k, at := x.leading, full.Last
	take := func(e Entry) {
		if h := k.header(ctx, e); h != nil {
			x.knowHashes(*h, full, at)
		}
	}
	fulls := func(fits func(f Entry) bool) {
		for _, f := range k.lineage.Fulls {
			if fits(f) && f.Name() != full.Place.Name() && !slices.Contains(k.doubted, f.ID()) {
				take(f)
			}
		}
	}
	fulls(func(f Entry) bool { return at < f.Revision && f.Revision <= x.Revision })
	if len(x.hashes) > 0 && x.hashes[len(x.hashes)-1].Revision > at {
		return
	}
	if d, there := k.lineage.endsAt(at); there {
		take(d)
	}
	fulls(func(f Entry) bool { return f.Revision == at })
}

// endsAt returns a delta whose last change is that of a revision, as far as a listing tells.
func (l *Lineage) endsAt(revision int64) (d Entry, there bool) {
	for i := range l.Streams {
		st := &l.Streams[i]
		ends := slices.IndexFunc(st.Deltas, func(d Entry) bool { return d.Revision > revision }) - 1
		if ends < -1 {
			ends = len(st.Deltas) - 1
		}
		if ends >= 0 && st.lastOf(ends) == revision {
			return st.Deltas[ends], true
		}
	}
	return Entry{}, false
}
