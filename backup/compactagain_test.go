package backup_test

import (
	"testing"

	"cke/backup"
	"cke/backup/internal/etcdtest"
)

// What has the name of the result, and a header of a merged full, is none that was made before if its body is damaged.
func TestCompact_DoesNotTakeADamagedFullForItsResult(t *testing.T) {
	f := makeFixture(t, true)
	ctx := etcdtest.Context(t)
	s := f.store(t, f.bucket)
	merge := func(at backup.At) backup.Place {
		t.Helper()
		p, err := s.Compact(ctx, at, backup.CompactOptions{Recipients: recipients(f.identity.Recipient())})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := merge(backup.At{})
	data := f.bucket.Get(first.Name())
	f.bucket.Set(first.Name(), flip(data, len(data)-5))
	second := merge(backup.At{})
	if second == first {
		t.Error("a damaged full was taken for the result")
	} else if x := f.extractOK(t, f.bucket, backup.At{Full: second.ID()}); x.Revision != f.last {
		t.Errorf("%+v", x)
	}
}

// So it is where another one made it meanwhile, and the target has lost a part of it.
func TestCompact_ReadsWhatAnotherOneMadeMeanwhile(t *testing.T) {
	f := makeFixture(t, true)
	ctx := etcdtest.Context(t)
	o := backup.CompactOptions{Recipients: recipients(f.identity.Recipient())}
	other := f.bucket.Clone()
	first, err := f.store(t, other).Compact(ctx, backup.At{}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []bool{false, true} {
		data := other.Get(first.Name())
		if damaged {
			data = flip(data, len(data)-5)
		}
		b := f.bucket.Clone()
		o.Guard = func() error { b.Set(first.Name(), data); return nil } // right before the result is written
		p, err := f.store(t, b).Compact(ctx, backup.At{}, o)
		if err != nil || (p == first) == damaged {
			t.Errorf("damaged %t: %s, %v", damaged, p.ID(), err)
		}
	}
}
