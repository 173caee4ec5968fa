package etcdnode

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"cke"
)

// walPath is the directory of the write-ahead log in a member's container.
const walPath = DataPath + "/" + dataDir + "/member/wal"

// firstWAL is the first segment of every log; etcd removes it once there are more than five.
const firstWAL = "0000000000000000-0000000000000000.wal"

// Data implements cke.Machine.
func (m machine) Data(ctx context.Context, j cke.Join) (state cke.DataState, err error) {
	err = m.read(ctx, copyLimit, "check for data in "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		m.fleet.segments.doubt(c.Name)
		state, err = m.fleet.data(ctx, s, c.Container)
		return err
	})
	return state, err
}

// runningDataEvery is how old may be what is known of the log of a running member: its directory may be removed under it, and
// etcd continues with the files that it has open. runningDataLimit bounds the look for it.
const (
	runningDataEvery = 3 * time.Second
	runningDataLimit = 250 * time.Millisecond
)

// data searches for a segment of the write-ahead log in the volume of a container, whatever state that is in. The log alone
// decides: a member that has it has its votes and its entries, and etcd itself judges the rest; one that does not must
// never be started.
func (f *Fleet) data(ctx context.Context, s *session, c cke.Container) (cke.DataState, error) {
	state, changed, err := f.knownData(ctx, s, c)
	if err == nil && state == cke.DataUnknown {
		state, err = f.listData(ctx, s, c, changed)
	}
	return state, err
}

// observedData is data for an observation of a node. Where the directory has to be listed, the look waits for that no longer than ctx:
// the listing continues, and the next look, which follows it at once, has what it found.
func (f *Fleet) observedData(ctx context.Context, s *session, c cke.Container) (cke.DataState, error) {
	state, changed, err := f.knownData(ctx, s, c)
	if err != nil || state != cke.DataUnknown {
		return state, err
	}
	listed, first := f.segments.begin(c.Name)
	if first && !s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, copyLimit)
		defer cancel()
		defer f.wantNode(s.node)
		defer f.segments.end(c.Name)
		_, _ = f.listData(ctx, s, c, changed) // a failure is unknown; the next look lists again
	}) {
		f.segments.end(c.Name)
	}
	select {
	case <-listed:
		state, _, err = f.knownData(ctx, s, c)
		return state, err
	case <-ctx.Done():
		return cke.DataUnknown, ctx.Err()
	}
}

// knownData tells what can be told without a list of the directory; unknown: it has changed at that time, by the node's clock.
// A segment that was there the last time is asked for by name, which takes a few milliseconds.
func (f *Fleet) knownData(ctx context.Context, s *session, c cke.Container) (state cke.DataState, changed time.Time, err error) {
	known := f.segments.of(c.Name)
	if c.Running() && time.Since(known.at) < runningDataEvery {
		return cke.DataPresent, changed, nil
	}
	for _, name := range []string{known.name, firstWAL} {
		if name == "" {
			continue
		}
		file, err := s.engine.stat(ctx, c.ID, path.Join(walPath, name))
		if err == nil && file.Size > 0 {
			f.segments.keep(c.Name, name)
			return cke.DataPresent, changed, nil
		}
		if err != nil && !errors.Is(err, cke.ErrNotFound) {
			return cke.DataUnknown, changed, err
		}
	}
	dir, err := s.engine.stat(ctx, c.ID, walPath)
	switch {
	case errors.Is(err, cke.ErrNotFound):
		state, err = missing(ctx, s, c)
	case err == nil && !known.emptied.IsZero() && known.emptied.Equal(dir.Mtime):
		state = cke.DataMissing
	}
	return state, dir.Mtime, err
}

// listData lists the directory, as it has been since a time. The list is a tar stream with the files' content in it, also that of
// the 64 MiB which etcd prepares for its next segment; it is read only as far as the first segment.
func (f *Fleet) listData(ctx context.Context, s *session, c cke.Container, since time.Time) (cke.DataState, error) {
	name, err := findSegment(ctx, s, c.ID)
	if err != nil {
		return cke.DataUnknown, err
	}
	if name != "" {
		f.segments.keep(c.Name, name)
		return cke.DataPresent, nil
	}
	state, err := missing(ctx, s, c)
	if state == cke.DataMissing {
		f.segments.empty(c.Name, since)
	}
	return state, err
}

// missing claims that data is missing only while the container is there: "not found" may have been said of that.
func missing(ctx context.Context, s *session, c cke.Container) (cke.DataState, error) {
	if _, err := s.engine.container(ctx, c.ID); err != nil {
		return cke.DataUnknown, err
	}
	return cke.DataMissing, nil
}

// findSegment returns the name of a segment with content, or "" when there is none.
func findSegment(ctx context.Context, s *session, id string) (string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream
	r, err := s.engine.getTar(ctx, id, walPath)
	if errors.Is(err, cke.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	return firstSegment(r)
}

func firstSegment(r io.Reader) (string, error) {
	t := tar.NewReader(r)
	for entries := 0; ; entries++ {
		h, err := t.Next()
		if errors.Is(err, io.EOF) && entries > 0 { // an empty directory is an entry itself
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("list %s: %w", walPath, err)
		}
		name := path.Base(h.Name)
		if h.Typeflag == tar.TypeReg && h.Size > 0 && strings.HasSuffix(name, ".wal") {
			return name, nil
		}
	}
}
