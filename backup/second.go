package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"cke"
)

// HasUnknown reports whether the target has backups or an identity of a cluster of this name that its identity in the store does not know.
func (s *Store) HasUnknown(ctx context.Context, id cke.Identity) (bool, error) {
	there, err := s.Incarnations(ctx)
	if err != nil {
		return false, err
	}
	known := append(id.IDs(), id.Deleted...)
	return slices.ContainsFunc(there, func(i string) bool { return !slices.Contains(known, i) }), nil
}

// Mounted returns ErrOtherTarget if the target is a directory that is missing. It is made when needed, or is not mounted.
func (s *Store) Mounted() error {
	if dir, is := local(s.Bucket); is {
		if _, err := os.Stat(string(dir)); err != nil {
			return fmt.Errorf("%w: mount it, or make the directory if it was never used: %w", ErrOtherTarget, err)
		}
	}
	return nil
}

// MayBeUnmounted reports whether the target is a directory that is missing, or an empty one in the file system of the directory above it: one
// that was never used looks the same as the place where its file system is not mounted.
func (s *Store) MayBeUnmounted() bool {
	dir, is := local(s.Bucket)
	if !is {
		return false
	}
	var of, above unix.Stat_t
	if entries, err := os.ReadDir(string(dir)); err != nil || len(entries) > 0 {
		return errors.Is(err, fs.ErrNotExist)
	}
	return unix.Stat(string(dir), &of) == nil && unix.Stat(filepath.Dir(filepath.Clean(string(dir))), &above) == nil && of.Dev == above.Dev
}

// Answers returns an error if the target answers nothing within a time, whatever it holds.
func (s *Store) Answers(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := s.Bucket.List(ctx, markerFolder+"/"+s.Cluster+"/")
	return err
}

// SecondOf is the refusal of other data for a cluster of whose name a target has another one; data is where the data comes from.
func SecondOf(code cke.Code, where, cluster, data string) *cke.Error {
	return Second(code, where, cluster, "give the new cluster another name", "its members may serve", "restore it first, from that target: then its data can be replaced by that of "+data)
}

// Second is the refusal of a cluster of whose name a target has another one that the store does not know.
func Second(code cke.Code, where, cluster, try string, facts ...string) *cke.Error {
	return &cke.Error{Code: code, What: fmt.Sprintf("%s has backups of a cluster %s, or its identity, and the store has no record of it", where, cluster), Unchanged: true, Facts: facts, Try: try}
}

// UnknownSecond is the refusal of a cluster of whose name a target may have another one; unread says that it cannot be read.
func UnknownSecond(unread, cluster string, err error, try string) *cke.Error {
	return &cke.Error{Code: cke.CodeTarget, What: unread + ", and may have another cluster " + cluster, Err: err, Unchanged: true,
		Facts: []string{"the store has no incarnation of cluster " + cluster + ", and members that the target names may serve"}, Try: try}
}
