package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"cke/internal/contain"
)

// CopyFilter selects what is copied. Its zero value selects all backups of the cluster.
type CopyFilter struct {
	// Lineage names the incarnation; empty means all.
	Lineage string
	// Since leaves out fulls that were started earlier, and deltas that none of the other fulls needs. Of several fulls of one revision, the one with
	// the newest users and roles is copied if another one is.
	Since time.Time
}

// Copied reports what Copy did.
type Copied struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// Present counts objects that already existed, with the same content.
	Present int64 `json:"present"`
	// Problems are the objects that were not copied, because one of the two copies is damaged or they differ.
	Problems []CopyProblem `json:"problems,omitempty"`
}

// CopyProblem is why one object was not copied.
type CopyProblem struct {
	Object string `json:"object"`
	// There is set if the fault is in the destination; else it is in the source.
	There   bool   `json:"there"`
	Problem string `json:"problem"`
	err     error
}

// Copy copies backups to another store and checks them on the way. Existing objects are left alone, so it can be
// interrupted and repeated, and no object is ever overwritten. An object that is damaged in the source or the
// destination, or has different content in the destination, is skipped and reported: the error is damage if any is
// damaged, else ErrExists, and is returned after all others are copied.
//
// Existing objects are compared by size and header, and small ones by digest; Check reads all.
func (s *Store) Copy(ctx context.Context, dst Bucket, f CopyFilter) (Copied, error) {
	release, _, err := s.reading(ctx, "copy the backups of "+s.Cluster)
	if err != nil {
		return Copied{}, err
	}
	defer release()
	lineages, err := s.names(ctx)
	if err != nil {
		return Copied{}, err
	}
	there := map[string]Object{}
	objects, err := dst.List(ctx, s.Cluster+"/")
	if err != nil {
		return Copied{}, &CopyError{There: true, Err: fmt.Errorf("list the destination: %w", err)}
	}
	for _, o := range objects {
		there[o.Name] = o
	}
	var waves [lastWave + 1][]string
	for _, l := range lineages {
		users, err := s.usersFor(ctx, &l, f)
		if err != nil {
			return Copied{}, &CopyError{Err: err}
		}
		for _, name := range l.selected(f, users) {
			waves[waveOf(name)] = append(waves[waveOf(name)], name)
		}
	}
	var mu sync.Mutex
	var done Copied
	for _, names := range waves {
		g, copying := errgroup.WithContext(ctx)
		g.SetLimit(parallel)
		for _, name := range names {
			g.Go(contain.Err(func() error {
				o, present := there[name]
				n, err := s.copyObject(copying, dst, name, o, present)
				mu.Lock()
				defer mu.Unlock()
				return done.count(name, n, present, err)
			}))
		}
		if err = g.Wait(); err != nil {
			break
		}
	}
	for i := range lineages {
		if err == nil && (f.Lineage == "" || lineages[i].Name == f.Lineage) {
			err = s.copyPruning(ctx, dst, &lineages[i])
		}
	}
	slices.SortFunc(done.Problems, func(a, b CopyProblem) int { return strings.Compare(a.Object, b.Object) })
	if err == nil {
		err = done.problem()
	}
	return done, err
}

const lastWave = 4

// waveOf says in which wave an object is copied: each is complete before the next. A signature is copied after its file. A copy broken off that has
// any backup knows the members of every incarnation, and an identity with a signature in it has its cluster file, with its signature.
func waveOf(name string) (wave int) {
	kind := FileKind(path.Base(path.Dir(name)))
	if kind == fileSignatures {
		of, _, _ := strings.Cut(path.Base(name), "-")
		kind, wave = FileKind(of), 1
	}
	switch kind {
	case FileSpec:
		return wave
	case FileIdentity:
		return wave + 1
	}
	return wave + lastWave - 1
}

// CopyError reports on which side a copy failed.
type CopyError struct {
	There bool // in the destination
	Err   error
}

func (e *CopyError) Error() string { return e.Err.Error() }
func (e *CopyError) Unwrap() error { return e.Err }

// count enters what became of one object; what it returns ends the copy.
func (c *Copied) count(name string, bytes int64, present bool, err error) error {
	switch {
	case err == nil && present:
		c.Present++
	case err == nil:
		c.Objects++
		c.Bytes += bytes
	case errors.Is(err, errGone):
	case IsDamage(err), errors.Is(err, ErrExists):
		var side *CopyError
		text := strings.TrimPrefix(err.Error(), name+": ")
		if errors.Is(err, ErrExists) {
			text = "different content under this name: " + ErrExists.Error()
		}
		c.Problems = append(c.Problems, CopyProblem{name, errors.As(err, &side) && side.There, text, err})
	default:
		return err
	}
	return nil
}

// problem is the error that reports what was skipped.
func (c *Copied) problem() error {
	for _, p := range c.Problems {
		if IsDamage(p.err) {
			return &CopyError{There: p.There, Err: p.err}
		}
	}
	for _, p := range c.Problems {
		return &CopyError{There: p.There, Err: p.err}
	}
	return nil
}

// selected returns the names to copy: fulls first, then deltas in order, so that a copy broken off can be restored from. Of an incarnation of which
// no backups are selected, these are cluster files and identities: a copy names the members of every incarnation. users are selected whatever
// their dates.
func (l *Lineage) selected(f CopyFilter, users []Entry) (names []string) {
	if f.Lineage != "" && l.Name != f.Lineage {
		return l.filesThat(declares)
	}
	var oldest Entry
	for _, e := range l.Fulls {
		if e.Time.Before(f.Since) && !slices.Contains(users, e) {
			continue
		}
		if len(names) == 0 {
			oldest = e
		}
		names = append(names, e.Name())
	}
	if len(names) == 0 && !f.Since.IsZero() {
		return l.filesThat(declares)
	}
	for j, st := range l.Streams {
		if j+1 < len(l.Streams) && l.Streams[j+1].Stream == st.Stream && l.Streams[j+1].First <= oldest.Revision+1 {
			continue // the rest of the stream has all that follows
		}
		for i, d := range st.Deltas {
			if st.mayPass(i, oldest) {
				names = append(names, d.Name())
			}
		}
	}
	return append(names, l.filesThat(func(name string) bool { return !filePruning.isOf(name) })...) // see copyPruning
}

// usersFor returns, of several fulls of one revision of which a filter selects some by their dates, the one that it leaves out and that has newer users
// and roles than these. A header that cannot be read, or that no trusted key signed, says nothing of them.
func (s *Store) usersFor(ctx context.Context, l *Lineage, f CopyFilter) (users []Entry, err error) {
	for from, to := 0, 0; from < len(l.Fulls); from = to {
		to = from + 1
		for to < len(l.Fulls) && l.Fulls[to].Revision == l.Fulls[from].Revision {
			to++
		}
		same := l.Fulls[from:to] // by date
		if f.Lineage != "" && l.Name != f.Lineage || !same[0].Time.Before(f.Since) || same[len(same)-1].Time.Before(f.Since) {
			continue
		}
		var newest UsersState
		left := -1 // the one that has these, if it is left out
		hs, errs := s.headers(ctx, same)
		for i, e := range slices.Backward(same) {
			switch {
			case IsDamage(errs[i]), errors.Is(errs[i], ErrNotFound), errs[i] == nil && !s.counts(hs[i]):
			case errs[i] != nil:
				return nil, errs[i]
			case hs[i].Users().Compare(newest) > 0:
				if newest, left = hs[i].Users(), -1; e.Time.Before(f.Since) {
					left = i
				}
			}
		}
		if left >= 0 {
			users = append(users, same[left])
		}
	}
	return users, nil
}

func (l *Lineage) filesThat(chosen func(name string) bool) (names []string) {
	for _, o := range l.Files {
		if chosen(o.Name) {
			names = append(names, o.Name)
		}
	}
	return names
}

// declares reports whether a file is a cluster file, an identity, or the signature of one.
func declares(name string) bool {
	folder := path.Base(path.Dir(name))
	return slices.ContainsFunc([]FileKind{FileSpec, FileIdentity}, func(k FileKind) bool {
		return folder == string(k) || folder == string(fileSignatures) && strings.HasPrefix(path.Base(name), string(k)+"-")
	})
}

// copyPruning tells the destination what was pruned in the source, as far as the destination has nothing of it. What it once
// had, and misses in part, was lost there.
func (s *Store) copyPruning(ctx context.Context, dst Bucket, l *Lineage) error {
	told, _, err := s.readPruning(ctx, l)
	if err != nil || len(told) == 0 {
		return ignoreMissingObject(err)
	}
	there := &Store{Bucket: dst, Cluster: s.Cluster, Retry: s.Retry, Now: s.Now, Signer: s.Signer, Trusted: s.Trusted, AllowUntrusted: s.AllowUntrusted}
	objects, err := dst.List(ctx, s.Cluster+"/"+l.Name+"/")
	if err != nil {
		return &CopyError{There: true, Err: fmt.Errorf("list the destination: %w", err)}
	}
	copied := Lineage{Name: l.Name}
	for _, o := range objects {
		copied.add(o)
	}
	var missing []hole // in the source, for that reason
	for _, h := range told {
		if h.Full != "" {
			missing = append(missing, h)
		}
		for _, st := range l.Streams {
			missing = append(missing, inGap([]hole{h}, st.hole)...)
		}
	}
	missing = slices.DeleteFunc(missing, func(h hole) bool {
		return slices.ContainsFunc(copied.entries(), func(e Entry) bool {
			return e.Kind == KindDelta && e.Stream == h.Stream && h.From <= e.Sequence && e.Sequence <= h.To || e.Name() == h.Full
		})
	})
	before, _, err := there.readPruning(ctx, &copied)
	if err == nil {
		err = there.putPruning(ctx, &copied, merge(append(missing, before...)))
	}
	if err != nil {
		return &CopyError{There: true, Err: err}
	}
	return nil
}

// copyObject copies one object, unless it is there already.
func (s *Store) copyObject(ctx context.Context, dst Bucket, name string, there Object, present bool) (int64, error) {
	c, err := s.content(ctx, name)
	if err = s.confirmed(ctx, name, err); errors.Is(err, ErrNotFound) {
		return 0, errGone
	}
	if errors.Is(err, errListed) {
		err = damaged("%w", errListed)
	}
	if err != nil {
		return 0, &CopyError{Err: err}
	}
	if present {
		if err := samePresent(ctx, dst, there, c); err != nil {
			return 0, &CopyError{There: true, Err: err}
		}
		return 0, nil
	}
	watched := &watchedBody{Body: c.Body}
	if c.Body != nil {
		c.Body = watched
	}
	err = s.Retry.Put(ctx, dst, name, c, nil)
	switch {
	case err == nil:
		return c.Size(), nil
	case IsDamage(err) && !errors.Is(err, ErrExists):
		return 0, &CopyError{Err: damaged("the body does not match its digest, or is truncated")}
	}
	return 0, &CopyError{There: !watched.failed.Load(), Err: err}
}

// errGone: an object was pruned while the others were copied.
var errGone = errors.New("it is gone")

// watchedBody notes whether it could not be read.
type watchedBody struct {
	Body
	failed atomic.Bool
}

func (b *watchedBody) Open(ctx context.Context) (io.ReadCloser, error) {
	r, err := b.Body.Open(ctx)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, damaged("it was deleted meanwhile")
	case err != nil:
		b.failed.Store(true)
		return nil, err
	}
	return &readCloser{watchedReader{r, b}, r.Close}, nil
}

type watchedReader struct {
	io.Reader
	b *watchedBody
}

func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.b.failed.Store(true)
	}
	return n, err
}

// samePresent compares what is there already with what would be copied.
func samePresent(ctx context.Context, dst Bucket, there Object, c Content) error {
	if there.Size == c.Size() && there.Size <= compareWhole {
		return sameObject(ctx, dst, there.Name, c)
	}
	r, err := dst.Open(ctx, there.Name, 0, int64(len(c.Head)))
	if err != nil {
		return err
	}
	defer r.Close()
	if err := sameHead(r, c); err != nil {
		return err
	}
	if there.Size != c.Size() {
		return damaged("the object in the destination has %d bytes instead of %d", there.Size, c.Size())
	}
	return nil
}

// compareWhole is up to which size what is there already is read whole.
const compareWhole = 4 << 20

// content makes an object of this store ready to be written elsewhere.
func (s *Store) content(ctx context.Context, name string) (Content, error) {
	p, ok := ParsePlace(name)
	if !ok {
		digested := slices.ContainsFunc([]FileKind{FileSpec, FileIdentity, fileVerified, filePruning}, func(k FileKind) bool { return k.isOf(name) })
		if _, _, ok := parseFile(name); ok && digested {
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
		err = fmt.Errorf("%s: %w", name, damaged("it is %w", errLimit))
	}
	return Content{Head: data}, err
}
