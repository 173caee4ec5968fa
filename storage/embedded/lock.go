package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockName is the file in the data directory that its holder has locked. It also tells that the directory is cke's.
const lockName = "cke.lock"

// lockPoll is how often a held data directory is tried again.
const lockPoll = 50 * time.Millisecond

// lockDir makes dir this process's own until the file is closed or the process ends, however it ends.
// It waits for another holder until ctx ends; waiting is told who that is, once.
func lockDir(ctx context.Context, dir string, waiting func(holder string)) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for told := false; ; told = true {
		held, err := tryLock(f, dir)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		if !held {
			break
		}
		if !told {
			waiting(holder(f))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			who := holder(f)
			f.Close()
			return nil, fmt.Errorf("%s is held by %s: %w", dir, who, ctx.Err())
		}
	}
	// Told to whoever waits; nothing depends on it.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return f, nil
}

// tryLock takes the lock, unless it or etcd's own database in dir is held.
func tryLock(f *os.File, dir string) (held bool, err error) {
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Opening a database that an offline tool holds would block inside etcd, out of reach of any context.
	db, err := os.Open(filepath.Join(dir, "member", "snap", "db"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer db.Close()
	err = unix.Flock(int(db.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, unix.Flock(int(f.Fd()), unix.LOCK_UN)
	}
	return false, err
}

// holder names the process that wrote the lock file.
func holder(f *os.File) string {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	pid := strings.TrimSpace(string(b[:n]))
	if pid == "" {
		return "another process"
	}
	if _, err := os.Stat("/proc/" + pid); err != nil {
		return "another process"
	}
	return "another cke (process " + pid + ")"
}
