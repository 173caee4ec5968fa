package boot

import (
	"context"
	"errors"
	"testing"

	"cke/backup"
)

// fakeEtcd answers after some asking.
type fakeEtcd struct {
	answer     bootAnswer
	starting   int
	restoreErr error
	askErr     error
	removed    int
}

func (f *fakeEtcd) String() string                          { return "a fake" }
func (f *fakeEtcd) version(context.Context) (string, error) { return "3.6.16", nil }
func (f *fakeEtcd) restore(context.Context, string) error   { return f.restoreErr }
func (f *fakeEtcd) run(context.Context) error               { return nil }
func (f *fakeEtcd) remove() string                          { f.removed++; return "panic: no" }
func (f *fakeEtcd) ask(context.Context) (bootAnswer, error) {
	if f.starting > 0 {
		f.starting--
		return bootAnswer{}, errors.New("refused")
	}
	return f.answer, f.askErr
}

func TestServe_ComparesWhatEtcdHolds(t *testing.T) {
	x := backup.Extracted{Revision: 7, Hash: &backup.Hash{Revision: 7, Compacted: 3, Hash: 99}}
	for name, tc := range map[string]struct {
		etcd fakeEtcd
		ok   bool
	}{
		"Same":           {fakeEtcd{answer: bootAnswer{7, 99, 3}}, true},
		"After":          {fakeEtcd{answer: bootAnswer{7, 99, 3}, starting: 2}, true},
		"OtherCompacted": {fakeEtcd{answer: bootAnswer{7, 1, 5}}, true},
		"OtherRevision":  {fakeEtcd{answer: bootAnswer{6, 99, 3}}, false},
		"OtherHash":      {fakeEtcd{answer: bootAnswer{7, 98, 3}}, false},
		"Ended":          {fakeEtcd{askErr: errEnded}, false},
		"NotRestored":    {fakeEtcd{restoreErr: errors.New("no")}, false},
	} {
		err := serve(t.Context(), &tc.etcd, "x", x)
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrNotServed) || tc.etcd.removed != 1 {
			t.Errorf("%s: %v, removed %d times", name, err, tc.etcd.removed)
		}
	}
}
