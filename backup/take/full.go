package take

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"cke/backup"
)

// Full takes one full and stores it, without deltas and without a running Taker.
func Full(ctx context.Context, c Config) (backup.Header, error) {
	c, err := c.withDefaults()
	if err != nil {
		return backup.Header{}, err
	}
	k, err := dial(&c)
	if err != nil {
		return backup.Header{}, err
	}
	defer k.Close()
	return takeFull(ctx, &c, k, newObserver(k, &c), 0, backup.Header{})
}

// takeFull stores a snapshot whose revision is at least the one given. The revision is read from the snapshot itself:
// what a member answers before or after says nothing about what the file holds. known is what is to be
// recorded of what the target holds already.
func takeFull(ctx context.Context, c *Config, k *cluster, o *observer, revision int64, known backup.Header) (backup.Header, error) {
	dir, err := backup.NewScratch(c.Scratch, backup.ScratchFull)
	if err != nil {
		return backup.Header{}, err
	}
	defer dir.Remove()
	early := &earlyHash{o: o}
	defer early.end()
	content, h, err := snapshot(ctx, c, k, dir.Path, revision, false, early)
	if errors.Is(err, backup.ErrNeedsWhole) {
		c.Log.Debug("a snapshot is taken again", "because", err)
		content, h, err = snapshot(ctx, c, k, dir.Path, revision, true, early)
	}
	if err != nil {
		return h, err
	}
	if h.Users().Compare(known.Users()) < 0 {
		return h, fmt.Errorf("the snapshot of revision %d has users and roles of revision %d, but the cluster is at %d: a member lags behind", h.Last, h.AuthRevision, known.AuthRevision)
	}
	if h.RaftIndex < known.RaftIndex { // a member that lags, or another history
		if err := k.reaches(ctx, known.RaftIndex); err != nil {
			return h, err
		}
	}
	if p := known.Place; p.Revision == h.Place.Revision && !h.Place.Time.After(p.Time) {
		h.Place.Time = p.Time.Add(time.Millisecond) // the newest by name has to be the one with the newest users, roles and leases, whatever the clocks
	}
	written := content.FlushAhead(c.Bucket)
	hashes, err := early.hash(ctx, h.Last)
	written()
	if err != nil {
		c.Log.Warn("no hash for a full backup", "revision", h.Last, "error", err)
	}
	// A hash may count more than the snapshot holds: of a revision that etcd compacted to it gives the one from before that, and a
	// member that is behind may not have compacted yet.
	h.Hashes = slices.DeleteFunc(hashes, func(x backup.Hash) bool { return !x.IsOf(h) })
	h.Stored, h.After, h.Origin = known.Stored, known.After, c.Origin
	if content, err = content.WithHeader(h); err != nil {
		return h, err
	}
	h.Size, h.Sum = content.Size(), content.HeadSum()
	return h, c.Retry.Put(ctx, c.Bucket, h.Place.Name(), content, c.Guard)
}

// snapshot fills dir with a snapshot's body, and with the pages, or all, of the snapshot itself.
func snapshot(ctx context.Context, c *Config, k *cluster, dir string, revision int64, whole bool, early *earlyHash) (backup.Content, backup.Header, error) {
	pages, body := filepath.Join(dir, "pages"), filepath.Join(dir, "body")
	if err := errors.Join(os.RemoveAll(pages), os.RemoveAll(body)); err != nil {
		return backup.Content{}, backup.Header{}, err
	}
	src, err := k.source(ctx, revision, aSnapshot, "")
	if err != nil {
		return backup.Content{}, backup.Header{}, err
	}
	cli, err := k.member(src.endpoint)
	if err != nil {
		return backup.Content{}, backup.Header{}, err
	}
	begin := c.Now()
	h := backup.Header{
		Place: backup.FullPlace(c.Cluster, c.Lineage, 0, begin), Begin: begin.UTC(),
		Writer: c.Writer, Term: c.Term, Signer: c.Signer, EtcdVersion: src.status.Version, RaftIndex: src.status.RaftAppliedIndex,
	}
	w, err := backup.NewFullWriter(pages, body, c.Recipients)
	if err != nil {
		return backup.Content{}, h, err
	}
	defer w.Close()
	if err := w.For(c.Bucket); err != nil {
		return backup.Content{}, h, err
	}
	if whole {
		w.KeepWhole()
	}
	first := &firstWrite{w: w, then: func() { early.begin(ctx, cli, src) }}
	streaming, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	var from peer.Peer
	if err := receive(streaming, cli, first, grpc.Peer(&from)); err != nil {
		return backup.Content{}, h, fmt.Errorf("receive a snapshot from %s: %w", src.endpoint, err)
	}
	h.End = c.Now().UTC()
	if err := confirm(ctx, cli, &from, src.status.Header.ClusterId); err != nil {
		return backup.Content{}, h, fmt.Errorf("snapshot from %s: %w", src.endpoint, err)
	}
	content, h, err := w.Seal(h)
	if err != nil {
		return content, h, fmt.Errorf("snapshot from %s: %w", src.endpoint, err)
	}
	if h.Last < revision {
		return content, h, fmt.Errorf("the snapshot from %s has revision %d, want %d or later", src.endpoint, h.Last, revision)
	}
	return content, h, nil
}
