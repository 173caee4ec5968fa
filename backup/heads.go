package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"cke/internal/contain"
)

// headerIn is Header, of what may have been read already when the lineage was.
func (s *Store) headerIn(ctx context.Context, l *Lineage, e Entry) (Header, error) {
	if l.sifted != nil {
		if v := l.seen[e.Name()]; v.bad != nil {
			return Header{}, v.bad
		} else if v.head != nil {
			return *v.head, nil
		}
	}
	return s.Header(ctx, e)
}

// Header reads the header of a listed object. An object whose size differs from that in its header is damaged; the header
// is returned anyway.
func (s *Store) Header(ctx context.Context, e Entry) (Header, error) {
	h, err := ReadHeader(ctx, s.Bucket, e.Place)
	if err == nil && h.Size != e.Size {
		return h, fmt.Errorf("%s: %w", e.Name(), damaged("it has %d bytes instead of %d", e.Size, h.Size))
	}
	return h, s.judgeFormat(err)
}

// eachHeader reads the headers of many objects, twice where one is not found: once may be a fault on the way. It has not more than atOnce of them in
// memory. An error of do ends it.
func (s *Store) eachHeader(ctx context.Context, entries []Entry, do func(e Entry, h Header, err error) error) error {
	for some := range slices.Chunk(entries, atOnce) {
		hs, errs := s.headers(ctx, some)
		for i, e := range some {
			if errors.Is(errs[i], ErrNotFound) {
				hs[i], errs[i] = s.Header(ctx, e)
			}
			if err := do(e, hs[i], errs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// headers reads the headers of many objects at once. errs[i] is set where one could not be read.
func (s *Store) headers(ctx context.Context, entries []Entry) (hs []Header, errs []error) {
	hs, errs = make([]Header, len(entries)), make([]error, len(entries))
	var wg sync.WaitGroup
	free := make(chan struct{}, parallel)
	for i, e := range entries {
		free <- struct{}{}
		wg.Go(contain.Work(func() {
			defer func() { <-free }()
			hs[i], errs[i] = s.Header(ctx, e)
		}, func(err error) { errs[i] = err }))
	}
	wg.Wait()
	return hs, errs
}
