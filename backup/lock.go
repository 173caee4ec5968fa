package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	mrand "math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cke/internal/contain"
)

// A restore must not lose what it reads, and two deletions together must not leave less than each of them keeps. So readers and
// deleters announce themselves with a lock: an object in the target, the one thing that all hosts share. Everybody creates its own
// lock first and lists the locks then, so of two that conflict at least one sees the other. A deleter that sees another lock withdraws; a reader
// that sees a deleter waits for it, and a deleter stops as soon as it sees a reader.
//
// A lock is renewed while its holder lives. Its age is the difference of the modification times of two objects, so only the target's
// own clock counts. One that was not renewed for Store.LockTTL is abandoned.

// lockFolder holds the locks, LOCKS/CLUSTER/KIND-ID-NUMBER. No cluster can have its name.
const lockFolder = ".locks"

// IsLock reports whether a name is that of a lock, which is not a backup and disappears without pruning.
func IsLock(name string) bool { return strings.HasPrefix(name, lockFolder+"/") }

// DefaultLockTTL is how long a lock is valid without renewal.
const DefaultLockTTL = time.Minute

type lockKind string

const (
	lockReading  lockKind = "reading"
	lockDeleting lockKind = "deleting"
)

// ErrBusy reports that another process reads or deletes the backups of the cluster now. Nothing was deleted, or no more
// than is reported.
var ErrBusy = errors.New("the backups are in use")

// errLockLost: a deleter could not renew its lock in time.
var errLockLost = errors.New("the lock of this deletion could not be renewed in time")

// lockHolder is what a lock says of its holder, for the operator.
type lockHolder struct {
	Holder string    `json:"holder"`
	Work   string    `json:"work"`
	Since  time.Time `json:"since"`
}

// lock is one that is held here.
type lock struct {
	s      *Store
	kind   lockKind
	id     string
	holder lockHolder
	stop   context.CancelFunc
	ended  chan struct{}

	mu      sync.Mutex
	number  int
	renewed time.Time // when the last renewal was begun
	yield   error     // a deleter has to stop
}

// seenLock is one that a listing has.
type seenLock struct {
	object Object
	kind   lockKind
	id     string
}

// patience is how long a process waits for others. A deletion makes way within a quarter of lockTTL, and the lock of one that was killed counts for one.
func (s *Store) patience() time.Duration { return s.lockTTL() + s.lockTTL()/2 }

func (s *Store) lockTTL() time.Duration { return cmp.Or(s.LockTTL, DefaultLockTTL) }

// Hold keeps deletions away from the backups until it is released; ctx bounds only how long it waits for one under way.
// Notes name what may be deleted nevertheless.
func (s *Store) Hold(ctx context.Context, work string) (release func(), notes []string, err error) {
	return s.reading(ctx, work)
}

// reading announces a reader and waits while another process deletes, as long as a deletion takes to make way: any client can renew a lock. That it cannot be announced, as in a target that this host may only read,
// prevents no reading: the note says so.
func (s *Store) reading(ctx context.Context, work string) (release func(), notes []string, err error) {
	l, err := s.announce(ctx, lockReading, work)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		return func() {}, []string{fmt.Sprintf("no lock could be stored in the target, so a prune elsewhere may delete objects while they are read: %v", err)}, nil
	}
	for begun := time.Now(); ; {
		other, _, err := l.conflict(ctx)
		if err == nil && other == nil {
			return l.release, nil, nil
		}
		if err != nil {
			l.release()
			return nil, nil, err
		}
		if time.Since(begun) > s.patience() {
			return l.release, []string{fmt.Sprintf("a deletion did not stop in time, so it may delete objects while they are read: %v", s.busy(ctx, *other))}, nil
		}
		if err := Pause(ctx, s.lockTTL()/60); err != nil {
			l.release()
			return nil, nil, err
		}
	}
}

// deleting announces a deletion once no other process reads or deletes and no restore is ordered. ErrBusy names what is in
// the way. clock is the target's time at now, the time of this host; zero: the target could not be asked.
func (s *Store) deleting(ctx context.Context, work string) (l *lock, clock, now time.Time, err error) {
	if err := s.ordered(ctx); err != nil { // the restore may hold a lock, which says less
		return nil, clock, s.now(), err
	}
	l, clock, now, err = s.alone(ctx, work)
	if err != nil {
		return nil, clock, now, err
	}
	if err := s.ordered(ctx); err != nil {
		l.release()
		return nil, clock, now, err
	}
	return l, clock, now, nil
}

// ordered is Ordered if it is known.
func (s *Store) ordered(ctx context.Context) error {
	if s.Ordered == nil {
		return nil
	}
	return s.Ordered(ctx)
}

// alone is deleting, whatever is ordered.
func (s *Store) alone(ctx context.Context, work string) (l *lock, clock, now time.Time, err error) {
	ttl := s.lockTTL()
	for begun := time.Now(); ; {
		now = s.now()
		l, err := s.announce(ctx, lockDeleting, work)
		if refuses(err) {
			// A target without room takes no lock, and deleting is what makes room.
			l = &lock{s: s}
			return l, time.Time{}, now, l.alone(ctx)
		}
		if err != nil {
			return nil, time.Time{}, now, fmt.Errorf("no lock could be stored in the target: %w", err)
		}
		other, clock, err := l.conflict(ctx)
		if err == nil && other == nil {
			return l, clock, now, nil
		}
		l.release()
		if err != nil {
			return nil, time.Time{}, now, err
		}
		if time.Since(begun) > s.patience() {
			return nil, time.Time{}, now, s.busy(ctx, *other)
		}
		if err := Pause(ctx, ttl/30+mrand.N(ttl/30)); err != nil { //nolint:gosec // two that withdrew must not meet again
			return nil, time.Time{}, now, err
		}
	}
}

// alone is for a deletion whose lock the target did not take: it continues as long as it sees no other process.
func (l *lock) alone(ctx context.Context) error {
	all, err := l.s.locks(ctx)
	for _, o := range all {
		if time.Since(o.object.ModTime).Abs() <= l.s.lockTTL() {
			return l.s.busy(ctx, o)
		}
	}
	return err
}

// refuses reports whether a target takes nothing and says why: it is full or read-only, or writing is forbidden. Object stores
// have their own words. Any other error may pass, and another process's lock may be taken meanwhile.
func refuses(err error) bool {
	if err == nil {
		return false
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, fs.ErrPermission} {
		if errors.Is(err, e) {
			return true
		}
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc([]string{"no space", "insufficient storage", "storage full", "storagefull", "quotaexceeded", "quota exceeded",
		"read-only", "forbidden", "accessdenied", "access denied"}, func(words string) bool { return strings.Contains(text, words) })
}

// announce creates a lock and keeps renewing it until it is released.
func (s *Store) announce(ctx context.Context, kind lockKind, work string) (*lock, error) {
	host, _ := os.Hostname()
	l := &lock{s: s, kind: kind, id: rand.Text(), ended: make(chan struct{}),
		holder: lockHolder{Holder: cmp.Or(s.Holder, fmt.Sprintf("process %d on %s", os.Getpid(), host)), Work: work, Since: s.now().UTC()}}
	if err := l.renew(ctx); err != nil {
		return nil, err
	}
	var renewing context.Context
	renewing, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go contain.Work(func() { l.keep(renewing) }, l.broken)()
	return l, nil
}

func (l *lock) name(number int) string {
	return fmt.Sprintf("%s/%s/%s-%s-%010d", lockFolder, l.s.Cluster, l.kind, l.id, number)
}

// renew creates the lock's next object and removes the one before.
func (l *lock) renew(ctx context.Context) error {
	data, err := json.Marshal(l.holder)
	if err != nil {
		return err
	}
	begun := l.s.now()
	brief := l.s.Retry
	ttl := l.s.lockTTL()
	brief.For, brief.Attempt = min(cmp.Or(brief.For, tellFor), tellFor, ttl/8), ttl/8
	next := l.number + 1
	if err := brief.Put(ctx, l.s.Bucket, l.name(next), Content{Head: data}, nil); err != nil {
		return err
	}
	if next > 1 {
		l.remove(ctx, l.name(l.number))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kind == lockDeleting && next > 1 && l.lapsed() {
		l.yield = errLockLost // the renewal comes too late: somebody may have read or deleted meanwhile
	}
	l.number, l.renewed = next, begun
	return nil
}

// remove deletes a lock's object. Where the target refuses that, it ends by its age.
func (l *lock) remove(ctx context.Context, name string) (refused bool) {
	ctx, cancel := context.WithTimeout(ctx, l.s.lockTTL()/8)
	defer cancel()
	return refusesDeletion(l.s.Bucket.Delete(ctx, name))
}

// keep renews the lock. A deleter learns here that a reader waits for it, or that a restore was ordered.
func (l *lock) keep(ctx context.Context) {
	defer close(l.ended)
	tick := time.NewTicker(l.s.lockTTL() / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if l.renew(ctx) != nil || l.kind != lockDeleting {
			continue
		}
		busy := l.s.ordered(ctx)
		if other, _, err := l.conflict(ctx); err == nil && other != nil {
			busy = l.s.busy(ctx, *other)
		}
		if busy != nil && ctx.Err() == nil {
			l.mu.Lock()
			l.yield = cmp.Or(l.yield, busy)
			l.mu.Unlock()
		}
	}
}

// broken ends a deletion whose lock is no longer renewed.
func (l *lock) broken(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.yield = cmp.Or(l.yield, err)
}

// check is asked before each deletion: an error means that others may read or delete by now.
func (l *lock) check(ctx context.Context, name string) error {
	if l.ended == nil { // the target took no lock
		if err := l.s.ordered(ctx); err != nil {
			return err
		}
		if p, is := ParsePlace(name); is && p.Kind == KindFull {
			return l.alone(ctx)
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.yield == nil && l.lapsed() {
		return errLockLost
	}
	return l.yield
}

// lapsed reports whether others may take the lock for abandoned by now, or soon. A deletion whose lock lapsed once ends, whether or not it is renewed later.
func (l *lock) lapsed() bool {
	return Since(l.renewed, l.s.now()) > l.s.lockTTL()/2
}

// release ends the lock.
func (l *lock) release() {
	if l.ended == nil {
		return
	}
	l.stop()
	<-l.ended
	l.remove(context.Background(), l.name(l.number))
	l.remove(context.Background(), l.name(l.number+1)) // a renewal that was broken off
}

// conflict returns a lock of another process that this one has to respect, and the target's time when this one was renewed last. Locks that
// no process holds any more are removed.
func (l *lock) conflict(ctx context.Context) (other *seenLock, clock time.Time, err error) {
	all, err := l.s.locks(ctx)
	if err != nil {
		return nil, clock, err
	}
	for _, o := range all {
		if o.id == l.id && o.object.ModTime.After(clock) {
			clock = o.object.ModTime
		}
	}
	if clock.IsZero() {
		return nil, clock, fmt.Errorf("the target does not list the lock that was stored in it: %s", l.name(l.number))
	}
	newest := map[string]seenLock{}
	for _, o := range all {
		if o.id != l.id && !o.object.ModTime.Before(newest[o.id].object.ModTime) {
			newest[o.id] = o
		}
	}
	stay := false // one for each time that a state was read: they are not all tried
	for _, o := range all {
		switch {
		case o.id == l.id:
		case clock.Sub(newest[o.id].object.ModTime).Abs() > l.s.lockTTL():
			stay = stay || l.remove(ctx, o.object.Name)
		case l.kind == lockDeleting || o.kind == lockDeleting:
			other = &o
		}
	}
	return other, clock, nil
}

// locks lists the locks of the cluster.
func (s *Store) locks(ctx context.Context) (all []seenLock, err error) {
	objects, err := s.Bucket.List(ctx, lockFolder+"/"+s.Cluster+"/")
	if err != nil {
		return nil, fmt.Errorf("list the locks of %s: %w", s.Cluster, err)
	}
	for _, o := range objects {
		parts := strings.Split(path.Base(o.Name), "-")
		if len(parts) == 3 && slices.Contains([]lockKind{lockReading, lockDeleting}, lockKind(parts[0])) {
			all = append(all, seenLock{o, lockKind(parts[0]), parts[1]})
		}
	}
	return all, nil
}

// busy says who holds a lock.
func (s *Store) busy(ctx context.Context, o seenLock) error {
	h := lockHolder{Holder: "another process", Work: string(o.kind)}
	if r, err := s.Bucket.Open(ctx, o.object.Name, 0, maxLock); err == nil {
		if data, err := io.ReadAll(r); err == nil {
			json.Unmarshal(data, &h) // what cannot be read stays as it is
		}
		r.Close()
	}
	text := fmt.Sprintf("%s: %s", h.Holder, h.Work)
	if !h.Since.IsZero() {
		text += ", since " + h.Since.UTC().Format(time.RFC3339)
	}
	return fmt.Errorf("%w (%s)", ErrBusy, text)
}

// maxLock bounds what is read of a lock.
const maxLock = 4 << 10
