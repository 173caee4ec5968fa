package etcdnode

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"cke"
)

// walPath is the directory of the write-ahead log in a member's container.
const walPath = DataPath + "/" + dataDir + "/member/wal"

// firstWAL is the first segment of every log; etcd removes it once there are more than five.
const firstWAL = "0000000000000000-0000000000000000.wal"

// Data implements cke.Machine.
func (m machine) Data(ctx context.Context, j cke.Join) (state cke.DataState, err error) {
	err = m.read(ctx, CopyLimit, "look for data in "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		state, err = m.fleet.data(ctx, s, c.Container)
		return err
	})
	return state, err
}

// data looks for a segment of the write-ahead log in the volume of a container, which need not run. The log alone
// decides: a member that has it has its votes and its entries, and etcd itself judges the rest; one that does not must
// never be started.
//
// A segment that was there the last time is asked for by name, which takes a few milliseconds; the list of the
// directory is a tar stream with the segments' content in it and is read only as far as the first one.
func (f *Fleet) data(ctx context.Context, s *session, c cke.Container) (cke.DataState, error) {
	for _, name := range []string{f.segments.of(c.Name), firstWAL} {
		if name == "" {
			continue
		}
		size, err := s.engine.stat(ctx, c.ID, path.Join(walPath, name))
		if err == nil && size > 0 {
			return cke.DataPresent, nil
		}
		if err != nil && !errors.Is(err, cke.ErrNotFound) {
			return cke.DataUnknown, err
		}
	}
	name, err := findSegment(ctx, s, c.ID)
	if err != nil {
		return cke.DataUnknown, err
	}
	if name != "" {
		f.segments.keep(c.Name, name)
		return cke.DataPresent, nil
	}
	// "Not found" may have been said of the container: missing data is claimed only while it is there.
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
