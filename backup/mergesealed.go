package backup

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"cke/backup/internal/pages"
)

// sealed makes a new full of a full and the deltas after it, page by page as the full streams by. Of that only those pages are
// kept that a sieve keeps; the others are checked as they pass. ErrNeedsWhole, or damage: these were not enough.
func (m *merger) sealed(ctx context.Context, s *Store, full Place, begin func() (*FullWriter, error), x *Extracted) (err error) {
	added, err := m.plan(false, false)
	if err != nil {
		return err
	}
	expected := m.meta
	w, err := begin()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close(), os.Remove(w.body.Name()))
		}
	}()
	if _, err := io.MultiWriter(w.check, w.seal).Write(m.metas()); err != nil {
		return err
	}
	if known := hashAt(m.full, m.full.Last); known != nil {
		m.hash = newKeyHash(*known, m.old.Pages)
	}
	kept := m.sieve()
	content := m.full.Content - sha256.Size
	err = m.same(s.fetchFull(ctx, full, &window{w: kept, left: content}, m.afterMetas(w.check), m.afterMetas(w.seal)))
	if err != nil {
		return err
	}
	if err := kept.KeepLeaf(); err != nil {
		return err
	}
	if err := m.assemble(ctx, added); err != nil {
		return err
	}
	if m.meta != expected || !m.hash.equal() {
		return ErrNeedsWhole
	}
	size := int64(m.meta.Pages)*int64(m.old.Size) - content
	if _, err := w.fan.ReadFrom(&contextReader{ctx, io.NewSectionReader(m.f, content, size)}); err != nil {
		return err
	}
	if err := errors.Join(w.complete(), w.end()); err != nil {
		return err
	}
	x.sealed, x.info = w, m.found
	return nil
}

// sieve keeps what of the full is not in a sound leaf.
func (m *merger) sieve() *pages.Sieve {
	m.passed = make(passedLeaves, m.old.Pages)
	kept := newSieve(m.f)
	kept.Size = m.old.Size
	kept.Sound = func(p pages.Page) {
		if m.passed.take(p) {
			m.hash.passed(p)
		}
	}
	return kept
}
