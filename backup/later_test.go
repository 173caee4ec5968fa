package backup_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"cke"
	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
)

// What lies beside backups and was written under a clock that was ahead hides nothing that is written later.
func TestPutFile_AfterAClockThatWasAheadIsTheNewest(t *testing.T) {
	b := backuptest.NewMemory()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }}
	put := func(text string) {
		t.Helper()
		if err := s.PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.File(t.Context(), "a1b2", backup.FileIdentity); err != nil || string(got) != text {
			t.Errorf("the newest is %q, %v; want %q", got, err, text)
		}
	}
	put("by the clock that was ahead")
	now = now.AddDate(0, -1, 0)
	for _, text := range []string{"first", "second", "second", "third"} {
		now = now.Add(time.Hour)
		put(text)
	}
	if n := len(names(t, b)); n != 4 {
		t.Errorf("%d files, want 4", n)
	}
}

// A mark of a drill, likewise: retention keeps what was verified last.
func TestDrill_AfterAClockThatWasAheadIsTheNewestMark(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	s := f.store(t, f.bucket)
	s.Now = func() time.Time { return time.Now().AddDate(0, 1, 0) }
	if _, err := s.Drill(ctx, backup.At{Revision: f.fulls[0] + 3}, nil); err != nil {
		t.Fatal(err)
	}
	s = f.store(t, f.bucket)
	if _, err := s.Drill(ctx, backup.At{Revision: f.last}, nil); err != nil {
		t.Fatal(err)
	}
	if v, err := s.LastVerified(ctx, "a1b2"); err != nil || v.Revision != f.last {
		t.Errorf("%+v, %v", v, err)
	}
}

// A copy that lost something does not take for pruned there what was pruned in its source later.
func TestCopy_OfAPrunedSourceHidesNoHoleOfTheCopy(t *testing.T) {
	f := makeFixture(t, false)
	ctx := etcdtest.Context(t)
	_, deltas := f.objects(t)
	src, dst := f.bucket.Clone(), backuptest.NewMemory()
	if _, err := f.store(t, src).Copy(ctx, dst, backup.CopyFilter{}); err != nil {
		t.Fatal(err)
	}
	if err := dst.Delete(ctx, deltas[1]); err != nil {
		t.Fatal(err)
	}
	s := f.store(t, stubborn(src, map[string]error{deltas[0]: backup.ErrProtected}))
	if _, err := s.Prune(ctx, cke.Retention{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	late := backuptest.NewMemory()
	for _, to := range []*backuptest.Memory{dst, late} {
		if _, err := f.store(t, src).Copy(ctx, to, backup.CopyFilter{}); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := f.store(t, dst).Check(ctx, ""); err != nil || len(r.Findings) != 1 {
		t.Errorf("the copy that lost one: %+v, %v", r, err)
	}
	f.whole(t, late)
}

func TestRecipientsID(t *testing.T) {
	a, b := newRecipient(t), newRecipient(t)
	of := backup.RecipientsID
	if of(recipients(a, b)) != of(recipients(b, a, a)) || of(recipients(a)) == of(recipients(b)) || of(nil) != "" || of(recipients(a)) == "" {
		t.Errorf("%q, %q", of(recipients(a)), of(recipients(b)))
	}
}

// Of what lies beside backups only the newest is read: the oldest are removed, with their signatures, and the one that was
// written last is the newest whatever others put there.
func TestPutFile_ForgetsWhatIsOld(t *testing.T) {
	b := backuptest.NewMemory()
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	signer := backup.NewSigner(id)
	s := &backup.Store{Bucket: b, Cluster: "prod", Now: func() time.Time { return now }, Signer: signer, Trusted: []backup.PublicKey{signer.Public()}}
	for i := range 150 {
		now = now.Add(time.Minute)
		if err := s.PutFile(t.Context(), "a1b2", backup.FileSpec, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		if i == 120 { // by anybody without the key, and far ahead
			for j := range 200 {
				b.Set(fmt.Sprintf("prod/a1b2/spec/20280101T00%02d%02d.000Z-%x", j/60, j%60, sha256.Sum256(fmt.Append(nil, "junk", j))), fmt.Append(nil, "junk", j))
			}
		}
		if got, err := s.File(t.Context(), "a1b2", backup.FileSpec); err != nil || string(got) != fmt.Sprint(i) {
			t.Fatalf("%d: the newest is %q, %v", i, got, err)
		}
	}
	files, signatures := 0, 0
	for _, name := range names(t, b) {
		if strings.Contains(name, "/signatures/") {
			signatures++
		} else {
			files++
		}
	}
	if files != 100 || signatures != 150-121 {
		t.Errorf("%d files, %d signatures", files, signatures)
	}
}
