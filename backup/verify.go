package backup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Finding is one thing that Check found wrong.
type Finding struct {
	Object   string `json:"object"`
	LastGood int64  `json:"lastGood"`
	Problem  string `json:"problem"`
}

// Report is what Check found out about a lineage.
type Report struct {
	Lineage  string    `json:"lineage"`
	Objects  int       `json:"objects"`
	Bytes    int64     `json:"bytes"`
	Findings []Finding `json:"findings,omitempty"`
	// LastGood is the newest revision that can be restored.
	LastGood int64 `json:"lastGood"`
	// Opened: bodies were decrypted and their frames checked; else their digests only, for want of a key.
	Opened bool `json:"opened"`
}

// Check reads every object of a lineage whole (empty: the newest) and checks names, headers, digests, frames and
// contiguity. It goes on after what it finds; the error is for a store that cannot be read, or ErrEmpty.
func (s *Store) Check(ctx context.Context, lineage string) (Report, error) {
	l, err := s.pick(ctx, &At{Lineage: lineage})
	if err != nil {
		return Report{}, err
	}
	entries := append([]Entry(nil), l.Fulls...)
	for _, st := range l.Streams {
		entries = append(entries, st.Deltas...)
	}
	r := Report{Lineage: l.Name, Objects: len(entries), Opened: true}
	results, err := s.checkAll(ctx, entries, &r)
	if err != nil {
		return r, err
	}
	r.judge(&l, results)
	return r, nil
}

type checked struct {
	header Header
	bad    error
}

func (s *Store) checkAll(ctx context.Context, entries []Entry, r *Report) (map[string]checked, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(map[string]checked, len(entries))
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	free := make(chan struct{}, parallel/2)
	for _, e := range entries {
		free <- struct{}{}
		wg.Go(func() {
			h, opened, err := s.checkObject(ctx, e)
			mu.Lock()
			defer func() { mu.Unlock(); <-free }()
			if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
				if failed == nil {
					failed = fmt.Errorf("check %s: %w", e.Name(), err)
				}
				cancel()
				return
			}
			r.Opened = r.Opened && opened
			r.Bytes += e.Size
			results[e.Name()] = checked{h, err}
		})
	}
	wg.Wait()
	return results, failed
}

// checkObject reads one object whole. Without a key only the digest of an encrypted body is checked.
func (s *Store) checkObject(ctx context.Context, e Entry) (h Header, opened bool, err error) {
	body, err := s.Bucket.Open(ctx, e.Name(), 0, -1)
	if err != nil {
		return h, true, err
	}
	defer body.Close()
	r := &contextReader{ctx, body}
	if h, _, err = readHeader(r); err != nil {
		return h, true, err
	}
	if err := h.at(e.Place); err != nil {
		return h, true, err
	}
	if h.Encryption != "" && len(s.Identities) == 0 {
		d := &digestReader{r: r, h: sha256.New(), left: h.BodySize}
		if _, err := io.Copy(io.Discard, d); err != nil {
			return h, false, err
		}
		return h, false, d.check(h)
	}
	if h.Place.Kind == KindDelta {
		return h, true, readDeltaBody(h, r, s.Identities, deltaVisitor{})
	}
	o, err := newOpener(h, r, s.Identities)
	if err != nil {
		return h, true, err
	}
	defer o.Close()
	return h, true, o.Finish()
}

// judge turns results into findings, and sees to contiguity.
func (r *Report) judge(l *Lineage, results map[string]checked) {
	var sound []Stream
	for _, st := range l.Streams {
		sound = append(sound, r.split(st, results)...)
	}
	l.Streams = sound
	for _, f := range l.Fulls {
		if bad := results[f.Name()].bad; bad != nil {
			r.Findings = append(r.Findings, Finding{Object: f.Name(), Problem: bad.Error()})
			continue
		}
		c := l.chain(f)
		r.LastGood = max(r.LastGood, c.Last)
	}
	for i := range r.Findings {
		if r.Findings[i].LastGood == 0 {
			r.Findings[i].LastGood = r.LastGood
		}
	}
}

// split cuts a run of deltas where one is bad, as if it were missing.
func (r *Report) split(st Stream, results map[string]checked) []Stream {
	var parts []Stream
	part := Stream{Stream: st.Stream, First: st.First, Last: st.First - 1}
	for j, d := range st.Deltas {
		c := results[d.Name()]
		next := int64(0)
		if j+1 < len(st.Deltas) {
			next = st.Deltas[j+1].Revision
			if c.bad == nil && c.header.Last+1 != next {
				c.bad = damaged("it ends at revision %d, the next begins at %d", c.header.Last, next)
			}
		}
		if c.bad == nil {
			part.Deltas, part.Last, part.End = append(part.Deltas, d), c.header.Last, c.header.End
			continue
		}
		r.Findings = append(r.Findings, Finding{d.Name(), d.Revision - 1, c.bad.Error()})
		part.Damage, part.until = &DamagedError{Object: d.Name(), Err: c.bad}, next
		parts = append(parts, part)
		part = Stream{Stream: st.Stream, First: next, Last: next - 1}
	}
	if st.Damage != nil && part.Damage == nil && results[st.Damage.Object].bad == nil {
		r.Findings = append(r.Findings, Finding{st.Damage.Object, st.Last, st.Damage.Err.Error()})
		part.Damage, part.until = st.Damage, st.until
	}
	if len(part.Deltas) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// Boot starts an etcd on a copy of a restored snapshot and asks it for what was restored. It returns the version of that
// etcd, "" if none could be started here.
type Boot func(ctx context.Context, snapshot string, x Extracted) (version string, err error)

// Drill restores a state to scratch, compares it with the hash that etcd gave when it was taken, has boot, which may be nil,
// start an etcd on it, and leaves a mark of the success in the store. The zero At drills the newest state that has such a
// hash, or just the newest if none has.
func (s *Store) Drill(ctx context.Context, at At, boot Boot) (Extracted, error) {
	dir, err := os.MkdirTemp(s.Scratch, "cke-drill-")
	if err != nil {
		return Extracted{}, err
	}
	defer os.RemoveAll(dir)
	if at == (At{Lineage: at.Lineage}) {
		if at.Revision, err = s.newestHashed(ctx, at); err != nil {
			return Extracted{}, err
		}
	}
	x, err := s.extract(ctx, at, filepath.Join(dir, "db"), ExtractOptions{CheckHash: true, scratch: true})
	if err != nil {
		return x, err
	}
	if x.EtcdVersion == "" {
		if x.EtcdVersion, err = s.versionNear(ctx, x); err != nil {
			return x, err
		}
	}
	if boot != nil {
		if x.Booted, err = boot(ctx, filepath.Join(dir, "db"), x); err != nil {
			return x, fmt.Errorf("start etcd on revision %d: %w", x.Revision, err)
		}
	}
	return x, s.markVerified(ctx, x.Lineage, Verified{Full: x.Full, Revision: x.Revision, At: s.now(), HashChecked: x.HashChecked, Booted: x.Booted})
}

// versionNear is the version of etcd that the nearest other full of a lineage tells: fulls merged by early releases tell none.
func (s *Store) versionNear(ctx context.Context, x Extracted) (string, error) {
	l, err := s.Lineage(ctx, x.Lineage)
	if err != nil {
		return "", err
	}
	near := func(e Entry) int64 { return max(e.Revision-x.Revision, x.Revision-e.Revision) }
	slices.SortStableFunc(l.Fulls, func(a, b Entry) int { return cmp.Compare(near(a), near(b)) })
	for _, f := range l.Fulls {
		if h, err := ReadHeader(ctx, s.Bucket, f.Place); err == nil && h.EtcdVersion != "" {
			return h.EtcdVersion, nil
		}
	}
	return "", nil
}

// newestHashed looks back along the newest chain for a revision that a hash was recorded for; 0: there is none.
func (s *Store) newestHashed(ctx context.Context, at At) (int64, error) {
	t, err := s.resolve(ctx, at, false)
	if err != nil {
		return 0, err
	}
	entries := append([]Entry{t.chains[0].Full}, t.chains[0].upTo(t.revision)...)
	for len(entries) > 0 {
		cut := max(0, len(entries)-parallel)
		hs, errs := s.headers(ctx, entries[cut:])
		for i := len(hs) - 1; i >= 0; i-- {
			if errs[i] == nil && len(hs[i].Hashes) > 0 {
				return hs[i].Hashes[0].Revision, nil
			}
		}
		entries = entries[:cut]
	}
	return 0, nil
}

func ignoreMissingObject(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
