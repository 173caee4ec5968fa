// Package boot starts an etcd on a backup that was restored to scratch, and reads back the restored data: with the
// programs etcd and etcdutl in PATH, or with an image that the Docker engine of this host has. It pulls no image and uses
// no network.
package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/backup"
)

// ErrNotBooted reports that etcd could not be started, although this host has the one to start or the operator named one.
var ErrNotBooted = errors.New("no etcd was started on the restored data")

// errNotTried: etcd could not even be started, which says nothing about the backup.
var errNotTried = errors.New("etcd could not be started")

// errEnded: the etcd that was started has ended.
var errEnded = errors.New("it exited")

const (
	// bootLimit and, for each bootBytes of the snapshot, a second bound how long an etcd may take to be restored and to answer.
	bootLimit = 2 * time.Minute
	bootBytes = 8 << 20
	bootPause = 200 * time.Millisecond
)

// Trial starts an etcd of the minor version that a backup came from, if this host has one.
type Trial struct {
	// Image is tried in the Docker engine before the official image of the backup's version; it may be empty. With Insist
	// the operator named it: no other is tried, and it is an error if it cannot be started.
	Image  string
	Insist bool
	// Scratch is a directory for a copy of the data.
	Scratch string
	// From names, after Start, the programs that were started; Why says why none were.
	From, Why string
}

// etcdRunner is a place in which etcd's programs run.
type etcdRunner interface {
	// String names the programs.
	String() string
	// version of etcd, as "3.6.16".
	version(ctx context.Context) (string, error)
	// restore makes a data directory of a snapshot file, and run starts etcd on it. An error is errNotTried unless it is about the
	// snapshot.
	restore(ctx context.Context, snapshot string) error
	run(ctx context.Context) error
	// ask fails while etcd is starting, with errEnded once it has ended.
	ask(ctx context.Context) (bootAnswer, error)
	// remove leaves nothing behind, and returns the last words of etcd.
	remove() string
}

// bootAnswer is what an etcd says of its data.
type bootAnswer struct {
	revision  int64
	hash      uint32
	compacted int64
}

// Start implements backup.Boot.
func (t *Trial) Start(ctx context.Context, snapshot string, x backup.Extracted) (string, error) {
	wanted := strings.TrimPrefix(x.EtcdVersion, "v")
	var tried []string
	if wanted == "" {
		tried = append(tried, "the backup does not record which version of etcd it came from")
	}
	due := t.Insist || wanted == "" // to be started: else it is no error if this host has none
	for _, r := range t.runners(wanted) {
		version, err := r.version(ctx)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			tried = append(tried, err.Error())
			continue
		case wanted != "" && !sameMinor(version, wanted):
			tried = append(tried, fmt.Sprintf("etcd %s was found, but the backup is from etcd %s", version, wanted))
			continue
		}
		if err = serve(ctx, r, snapshot, x); errors.Is(err, errNotTried) {
			tried, due = append(tried, err.Error()), true
			continue
		}
		t.From = r.String()
		return version, err
	}
	t.Why = strings.Join(tried, "; ")
	if due {
		return "", fmt.Errorf("%w: %s", ErrNotBooted, t.Why)
	}
	return "", nil
}

// runners are what may start an etcd of a version; "": it is not known, and only what the operator named will do.
func (t *Trial) runners(version string) []etcdRunner {
	if t.Insist {
		return []etcdRunner{&dockerEtcd{image: t.Image}}
	}
	if version == "" {
		return nil
	}
	c := cke.Cluster{}
	c.Options.Etcd.Version = version
	official := c.WithDefaults().Options.Etcd.Image
	all := []etcdRunner{&localEtcd{scratch: t.Scratch}}
	if t.Image != "" && t.Image != official {
		all = append(all, &dockerEtcd{image: t.Image})
	}
	return append(all, &dockerEtcd{image: official})
}

// serve starts etcd on a snapshot and compares what it answers.
func serve(ctx context.Context, r etcdRunner, snapshot string, x backup.Extracted) error {
	info, err := os.Stat(snapshot)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	limit := limitFor(info.Size())
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	if err := withoutAuth(snapshot); err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	answer, err := answerOf(ctx, r, snapshot)
	words := r.remove()
	switch {
	case errors.Is(err, errNotTried):
		return err
	case err != nil && ofThisHost(words):
		return fmt.Errorf("%w: %w; its last output: %s", errNotTried, err, words)
	case err != nil && words != "":
		return fmt.Errorf("%w: %w; its last output: %s", backup.ErrNotServed, err, words)
	case err != nil:
		return fmt.Errorf("%w: %w", backup.ErrNotServed, err)
	case answer.revision != x.Revision:
		return fmt.Errorf("%w: it has revision %d", backup.ErrNotServed, answer.revision)
	case x.Hash != nil && answer.compacted == x.Hash.Compacted && answer.hash != x.Hash.Hash:
		return fmt.Errorf("%w: its HashKV is %d, but in the cluster it was %d", backup.ErrNotServed, answer.hash, x.Hash.Hash)
	}
	return nil
}

func limitFor(size int64) time.Duration { return bootLimit + time.Duration(size/bootBytes)*time.Second }

// ofThisHost reports whether a program failed for want of something on this host.
func ofThisHost(said string) bool {
	return containsAny(said, "no space left", "disk quota exceeded", "cannot allocate memory", "out of memory", "read-only file system", "too many open files")
}

// restored returns an error of etcdutl's, errNotTried unless what it said is a refusal of the snapshot: its digest, or that it is no
// database. Source: etcdutl/snapshot/v3_snapshot.go; bbolt's errors and panics.
func restored(err error, said string) error {
	if err == nil || !ofThisHost(said) && containsAny(said, "sha256", "missing hash", "invalid database", "checksum error", "version mismatch", "file size too small", "panic:") {
		return err
	}
	return fmt.Errorf("%w: %w", errNotTried, err)
}

func containsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(text), w) })
}

func answerOf(ctx context.Context, r etcdRunner, snapshot string) (bootAnswer, error) {
	if err := r.restore(ctx, snapshot); err != nil {
		return bootAnswer{}, err
	}
	if err := r.run(ctx); err != nil {
		return bootAnswer{}, fmt.Errorf("%w: %w", errNotTried, err)
	}
	for {
		answer, err := r.ask(ctx)
		if err == nil || errors.Is(err, errEnded) || errors.Is(err, errNotTried) {
			return answer, err
		}
		select {
		case <-time.After(bootPause):
		case <-ctx.Done():
			return bootAnswer{}, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// sameMinor reports whether two releases are of one minor version, as "3.6.16" and "3.6.2".
func sameMinor(a, b string) bool {
	v, _ := cke.ParseVersion(a)
	w, _ := cke.ParseVersion(b)
	return v.Major == w.Major && v.Minor == w.Minor
}

// versionIn finds the version in what `etcd --version` writes.
func versionIn(text string) (string, error) {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "etcd Version: "); ok {
			return v, nil
		}
	}
	return "", errors.New("etcd --version does not show a version")
}
