package mtest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cke"
	"cke/backup/backuptest"
)

// targetLimit bounds the time until a target that is gone is reported: a delta period of a second, a probe, and what a busy
// machine needs besides.
const targetLimit = 15 * time.Second

// mount is a file system at a directory of the management host.
type mount struct {
	*story
	// disk holds what is mounted, dir is where.
	disk, dir string
}

func newMount(s *story) mount {
	s.Helper()
	m := mount{s, filepath.Join(s.TempDir(), "disk"), filepath.Join(s.TempDir(), "backups")}
	for _, dir := range []string{m.disk, m.dir} {
		s.must(os.Mkdir(dir, 0o700))
	}
	m.attach()
	s.Cleanup(func() { _ = syscall.Unmount(m.dir, syscall.MNT_DETACH) }) // the test may have done so
	return m
}

func (m mount) attach() {
	m.Helper()
	if err := syscall.Mount(m.disk, m.dir, "", syscall.MS_BIND, ""); errors.Is(err, fs.ErrPermission) {
		m.Skip("mounting needs root")
	} else if err != nil {
		m.Fatal(err)
	}
}

func (m mount) detach() {
	m.Helper()
	m.must(syscall.Unmount(m.dir, syscall.MNT_DETACH))
}

// isEmpty fails if anything was written below the mount point.
func (m mount) isEmpty() {
	m.Helper()
	if left := files(m.story, m.dir); len(left) > 0 {
		m.Errorf("the mount point holds %q", left)
	}
}

// files lists what a directory and those below hold, without what the owner of a lock renews.
func files(s *story, dir string) []string {
	s.Helper()
	var all []string
	s.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	}))
	return all
}

// missed waits until the target counts as gone, and lets a client write meanwhile. It returns the last revision.
func (b backedUp) missed(what string) int64 {
	b.Helper()
	began := time.Now()
	st := b.story.await(what, targetLimit, func(st cke.Status) bool {
		c, _ := st.Condition(cke.CondBackupReady)
		return c.Status == cke.False && slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeOtherTarget })
	})
	b.Logf("%s: reported after %s", what, since(began))
	if p, _ := problemOf(st, "", cke.CodeOtherTarget); p.Remedy == "" {
		b.Errorf("problem %+v", p)
	}
	revision := b.put("unsaved", 10)
	for range 3 { // in each of them the deltas' period has passed
		b.nudge()
	}
	return revision
}

// TestLabTarget_ThatIsNotMounted takes a real mount away under a daemon that runs, and before one starts: it is reported within
// a delta period, and nothing is written below the mount point.
func TestLabTarget_ThatIsNotMounted(t *testing.T) {
	s := newStory(t, 1)
	m := newMount(s)
	b := backedUp{s, m.dir}
	d := s.daemon("cke1")
	s.setKey()
	s.set(b.spec())
	s.ready()
	b.awaitBackups("True UpToDate")
	b.awaitRevision(b.put("saved", 10))

	for _, at := range []string{"while the daemon runs", "before it starts"} {
		if at == "before it starts" {
			_, err := d.Stop(stopLimit)
			s.must(err)
			m.detach()
			d = s.daemon("cke2")
		} else {
			m.detach()
		}
		last := b.missed("the mount to be missed, gone " + at)
		m.isEmpty()
		m.attach()
		b.awaitBackups("True UpToDate")
		b.awaitRevision(last)
		b.awaitRevision(b.put("saved again", 10))
		b.sound()
	}
	b.do("backup", "verify", "--restore", "--target", b.url())
}

// TestLabTarget_ThatWasEmptied empties a directory and a bucket of a real S3 server while a daemon runs: it is reported, and nothing
// is written until its marker is put back. A full follows then.
func TestLabTarget_ThatWasEmptied(t *testing.T) {
	t.Run("a directory", func(t *testing.T) {
		rare(t)
		s := newStory(t, 1)
		b := backedUp{s, filepath.Join(t.TempDir(), "backups")}
		s.daemon("cke1")
		s.setKey()
		b.isEmptied(b.target, b.spec())
	})
	t.Run("a bucket", func(t *testing.T) {
		address, dir := backuptest.Gateway(t, "bucket")
		s := newStory(t, 1)
		b := backedUp{s, ""}
		s.daemon("cke1")
		s.setKey()
		s.setS3Credentials()
		c := b.spec()
		c.Backup.Target = s3Target(address)
		b.isEmptied(filepath.Join(dir, "etcd"), c)
	})
}

// isEmptied tells the story of a target whose objects lie in a directory.
func (b backedUp) isEmptied(dir string, c cke.Cluster) {
	b.Helper()
	b.set(c)
	b.ready()
	b.awaitBackups("True UpToDate")
	b.now()
	markers, err := filepath.Glob(filepath.Join(dir, ".target", b.Cluster, "*"))
	b.must(err)
	if len(markers) != 1 {
		b.Fatalf("markers: %q", markers)
	}
	left, err := os.ReadDir(dir)
	b.must(err)
	for _, e := range left {
		b.must(os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	last := b.missed("the emptied target to be reported")
	if has := files(b.story, dir); len(has) > 0 {
		b.Errorf("written to an emptied target: %q", has)
	}

	// The documented way out: an empty object of the name that the message has.
	b.must(os.MkdirAll(filepath.Dir(markers[0]), 0o755))
	b.must(os.WriteFile(markers[0], nil, 0o644))
	st := b.awaitBackups("True UpToDate")
	if st.Backup.Full.Revision < last {
		b.Errorf("after revision %d backups began again with %+v", last, st.Backup)
	}
	if last := b.now("--delta"); last.Revision < st.Backup.Full.Revision {
		b.Errorf("a full of %+v, then %+v", st.Backup.Full, last)
	}
	b.do("backup", "verify", "--restore")
}
