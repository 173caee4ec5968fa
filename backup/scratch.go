package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Scratch is a directory for working copies. A process that is killed leaves it behind with its content, as much as a
// whole database. So its maker holds a file lock on it, which the process loses when it exits, and the next maker of a
// directory beside it removes those that no process has locked.
type Scratch struct {
	Path string
	held *os.File
}

// ScratchKind is what a scratch directory is for.
type ScratchKind string

// Kinds.
const (
	ScratchFull    ScratchKind = "full"
	ScratchCompact ScratchKind = "compact"
	ScratchDrill   ScratchKind = "drill"
	ScratchBoot    ScratchKind = "boot"
	ScratchExtract ScratchKind = "extract"
)

var scratchKinds = []ScratchKind{ScratchFull, ScratchCompact, ScratchDrill, ScratchBoot, ScratchExtract}

const (
	scratchPrefix = "cke-"
	// scratchMark is the name of an empty file in each scratch directory: no other process's directory has it, whatever it is called.
	scratchMark = ".cke-scratch"
	// mostSwept bounds what one sweep removes, and mostScratch how often a directory is made that a sweep takes for abandoned.
	mostSwept   = 100
	mostScratch = 10
)

// NewScratch makes a scratch directory in dir (empty: the system's for temporary files), and removes abandoned ones
// there. The caller must call Remove.
func NewScratch(dir string, kind ScratchKind) (*Scratch, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	_ = SweepScratch(dir) // the work does not depend on it
	for range mostScratch {
		path, err := os.MkdirTemp(dir, scratchPrefix+string(kind)+"-")
		if err != nil {
			return nil, err
		}
		held, err := holdScratch(path)
		if held != nil || errors.Is(err, errNoLocks) {
			s := &Scratch{Path: path, held: held}
			if err := os.WriteFile(filepath.Join(path, scratchMark), nil, 0o600); err != nil {
				return nil, errors.Join(err, s.Remove())
			}
			return s, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("make a scratch directory in %s: another process removed each one", dir)
}

// Remove removes the directory. It may be called on nil, and twice.
func (s *Scratch) Remove() error {
	if s == nil || s.Path == "" {
		return nil
	}
	err := removeScratch(s.Path)
	if s.held != nil {
		err = errors.Join(err, s.held.Close())
	}
	*s = Scratch{}
	return err
}

// SweepScratchBelow sweeps dir, each directory in it, and the system's for temporary files.
func SweepScratchBelow(dir string) error {
	err := errors.Join(SweepScratch(os.TempDir()), SweepScratch(dir))
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, SweepScratch(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// SweepScratch removes scratch directories in dir whose makers no longer run. It leaves those of other users alone, and
// directories that only have such a name.
func SweepScratch(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the scratch directory: %w", err)
	}
	left := mostSwept
	for _, e := range entries {
		if left == 0 || !e.IsDir() || !isScratch(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		held, err := holdScratch(path)
		if err != nil || held == nil {
			continue // somebody works in it, has removed it, or it belongs to another user
		}
		remove := os.Remove // what has no mark goes only if it is empty: its maker was killed right then, or it is somebody else's
		if mark, err := os.Lstat(filepath.Join(path, scratchMark)); err == nil && mark.Mode().IsRegular() {
			remove = removeScratch
		}
		if err = remove(path); err == nil {
			left--
		} else if errors.Is(err, fs.ErrExist) { // not empty
			err = nil
		}
		if err := errors.Join(err, held.Close()); err != nil {
			return fmt.Errorf("remove an abandoned scratch directory: %w", err)
		}
	}
	return nil
}

// removeScratch removes the mark last, so that the next sweep continues where this one is cut off.
func removeScratch(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return ignoreMissing(err)
	}
	for _, e := range entries {
		if e.Name() == scratchMark {
			continue
		}
		if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(path)
}

func isScratch(name string) bool {
	rest, ours := strings.CutPrefix(name, scratchPrefix)
	kind, _, more := strings.Cut(rest, "-")
	return ours && more && slices.Contains(scratchKinds, ScratchKind(kind))
}

// errNoLocks: the file system takes no locks. What is left behind there stays.
var errNoLocks = errors.New("no file locks")

// holdScratch locks a directory of this user; nil: another process holds it. What was removed before it was locked is fs.ErrNotExist.
func holdScratch(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %s: %w", errNoLocks, path, err)
	}
	opened, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	named, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	owner, ok := opened.Sys().(*syscall.Stat_t)
	if !ok || int(owner.Uid) != os.Geteuid() || !os.SameFile(opened, named) {
		return nil, errors.Join(fs.ErrNotExist, f.Close())
	}
	return f, nil
}
