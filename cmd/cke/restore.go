package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/target"
	"cke/server"
	"cke/storage"
)

// snapshotsOf returns what restores of a cluster continue from.
func snapshotsOf(store *storage.Store, config cke.Config, log *slog.Logger) func(*term, server.Nodes) (cke.Snapshots, error) {
	return func(lead *term, nodes server.Nodes) (cke.Snapshots, error) {
		cluster := lead.Cluster()
		s := &snapshots{
			store: store, term: lead, nodes: nodes, cluster: cluster,
			dir: snapshotDir(config.Backup.ScratchDir, cluster), scratch: config.Backup.ScratchDir, log: log,
		}
		// What a restore left that was ended elsewhere, by an earlier version, or just before a daemon was.
		if err := s.Forget(lead.Context(), ""); err != nil {
			log.Warn("files and keys of completed restores were not removed", "cluster", cluster, "error", err)
		}
		return s, nil
	}
}

// snapshots keeps the snapshot of one restore as a file on this host, with what is known of it beside.
type snapshots struct {
	store        *storage.Store
	term         *term
	nodes        cke.Machines
	cluster      string
	dir, scratch string
	// holdEvery is how often it is checked whether a restore that holds its backups is over; zero: a quarter of a lock's life.
	holdEvery time.Duration
	log       *slog.Logger
	// held are the restores whose backups are held; compared are those for which the store was compared in this term.
	held, compared map[string]bool
	mu             sync.Mutex // guards held and compared
}

var _ cke.Snapshots = (*snapshots)(nil)

// file and about are where the snapshot of a restore is. about is written last: without it the file is not whole.
func (s *snapshots) file(id string) string  { return filepath.Join(s.dir, id+".db") }
func (s *snapshots) about(id string) string { return filepath.Join(s.dir, id+".json") }

// Fetch implements cke.Snapshots.
func (s *snapshots) Fetch(ctx context.Context, id string, o cke.RestoreOrder, survivor *cke.Join, progress func(string)) (cke.Snapshot, error) {
	ran, gone, err := s.lastStart(ctx, survivor)
	if err != nil {
		return cke.Snapshot{}, err
	}
	if known, err := s.known(id); err == nil && (gone || known.Ran.Equal(ran)) {
		if err := s.compareFetched(ctx, id, o, progress); err != nil {
			return cke.Snapshot{}, err
		}
		s.holdAgain(ctx, id, o, progress)
		return known.Snapshot, nil
	}
	if err := s.tidy(ctx, id); err != nil { // also of what this one has half of
		return cke.Snapshot{}, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return cke.Snapshot{}, fmt.Errorf("make room for a snapshot: %w", err)
	}
	snapshot := cke.Snapshot{}
	if o.Survivor != "" {
		snapshot, err = s.copyOf(ctx, id, o, survivor)
	} else {
		snapshot, err = s.extract(ctx, id, o, progress)
	}
	if err != nil {
		return cke.Snapshot{}, err
	}
	data, err := json.Marshal(fetched{snapshot, ran})
	if err != nil {
		return snapshot, err
	}
	return snapshot, writeWhole(s.about(id), data)
}

// writeWhole writes a file that is there whole or not at all, also after a loss of power.
func writeWhole(name string, data []byte) error {
	f, err := os.OpenFile(name+".part", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// fetched is a snapshot that was fetched before, and when the survivor had last been started by then; zero: it is none of a
// survivor.
type fetched struct {
	cke.Snapshot
	Ran time.Time `json:"ran,omitzero"`
}

// lastStart is when the survivor was last started. gone: what was read of it before is not out of date.
func (s *snapshots) lastStart(ctx context.Context, survivor *cke.Join) (ran time.Time, gone bool, err error) {
	if survivor == nil {
		return ran, true, nil
	}
	c, err := s.nodes.Machine(survivor.Node).Container(ctx, *survivor)
	if errors.Is(err, cke.ErrNotFound) {
		return ran, true, nil
	}
	return c.StartedAt, false, err
}

// known is what was fetched before.
func (s *snapshots) known(id string) (fetched, error) {
	var known fetched
	data, err := os.ReadFile(s.about(id))
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		return known, err
	}
	info, err := os.Stat(s.file(id))
	if err == nil && info.Size() != known.Size {
		err = errors.New("another size")
	}
	return known, err
}

// tidy removes the files of all restores but those that may still need them, and of one that is over or starts again ("": of none).
func (s *snapshots) tidy(ctx context.Context, over string) error {
	return tidySnapshots(ctx, s.store, s.cluster, s.dir, over)
}

func tidySnapshots(ctx context.Context, store *storage.Store, cluster, dir, over string) error {
	open, err := store.OpenRestores(ctx, cluster)
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make room for a snapshot: %w", err)
	}
	for _, f := range files {
		of, kind, _ := strings.Cut(f.Name(), ".")
		if !strings.HasPrefix(kind, "db") && !strings.HasPrefix(kind, "json") || of != over && slices.Contains(open, of) {
			continue // not ours, or needed still
		}
		if err := os.RemoveAll(filepath.Join(dir, f.Name())); err != nil {
			return fmt.Errorf("make room for a snapshot: %w", err)
		}
	}
	return nil
}

// sweepSnapshots removes what this host fetched for restores that are over: another host may lead their clusters by now, and some are
// deleted.
func sweepSnapshots(ctx context.Context, store *storage.Store, scratch string) error {
	dirs, err := os.ReadDir(snapshotDir(scratch, ""))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	failed := []error{err}
	for _, d := range dirs {
		dir := snapshotDir(scratch, d.Name())
		if !d.IsDir() {
			continue
		}
		err := tidySnapshots(ctx, store, d.Name(), dir, "")
		if err == nil {
			_ = os.Remove(dir) // unless it has something in it
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// snapshotDir is where this host keeps what it fetches for restores of a cluster; "": of all, a directory for each.
func snapshotDir(scratch, cluster string) string { return filepath.Join(scratch, "restore", cluster) }

// copyOf reads the data of a survivor, which is stopped.
func (s *snapshots) copyOf(ctx context.Context, id string, o cke.RestoreOrder, survivor *cke.Join) (cke.Snapshot, error) {
	if survivor == nil {
		return cke.Snapshot{}, fmt.Errorf("there is no member on %s any more: %w", o.Survivor, cke.ErrNotFound)
	}
	f, err := os.OpenFile(s.file(id), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return cke.Snapshot{}, err
	}
	defer f.Close()
	if err := s.nodes.Machine(survivor.Node).SaveData(ctx, *survivor, f); err != nil {
		return cke.Snapshot{}, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return cke.Snapshot{}, err
	}
	if err := backup.ForgetAlarms(ctx, s.file(id)); err != nil {
		return cke.Snapshot{}, err
	}
	return s.measure(ctx, id)
}

// extract reads, checks and applies all that the state needs.
func (s *snapshots) extract(ctx context.Context, id string, o cke.RestoreOrder, progress func(string)) (cke.Snapshot, error) {
	from, t, err := s.open(ctx, id, o)
	if err != nil {
		return cke.Snapshot{}, err
	}
	if err := s.compare(ctx, id, o, from, progress); err != nil {
		return cke.Snapshot{}, errors.Join(err, t.Close())
	}
	progress("reading and checking " + o.Describe())
	release, _, err := s.hold(ctx, id, from, t) // each reading notes what cannot be kept from it
	if err != nil {
		return cke.Snapshot{}, cannotExtract(ctx, o, err)
	}
	x, err := from.Extract(ctx, backup.At{Lineage: o.Lineage, Revision: o.Revision, Time: o.Time}, s.file(id), backup.ExtractOptions{CheckHash: true, IgnoreHash: o.IgnoreHash, Digest: true})
	if err != nil {
		release()
		return cke.Snapshot{}, cannotExtract(ctx, o, err)
	}
	for _, note := range x.Notes {
		progress(note)
	}
	version, err := backup.DataVersion(s.file(id))
	if err != nil {
		release()
	}
	return cke.Snapshot{Revision: x.Revision, Lineage: x.Lineage, Full: x.Full, At: x.End, Etcd: version, Size: x.Size, Digest: x.Digest}, err
}

// open opens the backups that a restore reads.
func (s *snapshots) open(ctx context.Context, id string, o cke.RestoreOrder) (*backup.Store, *target.Target, error) {
	credentials, err := targetCredentials(ctx, s.store, s.cluster, o.Target)
	if err != nil {
		return nil, nil, err
	}
	t, err := target.Open(ctx, o.Target, credentials)
	if err != nil {
		return nil, nil, &cke.Error{Code: cke.CodeTarget, What: "the backup target cannot be opened", Err: err, Unchanged: true}
	}
	from, err := s.source(ctx, id, o)
	if err != nil {
		return nil, nil, errors.Join(err, t.Close())
	}
	from.Bucket, from.Scratch, from.Past = t, s.scratch, backup.OnRecord(ctx, s.store, o.Source, o.Target)
	return from, t, nil
}

// source is what a restore reads, without its bucket. A key that was lent opens encrypted backups, and vouches for none: it may be any
// recipient's. Those are trusted who sign with the key of this host, or with one that the order names.
func (s *snapshots) source(ctx context.Context, id string, o cke.RestoreOrder) (*backup.Store, error) {
	from := &backup.Store{Cluster: o.Source}
	lent, err := s.store.RestoreKey(ctx, s.cluster, id)
	switch {
	case errors.Is(err, cke.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		if from.Identities, err = backup.ParseIdentities(string(lent)); err != nil {
			return nil, &cke.Error{Code: cke.CodeBackupKey, What: "the keys lent for the restore have no age identity among them", Unchanged: true}
		}
	}
	own, err := s.store.KeyIdentity(ctx)
	if err != nil {
		return nil, err
	}
	from.Identities = append(from.Identities, own)
	if from.Trusted, from.AllowUntrusted, err = backup.TrustedBy([]age.Identity{own}, o.Trust); err != nil {
		return nil, &cke.Error{Code: cke.CodeUntrusted, What: "cannot restore from " + o.Describe(), Facts: []string{err.Error()}, Unchanged: true}
	}
	return from, nil
}

// cannotExtract is what a user can do about a failure of package backup.
func cannotExtract(ctx context.Context, o cke.RestoreOrder, err error) error {
	if ctx.Err() != nil {
		return err
	}
	e := &cke.Error{Code: cke.CodeTarget, What: "cannot restore from " + o.Describe(), Facts: []string{err.Error()}, Unchanged: true}
	if errors.Is(err, backup.ErrHash) {
		e.Facts = append(e.Facts, backup.HashAdvice)
	}
	damaged := &backup.DamagedError{}
	switch {
	case errors.Is(err, backup.ErrUntrusted):
		e.Code = cke.CodeUntrusted
		if errors.As(err, &damaged) && damaged.LastGood > 0 {
			e.Try = o.Again(damaged.Lineage(), damaged.LastGood)
		}
	case errors.As(err, &damaged) && damaged.LastGood > 0:
		e.Code = cke.CodeBackupDamaged
		e.Try = o.Again(damaged.Lineage(), damaged.LastGood)
	case backup.IsDamage(err):
		e.Code = cke.CodeBackupDamaged
	case errors.Is(err, backup.ErrNotCovered), errors.Is(err, backup.ErrAmbiguousTime):
		e.Code, e.Try = cke.CodeNotCovered, "ckecli backup list"
	case errors.Is(err, backup.ErrKey):
		e.Code = cke.CodeBackupKey
		e.Facts = append(e.Facts, "lend the private part of one of the recipients with --key FILE")
	case errors.Is(err, backup.ErrLost):
		e.Code, e.Try = cke.CodeLostBackups, "ckecli backup list"
	case errors.Is(err, backup.ErrUnread):
		e.Code, e.Try = cke.CodeStore, "ckecli backup list"
	case errors.Is(err, backup.ErrEmpty):
		e.Code = cke.CodeBackupEmpty
	}
	return e
}

// measure is what the file itself shows.
func (s *snapshots) measure(ctx context.Context, id string) (cke.Snapshot, error) {
	info, err := backup.InspectSnapshot(s.file(id))
	if err != nil {
		return cke.Snapshot{}, err
	}
	f, err := os.Open(s.file(id))
	if err != nil {
		return cke.Snapshot{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, readerOf(ctx, f))
	if err != nil {
		return cke.Snapshot{}, err
	}
	return cke.Snapshot{Revision: info.Revision, Size: n, Digest: hex.EncodeToString(sum.Sum(nil))}, nil
}

// readerOf reads until ctx ends.
func readerOf(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Hash implements cke.Snapshots.
func (s *snapshots) Hash(ctx context.Context, id string, bump int64) (cke.HashKV, error) {
	h, err := backup.HashRestored(ctx, s.file(id), bump)
	return cke.HashKV{Hash: h.Hash, Revision: h.Revision, Compacted: h.Compacted}, err
}

// Open implements cke.Snapshots.
func (s *snapshots) Open(_ context.Context, id string) (io.ReadCloser, error) {
	f, err := os.Open(s.file(id))
	if err != nil {
		return nil, fmt.Errorf("open the snapshot: %w", err)
	}
	return f, nil
}

// Forget implements cke.Snapshots.
func (s *snapshots) Forget(ctx context.Context, id string) error {
	if strings.ContainsAny(id, "/\\") {
		return fmt.Errorf("invalid restore id %q", id)
	}
	return errors.Join(s.tidy(ctx, id), s.term.FinishRestore(ctx, id))
}
