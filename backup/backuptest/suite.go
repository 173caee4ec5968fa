package backuptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"cke/backup"
)

// Run runs the suite that every bucket must pass. The bucket must be empty, and is left empty.
func Run(t *testing.T, b backup.Bucket) {
	cases := []struct {
		name string
		run  func(t *testing.T, b backup.Bucket)
	}{
		{"what is written is read", written},
		{"parts are read", parts},
		{"of an empty object, and behind the end, nothing is read", nothing},
		{"listings are sorted, complete and by prefix", listings},
		{"an object is never overwritten", overwritten},
		{"of writers at once exactly one wins", racing},
		{"an upload broken off leaves nothing", brokenOff},
		{"a source that is not what it says completes nothing", lying},
		{"what is missing is not found, and deleting it succeeds", missing},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.run(t, b)
			list, err := b.List(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range list {
				if err := b.Delete(t.Context(), o.Name); err != nil {
					t.Error(err)
				}
			}
			if list, err := b.List(t.Context(), ""); err != nil || len(list) != 0 {
				t.Errorf("left after deleting all: %v, %v", list, err)
			}
		})
	}
}

func nothing(t *testing.T, b backup.Bucket) {
	for name, data := range map[string]string{"empty": "", "short": "ab"} {
		if err := b.Create(t.Context(), name, backup.Content{Head: []byte(data)}); err != nil {
			t.Fatal(err)
		}
		n := int64(len(data))
		if got := string(read(t, b, name, 0, -1)); got != data {
			t.Errorf("%s: %q", name, got)
		}
		for _, from := range []int64{n, n + 1} {
			for _, length := range []int64{1, 12} {
				if got := read(t, b, name, from, length); len(got) > 0 {
					t.Errorf("%s from %d: %q", name, from, got)
				}
			}
		}
	}
}

// bytesOf returns n bytes that do not compress, the same for the same n.
func bytesOf(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	rng.Read(b)
	return b
}

func read(t *testing.T, b backup.Bucket, name string, offset, length int64) []byte {
	t.Helper()
	r, err := b.Open(t.Context(), name, offset, length)
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	return data
}

func written(t *testing.T, b backup.Bucket) {
	for _, n := range []int{1, 100, 4096, 5<<20 + 1, 20<<20 + 17} {
		name := fmt.Sprintf("prod/l/full/%d.cke", n)
		data := bytesOf(n)
		if err := b.Create(t.Context(), name, backup.BodyContent(data[:n/2], data[n/2:])); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if got := read(t, b, name, 0, -1); !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %d others came back", n, len(got))
		}
	}
}

func parts(t *testing.T, b backup.Bucket) {
	data := bytesOf(100_000)
	if err := b.Create(t.Context(), "a/b", backup.Content{Head: data}); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int64{{0, 10}, {5, 1000}, {99_990, 10}, {99_990, 1000}, {50_000, -1}, {0, 200_000}} {
		end := int64(len(data))
		if c[1] >= 0 {
			end = min(end, c[0]+c[1])
		}
		if got := read(t, b, "a/b", c[0], c[1]); !bytes.Equal(got, data[c[0]:end]) {
			t.Errorf("%d bytes from %d on: got %d", c[1], c[0], len(got))
		}
	}
}

func listings(t *testing.T, b backup.Bucket) {
	const many = 30
	for i := many - 1; i >= 0; i-- {
		for _, folder := range []string{"x/delta", "x/full", "xy/delta"} {
			if err := b.Create(t.Context(), fmt.Sprintf("%s/%05d", folder, i), backup.Content{Head: []byte{1, 2, byte(i)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for prefix, want := range map[string]int{"": 3 * many, "x": 3 * many, "x/": 2 * many, "x/delta/": many, "x/delta/00001": 1, "z/": 0} {
		list, err := b.List(t.Context(), prefix)
		if err != nil || len(list) != want {
			t.Errorf("prefix %q: %d objects, want %d: %v", prefix, len(list), want, err)
		}
		for i, o := range list {
			if i > 0 && list[i-1].Name >= o.Name {
				t.Errorf("prefix %q: %s comes before %s", prefix, list[i-1].Name, o.Name)
			}
			if o.Size != 3 || o.ModTime.IsZero() {
				t.Errorf("%+v", o)
			}
		}
	}
}

func overwritten(t *testing.T, b backup.Bucket) {
	for _, n := range []int{3, 20 << 20} {
		name := fmt.Sprint("once/", n)
		first := bytesOf(n)
		if err := b.Create(t.Context(), name, backup.Content{Head: first}); err != nil {
			t.Fatal(err)
		}
		second := bytesOf(n + 1)
		for _, c := range []backup.Content{{Head: second}, {Head: first}} {
			if err := b.Create(t.Context(), name, c); !errors.Is(err, backup.ErrExists) {
				t.Errorf("%d bytes: %v, want ErrExists", n, err)
			}
		}
		if got := read(t, b, name, 0, -1); !bytes.Equal(got, first) {
			t.Errorf("%d bytes: the object was changed", n)
		}
	}
}

func racing(t *testing.T, b backup.Bucket) {
	for round := range 3 {
		name := fmt.Sprint("race/", round)
		var won atomic.Int32
		var winner atomic.Value
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				data := bytes.Repeat([]byte{byte(i)}, 10_000)
				switch err := b.Create(t.Context(), name, backup.Content{Head: data}); {
				case err == nil:
					won.Add(1)
					winner.Store(data)
				case !errors.Is(err, backup.ErrExists):
					t.Logf("writer %d: %v", i, err) // a conflict may also be told as a failure to be repeated
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d writers won", won.Load())
		}
		if got := read(t, b, name, 0, -1); !bytes.Equal(got, winner.Load().([]byte)) {
			t.Error("the object is not the winner's")
		}
	}
}

// failing is a body that ends with an error, or with less than it says.
type failing struct {
	backup.Body
	after int64
	err   error
}

func (f *failing) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := f.Body.Open(ctx)
	if err != nil {
		return nil, err
	}
	var tail io.Reader = bytes.NewReader(nil)
	if f.err != nil {
		tail = errReader{f.err}
	}
	return io.NopCloser(io.MultiReader(io.LimitReader(r, f.after), tail)), nil
}

type errReader struct{ err error }

func (e errReader) Read([]byte) (int, error) { return 0, e.err }

func absent(t *testing.T, b backup.Bucket, name string) {
	t.Helper()
	if _, err := b.Open(t.Context(), name, 0, -1); !errors.Is(err, backup.ErrNotFound) {
		t.Errorf("%s is there: %v", name, err)
	}
	if list, err := b.List(t.Context(), name); err != nil || len(list) != 0 {
		t.Errorf("%s is listed: %v, %v", name, list, err)
	}
}

func brokenOff(t *testing.T, b backup.Bucket) {
	cause := errors.New("pulled the plug")
	for _, n := range []int{1000, 30 << 20} {
		name := fmt.Sprint("broken/", n)
		whole := backup.BodyContent([]byte("head"), bytesOf(n))
		cut := backup.Content{Head: whole.Head, Body: &failing{whole.Body, int64(n) - 1, cause}}
		if err := b.Create(t.Context(), name, cut); !errors.Is(err, cause) {
			t.Errorf("%d bytes: %v", n, err)
		}
		absent(t, b, name)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Create(ctx, name, whole); err == nil {
			t.Errorf("%d bytes: written after the context was canceled", n)
		}
		absent(t, b, name)
		if err := b.Create(t.Context(), name, whole); err != nil {
			t.Errorf("%d bytes, again: %v", n, err)
		}
	}
}

func lying(t *testing.T, b backup.Bucket) {
	for _, n := range []int{1000, 30 << 20} {
		name := fmt.Sprint("lying/", n)
		whole := backup.BodyContent([]byte("head"), bytesOf(n))
		short := backup.Content{Head: whole.Head, Body: &failing{whole.Body, int64(n) - 1, nil}}
		if err := b.Create(t.Context(), name, short); err == nil {
			t.Errorf("%d bytes: one byte is missing, and no error was returned", n)
		}
		absent(t, b, name)
	}
}

func missing(t *testing.T, b backup.Bucket) {
	absent(t, b, "not/there")
	if err := b.Delete(t.Context(), "not/there"); err != nil {
		t.Error(err)
	}
}
