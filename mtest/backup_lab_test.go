package mtest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/mtest/rig"
)

// storedDone is what `ckecli backup now -o json` writes.
type storedDone struct {
	Record int64            `json:"record"`
	Backup cke.StoredBackup `json:"backup"`
}

// backedUp is a story with a target.
type backedUp struct {
	*story
	target string // a directory
}

func (b backedUp) url() string { return "file://" + b.target }

// spec is a cluster file with a backup section.
func (b backedUp) spec() cke.Cluster {
	c := b.story.spec()
	c.Backup = cke.Backup{Target: b.url(), Full: cke.BackupSchedule{Schedule: "0 * * * *"}, Delta: cke.BackupDelta{Period: cke.Duration(time.Second)}}
	return c
}

// in is the same target for another story.
func (b backedUp) in(s *story) backedUp { return backedUp{s, b.target} }

// now takes a backup.
func (b backedUp) now(args ...string) cke.StoredBackup {
	b.Helper()
	var d storedDone
	b.must(json.Unmarshal([]byte(b.do(append([]string{"backup", "now", "-o", "json"}, args...)...)), &d))
	if d.Record == 0 || d.Backup.Revision == 0 {
		b.Fatalf("%+v", d)
	}
	return d.Backup
}

// awaitBackups waits until the condition BackupReady is as wanted: "True UpToDate".
func (b backedUp) awaitBackups(want string) cke.Status {
	b.Helper()
	return b.await("BackupReady to be "+want, seenLimit, func(st cke.Status) bool {
		c, _ := st.Condition(cke.CondBackupReady)
		return fmt.Sprintf("%s %s", c.Status, c.Reason) == want
	})
}

// stored reads what the target holds, without cke.
func (b backedUp) lineage() backup.Lineage {
	b.Helper()
	all, err := (&backup.Store{Bucket: backup.Dir(b.target), Cluster: "prod"}).Lineages(b.ctx)
	b.must(err)
	if len(all) != 1 {
		b.Fatalf("%d lineages", len(all))
	}
	return all[0]
}

// awaitRevision waits until the target holds a revision.
func (b backedUp) awaitRevision(revision int64) {
	b.Helper()
	b.await(fmt.Sprintf("revision %d to be stored", revision), seenLimit, func(cke.Status) bool {
		l := b.lineage()
		for _, c := range l.Chains() {
			if c.Last >= revision {
				return true
			}
		}
		return false
	})
}

// sound checks that the deltas are one unbroken stream, that none overlaps another and that no term wrote after a later
// one had, and that ckecli finds nothing wrong. It returns who wrote.
func (b backedUp) sound() (writers []string) {
	b.Helper()
	l := b.lineage()
	if len(l.Streams) != 1 {
		b.Fatalf("%d streams: %+v", len(l.Streams), l.Streams)
	}
	next, term := l.Streams[0].First, int64(0)
	for _, d := range l.Streams[0].Deltas {
		h, err := backup.ReadHeader(b.ctx, backup.Dir(b.target), d.Place)
		b.must(err)
		if h.Place.Revision != next || h.Term < term {
			b.Errorf("%s begins at %d, want %d; term %d after %d", d.Name(), h.Place.Revision, next, h.Term, term)
		}
		if term != h.Term {
			writers = append(writers, h.Writer)
		}
		next, term = h.Last+1, h.Term
	}
	b.do("backup", "verify", "--target", b.url())
	return writers
}

// put writes one key and returns its revision.
func (b backedUp) put(key string, size int) int64 {
	b.Helper()
	var revision int64
	b.through(func(c *clientv3.Client) error {
		r, err := c.Put(b.within(seenLimit), key, strings.Repeat("v", size))
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision
}

// through uses a client of the first member.
func (b backedUp) through(do func(*clientv3.Client) error) {
	b.Helper()
	c, err := rig.Client(rig.URL(b.nodes[0]), b.clientTLS())
	b.must(err)
	defer c.Close()
	b.must(do(c))
}

func TestLabBackup_StoryOfACluster(t *testing.T) {
	h := newHosts(t, borrow(t, 3), 3)
	one := backedUp{h.one, filepath.Join(t.TempDir(), "backups")}
	two := one.in(h.two)
	first := one.daemon("boot-1")
	one.setKey()
	one.set(one.spec())
	one.ready()
	st := one.awaitBackups("True UpToDate")
	if st.Backup.Full.Revision == 0 || st.Backup.NextFull.IsZero() || st.Backup.Lineage != st.Incarnation {
		t.Fatalf("%+v", st.Backup)
	}
	t.Logf("\n%s", one.do("status"))

	one.part("asked for", func(s *story) {
		b := one.in(s)
		last := b.put("a", 10)
		if d := b.now("--delta"); d.Revision < last || d.Kind != "delta" {
			s.Errorf("revision %d is not in %+v", last, d)
		}
		last = b.put("b", 10)
		f := b.now()
		if f.Revision < last || f.Kind != "full" || !strings.Contains(b.do("backup", "list"), fmt.Sprint(f.Revision)) {
			s.Errorf("revision %d is not in %+v", last, f)
		}
		s.Logf("\n%s%s%s", b.do("backup", "now"), b.do("backup", "now", "--delta"), b.do("backup", "list"))
		if r := s.records()[0]; r.Operation != "backup" || r.State != cke.RecordCompleted || r.Backup == nil {
			s.Errorf("%+v", r)
		}
	})
	one.part("deltas follow the changes", func(s *story) {
		b := one.in(s)
		last := b.put("c", 10)
		b.awaitRevision(last)
		b.await("the status to tell of it", seenLimit, func(st cke.Status) bool { return st.Backup.Revision >= last && st.Backup.Lag == 0 })
		b.do("pause", "--reason", "a test")
		b.awaitRevision(b.put("d", 10))
		b.now("--delta")
		b.do("resume")
		b.sound()
	})
	one.part("the spec and the sealed identity lie beside", func(s *story) {
		b := one.in(s)
		var e cke.Escrow
		l := b.lineage()
		data, err := (&backup.Store{Bucket: backup.Dir(b.target), Cluster: "prod"}).File(s.ctx, l.Name, backup.FileIdentity)
		s.must(err)
		s.must(json.Unmarshal(data, &e))
		if e.Identity.Incarnation == nil || e.Identity.Incarnation.ID != l.Name || len(e.Identity.Joins) != 3 || len(e.Secrets) < 4 || e.SealedWith == "" {
			s.Errorf("%+v", e.Identity)
		}
	})
	one.part("the daemon is killed in the middle of a full", func(s *story) {
		b := one.in(s)
		for i := range 40 {
			b.put(fmt.Sprintf("large/%d", i), 1<<20)
		}
		fulls := len(b.lineage().Fulls)
		b.do("backup", "now", "--no-wait")
		b.awaitScratch()
		first.Kill()
		if n := len(b.lineage().Fulls); n != fulls {
			s.Fatalf("the full was stored already: %d, before %d", n, fulls)
		}
		last := b.put("after/kill", 10)
		first = one.daemon("boot-1")
		b.awaitRevision(last)
		b.await("the full to be taken after all", seenLimit, func(st cke.Status) bool {
			return st.LastOperation != nil && st.LastOperation.Type == "backup" && st.LastOperation.State == cke.RecordCompleted && st.Operation == nil
		})
		if r := s.records(); r[0].State != cke.RecordCompleted || r[1].State != cke.RecordInterrupted {
			s.Errorf("%+v then %+v", r[1], r[0])
		}
		b.sound()
		b.do("backup", "verify", "--restore", "--target", b.url())
	})
	two.part("another daemon takes over from one that is frozen", func(s *story) {
		b := two.in(s)
		s.daemon("boot-2")
		began := time.Now()
		s.must(first.Freeze())
		s.led("boot-2", began)
		b.awaitBackups("True UpToDate")
		b.awaitRevision(b.put("under/boot-2", 10))
		s.must(first.Thaw())
		for i := range 5 {
			b.awaitRevision(b.put(fmt.Sprintf("both/%d", i), 10))
		}
		writers := b.sound()
		if writers[len(writers)-1] != "boot-2" {
			s.Errorf("%q wrote", writers)
		}
		s.Logf("%q wrote", writers)
	})
	two.part("a daemon that stops stores the last changes", func(s *story) {
		b := two.in(s)
		c := b.spec()
		c.Backup.Delta.Period = cke.Duration(time.Hour)
		b.set(c)
		b.awaitBackups("True UpToDate")
		d := s.daemon("boot-3", "--http", freeAddress(s))
		// A daemon has two seconds for it, in which the disk of a busy machine may stand still.
		const lastChangesLimit = 10 * time.Second
		stored := false
		for try := 0; try < busyTries && !stored; try++ {
			last := b.put(fmt.Sprintf("last/%d", try), 10)
			b.await("the change to be seen", seenLimit, func(st cke.Status) bool { return st.Backup != nil && st.Backup.LagRevisions > 0 })
			term := s.now().Leader.Term
			began := time.Now()
			b.do("leader", "--resign")
			b.await("another leader", seenLimit, func(st cke.Status) bool { return st.Leader.Term > term })
			for tick := time.Tick(100 * time.Millisecond); !stored && time.Since(began) < lastChangesLimit; <-tick {
				end := b.lineage().Streams
				stored = end[len(end)-1].Last >= last
			}
		}
		if !stored {
			b.Errorf("the last change was not stored in %d resignations", busyTries)
		}
		d.Kill()
	})
}

// awaitScratch waits until a full is being made.
func (b backedUp) awaitScratch() {
	b.Helper()
	ctx := b.within(seenLimit)
	for {
		left, err := filepath.Glob(filepath.Join(b.Dir, "scratch", "prod", "cke-full-*"))
		b.must(err)
		if len(left) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			b.Fatal("no full is being made")
		case <-time.After(time.Millisecond):
		}
	}
}

func freeAddress(s *story) string {
	s.Helper()
	a, err := rig.FreeAddress()
	s.must(err)
	return a
}

func TestLabBackup_ATargetThatFailsKeepsNothingFromHealing(t *testing.T) {
	extra(t)
	s := newStory(t, 3)
	b := backedUp{s, filepath.Join(t.TempDir(), "backups")}
	d := s.daemon("boot-1")
	s.setKey()
	s.set(b.spec())
	s.ready()
	b.awaitBackups("True UpToDate")

	// Something else stands where the directory was.
	aside := b.target + ".aside"
	s.must(os.Rename(b.target, aside))
	s.must(os.WriteFile(b.target, nil, 0o600))
	last := b.put("unsaved", 10)
	st := b.awaitBackups("False Failing")
	if p, told := problemOf(st, "", cke.CodeTarget); !told || p.Remedy == "" || st.Health != cke.HealthReady {
		t.Errorf("%s %+v", st.Health, st.Problems)
	}
	t.Logf("\n%s", s.do("status"))

	s.do("backup", "now", "--no-wait") // it waits for the target
	s.on(s.nodes[1], killContainer)
	s.await("the killed member to be started", seenLimit, func(st cke.Status) bool {
		for _, r := range s.records() {
			if r.Operation == "start-members" && r.State == cke.RecordCompleted {
				return true
			}
		}
		return false
	})
	if c, _ := s.await("the cluster to be healed", readyLimit, rig.Ready).Condition(cke.CondBackupReady); c.Status != cke.False {
		t.Errorf("%+v", c)
	}

	s.must(os.Remove(b.target))
	s.must(os.Rename(aside, b.target))
	b.awaitBackups("True UpToDate")
	b.awaitRevision(last)
	// The full that was asked for may have been begun anew, and hold all that was written so far.
	b.awaitRevision(b.put("after that", 10))
	b.sound()
	if _, err := os.Stat(filepath.Join(s.Dir, "scratch", "prod")); errors.Is(err, fs.ErrNotExist) {
		t.Error("the scratch directory is elsewhere")
	}

	// It does not keep the daemon from ending, either.
	s.must(os.Rename(b.target, aside))
	s.must(os.WriteFile(b.target, nil, 0o600))
	b.put("unsaved too", 10)
	b.awaitBackups("False Failing")
	took, err := d.Stop(stopLimit)
	s.must(err)
	t.Logf("stopped in %s", took.Round(time.Millisecond))
}

// s3Target is the URL of a target in a backuptest.Gateway.
func s3Target(address string) string {
	return "s3://bucket/etcd?region=us-east-1&path_style=true&endpoint=http://" + address
}

func (s *story) setS3Credentials() {
	s.Helper()
	s.do("backup", "credentials", "set", s.file("credentials",
		fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", backuptest.AccessKey, backuptest.SecretKey)))
}

func TestLabBackup_ToS3WithCredentialsFromTheStore(t *testing.T) {
	extra(t)
	address, _ := backuptest.Gateway(t, "bucket")
	s := newStory(t, 1)
	b := backedUp{s, ""}
	s.daemon("boot-1")
	s.setKey()
	c := b.spec()
	c.Backup.Target = s3Target(address)
	s.set(c)
	s.ready()
	b.awaitBackups("False Failing") // nobody gave it credentials
	s.setS3Credentials()
	b.awaitBackups("True UpToDate")
	last := b.put("a", 1<<20)
	if d := b.now("--delta"); d.Revision < last {
		t.Errorf("%+v", d)
	}
	f := b.now()
	if out := s.do("backup", "list"); !strings.Contains(out, fmt.Sprint(f.Revision)) {
		t.Errorf("revision %d is not in\n%s", f.Revision, out)
	}
	s.do("backup", "verify", "--restore")
}
