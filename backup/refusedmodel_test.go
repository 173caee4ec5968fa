package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// refusing is a target that lists objects and refuses to open some.
type refusing struct {
	*shelf
	names []string
}

func (b refusing) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if slices.Contains(b.names, name) {
		return nil, errors.New("InvalidObjectState: the operation is not valid for the object's storage class")
	}
	return b.shelf.Open(ctx, name, offset, length)
}

// randomWorld has a lineage with streams, gaps and fulls, of which the first objects may not be signed, and perhaps one before it.
func randomWorld(t *testing.T, r *rand.Rand, signer *Signer) (b *shelf, names []string, last int64) {
	b = newShelf()
	unsigned := 0
	if r.Intn(3) == 0 {
		unsigned = r.Intn(6)
	}
	n := 0
	put := func(h Header) Header {
		if n++; n <= unsigned {
			h.Signer = nil
		}
		h = b.dated(t, h)
		names = append(names, h.Place.Name())
		return h
	}
	if r.Intn(2) == 0 {
		h := fullHead(50, signer)
		h.Place.Lineage = "0001"
		put(h)
	}
	rev := int64(100)
	first := put(fullHead(rev, signer))
	base, after := first.Link(), (*Link)(nil)
	stream, sequence := rev+1, int64(0)
	for range 2 + r.Intn(7) {
		switch r.Intn(6) {
		case 0: // a full
			h := fullHead(rev, signer)
			h.Place = FullPlace("prod", "a1b2", rev, when(rev))
			h.After = after
			if _, there := b.objects[h.Place.Name()]; there {
				continue
			}
			base = put(h).Link()
		case 1: // a full within a delta
			to := rev + 10
			h := fullHead(rev+5, signer)
			h.After = after
			put2 := h
			d := deltaHead(stream, sequence, rev+1, to, signer)
			d.After, d.Base = after, base
			base = put(put2).Link()
			after = put(d).Link()
			sequence, rev = sequence+1, to
		case 2: // a gap
			rev += 20
			h := fullHead(rev, signer)
			h.After = after
			base = put(h).Link()
			stream, sequence = rev+1, 0
		default:
			d := deltaHead(stream, sequence, rev+1, rev+10, signer)
			d.After, d.Base = after, base
			after = put(d).Link()
			sequence, rev = sequence+1, rev+10
		}
	}
	return b, names, rev
}

// seeds of random targets.
func seeds(all int64) int64 {
	if testing.Short() {
		return all / 4
	}
	return all
}

// What a target lists and does not find, once or for good, makes no restore give another state, and no prune delete what can be restored.
func TestFind_RandomObjectsThatAreNotFoundHideNothing(t *testing.T) {
	signer := newSigner(t)
	bad := map[string]int{}
	for seed := range seeds(240) {
		r := rand.New(rand.NewSource(seed))
		b, names, last := randomWorld(t, r, signer)
		signs := r.Intn(2) == 0
		cached := r.Intn(2) == 0
		keep := cke.Retention{Last: 1 + r.Intn(3)}
		open := func(b Bucket) *Store {
			s := ours(b, signer)
			if !signs {
				s.AllowUntrusted = true
			}
			s.Retry.First = time.Nanosecond
			s.Whole, s.Verdicts = new(Whole), new(Verdicts)
			for _, n := range names {
				q, _ := ParsePlace(n)
				if q.Kind == KindFull {
					s.Whole.Add(q.ID())
				}
			}
			return s
		}
		fine := b.clone()
		_, errFine := open(fine).Prune(t.Context(), keep, false)
		c := &absent{b.clone(), map[string]int{}}
		s := open(c)
		if cached {
			s.Lineages(t.Context())
		}
		for range 1 + r.Intn(2) {
			c.left[names[r.Intn(len(names))]] = []int{1, 2, 3, 1000}[r.Intn(4)]
		}
		fault := fmt.Sprint(c.left)
		rev := 100 + r.Int63n(last-99)
		for kind, at := range map[string]At{"newest": {}, "revision": {Lineage: "a1b2", Revision: rev}, "time": {Lineage: "a1b2", Time: when(rev)}} {
			d := &absent{b.clone(), maps.Clone(c.left)}
			f, err := open(b).Find(t.Context(), at)
			g, err2 := open(d).Find(t.Context(), at)
			if err2 == nil && (err != nil || f.Lineage != g.Lineage || f.Revision != g.Revision) {
				if bad[kind]++; bad[kind] < 3 {
					t.Errorf("%d: %s: %+v, %v; missing %s: %+v\n%s", seed, kind, f, err, fault, g, strings.Join(names, "\n"))
				}
			}
		}
		plan, err := s.Prune(t.Context(), keep, false)
		c.left = map[string]int{}
		if errFine != nil {
			continue
		}
		for rev := int64(100); rev <= last; rev++ {
			at := At{Lineage: "a1b2", Revision: rev}
			if _, e := open(fine).Find(t.Context(), at); e != nil {
				continue
			}
			if _, e := open(c).Find(t.Context(), at); e != nil {
				if bad["prune"]++; bad["prune"] < 4 {
					t.Errorf("%d: signs %t cached %t keep %+v: revision %d is lost: %v; deleted %v, %v; missing %s\n%s", seed, signs, cached, keep, rev, e, plan.Delete, err, fault, strings.Join(names, "\n"))
				}
				break
			}
		}
	}
}

// What a target refuses makes no restore give another state, and no prune delete anything.
func TestFind_RandomObjectsThatAreRefusedHideNothing(t *testing.T) {
	signer := newSigner(t)
	bad := map[string]int{}
	for seed := range seeds(300) {
		r := rand.New(rand.NewSource(seed))
		b, names, last := randomWorld(t, r, signer)
		var refused []string
		for range 1 + r.Intn(3) {
			refused = append(refused, names[r.Intn(len(names))])
		}
		whole, some := ours(b, signer), ours(refusing{b, refused}, signer)
		some.Retry.First = time.Nanosecond
		rev := 100 + r.Int63n(last-99)
		for kind, at := range map[string]At{"newest": {}, "newest of": {Lineage: "a1b2"}, "revision": {Lineage: "a1b2", Revision: rev}, "time": {Lineage: "a1b2", Time: when(rev)}, "late": {Time: when(last + 1000)}} {
			f, err := whole.Find(t.Context(), at)
			g, bad2 := some.Find(t.Context(), at)
			if bad2 == nil && (err != nil || f.Lineage != g.Lineage || f.Revision != g.Revision) {
				if bad[kind]++; bad[kind] < 3 {
					t.Errorf("%d: %s: %+v, %v; refused %s: %+v\n%s", seed, kind, f, err, strings.Join(refused, ", "), g, strings.Join(names, "\n"))
				}
			}
		}
		c := b.clone()
		p := ours(refusing{c, refused}, signer)
		p.Retry.First = time.Nanosecond
		p.Whole = new(Whole)
		for _, n := range names {
			if q, _ := ParsePlace(n); q.Kind == KindFull {
				p.Whole.Add(q.ID())
			}
		}
		if plan, err := p.Prune(t.Context(), cke.Retention{Last: 1}, false); len(plan.Delete) > 0 {
			if bad["prune"]++; bad["prune"] < 3 {
				t.Errorf("%d: deleted %v, %v; refused %v", seed, plan.Delete, err, refused)
			}
		}
	}
}
