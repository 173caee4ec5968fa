package backup_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
)

// set puts a file there under a name of another writer's choice.
func (i *identities) set(kind backup.FileKind, at, text string) {
	i.Set(fmt.Sprintf("prod/a1b2/%s/%s-%x", kind, at, sha256.Sum256([]byte(text))), []byte(text))
}

// write is what a daemon does a minute later.
func (i *identities) write(t *testing.T, kind backup.FileKind, text string) error {
	i.now = i.now.Add(time.Minute)
	return i.store.PutFile(t.Context(), "a1b2", kind, []byte(text))
}

// unsigned writes a file, and the target refuses its signature.
func (i *identities) unsigned(t *testing.T, kind backup.FileKind, text string) {
	t.Helper()
	i.store.Bucket = &backuptest.Faulty{Bucket: i.Memory, Before: func(_ context.Context, op, name string) error {
		if op == "create" && strings.Contains(name, "/signatures/") {
			return errors.New("403 forbidden")
		}
		return nil
	}}
	defer func() { i.store.Bucket = i.Memory }()
	if err := i.write(t, kind, text); err == nil {
		t.Fatal("there is a signature")
	}
}

// forms are names under which anybody may put a copy of a file: such as sort after all times, and times that are still to come.
var forms = []string{"zzzz", "20261101T000900.000z", "2026110AT000900.000Z", "99991231T235959.999Z", "20261301T000000.000Z", "x/20261101T000900.000Z", "20270101T000000.000Z", "21200101T000000.000Z"}

// A client that may create objects copies what a daemon wrote before the daemon has signed it: it was killed, or the client was quicker and took the name
// of the signature. Nobody signs a name that anybody chose so that it sorts after what follows.
func TestPutFile_SignsNoNameThatHidesWhatFollows(t *testing.T) {
	for _, kind := range []backup.FileKind{backup.FileIdentity, backup.FileSpec, "pruning", "diverged"} {
		for _, form := range forms {
			for _, quicker := range []bool{false, true} {
				i := twoIdentities(t)
				for _, text := range []string{"one", "two"} {
					if err := i.write(t, kind, text); err != nil {
						t.Fatal(err)
					}
				}
				i.unsigned(t, kind, "three")
				if quicker {
					i.Set(signatureName(i.newestOf(t, kind)), []byte("{}"))
				}
				i.set(kind, form, "three")
				for _, text := range []string{"three", "four", "five"} {
					if err := i.write(t, kind, text); err != nil {
						t.Fatalf("%s %s: %v", kind, form, err)
					}
					f, err := i.store.TrustedFile(t.Context(), "a1b2", kind)
					if err != nil || string(f.Data) != text || !f.Trusted || f.Newer != nil {
						t.Errorf("%s %s, quicker %v: the newest is %q, trusted %v, newer %v, %v; want %q", kind, form, quicker, f.Data, f.Trusted, f.Newer, err, text)
					}
				}
				before := len(names(t, i.Memory))
				if err := i.write(t, kind, "five"); err != nil || len(names(t, i.Memory)) != before {
					t.Errorf("%s %s: it is written again: %v", kind, form, err)
				}
			}
		}
	}
}

// newestOf is the newest file of a kind that a daemon wrote.
func (i *identities) newestOf(t *testing.T, kind backup.FileKind) (file string) {
	t.Helper()
	for _, name := range names(t, i.Memory) {
		if strings.Contains(name, "/"+string(kind)+"/") {
			file = name
		}
	}
	return file
}

func signatureName(file string) string {
	parts := strings.Split(file, "/")
	return strings.Join(slices.Concat(parts[:2], []string{"signatures", parts[2] + "-" + parts[3]}), "/")
}

// The same without a fault: what a file says comes back.
func TestPutFile_ContentThatComesBackHidesNothing(t *testing.T) {
	for _, form := range forms {
		i := twoIdentities(t)
		for _, text := range []string{"A", "B"} {
			if err := i.write(t, backup.FileSpec, text); err != nil {
				t.Fatal(err)
			}
		}
		i.set(backup.FileSpec, form, "A")
		for _, text := range []string{"A", "C"} {
			if err := i.write(t, backup.FileSpec, text); err != nil {
				t.Fatal(err)
			}
		}
		if f, err := i.store.TrustedFile(t.Context(), "a1b2", backup.FileSpec); err != nil || string(f.Data) != "C" || f.Newer != nil {
			t.Errorf("%s: the newest is %q, newer %v, %v", form, f.Data, f.Newer, err)
		}
	}
}

// What is old is removed, and nothing that cke did not write.
func TestPutFile_ForgetsNoObjectOfAnotherForm(t *testing.T) {
	i := twoIdentities(t)
	for n := range 30 {
		i.set(backup.FileIdentity, fmt.Sprintf("!%02d", n), "theirs")
	}
	for n := range 110 {
		i.put(t, fmt.Sprint(n))
	}
	ours, theirs := 0, 0
	for _, name := range names(t, i.Memory) {
		switch {
		case strings.Contains(name, "/identity/!"):
			theirs++
		case strings.Contains(name, "/identity/"):
			ours++
		}
	}
	if ours != 100 || theirs != 30 {
		t.Errorf("%d are kept, and %d that are none", ours, theirs)
	}
}

// A clock that is centuries ahead writes nothing that no reader would find again.
func TestPutFile_RefusesATimeThatIsNeverRead(t *testing.T) {
	i := twoIdentities(t)
	i.now = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	before := len(names(t, i.Memory))
	if err := i.write(t, backup.FileIdentity, "three"); err == nil || len(names(t, i.Memory)) != before {
		t.Errorf("%v, %d objects", err, len(names(t, i.Memory)))
	}
}

// A writer whose signature is refused under a clock that was set back signs what it left, and leaves no more.
func TestPutFile_SignsWhatItLeftUnderAClockThatWasSetBack(t *testing.T) {
	i := twoIdentities(t)
	i.now = i.now.Add(-time.Hour)
	for range 5 {
		i.unsigned(t, backup.FileIdentity, "three")
	}
	before := len(names(t, i.Memory))
	i.put(t, "three")
	if f := i.read(t); string(f.Data) != "three" || f.Newer != nil || len(names(t, i.Memory)) != before+1 {
		t.Errorf("%q, newer %v, %d objects", f.Data, f.Newer, len(names(t, i.Memory))-before)
	}
}
