package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// CopyFilter chooses what is copied. Its zero value is everything of the cluster.
type CopyFilter struct {
	// Lineage; empty: all.
	Lineage string
	// Since leaves out fulls begun earlier, and deltas that none of the others needs.
	Since time.Time
}

// Copied counts what Copy did.
type Copied struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Present were there already, with the same content.
	Present int64 `json:"present"`
}

// Copy copies backups to another store, checked on the way. What is there already is left alone, so that it can be
// broken off and begun again; something else under the same name is ErrExists, and everything else is copied first.
func (s *Store) Copy(ctx context.Context, dst Bucket, f CopyFilter) (Copied, error) {
	lineages, err := s.names(ctx)
	if err != nil {
		return Copied{}, err
	}
	var done struct{ objects, bytes, present atomic.Int64 }
	var conflict atomic.Pointer[error]
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, l := range lineages {
		if f.Lineage != "" && l.Name != f.Lineage {
			continue
		}
		for _, name := range l.selected(f.Since) {
			g.Go(func() error {
				n, err := s.copyObject(ctx, dst, name)
				switch {
				case errors.Is(err, ErrExists):
					conflict.CompareAndSwap(nil, &err)
					return nil
				case err != nil:
					return err
				case n == 0:
					done.present.Add(1)
				default:
					done.objects.Add(1)
					done.bytes.Add(n)
				}
				return nil
			})
		}
	}
	err = g.Wait()
	if c := conflict.Load(); err == nil && c != nil {
		err = *c
	}
	return Copied{done.objects.Load(), done.bytes.Load(), done.present.Load()}, err
}

// selected returns the names to copy: fulls first, then deltas in order, so that a copy broken off can be restored from.
func (l *Lineage) selected(since time.Time) (names []string) {
	from := int64(0)
	for _, e := range l.Fulls {
		if e.Time.Before(since) {
			continue
		}
		if from == 0 {
			from = e.Revision
		}
		names = append(names, e.Name())
	}
	if from == 0 && !since.IsZero() {
		return nil
	}
	for _, st := range l.Streams {
		for i, d := range st.Deltas {
			if i+1 < len(st.Deltas) && st.Deltas[i+1].Revision <= from+1 {
				continue
			}
			names = append(names, d.Name())
		}
	}
	for _, o := range l.Files {
		names = append(names, o.Name)
	}
	return names
}

// copyObject copies one object; 0 bytes if it was there already.
func (s *Store) copyObject(ctx context.Context, dst Bucket, name string) (int64, error) {
	c, err := s.content(ctx, name)
	if err != nil {
		return 0, err
	}
	err = sameObject(ctx, dst, name, c)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, ErrNotFound) {
		return 0, fmt.Errorf("%s in the destination: %w", name, err)
	}
	return c.Size(), s.Retry.Put(ctx, dst, name, c, nil)
}

// content makes an object of this store ready to be written elsewhere.
func (s *Store) content(ctx context.Context, name string) (Content, error) {
	p, ok := ParsePlace(name)
	if !ok {
		if strings.Contains(name, "/"+string(FileSpec)+"/") || strings.Contains(name, "/"+string(FileIdentity)+"/") ||
			strings.Contains(name, "/"+string(fileVerified)+"/") {
			data, err := s.readFile(ctx, name)
			return Content{Head: data}, err
		}
		return s.foreign(ctx, name)
	}
	h, head, err := readHead(ctx, s.Bucket, p)
	if err != nil {
		return Content{}, err
	}
	body := &remoteBody{bucket: s.Bucket, name: name, offset: int64(len(head)), size: h.BodySize, sum: h.bodySum()}
	return Content{Head: head, Body: body}, nil
}

// foreign is a small object of unknown kind, copied as it is.
func (s *Store) foreign(ctx context.Context, name string) (Content, error) {
	r, err := s.Bucket.Open(ctx, name, 0, maxFile+1)
	if err != nil {
		return Content{}, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: %w", name, ErrLimit)
	}
	return Content{Head: data}, err
}
