package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"cke/backup/internal/stream"
	"cke/internal/contain"
)

// Finding is one problem that Check found.
type Finding struct {
	Object   string `json:"object"`
	LastGood int64  `json:"lastGood"`
	Problem  string `json:"problem"`
}

// Report is what Check found in the backups of one incarnation.
type Report struct {
	Lineage  string    `json:"lineage"`
	Objects  int       `json:"objects"`
	Bytes    int64     `json:"bytes"`
	Findings []Finding `json:"findings,omitempty"`
	// LastGood is the newest revision that can be restored.
	LastGood int64 `json:"lastGood"`
	// Lost are the revisions that these backups held, or were to hold, and that cannot be restored from them.
	Lost []Span `json:"lost,omitempty"`
	// Unlinked counts deltas of earlier releases, which do not name the one before them: whether one was replaced by
	// another cannot be checked.
	Unlinked int `json:"unlinked,omitempty"`
	// Opened means that bodies were decrypted and their frames checked; else only their digests, because a key is
	// missing.
	Opened bool `json:"opened"`
}

// Check reads every object of an incarnation whole (empty: the newest) and checks names, headers, digests, frames and
// contiguity. It continues after what it finds; the error is for a store that cannot be read, or ErrEmpty.
//
// What is deleted during the check is not damage: the final state decides.
func (s *Store) Check(ctx context.Context, lineage string) (Report, error) {
	results := map[string]checked{}
	for tries := 1; ; tries++ {
		l, err := s.pick(ctx, &At{Lineage: lineage})
		if err != nil {
			return Report{}, err
		}
		lineage = l.Name
		if err := s.vetted(ctx, &l, (*Lineage).entries); err != nil {
			return Report{}, err
		}
		entries := l.entries()
		r := Report{Lineage: l.Name, Objects: len(entries), Opened: true}
		if err := s.checkAll(ctx, entries, &r, results); err != nil {
			return r, err
		}
		if tries < lookAgain && anyMissing(entries, results) {
			continue
		}
		s.judgeTrust(entries, results)
		r.judge(&l, results)
		beside, err := s.CheckFiles(ctx, l.Name)
		for _, f := range beside {
			f.LastGood = r.LastGood // nothing that can be restored depends on it
			r.Findings = append(r.Findings, f)
		}
		return r, err
	}
}

// CheckFiles finds out whether the newest cluster file and identity of an incarnation can be read, and are signed if anything else is.
func (s *Store) CheckFiles(ctx context.Context, lineage string) (all []Finding, err error) {
	signed, err := s.signedLineage(ctx, lineage)
	if err != nil {
		return nil, err
	}
	unsigned := *s
	unsigned.Trusted = nil
	for _, kind := range []FileKind{FileSpec, FileIdentity} {
		f, err := s.TrustedFile(ctx, lineage, kind)
		if !f.Trusted && !signed && (err == nil || IsDamage(err)) { // of an earlier version
			f, err = unsigned.TrustedFile(ctx, lineage, kind)
		}
		if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("check the %s of incarnation %s: %w", kind, lineage, err)
		}
		for _, d := range f.Doubts {
			all = append(all, Finding{Object: d.Object, Problem: d.Err.Error()})
		}
	}
	return all, nil
}

// anyMissing forgets what was listed and is not there, and reports whether there was any.
func anyMissing(entries []Entry, results map[string]checked) (any bool) {
	for _, e := range entries {
		if errors.Is(results[e.Name()].bad, ErrNotFound) {
			delete(results, e.Name())
			any = true
		}
	}
	return any
}

// judgeTrust treats objects without a trusted signature like damaged ones.
func (s *Store) judgeTrust(entries []Entry, results map[string]checked) {
	order := slices.SortedStableFunc(slices.Values(entries), func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
	w := witness{s: s}
	for _, e := range order {
		if c := results[e.Name()]; c.bad == nil {
			c.bad = w.see(c.header)
			results[e.Name()] = c
		}
	}
}

type checked struct {
	header Header
	opened bool
	bad    error
}

// checkAll adds to results what is not in there yet.
func (s *Store) checkAll(ctx context.Context, entries []Entry, r *Report, results map[string]checked) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	free := make(chan struct{}, parallel/2)
	for _, e := range entries {
		mu.Lock()
		_, done := results[e.Name()]
		mu.Unlock()
		if done {
			continue
		}
		free <- struct{}{}
		wg.Go(contain.Work(func() {
			defer func() { <-free }()
			var h Header
			var opened bool
			err := contain.Do(func() (err error) {
				h, opened, err = s.checkObject(ctx, e)
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !IsDamage(err) && !errors.Is(err, ErrNotFound) {
				if failed == nil {
					failed = fmt.Errorf("check %s: %w", e.Name(), err)
				}
				cancel()
				return
			}
			results[e.Name()] = checked{h, opened, err}
		}, func(error) {}))
	}
	wg.Wait()
	for _, e := range entries {
		r.Opened = r.Opened && results[e.Name()].opened
		r.Bytes += e.Size
	}
	return failed
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
		return h, true, s.judgeFormat(err)
	}
	if err := h.at(e.Place); err != nil {
		return h, true, err
	}
	if h.Encryption != "" && len(s.Identities) == 0 {
		return h, false, stream.Check(factsOf(h), r)
	}
	if h.Place.Kind == KindDelta {
		return h, true, readDeltaBody(h, r, s.Identities, deltaVisitor{})
	}
	o, err := openBody(h, r, s.Identities)
	if err != nil {
		return h, true, err
	}
	defer o.Close()
	return h, true, o.Finish()
}

// readWhole is checkObject, twice where it is damaged: once may be a fault on the way.
func (s *Store) readWhole(ctx context.Context, e Entry) (err error) {
	for range 2 {
		if _, _, err = s.checkObject(ctx, e); !IsDamage(err) {
			break
		}
	}
	return err
}

// ReadBack reads a full whole and compares it with its digest, as its upload does. It decrypts nothing.
func (s *Store) ReadBack(ctx context.Context, full Entry) error {
	closed := *s
	closed.Identities = nil
	err := closed.readWhole(ctx, full)
	if IsDamage(err) {
		return &DamagedError{Object: full.Name(), Err: err}
	}
	return err
}

// CheckTail reads the newest delta of a run whole, because a sound head proves nothing about what follows it. If that is
// damaged, the run ends before it.
func (s *Store) CheckTail(ctx context.Context, st *Stream) error {
	d := st.Deltas[len(st.Deltas)-1]
	err := s.readWhole(ctx, d)
	if !IsDamage(err) {
		return err
	}
	st.Last, st.Tail = d.Revision-1, Header{}
	st.Damage = &DamagedError{Object: d.Name(), LastGood: st.Last, Err: err}
	return nil
}

// judge turns results into findings, and sees to contiguity.
func (r *Report) judge(l *Lineage, results map[string]checked) {
	held := l.held()
	r.links(l, results)
	var sound []Stream
	for _, st := range l.Streams {
		sound = append(sound, r.split(st, results)...)
	}
	var fulls []Entry
	for _, f := range l.Fulls {
		if bad := results[f.Name()].bad; bad != nil {
			r.Findings = append(r.Findings, Finding{Object: f.Name(), Problem: bad.Error()})
			continue
		}
		fulls = append(fulls, f)
	}
	l.Streams, l.Fulls = sound, fulls
	for _, u := range l.Untrusted {
		r.Findings = append(r.Findings, Finding{u.Name(), u.Revision - 1, u.Err.Error()})
	}
	_ = l.findStrays(func(e Entry) (Header, error) { return results[e.Name()].header, nil }) // it only passes errors on
	for _, s := range l.Strays {
		r.Findings = append(r.Findings, Finding{Object: s.Damage.Object, LastGood: s.Damage.LastGood, Problem: s.Damage.Err.Error()})
	}
	var restorable spans
	for _, c := range l.Chains() {
		restorable.add(Span{c.Full.Revision, c.Last})
		r.LastGood = max(r.LastGood, c.Last)
	}
	r.Lost = held.without(restorable)
	r.tidy(l)
}

// links checks that objects are those that others name.
func (r *Report) links(l *Lineage, results map[string]checked) {
	contradicted := func(by Header, link *Link) {
		if link == nil || results[by.Place.Name()].bad != nil { // what is damaged or forged says nothing of others
			return
		}
		if c, there := results[link.Object]; there && c.bad == nil && link.contradicts(c.header) {
			c.bad = damaged("it is not the object that %s names", by.Place.Name())
			results[link.Object] = c
		}
	}
	for _, st := range l.Streams {
		for i, d := range st.Deltas {
			h := results[d.Name()].header
			contradicted(h, h.After)
			contradicted(h, h.Base)
			if i > 0 && h.Size > 0 && h.After == nil {
				r.Unlinked++
			}
		}
	}
	for _, f := range l.Fulls {
		h := results[f.Name()].header
		contradicted(h, h.After)
	}
}

// tidy leaves one finding for each object, and says of each up to where a restore is possible.
func (r *Report) tidy(l *Lineage) {
	seen := map[string]bool{}
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool {
		again := seen[f.Object]
		seen[f.Object] = true
		return again
	})
	for i, f := range r.Findings {
		if p, ok := ParsePlace(f.Object); ok && f.LastGood == 0 && p.Kind == KindFull {
			r.Findings[i].LastGood = l.reach(p.Revision)
		}
		r.Findings[i].LastGood = l.reach(r.Findings[i].LastGood)
	}
}

// split cuts a run of deltas where one is bad, as if it were missing.
func (r *Report) split(st Stream, results map[string]checked) []Stream {
	var parts []Stream
	part := Stream{Stream: st.Stream, First: st.First, Last: st.First - 1}
	for j, d := range st.Deltas {
		c := results[d.Name()]
		next := st.until
		if j+1 < len(st.Deltas) {
			next = st.Deltas[j+1].Revision
			if c.bad == nil && results[st.Deltas[j+1].Name()].bad == nil && c.header.Last+1 != next {
				c.bad = damaged("its last revision is %d, but the next delta starts at %d", c.header.Last, next)
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

// Boot starts an etcd on a copy of a restored snapshot and reads the restored data from it. It returns the version of
// that etcd, "" if none could be started here.
type Boot func(ctx context.Context, snapshot string, x Extracted) (version string, err error)

// ErrNotServed reports that an etcd was started on a restored backup and does not serve the restored data.
var ErrNotServed = errors.New("etcd does not serve what was restored")

// Drill restores a state to scratch and compares it with the hash that etcd gave when it was taken, or else with the
// newest one of an earlier revision. boot, which may be nil, starts an etcd on it. Drill leaves a mark in the store, of
// the success or of the damage that it found. Nothing is deleted elsewhere before the mark names the wrong fulls.
func (s *Store) Drill(ctx context.Context, at At, boot Boot) (Extracted, error) {
	release, notes, err := s.reading(ctx, "restore a state of "+s.Cluster+" to scratch")
	if err != nil {
		return Extracted{}, err
	}
	defer release()
	x, err := s.drill(ctx, at, boot, notes)
	var d *DamagedError
	lineage, why := "", err
	switch {
	case at.named():
	case errors.As(err, &d):
		lineage, why = d.Lineage(), d
	case errors.Is(err, ErrNotServed) && ctx.Err() == nil: // else it was ended with this drill
		lineage = x.Lineage
	}
	if lineage != "" {
		if failed := s.markFailed(ctx, lineage, why, x.wrong, x.damaged); failed != nil {
			err = errors.Join(err, failed)
		}
	}
	return x, err
}

func (s *Store) drill(ctx context.Context, at At, boot Boot, notes []string) (Extracted, error) {
	dir, err := NewScratch(s.Scratch, ScratchDrill)
	if err != nil {
		return Extracted{}, err
	}
	defer dir.Remove()
	file := filepath.Join(dir.Path, "db")
	x, err := s.extractHeld(ctx, at, file, ExtractOptions{CheckHash: true, scratch: true, drill: true}, notes)
	if err != nil {
		return x, err
	}
	if x.EtcdVersion == "" {
		if x.EtcdVersion, err = s.versionNear(ctx, x); err != nil {
			return x, err
		}
	}
	if boot != nil {
		if x.Booted, err = boot(ctx, file, x); err != nil {
			return x, fmt.Errorf("start etcd on revision %d: %w", x.Revision, err)
		}
	}
	v := x.Verified(s.now())
	v.Named = at.named()
	return x, s.markVerified(ctx, x.Lineage, v)
}

// versionNear is the version of etcd that the nearest other full of an incarnation records: fulls merged by early releases record none.
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

func ignoreMissingObject(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
