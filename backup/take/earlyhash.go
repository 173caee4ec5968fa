package take

import (
	"context"
	"io"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke/backup"
	"cke/internal/contain"
)

// earlyHash asks for the hash of a snapshot while that still arrives, if nothing changes meanwhile: only then its revision is known
// so soon, and no member computes a hash in vain. Not for concurrent use.
type earlyHash struct {
	o    *observer
	stop context.CancelFunc

	wg       sync.WaitGroup
	from     string // the member that gives the snapshot: another one is asked for the hash
	revision int64  // of which it was asked; 0: of none
	hashes   []backup.Hash
	err      error
}

// begin is called when a snapshot has started to arrive from a member, which was asked for its revision before. If that is still the
// same, it is the snapshot's.
func (e *earlyHash) begin(ctx context.Context, cli *clientv3.Client, from candidate) {
	e.end()
	e.revision, e.from = 0, from.endpoint
	ctx, e.stop = context.WithCancel(ctx)
	e.wg.Go(contain.Work(func() {
		s, err := cli.Status(ctx, from.endpoint)
		if err != nil || s.Header.Revision != from.status.Header.Revision {
			return
		}
		e.hashes, e.err = e.o.hash(ctx, s.Header.Revision, true, from.endpoint)
		e.revision = s.Header.Revision
	}, func(err error) { e.o.c.Log.Warn("no early hash of a full backup", "error", err) }))
}

// hash returns the hash of a revision.
func (e *earlyHash) hash(ctx context.Context, revision int64) ([]backup.Hash, error) {
	e.wg.Wait()
	if e.revision == revision {
		return e.hashes, e.err
	}
	return e.o.hash(ctx, revision, true, e.from)
}

// end gives up what was asked. It may be called at any time.
func (e *earlyHash) end() {
	if e.stop != nil {
		e.stop()
	}
	e.wg.Wait()
}

// firstWrite does something when the first bytes are written.
type firstWrite struct {
	w    io.Writer
	then func()
}

func (f *firstWrite) Write(p []byte) (int, error) {
	if f.then != nil {
		f.then()
		f.then = nil
	}
	return f.w.Write(p)
}
