package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"pgregory.net/rapid"
)

// shelf is a bucket that holds heads alone: enough for all that is decided by names and headers.
type shelf struct {
	mu      sync.Mutex
	objects map[string][]byte
	sizes   map[string]int64
	times   map[string]time.Time
	opened  int
}

func newShelf() *shelf {
	return &shelf{objects: map[string][]byte{}, sizes: map[string]int64{}, times: map[string]time.Time{}}
}

func (b *shelf) List(_ context.Context, prefix string) (list []Object, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(name, prefix) {
			list = append(list, Object{Name: name, Size: b.sizes[name], ModTime: b.times[name]})
		}
	}
	return list, nil
}

func (b *shelf) Open(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened++
	data, there := b.objects[name]
	if !there {
		return nil, ErrNotFound
	}
	data = data[min(int(offset), len(data)):]
	if length >= 0 {
		data = data[:min(int(length), len(data))]
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (b *shelf) Create(_ context.Context, name string, c Content) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.objects[name]; there {
		return ErrExists
	}
	b.objects[name], b.sizes[name], b.times[name] = c.Head, int64(len(c.Head)), time.Now()
	return nil
}

func (b *shelf) Delete(_ context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.objects, name)
	return nil
}

func (b *shelf) clone() *shelf {
	return &shelf{objects: maps.Clone(b.objects), sizes: maps.Clone(b.sizes), times: maps.Clone(b.times)}
}

// put adds an object with this header. What is there already stays.
func (b *shelf) put(t interface{ Fatal(...any) }, h Header) Header {
	h.Format, h.Compression, h.BodySum = max(h.Format, FormatVersion), "zstd", strings.Repeat("0", 64)
	head, err := h.encode(0)
	if err != nil {
		t.Fatal(err)
	}
	h.Size, h.Sum = int64(len(head)), headSum(head)
	b.Create(context.Background(), h.Place.Name(), Content{Head: head}) // an adversary overwrites nothing
	return h
}

// dawn is when the lineages of these tests begin; revision r is received r seconds later.
var dawn = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func when(revision int64) time.Time { return dawn.Add(time.Duration(revision) * time.Second) }

func deltaHead(stream, sequence, first, last int64, by *Signer) Header {
	return Header{Place: DeltaPlace("prod", "a1b2", stream, sequence, first), Last: last, Begin: when(first), End: when(last), Signer: by}
}

func fullHead(revision int64, by *Signer) Header {
	return Header{Place: FullPlace("prod", "a1b2", revision, when(revision)), Last: revision, Begin: when(revision), End: when(revision), Signer: by}
}

func newSigner(t interface{ Fatal(...any) }) *Signer {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return NewSigner(id)
}

func ours(b Bucket, s *Signer) *Store {
	return &Store{Bucket: b, Cluster: "prod", Signer: s, Trusted: []PublicKey{s.Public()}, Now: func() time.Time { return when(1 << 20) },
		Retry: Retry{First: time.Millisecond, Longest: time.Millisecond, For: time.Nanosecond}}
}

// truth is what a target says of which genuine objects lead where.
func truth(t *rapid.T, s *Store) (l Lineage, chains []string) {
	l, err := s.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.vetted(t.Context(), &l, (*Lineage).entries); err != nil {
		t.Fatal(err)
	}
	for _, c := range l.Chains() {
		chains = append(chains, fmt.Sprint(c.Full.ID(), " to ", c.Last))
	}
	return l, chains
}

// dump shows what is known of all that is listed.
func (l *Lineage) dump(genuine []string) (text string) {
	for _, e := range l.listed {
		v := l.seen[e.Name()]
		out := slices.ContainsFunc(l.Untrusted, func(u Untrusted) bool { return u.Name() == e.Name() })
		text += fmt.Sprintf("%s to %d, genuine %v, signed %v, out %v, %v\n", e.Name(), v.last, slices.Contains(genuine, e.Name()), l.signed(e), out, v.bad)
	}
	return text
}

// target is what would be restored for what is asked.
func (s *Store) wouldRestore(ctx context.Context, at At) (revision int64, objects []string, err error) {
	at.Lineage = "a1b2"
	t, err := s.resolve(ctx, at, false)
	if err != nil {
		return 0, nil, err
	}
	for _, d := range t.chains[0].upTo(t.revision) {
		objects = append(objects, d.Name())
	}
	return t.revision, append(objects, t.chains[0].Full.Name()), nil
}

// world is a lineage as daemons write and prune it.
type world struct {
	b      *shelf
	signer *Signer
	last   int64
	names  []string
}

func drawWorld(t *rapid.T) *world {
	w := &world{b: newShelf(), signer: newSigner(t)}
	from := rapid.Int64Range(0, 3).Draw(t, "unsigned") // revisions × 10 before anything is signed
	w.last = 1
	unsigned := func() *Signer {
		if w.last < 10*from {
			return nil
		}
		return w.signer
	}
	w.b.put(t, fullHead(1, unsigned()))
	stream, sequence := int64(2), int64(0)
	var before *Link
	for range rapid.IntRange(3, 12).Draw(t, "steps") {
		switch rapid.IntRange(0, 5).Draw(t, "step") {
		case 0:
			w.b.put(t, fullHead(w.last, unsigned()))
		case 1: // another daemon begins a stream of its own
			w.b.put(t, fullHead(w.last, unsigned()))
			stream, sequence = w.last+1, 0
		default:
			h := deltaHead(stream, sequence, w.last+1, w.last+rapid.Int64Range(1, 4).Draw(t, "changes"), unsigned())
			h.After = before
			h = w.b.put(t, h)
			before, sequence, w.last = h.Link(), sequence+1, h.Last
		}
	}
	l, _ := truth(t, ours(w.b, w.signer))
	for _, e := range l.entries() { // some were pruned
		if e.Revision < w.last/2 && rapid.IntRange(0, 3).Draw(t, "pruned") == 0 {
			w.b.Delete(t.Context(), e.Name())
		}
	}
	w.names = slices.Sorted(maps.Keys(w.b.objects))
	return w
}

// attack adds what somebody makes who can create objects and has no key.
func (w *world) attack(t *rapid.T) *shelf {
	b := w.b.clone()
	other := newSigner(t)
	for range rapid.IntRange(1, 12).Draw(t, "forged objects") {
		var by *Signer
		if rapid.Bool().Draw(t, "signed by another key") {
			by = other
		}
		first := rapid.Int64Range(1, w.last+5).Draw(t, "first")
		last := first + rapid.SampledFrom([]int64{0, 1, 2, 5, 1000}).Draw(t, "span")
		h := fullHead(first, by)
		if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
			streams := []int64{first}
			for _, n := range w.names {
				if p, _ := ParsePlace(n); p.Stream > 0 && p.Stream <= first {
					streams = append(streams, p.Stream)
				}
			}
			h = deltaHead(rapid.SampledFrom(streams).Draw(t, "stream"), rapid.Int64Range(0, 12).Draw(t, "sequence"), first, last, by)
		} else if rapid.Bool().Draw(t, "another time") {
			h.Place.Time = dawn.Add(time.Duration(rapid.IntRange(-100, 1000).Draw(t, "time")) * time.Second)
		}
		if rapid.IntRange(0, 5).Draw(t, "newer format") == 0 {
			h.Format = 99
		}
		b.put(t, h)
	}
	return b
}

// Who can create objects in a target changes nothing that names and headers decide of signed backups: no state is refused, or becomes
// another one, nor does a full look dispensable that is not.
func TestProperty_WhatIsForgedDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		clean, attacked := ours(w.b, w.signer), ours(w.attack(t), w.signer)
		was, chains := truth(t, clean)
		i := slices.IndexFunc(was.Fulls, was.signed)
		if i < 0 {
			return // what is older than the first full that is signed cannot be told from what is forged
		}
		first := was.Fulls[i].Revision
		is, now := truth(t, attacked)
		genuine := func(names []string) []string {
			return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !slices.Contains(w.names, n) })
		}
		compare := func(what string, at At) {
			rev, objects, err := clean.wouldRestore(t.Context(), at)
			if err != nil {
				return
			}
			gotRev, got, err := attacked.wouldRestore(t.Context(), at)
			if err != nil || gotRev != rev {
				t.Fatalf("%s: revision %d, %v; without forged objects %d\n%v\n%v\n%s", what, gotRev, err, rev, chains, now, is.dump(w.names))
			}
			if !slices.Equal(got, objects) && len(genuine(got)) != len(got) {
				t.Fatalf("%s: of %q, without forged objects of %q", what, got, objects)
			}
		}
		compare("the newest", At{})
		for rev := first; rev <= w.last; rev++ {
			compare(fmt.Sprint("revision ", rev), At{Revision: rev})
			compare(fmt.Sprint("time of ", rev), At{Time: when(rev).Add(time.Millisecond)})
		}
		for _, f := range was.Fulls {
			if _, err := clean.PlanDelete(t.Context(), f.ID(), false); err != nil && was.signed(f) {
				if gone, err := attacked.PlanDelete(t.Context(), f.ID(), false); !errors.Is(err, ErrOnlyFull) {
					t.Fatalf("delete %s: %v, %v", f.ID(), gone, err)
				}
			}
		}
		if newest := is.Fulls[len(is.Fulls)-1]; !slices.Contains(w.names, newest.Name()) {
			t.Fatalf("the newest full is %s", newest.Name())
		}
	})
}

// A listing of a large target reads what decides how far its newest state goes, and a second one of the same process next to nothing.
func TestLineages_ReadFewHeaders(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, signer))
	for i := range int64(2000) {
		b.put(t, deltaHead(2, i, 2+i, 2+i, signer))
	}
	b.put(t, fullHead(1981, signer))
	s := ours(b, signer)
	s.Verdicts = new(Verdicts)
	for i, most := range []int{40, 3} {
		b.opened = 0
		if l, err := s.Lineage(t.Context(), "a1b2"); err != nil || l.Streams[0].Last != 2001 {
			t.Fatalf("%+v, %v", l.Streams, err)
		}
		if b.opened > most {
			t.Errorf("listing %d opened %d objects", i+1, b.opened)
		}
	}
	for i := range int64(1000) { // a long forged tail is read in few rounds
		b.put(t, deltaHead(2, 2000+i, 2002+i, 2002+i, nil))
	}
	if l, err := s.Lineage(t.Context(), "a1b2"); err != nil || l.Streams[0].Last != 2001 || len(l.Untrusted) != 1000 {
		t.Errorf("%d untrusted, %v", len(l.Untrusted), err)
	}
}

// A drill that failed counts, whatever name somebody gave a mark before; and so does the next one that succeeds.
func TestDrill_AForgedMarkHidesNoFailure(t *testing.T) {
	for _, kind := range []FileKind{fileVerified, fileFailed} {
		b, signer := newShelf(), newSigner(t)
		b.put(t, fullHead(1, signer))
		s := ours(b, signer)
		data := []byte("{}")
		b.Create(t.Context(), s.fileName("a1b2", kind, time.Now().AddDate(50, 0, 0), data), Content{Head: data})
		expect := func(want bool) {
			t.Helper()
			if failing, err := s.failing(t.Context(), "a1b2"); err != nil || failing != want {
				t.Errorf("%s: failing %v, %v", kind, failing, err)
			}
		}
		for range 2 {
			if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now()}); err != nil {
				t.Fatal(err)
			}
			expect(false)
			if err := s.markFailed(t.Context(), "a1b2", errors.New("wrong"), nil, nil); err != nil {
				t.Fatal(err)
			}
			expect(true)
		}
	}
}

// Also under a clock that was ahead the last drill is the one that counts.
func TestDrill_AfterAClockThatWasAheadAFailureCounts(t *testing.T) {
	b, signer := newShelf(), newSigner(t)
	b.put(t, fullHead(1, signer))
	s := ours(b, signer)
	if err := s.markVerified(t.Context(), "a1b2", Verified{At: s.now().AddDate(0, 1, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := s.markFailed(t.Context(), "a1b2", errors.New("wrong"), nil, nil); err != nil {
		t.Fatal(err)
	}
	if failing, err := s.failing(t.Context(), "a1b2"); err != nil || !failing {
		t.Errorf("failing %v, %v", failing, err)
	}
}

// How far a full leads that nobody signed, to deltas that are signed: as far as the full that these name does not hold, unless they name this one, or it
// was in the target before them.
func TestLineages_AFullThatCameLaterTakesNoOthersPlace(t *testing.T) {
	signer := newSigner(t)
	for name, c := range map[string]struct {
		bases []int64 // the revision of the full that each delta names; 0: none
		came  int     // the full came before so many deltas of the end
		last  int64
	}{
		"another one":                   {[]int64{12, 12, 12, 12}, 0, 11},
		"another one, no newer":         {[]int64{9, 9, 9, 9}, 0, 10},
		"another one, later":            {[]int64{0, 0, 14, 14}, 0, 13},
		"none":                          {[]int64{0, 0, 0, 0}, 0, 10},
		"this one":                      {[]int64{10, 10, 12, 12}, 0, 18},
		"this one, later":               {[]int64{0, 0, 10, 10}, 0, 18},
		"it was there first":            {[]int64{12, 12, 12, 12}, 4, 18},
		"it was there first, none":      {[]int64{0, 0, 0, 0}, 4, 18},
		"it was there before the rest":  {[]int64{12, 12, 12, 12}, 3, 11},
		"it was there before the named": {[]int64{0, 14, 14, 14}, 3, 13},
	} {
		b := newShelf()
		put := func(h Header, at int) {
			h = b.put(t, h)
			b.times[h.Place.Name()] = when(int64(at))
		}
		put(fullHead(10, nil), 100-10*c.came)
		for i, base := range c.bases {
			first := 11 + 2*int64(i)
			h := deltaHead(11, int64(i), first, first+1, signer)
			if base > 0 {
				h.Base = &Link{FullPlace("prod", "a1b2", base, when(base)).Name(), strings.Repeat("0", 64)}
			}
			put(h, 95-10*(3-i))
		}
		s := ours(b, signer)
		l, err := s.Lineage(t.Context(), "a1b2")
		if err != nil {
			t.Fatal(err)
		}
		chain := l.Chains()[0]
		if chain.Last != c.last || (chain.Damage != nil) != (c.last < 18) {
			t.Errorf("%s: it leads to %d, want %d; %v", name, chain.Last, c.last, chain.Damage)
		}
		if _, err := s.Find(t.Context(), At{}); IsDamage(err) != (c.last < 18) {
			t.Errorf("%s: %v", name, err)
		}
		s.AllowUntrusted = true
		if f, err := s.Find(t.Context(), At{}); err != nil || f.Revision != 18 {
			t.Errorf("%s, with anybody trusted: %+v, %v", name, f, err)
		}
	}
}
