package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// Two trees that were joined are one to bbolt, whatever their heights: it reads all of it in order, and deletes nearly all of it.
func TestJoin_IsOneTreeToBbolt(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		size := 512 << r.IntN(4)
		left, right := r.IntN(1<<r.IntN(14)), r.IntN(1<<r.IntN(14))
		t.Run(fmt.Sprintf("%d: %d and %d in pages of %d", seed, left, right, size), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "db")
			value := make([]byte, r.IntN(60))
			if err := joined(t, path, size, left, right, value); err != nil {
				t.Fatal(err)
			}
			if err := check(t.Context(), path, AllRules); err != nil {
				t.Fatal(err)
			}
			db, err := Open(path, false)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			change(t, db, func(tx *bolt.Tx) error {
				b, n := tx.Bucket(testBucket), 0
				err := b.ForEach(func(k, v []byte) error {
					if !bytes.Equal(k, testKey(n)) || !bytes.Equal(v, value) {
						return fmt.Errorf("key %d is %x", n, k)
					}
					n++
					return nil
				})
				if err == nil && n != left+right {
					err = fmt.Errorf("%d keys", n)
				}
				c := b.Cursor()
				for k, _ := c.First(); err == nil && k != nil; k, _ = c.Next() {
					if r.IntN(50) != 0 {
						err = c.Delete()
					}
				}
				return err
			})
			if err := check(t.Context(), path, Reachable); err != nil {
				t.Error(err)
			}
		})
	}
}

var testBucket = []byte("b")

func testKey(n int) []byte { return binary.BigEndian.AppendUint32([]byte("key"), uint32(n)) }

// joined writes a database of two trees, of which the second was written behind the first.
func joined(t *testing.T, path string, size, left, right int, value []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := NewWriter(f, size, 2)
	root, err := load(w, 0, left, value).BucketRoot()
	if err == nil {
		err = w.Complete([]Item{BucketItem(testBucket, root, 0)})
	}
	if err != nil {
		return err
	}
	tree, err := OpenTree(t.Context(), path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	edge, err := tree.RightEdge(root)
	if err != nil {
		return err
	}
	w = NewWriter(f, size, w.Next)
	added, err := load(w, left, left+right, value).Finish()
	if err != nil {
		return err
	}
	if root, err = Join(w, edge, added); err != nil {
		return err
	}
	return w.Complete([]Item{BucketItem(testBucket, root, 0)})
}

// load loads keys from one number up to another.
func load(w *Writer, from, to int, value []byte) *Loader {
	l := NewLoader(w)
	for n := from; n < to; n++ {
		if err := l.Add(testKey(n), value); err != nil {
			panic(err) // of a file that was just made
		}
	}
	return l
}

// A sieve that keeps few pages of a database keeps all that Edge is, and tells of each leaf that it lets go.
func TestSieve_KeepsTheEdge(t *testing.T) {
	for _, size := range []int{512, 4096} {
		dir := t.TempDir()
		whole := filepath.Join(dir, "whole")
		if err := joined(t, whole, size, 3000, 2000, make([]byte, 20)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(dir, "sieved"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		passed := 0
		s := &Sieve{File: f, Ours: func(k []byte) bool { return bytes.HasPrefix(k, []byte("key")) }, Sound: func(p Page) { passed += p.Count }}
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 777)
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := s.Done(); err != nil {
			t.Fatal(err)
		}
		if _, err := Walk(t.Context(), f.Name(), Look{Extent: Edge, Bucket: testBucket}); err != nil {
			t.Errorf("pages of %d: %v", size, err)
		}
		if err := check(t.Context(), f.Name(), Reachable); err == nil {
			t.Errorf("pages of %d: nothing was let go", size)
		}
		if passed != 5000 {
			t.Errorf("pages of %d: %d keys were in sound leaves", size, passed)
		}
	}
}
