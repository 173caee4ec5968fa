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
// if there is none of the full's revision or later, of the delta that ends with the full. Where nothing is wrong, that is one header. A full that a drill
// found wrong says nothing here, unless it is just damaged.
func (x *Extracted) knowOthers(ctx context.Context, full Header) {
	k, at := x.leading, full.Last
	known := func() bool { return len(x.hashes) > 0 && x.hashes[len(x.hashes)-1].Revision >= at }
	take := func(e Entry) {
		if h := k.header(ctx, e); h != nil {
			x.knowHashes(*h, full, at)
		}
	}
	for _, f := range k.lineage.Fulls {
		if slices.Contains(k.doubted, f.ID()) {
			continue
		}
		if at < f.Revision && f.Revision <= x.Revision || f.Revision == at && f.Name() != full.Place.Name() && !known() {
			take(f)
		}
	}
	for i := range k.lineage.Streams {
		st := &k.lineage.Streams[i]
		ends := slices.IndexFunc(st.Deltas, func(d Entry) bool { return d.Revision > at }) - 1
		if ends < -1 {
			ends = len(st.Deltas) - 1
		}
		if !known() && ends >= 0 && st.lastOf(ends) == at {
			take(st.Deltas[ends])
			return
		}
	}
}
