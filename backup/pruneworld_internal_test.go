package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// stockroom is a shelf that holds whole objects, has a clock of its own, and counts how often an object was read whole.
type stockroom struct {
	*shelf
	now  time.Time
	read map[string]int
}

func (b *stockroom) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if length < 0 {
		b.mu.Lock()
		b.read[name]++
		b.mu.Unlock()
	}
	return b.shelf.Open(ctx, name, offset, length)
}

func (b *stockroom) Create(ctx context.Context, name string, c Content) error {
	r, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := b.shelf.Create(ctx, name, Content{Head: data}); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times[name] = b.now
	return nil
}

// pruneWorld is a target with the backups of some incarnations, which grow, are damaged, and are pruned, at random.
type pruneWorld struct {
	t      *testing.T
	r      *rand.Rand
	shelf  *stockroom
	store  *Store
	signer *Signer
	lives  []*pruneLife
	harmed map[string]bool
	log    []string
}

// pruneLife is an incarnation: how far its backups go.
type pruneLife struct {
	name             string
	revision         int64
	stream, sequence int64
	newest           *Link // the newest delta
	base             *Link
	streams          map[int64]bool // that were begun
}

func newPruneWorld(t *testing.T, seed uint64) *pruneWorld {
	w := &pruneWorld{t: t, harmed: map[string]bool{}, r: rand.New(rand.NewPCG(seed, 5)), shelf: &stockroom{newShelf(), dawn, map[string]int{}}}
	w.store = &Store{Bucket: w.shelf, Cluster: "prod", Whole: new(Whole), Now: func() time.Time { return w.shelf.now }}
	if w.r.IntN(8) == 0 {
		w.signer = newSigner(t)
		w.store.Signer, w.store.Trusted = w.signer, []PublicKey{w.signer.Public()}
	}
	for i := range 1 + w.r.IntN(2) {
		l := &pruneLife{name: fmt.Sprint("life", i), revision: 1, stream: 2, streams: map[int64]bool{2: true}}
		w.lives = append(w.lives, l)
		w.full(l, 1)
	}
	return w
}

func (w *pruneWorld) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// put stores an object whose content is the changes of some revisions.
func (w *pruneWorld) put(h Header, first, last int64) *Link {
	d, err := NewDeltaWriter(first, nil)
	for rev := first; err == nil && rev <= last; rev++ {
		err = d.Add([]Change{{Key: []byte("k"), Value: fmt.Append(nil, rev), CreateRevision: rev, ModRevision: rev, Version: 1}}, w.shelf.now)
	}
	h.Signer = w.signer
	var c Content
	var sealed Header
	if err == nil {
		c, sealed, err = d.Seal(Header{Place: h.Place, After: h.After, Base: h.Base, Signer: w.signer})
	}
	if err == nil && h.Place.Kind == KindFull {
		sealed.Place, sealed.Mark, sealed.Records = h.Place, "", 0
		c, err = Content{Body: c.Body}.WithHeader(sealed)
	}
	if err == nil {
		err = w.shelf.Create(w.t.Context(), h.Place.Name(), c)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	head, err := ReadHeader(w.t.Context(), w.shelf, h.Place)
	if err != nil {
		w.t.Fatal(err)
	}
	w.note("%s", h.Place.Name())
	return head.Link()
}

func (w *pruneWorld) full(l *pruneLife, revision int64) {
	w.shelf.now = w.shelf.now.Add(time.Duration(1+w.r.IntN(7200)) * time.Second)
	begun := w.shelf.now
	switch w.r.IntN(12) {
	case 0:
		begun = begun.Add(time.Duration(w.r.IntN(1200)-600) * time.Second)
	case 1:
		begun = begun.Add(time.Duration(w.r.IntN(72)) * time.Hour)
	}
	p := FullPlace("prod", l.name, revision, begun)
	if _, there := w.shelf.objects[p.Name()]; !there {
		l.base = w.put(Header{Place: p, After: l.newest}, revision, revision)
	}
}

// grow takes a backup, or loses changes before it does.
func (w *pruneWorld) grow(l *pruneLife) {
	w.shelf.now = w.shelf.now.Add(time.Duration(w.r.IntN(600)) * time.Second)
	n := int64(1 + w.r.IntN(4))
	restart := func() { l.stream, l.sequence, l.streams[l.revision+1] = l.revision+1, 0, true }
	switch w.r.IntN(9) {
	case 0, 1:
		w.full(l, l.revision)
	case 2: // a full within the newest delta
		w.full(l, max(1, l.revision-n+1))
	case 3: // a gap, of one revision at least
		for l.revision += n; l.streams[l.revision+1]; {
			l.revision++
		}
		restart()
		w.full(l, l.revision)
	case 4: // a new stream, which may hold changes again that another one has
		if w.r.IntN(2) == 0 {
			back := min(int64(w.r.IntN(3)), l.revision-1)
			if !l.streams[l.revision-back+1] {
				l.revision -= back
				restart()
			}
			break
		}
		fallthrough
	default:
		p := DeltaPlace("prod", l.name, l.stream, l.sequence, l.revision+1)
		l.newest = w.put(Header{Place: p, After: l.newest, Base: l.base}, l.revision+1, l.revision+n)
		l.sequence, l.revision = l.sequence+1, l.revision+n
	}
}

// harm damages an object, or loses it.
func (w *pruneWorld) harm() {
	var names []string
	for name := range w.shelf.objects {
		if _, is := ParsePlace(name); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	name := names[w.r.IntN(len(names))]
	data := slices.Clone(w.shelf.objects[name])
	switch w.r.IntN(5) {
	case 0:
		delete(w.shelf.objects, name)
		w.note("lost %s", name)
		return
	case 1:
		data[40] ^= 1
	case 2:
		data = data[:len(data)-5]
	default:
		data[len(data)-3] ^= 1
	}
	w.shelf.objects[name], w.shelf.sizes[name] = data, int64(len(data))
	w.harmed[name] = true
	w.note("damaged %s", name)
}

// drill leaves the mark of one.
func (w *pruneWorld) drill(l *pruneLife) {
	lineage, err := w.store.Lineage(w.t.Context(), l.name)
	if err != nil || len(lineage.Fulls) == 0 {
		return
	}
	pick := func() string { return lineage.Fulls[w.r.IntN(len(lineage.Fulls))].ID() }
	v := Verified{Full: pick(), HashProved: pick(), At: w.shelf.now}
	if err := w.store.markVerified(w.t.Context(), l.name, v); err != nil {
		w.t.Fatal(err)
	}
	w.note("drilled %+v", v)
}

// restorable are the revisions that can be restored, by incarnation, as Check finds by reading everything.
func (w *pruneWorld) restorable() map[string]spans {
	counted := w.shelf.read
	w.shelf.read = map[string]int{}
	defer func() { w.shelf.read = counted }()
	lineages, err := w.store.Lineages(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]spans{}
	for _, l := range lineages {
		var r Report
		results := map[string]checked{}
		if err := w.store.checkAll(w.t.Context(), l.entries(), &r, results); err != nil {
			w.t.Fatal(err)
		}
		r.judge(&l, results)
		var can spans
		for _, c := range l.Chains() {
			can.add(Span{c.Full.Revision, c.Last})
		}
		all[l.Name] = can
	}
	return all
}

func (w *pruneWorld) policy() cke.Retention {
	hours := func(n int) cke.Duration { return cke.Duration(time.Duration(w.r.IntN(n)) * time.Hour) }
	r := cke.Retention{Last: 1 + w.r.IntN(3), Hourly: w.r.IntN(3), Daily: w.r.IntN(2)}
	switch w.r.IntN(6) {
	case 0:
		r.Within = hours(12)
	case 1:
		r = cke.Retention{MaxAge: hours(24) + 1}
	}
	return r
}

// prune returns what a prune that is repeated as a daemon does has deleted.
func (w *pruneWorld) prune(policy cke.Retention) PrunePlan {
	for range 50 {
		before := len(w.shelf.objects)
		plan, err := w.store.Prune(w.t.Context(), policy, false)
		w.note("prune %+v: kept %v, deleted %v, %v", policy, plan.Keep, plan.Delete, err)
		if not := new(NotWholeError); errors.As(err, &not) && len(w.shelf.objects) >= before {
			w.shelf.now = w.shelf.now.Add(time.Minute)
			continue
		}
		if err != nil && !errors.Is(err, errUnlisted) {
			w.t.Fatalf("%v\n%s", err, strings.Join(w.log, "\n"))
		}
		return plan
	}
	w.t.Fatalf("a prune finds ever more damage\n%s", strings.Join(w.log, "\n"))
	return PrunePlan{}
}

// Of random backups, some of them damaged or lost: whatever could be restored before a prune, from the oldest full on that stays with all deltas
// after it, can be restored afterward. No delta is read twice by one process.
func TestPrune_WhatIsPromisedCanStillBeRestored(t *testing.T) {
	t.Parallel()
	deleted, harmed := 0, 0
	for seed := range uint64(pruneWorlds()) {
		w := newPruneWorld(t, seed)
		for range 4 {
			for range 4 + w.r.IntN(12) {
				w.grow(w.lives[w.r.IntN(len(w.lives))])
			}
			if w.r.IntN(3) == 0 {
				w.drill(w.lives[w.r.IntN(len(w.lives))])
			}
			if w.r.IntN(2) == 0 { // what was read before counts, so the next process finds it
				w.store.Whole = new(Whole)
				w.shelf.read = map[string]int{}
				for range 1 + w.r.IntN(3) {
					w.harm()
				}
				harmed++
			}
			before := w.restorable()
			plan := w.prune(w.policy())
			deleted += len(plan.Delete)
			for name, n := range w.shelf.read {
				if p, is := ParsePlace(name); is && p.Kind == KindDelta && n > 1 && !w.harmed[name] {
					t.Fatalf("seed %d: %s was read %d times\n%s", seed, name, n, strings.Join(w.log, "\n"))
				}
			}
			after := w.restorable()
			for life, can := range before {
				var promised spans
				for _, k := range plan.Keep {
					if k.Full.Lineage == life && (k.PointInTime || slices.ContainsFunc(k.Reasons, func(s string) bool {
						return strings.HasPrefix(s, "verified") || strings.HasPrefix(s, "proved")
					})) {
						promised.add(Span{k.Full.Revision, mostRevision})
					}
				}
				if lost := can.in(promised).without(after[life]); len(lost) > 0 {
					t.Fatalf("seed %d: %s: %v could be restored before the prune, %v after it, of %v\n%s", seed, life, can, after[life], promised, strings.Join(w.log, "\n"))
				}
			}
		}
	}
	t.Logf("%d objects were deleted; %d times some were damaged before", deleted, harmed)
}

func pruneWorlds() int {
	if testing.Short() {
		return 30
	}
	return 400
}
