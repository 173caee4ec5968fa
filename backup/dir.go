package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is a bucket in a local directory, which is created when needed. An object is written under a temporary name, synced
// and moved into place without ever replacing another, and the directory is synced: after a crash or loss of power at any
// time the object is whole or absent.
type Dir string

var (
	_ Bucket  = Dir("")
	_ Sweeper = Dir("")
)

// partial starts the base name of files that are being written; no object has such a name.
const partial = ".partial-"

func (d Dir) path(name string) (string, error) {
	if !fs.ValidPath(name) || name == "." || strings.HasPrefix(path.Base(name), partial) {
		return "", fmt.Errorf("%q cannot name an object", name)
	}
	return d.file(name), nil
}

// file is where something of this name lies, an object or not; "": the directory itself.
func (d Dir) file(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

// List implements Bucket.
func (d Dir) List(ctx context.Context, prefix string) ([]Object, error) {
	// Walk only the folder that all names with this prefix share.
	folder := prefix[:max(strings.LastIndexByte(prefix, '/'), 0)]
	var objects []Object
	err := d.walk(ctx, folder, func(name string, e fs.DirEntry) error {
		if !strings.HasPrefix(name, prefix) || strings.HasPrefix(e.Name(), partial) {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		objects = append(objects, Object{Name: name, Size: info.Size(), ModTime: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", d, err)
	}
	slices.SortFunc(objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return objects, nil
}

// mostFolders bounds how deep folders lie in each other: a link may lead back.
const mostFolders = 32

// walk calls do for each file below a folder ("": all) with its name. It follows links, as opening or creating a file by its name does.
// A link that leads nowhere is an error: what it led to may not be mounted.
func (d Dir) walk(ctx context.Context, folder string, do func(name string, e fs.DirEntry) error) error {
	if strings.Count(folder, "/") >= mostFolders {
		return fmt.Errorf("%s: more than %d nested folders: does a symbolic link point back?", folder, mostFolders)
	}
	entries, err := os.ReadDir(d.file(folder))
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Join(folder, e.Name())
		if e.Type() == fs.ModeSymlink {
			info, err := os.Stat(d.file(name))
			if err != nil {
				return fmt.Errorf("%s is a symbolic link that cannot be followed: is its destination mounted? %w", d.file(name), err)
			}
			e = fs.FileInfoToDirEntry(info)
		}
		switch {
		case e.IsDir():
			err = d.walk(ctx, name, do)
		case e.Type().IsRegular():
			err = do(name, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Open implements Bucket.
func (d Dir) Open(_ context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	file, err := d.path(name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", file, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is no regular file: %w", file, ErrNotFound))
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	if length < 0 {
		return f, nil
	}
	return &readCloser{io.LimitReader(f, length), f.Close}, nil
}

// Create implements Bucket. The digest is checked over the bytes that were passed to the kernel, the size on the file. A
// full that was sealed on the same file system is not copied.
func (d Dir) Create(ctx context.Context, name string, c Content) error {
	file, err := d.path(name)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); err == nil {
		return taken(file)
	}
	if err := makeDirs(filepath.Dir(file)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := adopt(file, c); !errors.Is(err, errNoLink) {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), partial)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := writeContent(ctx, tmp, c); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return place(tmp.Name(), file)
}

func writeContent(ctx context.Context, f *os.File, c Content) error {
	src, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := c.Check(io.TeeReader(&contextReader{ctx, src}, f)); err != nil {
		return err
	}
	return finish(f, c)
}

// finish completes a file that holds an object.
func finish(f *os.File, c Content) error {
	if err := f.Sync(); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != c.Size() {
		return damaged("%d bytes on disk instead of %d", info.Size(), c.Size())
	}
	return f.Close()
}

// place moves a complete file to its name unless that is taken, durably.
func place(tmp, file string) error {
	err := unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, file, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = os.Link(tmp, file) // network file systems; the temporary name is removed by the caller
	}
	if errors.Is(err, fs.ErrExist) {
		return taken(file)
	}
	if err != nil {
		return fmt.Errorf("move %s into place: %w", file, err)
	}
	return syncDir(filepath.Dir(file))
}

// taken is ErrExists, durably: who placed the file may have failed to sync the directory, and be the one who asks.
func taken(file string) error {
	if err := syncDir(filepath.Dir(file)); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", file, ErrExists)
}

// Delete implements Bucket.
func (d Dir) Delete(_ context.Context, name string) error {
	file, err := d.path(name)
	if err != nil {
		return err
	}
	err = os.Remove(file)
	if errors.Is(err, unix.EPERM) && (immutable(file) || immutable(filepath.Dir(file))) {
		return fmt.Errorf("%w: %s is immutable", ErrProtected, file)
	}
	if err != nil {
		return ignoreMissing(err)
	}
	return syncDir(filepath.Dir(file))
}

// immutable reports whether chattr forbids removing anything there.
func immutable(file string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, file, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	return err == nil && s.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0
}

// Sweep removes what crashed writers left, if it is older than age.
func (d Dir) Sweep(ctx context.Context, age time.Duration) error {
	limit := time.Now().Add(-age)
	return d.walk(ctx, "", func(name string, e fs.DirEntry) error {
		if !strings.HasPrefix(e.Name(), partial) {
			return nil
		}
		info, err := e.Info()
		if err != nil || info.ModTime().After(limit) {
			return ignoreMissing(err)
		}
		return ignoreMissing(os.Remove(d.file(name)))
	})
}

// makeDirs makes a directory and those above it, durably.
func makeDirs(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDirs(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
