package backup_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
)

func TestExtract_EveryRevisionIsExact(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		f := makeFixture(t, encrypted)
		for rev := f.fulls[0]; rev <= f.last; rev++ {
			if x := f.extractOK(t, f.bucket, backup.At{Revision: rev}); x.Revision != rev {
				t.Errorf("extracted %d instead of %d", x.Revision, rev)
			}
		}
		x := f.extractOK(t, f.bucket, backup.At{})
		// A busy machine may be spared the hash when the last delta is taken; one that was recorded is checked.
		if x.Revision != f.last || x.Hash != nil && !x.HashChecked {
			t.Errorf("latest is %+v, want revision %d", x, f.last)
		}
		l, err := f.store(t, f.bucket).Lineage(etcdtest.Context(t), "a1b2")
		if err != nil {
			t.Fatal(err)
		}
		for _, full := range l.Fulls {
			if x := f.extractOK(t, f.bucket, backup.At{Full: full.ID()}); x.Revision != full.Revision || x.Deltas != 0 {
				t.Errorf("%s by its name: %+v", full.ID(), x)
			}
		}
		if x.Deltas != 3 {
			t.Errorf("%d deltas were applied: the newest full was not used", x.Deltas)
		}
	}
}

func TestExtract_RevisionsOutsideAreRefused(t *testing.T) {
	f := makeFixture(t, false)
	for _, rev := range []int64{1, f.fulls[0] - 1, f.last + 1, 1 << 40} {
		_, err := f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{Revision: rev}, filepath.Join(t.TempDir(), "out"), backup.ExtractOptions{})
		if !errors.Is(err, backup.ErrNotCovered) {
			t.Errorf("revision %d: %v", rev, err)
		}
	}
}

// A peer exits with success when there is nothing to restore from.
func TestExtract_EmptyStoreAndDeltasWithoutFullAreErrors(t *testing.T) {
	f := makeFixture(t, false)
	out := filepath.Join(t.TempDir(), "out")
	_, err := f.store(t, backuptest.NewMemory()).Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{})
	if !errors.Is(err, backup.ErrEmpty) {
		t.Errorf("empty store: %v", err)
	}
	for _, name := range names(t, f.bucket) {
		if strings.Contains(name, "/full/") {
			f.bucket.Delete(etcdtest.Context(t), name)
		}
	}
	_, err = f.store(t, f.bucket).Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{AllowPartial: true})
	if !errors.Is(err, backup.ErrEmpty) || !strings.Contains(err.Error(), "only deltas") {
		t.Errorf("deltas without a full: %v", err)
	}
}

func TestExtract_WrongOrMissingKeyIsToldAndNothingIsWritten(t *testing.T) {
	f := makeFixture(t, true)
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range [][]age.Identity{nil, {other}} {
		s := f.store(t, f.bucket)
		s.Identities = ids
		dir := t.TempDir()
		_, err := s.Extract(etcdtest.Context(t), backup.At{}, filepath.Join(dir, "out"), backup.ExtractOptions{AllowPartial: true})
		if !errors.Is(err, backup.ErrKey) || backup.IsDamage(err) {
			t.Errorf("identities %v: %v", ids, err)
		}
	}
	// Without a key, digests can still be checked.
	s := f.store(t, f.bucket)
	s.Identities = nil
	r, err := s.Check(etcdtest.Context(t), "")
	if err != nil || len(r.Findings) != 0 || r.Opened || r.LastGood != f.last {
		t.Errorf("check without a key: %+v, %v", r, err)
	}
	for _, name := range names(t, f.bucket) {
		if data := f.bucket.Get(name); strings.Contains(string(data), "leased") {
			t.Errorf("%s shows a key in clear", name)
		}
	}
}

// deltas and fulls of the fixture by name.
func (f *fixture) objects(t testing.TB) (fulls, deltas []string) {
	for _, n := range names(t, f.bucket) {
		if strings.Contains(n, "/full/") {
			fulls = append(fulls, n)
		} else if strings.Contains(n, "/delta/") {
			deltas = append(deltas, n)
		}
	}
	return fulls, deltas
}

func place(t testing.TB, name string) backup.Place {
	p, ok := backup.ParsePlace(name)
	if !ok {
		t.Fatalf("%s is no place", name)
	}
	return p
}

func TestExtract_DamagedDeltaNamesTheLastGoodRevision(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	victim := deltas[4] // the second after the newest full
	good := place(t, victim).Revision - 1
	whole := f.bucket.Get(victim)
	damages := map[string]func(b *backuptest.Memory){
		"missing":         func(b *backuptest.Memory) { b.Delete(t.Context(), victim) },
		"empty":           func(b *backuptest.Memory) { b.Set(victim, nil) },
		"truncated":       func(b *backuptest.Memory) { b.Set(victim, whole[:len(whole)-1]) },
		"half":            func(b *backuptest.Memory) { b.Set(victim, whole[:len(whole)/2]) },
		"header only":     func(b *backuptest.Memory) { b.Set(victim, whole[:20]) },
		"longer":          func(b *backuptest.Memory) { b.Set(victim, append(slices.Clone(whole), 'x')) },
		"bit in header":   func(b *backuptest.Memory) { b.Set(victim, flip(whole, 40)) },
		"bit in body":     func(b *backuptest.Memory) { b.Set(victim, flip(whole, len(whole)-30)) },
		"last bit":        func(b *backuptest.Memory) { b.Set(victim, flip(whole, len(whole)-1)) },
		"another's place": func(b *backuptest.Memory) { b.Set(victim, f.bucket.Get(deltas[3])) },
		"a full instead":  func(b *backuptest.Memory) { fulls, _ := f.objects(t); b.Set(victim, f.bucket.Get(fulls[0])) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			b := f.bucket.Clone()
			damage(b)
			if d := f.extractBad(t, b, backup.At{}); d.LastGood != good {
				t.Errorf("last good revision %d, want %d: %v", d.LastGood, good, d)
			}
			if d := f.extractBad(t, b, backup.At{Revision: f.last}); d.LastGood != good {
				t.Errorf("by revision: last good revision %d, want %d: %v", d.LastGood, good, d)
			}
			// Up to it, everything is there; and a person may take it.
			f.extractOK(t, b, backup.At{Revision: good})
			out := filepath.Join(t.TempDir(), "out")
			x, err := f.store(t, b).Extract(etcdtest.Context(t), backup.At{}, out, backup.ExtractOptions{AllowPartial: true})
			if err != nil || x.Revision != good || x.Damage == nil {
				t.Fatalf("partial: %+v, %v", x, err)
			}
			taketest.SameState(t, f.states[good], etcdtest.Open(t, out).State(t, 0))
			r, err := f.store(t, b).Check(etcdtest.Context(t), "")
			if err != nil || len(r.Findings) == 0 || r.LastGood != good {
				t.Errorf("check: %+v, %v", r, err)
			}
		})
	}
}

func flip(b []byte, i int) []byte {
	b = slices.Clone(b)
	b[i] ^= 0x10
	return b
}

func TestExtract_DamagedFullIsPassedOverForAnOlderOneWithTheSameResult(t *testing.T) {
	f := makeFixture(t, false)
	fulls, _ := f.objects(t)
	whole := f.bucket.Get(fulls[1])
	for name, data := range map[string][]byte{"altered": flip(whole, len(whole)/2), "truncated": whole[:len(whole)/2], "empty": {}} {
		b := f.bucket.Clone()
		b.Set(fulls[1], data)
		x := f.extractOK(t, b, backup.At{})
		if x.Revision != f.last || len(x.Notes) == 0 || x.Deltas != 6 {
			t.Errorf("%s: %+v", name, x)
		}
		b.Set(fulls[0], nil)
		if d := f.extractBad(t, b, backup.At{}); d.LastGood != 0 {
			t.Errorf("%s: %v", name, d)
		}
	}
	// Missing, it cannot be missed: the older one and the deltas lead past it.
	b := f.bucket.Clone()
	b.Delete(t.Context(), fulls[1])
	if x := f.extractOK(t, b, backup.At{}); x.Revision != f.last {
		t.Errorf("without the newest full: %+v", x)
	}
}

// Damage before the newest full does not matter to what comes after it.
func TestExtract_DamageBeforeTheNewestFullDoesNotMatter(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	for _, gone := range []bool{true, false} {
		b := f.bucket.Clone()
		if gone {
			b.Delete(t.Context(), deltas[1])
		} else {
			b.Set(deltas[1], []byte("x"))
		}
		if x := f.extractOK(t, b, backup.At{}); x.Revision != f.last {
			t.Errorf("%+v", x)
		}
		good := place(t, deltas[1]).Revision - 1
		if d := f.extractBad(t, b, backup.At{Revision: good + 1}); d.LastGood != good {
			t.Errorf("%v, want %d", d, good)
		}
	}
}

// Whatever happens to any object, the result is exact or there is none.
func TestExtract_RandomDamageNeverGivesWrongData(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 20
	}
	for _, encrypted := range []bool{false, true} {
		f := makeFixture(t, encrypted)
		list := names(t, f.bucket)
		for i := range rounds {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			b := f.bucket.Clone()
			what := ""
			for range 1 + rng.IntN(2) {
				name := list[rng.IntN(len(list))]
				data := b.Get(name)
				switch op := rng.IntN(5); {
				case op == 0 || len(data) == 0:
					b.Delete(t.Context(), name)
					what += "deleted " + name
				case op == 1:
					n := rng.IntN(len(data))
					b.Set(name, data[:n])
					what += fmt.Sprint("cut ", name, " at ", n)
				case op == 2:
					n := rng.IntN(len(data))
					b.Set(name, flip(data, n))
					what += fmt.Sprint("flipped ", name, " at ", n)
				default:
					other := list[rng.IntN(len(list))]
					b.Set(name, b.Get(other))
					b.Set(other, data)
					what += fmt.Sprint("swapped ", name, " and ", other)
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			rev := f.fulls[0] + rng.Int64N(f.last-f.fulls[0]+1)
			x, err := f.store(t, b).Extract(etcdtest.Context(t), backup.At{Revision: rev}, out, backup.ExtractOptions{AllowPartial: rng.IntN(2) == 0})
			if err != nil {
				if !backup.IsDamage(err) && !errors.Is(err, backup.ErrNotCovered) && !errors.Is(err, backup.ErrEmpty) {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			if x.Revision != rev && x.Damage == nil {
				t.Errorf("%s: %d instead of %d", what, x.Revision, rev)
			}
			taketest.SameState(t, f.states[x.Revision], etcdtest.Open(t, out).State(t, 0))
			if t.Failed() {
				t.Fatal(what)
			}
		}
	}
}

// The newest full is damaged, and no delta leads past it: what an older full holds is the last good state.
func TestExtract_DamagedNewestFullWithoutDeltasNamesTheOlderOne(t *testing.T) {
	f := makeFixture(t, false)
	fulls, deltas := f.objects(t)
	bare := f.bucket.Clone()
	for _, name := range deltas {
		bare.Delete(t.Context(), name)
	}
	whole := bare.Get(fulls[1])
	for name, data := range map[string][]byte{"body altered": flip(whole, len(whole)-100), "header altered": flip(whole, 40), "truncated": whole[:len(whole)/2], "empty": {}} {
		b := bare.Clone()
		b.Set(fulls[1], data)
		if d := f.extractBad(t, b, backup.At{}); d.LastGood != f.fulls[0] || d.Object != fulls[1] || strings.Contains(d.Error(), "damaged: damaged") || strings.Contains(d.Error(), "write ") {
			t.Errorf("%s: %v", name, d)
		}
		if x := f.extractOK(t, b, backup.At{Revision: f.fulls[0]}); x.Revision != f.fulls[0] || len(x.Notes) > 0 {
			t.Errorf("%s: %+v", name, x)
		}
		// The older one is damaged, too: then there is nothing, and nobody is sent on to it.
		older := bare.Get(fulls[0])
		for which, data := range map[string][]byte{"body": flip(older, len(older)-100), "header": flip(older, 40)} {
			b.Set(fulls[0], data)
			if d := f.extractBad(t, b, backup.At{}); d.LastGood != 0 {
				t.Errorf("%s, %s of the older altered: %v", name, which, d)
			}
		}
	}
}

// Whichever deltas are damaged, at the head or in the body, also the first one of a run: they are found, and what they lead to is lost.
func TestCheck_DeltasAreDamagedAnywhere(t *testing.T) {
	f := makeFixture(t, false)
	_, deltas := f.objects(t)
	for bits := 1; bits < 1<<len(deltas); bits++ {
		for _, at := range []int{40, -2} {
			b := f.bucket.Clone()
			var damaged []string
			lost, until := []backup.Span{}, int64(0)
			for i, name := range deltas {
				from, next := place(t, name).Revision, f.last+1
				if i+1 < len(deltas) {
					next = place(t, deltas[i+1]).Revision
				}
				if bits>>i&1 != 0 {
					data := b.Get(name)
					b.Set(name, flip(data, (len(data)+at)%len(data)))
					damaged = append(damaged, name)
					if until == 0 {
						lost, until = append(lost, backup.Span{From: from}), next
					}
				}
				if until > 0 && (next-1 >= f.fulls[1] && from <= f.fulls[1] || i+1 == len(deltas)) {
					lost[len(lost)-1].To, until = next-1, 0
					if next-1 == f.fulls[1] {
						lost[len(lost)-1].To--
					}
				}
			}
			report, err := f.store(t, b).Check(etcdtest.Context(t), "")
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, x := range report.Findings {
				found = append(found, x.Object)
			}
			if slices.Sort(found); !slices.Equal(found, damaged) {
				t.Errorf("damaged at %d: %v, found %+v", at, damaged, report.Findings)
			}
			endKnown := at < 0 || bits>>(len(deltas)-1) == 0 // the newest delta says how far it goes
			if endKnown && !slices.Equal(report.Lost, lost) {
				t.Errorf("damaged at %d: %v, lost %v, want %v", at, damaged, report.Lost, lost)
			}
		}
	}
}
