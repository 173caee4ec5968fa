package take_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/take"
)

// betweenFulls is backups of which a drill proved the first full: all deltas stay. between is the delta before the second of three fulls, and after are
// revisions after it.
type betweenFulls struct {
	*backuptest.Memory
	store   *backup.Store
	second  backup.Header
	between string
	after   []int64
	before  int64
}

func takeBetween(t *testing.T, change func(c *take.Config), ids ...age.Identity) betweenFulls {
	t.Helper()
	b := betweenFulls{Memory: backuptest.NewMemory()}
	r := begin(t, b.Memory, change)
	put := func() int64 {
		revision := r.Put("k", "1")
		r.Flush()
		return revision
	}
	b.store = r.Store()
	b.store.Identities = ids
	fullNow(t, r)
	if _, err := b.store.Drill(etcdtest.Context(t), backup.At{}, nil); err != nil {
		t.Fatal(err)
	}
	b.before = put()
	revision := put()
	l, err := b.store.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	b.between = l.Streams[0].Deltas[len(l.Streams[0].Deltas)-1].Name()
	b.second = fullNow(t, r)
	b.after = []int64{put(), put()}
	if b.second.Last != revision {
		t.Fatal(b.second, revision)
	}
	fullNow(t, r)
	b.after = append(b.after, put())
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return b
}

// restores checks that revisions can be restored.
func (b betweenFulls) restores(t *testing.T, what string, revisions ...int64) {
	t.Helper()
	for _, revision := range revisions {
		if _, err := b.store.Extract(t.Context(), backup.At{Revision: revision}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{CheckHash: true}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// spoil changes the last bytes of an object.
func (b betweenFulls) spoil(name string) {
	data := b.Get(name)
	data[len(data)-2] ^= 1
	b.Set(name, data)
}

// counting counts how often deltas are read whole. It goes down when one of them is to be.
type counting struct {
	backup.Bucket
	silent string
	mu     sync.Mutex
	reads  int
	down   bool
}

func (b *counting) Open(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	b.mu.Lock()
	if length < 0 && strings.Contains(name, "/delta/") {
		b.reads++
		b.down = b.down || name == b.silent
	}
	down := b.down
	b.mu.Unlock()
	if down {
		return nil, errors.New("the target does not answer")
	}
	return b.Bucket.Open(ctx, name, offset, length)
}

// A full goes because an older one leads, by deltas that stay, to the same revisions. One of these deltas is damaged, or was lost.
func TestPrune_AFullStaysBehindADamagedDelta(t *testing.T) {
	t.Parallel()
	key := identity(t)
	for name, tc := range map[string]struct {
		change func(c *take.Config)
		ids    []age.Identity
		lost   bool
		is     string
	}{
		"damaged":               {nil, nil, false, "damaged"},
		"encrypted and no key":  {func(c *take.Config) { c.Recipients = []age.Recipient{key.Recipient()} }, []age.Identity{key}, false, "damaged"},
		"lost and still listed": {nil, nil, true, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := takeBetween(t, tc.change, tc.ids...)
			b.restores(t, "sound", append(b.after, b.before)...)
			objects, err := b.List(t.Context(), b.between)
			if err != nil || len(objects) != 1 {
				t.Fatal(objects, err)
			}
			counted := &counting{Bucket: b.Memory}
			if b.spoil(b.between); tc.lost {
				b.Delete(t.Context(), b.between)
				counted.Bucket = repeats{b.Memory, objects[0]}
			}
			prunes := &backup.Store{Bucket: counted, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
			for i := range 3 {
				plan, err := prunes.Prune(t.Context(), cke.Retention{Last: 1}, false)
				if err != nil || len(plan.Damaged) != 1 || plan.Damaged[0].Name != b.between {
					t.Fatalf("damaged %v, %v", plan.Damaged, err)
				}
				reads := counted.reads
				if counted.reads = 0; i > 0 && reads > 0 || i == 0 && reads == 0 {
					t.Errorf("prune %d reads %d deltas", i+1, reads)
				}
				at := slices.IndexFunc(plan.Keep, func(k backup.Kept) bool { return k.Full.Name() == b.second.Place.Name() })
				if at < 0 || !strings.Contains(strings.Join(plan.Keep[at].Reasons, " "), filepath.Base(b.between)+" is "+tc.is) {
					t.Errorf("kept %v", plan.Keep)
				}
			}
			b.restores(t, "after the prune", append(b.after, b.before)...)
		})
	}
}

// Where all is whole, the full goes that others lead on from: its deltas are read for that, once.
func TestPrune_AFullAmongWholeDeltasGoes(t *testing.T) {
	t.Parallel()
	b := takeBetween(t, nil)
	counted := &counting{Bucket: b.Memory}
	prunes := &backup.Store{Bucket: counted, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
	for range 2 {
		if _, err := prunes.Prune(t.Context(), cke.Retention{Last: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
	if b.Get(b.second.Place.Name()) != nil || counted.reads != 2 {
		t.Errorf("the second full stays: %t; deltas were read %d times", b.Get(b.second.Place.Name()) != nil, counted.reads)
	}
	b.restores(t, "after the prune", append(b.after, b.before)...)
}

// A target that does not answer says nothing of damage: nothing is deleted.
func TestPrune_AnUnreadableDeltaDeletesNothing(t *testing.T) {
	t.Parallel()
	b := takeBetween(t, nil)
	before, err := b.List(t.Context(), "prod/")
	if err != nil {
		t.Fatal(err)
	}
	prunes := &backup.Store{Bucket: &counting{Bucket: b.Memory, silent: b.between}, Cluster: "prod", Scratch: t.TempDir(), Whole: new(backup.Whole)}
	_, err = prunes.Prune(t.Context(), cke.Retention{Last: 1}, false)
	if err == nil || backup.IsDamage(err) || !strings.Contains(err.Error(), "the target does not answer") {
		t.Errorf("%v", err)
	}
	if after, err := b.List(t.Context(), "prod/"); err != nil || len(after) != len(before) {
		t.Errorf("%d of %d objects are left, %v", len(after), len(before), err)
	}
}

// The oldest full that is kept with its deltas is damaged. On its account older fulls would go, that lead to the same revisions.
func TestPrune_TheOldestFullThatStaysIsReadBack(t *testing.T) {
	t.Parallel()
	b := takeBetween(t, nil)
	marks, err := b.List(t.Context(), "prod/a1b2/verified/") // as if there was no drill
	if err != nil || len(marks) == 0 {
		t.Fatal(marks, err)
	}
	for _, m := range marks {
		b.Delete(t.Context(), m.Name)
	}
	b.spoil(b.second.Place.Name())
	b.restores(t, "damaged", b.after...)
	not := new(backup.NotWholeError)
	if _, err := b.store.Prune(t.Context(), cke.Retention{Last: 2}, false); !errors.As(err, &not) || not.Full.Name() != b.second.Place.Name() {
		t.Errorf("%v", err)
	}
	if _, err := b.store.Prune(t.Context(), cke.Retention{Last: 2}, false); err != nil {
		t.Error(err)
	}
	b.restores(t, "after the prune", b.after...)
}

// A full is deleted that alone leads to the newest state: an older one leads there by the names, and a delta between them is damaged.
func TestDelete_TheFullBehindADamagedDeltaNeedsForce(t *testing.T) {
	t.Parallel()
	b := takeBetween(t, nil)
	l, err := b.store.Lineage(t.Context(), "a1b2")
	if err != nil {
		t.Fatal(err)
	}
	third := l.Fulls[len(l.Fulls)-1]
	b.Delete(t.Context(), third.Name()) // so the second is the newest
	b.spoil(b.between)
	b.restores(t, "before", b.after...)
	if gone, err := b.store.Delete(t.Context(), b.second.Place.ID(), false); !errors.Is(err, backup.ErrOnlyFull) || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("deleted without --force: %v, %v", gone, err)
	}
	b.restores(t, "after", b.after...)
}
