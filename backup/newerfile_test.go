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

// identities is a target in which two identities lie, which are signed.
type identities struct {
	*backuptest.Memory
	store *backup.Store
	now   time.Time
}

func twoIdentities(t *testing.T) *identities {
	t.Helper()
	signer := newSigner(t)
	i := &identities{Memory: backuptest.NewMemory(), now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	i.store = &backup.Store{Bucket: i.Memory, Cluster: "prod", Signer: signer, Trusted: []backup.PublicKey{signer.Public()}, Now: func() time.Time { return i.now },
		Retry: backup.Retry{First: time.Millisecond, Longest: time.Millisecond, For: 20 * time.Millisecond}}
	i.put(t, "one")
	i.put(t, "two")
	return i
}

func (i *identities) put(t *testing.T, text string) {
	t.Helper()
	i.now = i.now.Add(time.Minute)
	if err := i.store.PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// newest is the newest identity, and its signature.
func (i *identities) newest(t *testing.T) (file, signature string) {
	t.Helper()
	for _, name := range names(t, i.Memory) {
		if strings.Contains(name, "/identity/") {
			file = name
		}
	}
	return file, strings.Replace(file, "/identity/", "/signatures/identity-", 1)
}

func (i *identities) read(t *testing.T) backup.FoundFile {
	t.Helper()
	f, err := i.store.TrustedFile(t.Context(), "a1b2", backup.FileIdentity)
	if err != nil || !f.Trusted {
		t.Fatalf("%+v, %v", f, err)
	}
	return f
}

// Whatever becomes of the newest identity or of its signature, the one before it is not taken for the newest; and what is written then is.
func TestTrustedFile_AnOlderFileIsNotTakenForTheNewest(t *testing.T) {
	for what, c := range map[string]struct {
		happens func(i *identities, file, signature string)
		says    string // what can be read of it
	}{
		"the file is damaged":      {func(i *identities, file, _ string) { i.Set(file, []byte("{}")) }, ""},
		"the file is lost":         {func(i *identities, file, _ string) { i.Delete(t.Context(), file) }, ""},
		"the signature is damaged": {func(i *identities, _, signature string) { i.Set(signature, []byte("{}")) }, "two"},
		"the signature is lost":    {func(i *identities, _, signature string) { i.Delete(t.Context(), signature) }, "two"},
		"the signature is another key's": {func(i *identities, file, signature string) {
			theirs := *i.store
			theirs.Bucket, theirs.Signer, theirs.Trusted = backuptest.NewMemory(), newSigner(t), nil
			if err := theirs.PutFile(t.Context(), "a1b2", backup.FileIdentity, i.Get(file)); err != nil {
				t.Fatal(err)
			}
			for _, name := range names(t, theirs.Bucket) {
				if strings.Contains(name, "/signatures/") {
					i.Set(signature, theirs.Bucket.(*backuptest.Memory).Get(name))
				}
			}
		}, "two"},
		"both are damaged": {func(i *identities, file, signature string) {
			i.Set(file, []byte("{}"))
			i.Set(signature, []byte("{}"))
		}, ""},
	} {
		i := twoIdentities(t)
		file, signature := i.newest(t)
		if f := i.read(t); string(f.Data) != "two" || f.Newer != nil || f.Doubts != nil || !strings.HasSuffix(file, "-"+f.Sum) {
			t.Fatalf("%+v", f)
		}
		c.happens(i, file, signature)
		f := i.read(t)
		if string(f.Data) != "one" || !backup.IsDamage(f.Newer) || !strings.Contains(f.Newer.Error(), file) {
			t.Errorf("%s: %q, newer %v", what, f.Data, f.Newer)
		}
		if len(f.Doubts) != 1 || f.Doubts[0].Object != file || string(f.Doubts[0].Data) != c.says && c.says != "" || !strings.HasSuffix(file, f.Doubts[0].Sum()) {
			t.Errorf("%s: %+v", what, f.Doubts)
		}
		i.now = i.now.Add(-time.Hour) // by another clock
		i.put(t, "two")
		if f := i.read(t); string(f.Data) != "two" || what != "both are damaged" && c.says == "" && f.Newer != nil {
			t.Errorf("%s, and it was written again: %q, newer %v", what, f.Data, f.Newer)
		}
	}
}

// Nothing is left but the signature of the only identity: that there was none is not what that says.
func TestTrustedFile_OnlyTheSignatureIsLeft(t *testing.T) {
	i := twoIdentities(t)
	for _, name := range names(t, i.Memory) {
		if strings.Contains(name, "/identity/") {
			i.Delete(t.Context(), name)
		}
	}
	if f, err := i.store.TrustedFile(t.Context(), "a1b2", backup.FileIdentity); !backup.IsDamage(err) || !f.Trusted || len(f.Doubts) != 2 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A target gives wrong bytes for a moment: what is read again is right.
func TestTrustedFile_OneBadReadIsNoDamage(t *testing.T) {
	for _, part := range []string{"/identity/", "/signatures/"} {
		i := twoIdentities(t)
		file, signature := i.newest(t)
		wrong := file
		if part == "/signatures/" {
			wrong = signature
		}
		right, reads := i.Get(wrong), 0
		i.Set(wrong, []byte("{}"))
		i.store.Bucket = &backuptest.Faulty{Bucket: i.Memory, Before: func(_ context.Context, op, name string) error {
			if op == "open" && name == wrong {
				if reads++; reads == 2 {
					i.Set(wrong, right)
				}
			}
			return nil
		}}
		if f := i.read(t); string(f.Data) != "two" || f.Newer != nil || reads < 2 {
			t.Errorf("%s: %q, newer %v, after %d reads", part, f.Data, f.Newer, reads)
		}
	}
}

// A write is broken off between the file and its signature. What it says can be read, and is written again.
func TestPutFile_BrokenOffAtAnyStepLeavesWhatCanBeCompared(t *testing.T) {
	for n := 0; ; n++ {
		i := twoIdentities(t)
		i.store.Bucket = backuptest.CrashAt(i.Memory, n)
		err := i.store.PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte("three"))
		i.store.Bucket = i.Memory
		if f := i.read(t); string(f.Data) != "three" && (string(f.Data) != "two" || len(f.Doubts) > 1 || f.Doubts != nil && string(f.Doubts[0].Data) != "three") {
			t.Errorf("step %d: %q, %+v", n, f.Data, f.Doubts)
		}
		i.put(t, "three")
		if f := i.read(t); string(f.Data) != "three" || f.Newer != nil {
			t.Errorf("step %d: %q, newer %v", n, f.Data, f.Newer)
		}
		if err == nil {
			break
		}
	}
}

// Anybody may put many files there that no trusted key signed, with signatures or without: not more of them is read than could be an earlier
// version's, and not more of what they say is kept. Beyond as many files with signatures as are kept, it is not known whether there is a trusted one:
// what is there is damaged, and nothing that anybody wrote counts in its place. Signatures without files hide none that is there. The error says
// what to delete.
func TestTrustedFile_ReadsNotAllThatIsNotSigned(t *testing.T) {
	const many, size = 150, 1 << 20
	big := strings.Repeat("x", size)
	for what, c := range map[string]struct {
		files, signatures int
		text              string
		reads, kept       int
		doubts            int // if it is found
		says              string
	}{
		"small files":                    {many, 0, "", 110, 100, many, "no trusted key signed it"},
		"big files":                      {many, 0, big, 30, 15, many, "no trusted key signed it"},
		"small files, signatures":        {90, 90, "", 90*3 + 10, 90, 90, "no trusted key signed it"},
		"big files, signatures":          {90, 90, big, 90*2 + 30, 15, 90, "no trusted key signed it"},
		"many files, signatures":         {many, many, "", 100*3 + 10, 100, 0, "the 100 newest files with signatures, down to prod/a1b2/identity/20261101T005300.000Z-"},
		"many big files, signatures":     {many, many, big, 100*2 + 30, 15, 0, "the 100 newest files with signatures, down to prod/a1b2/identity/20261101T005300.000Z-"},
		"signatures without their files": {0, many, "", 100*2 + 10, 0, many - 100, "the 100 newest signatures of files that are missing, down to prod/a1b2/signatures/identity-20261101T005300.000Z-"},
	} {
		i := twoIdentities(t)
		newest, _ := i.newest(t)
		reads := 0
		for n := range max(c.files, c.signatures) {
			i.now = i.now.Add(time.Minute)
			text := fmt.Append(nil, n, c.text)
			name := fmt.Sprintf("prod/a1b2/identity/%s-%x", i.now.Format("20060102T150405.000Z"), sha256.Sum256(text))
			if n < c.files {
				i.Set(name, text)
			}
			if n < c.signatures {
				i.Set(strings.Replace(name, "/identity/", "/signatures/identity-", 1), []byte("{}"))
			}
		}
		i.store.Bucket = &backuptest.Faulty{Bucket: i.Memory, Before: func(_ context.Context, op, _ string) error {
			if op == "open" {
				reads++
			}
			return nil
		}}
		f, err := i.store.TrustedFile(t.Context(), "a1b2", backup.FileIdentity)
		found := c.doubts > 0
		if !f.Trusted || f.Newer == nil || found && (err != nil || string(f.Data) != "two") || !found && (!backup.IsDamage(err) || f.Data != nil) {
			t.Errorf("%s: %q, newer %v, %v", what, f.Data, f.Newer, err)
		}
		if !slices.ContainsFunc(f.Doubts, func(d backup.Doubt) bool { return strings.Contains(d.Err.Error(), c.says) }) {
			t.Errorf("%s: nothing says %q: %v", what, c.says, f.Newer)
		}
		kept := slices.DeleteFunc(slices.Clone(f.Doubts), func(d backup.Doubt) bool { return d.Data == nil })
		if reads > c.reads || len(kept) != c.kept || found && len(f.Doubts) != c.doubts {
			t.Errorf("%s: %d reads, %d in doubt, and what %d of them say is kept", what, reads, len(f.Doubts), len(kept))
		}
		if !found && !slices.ContainsFunc(f.Doubts, func(d backup.Doubt) bool { return d.Object == newest && d.Data == nil }) {
			t.Errorf("%s: what may be the newest one is not in doubt", what)
		}
	}
}

// The newest identity is damaged, and between it and the sound one before lie many files that others signed: why that one is not read is said.
func TestTrustedFile_SaysWhyAnOlderFileIsNotRead(t *testing.T) {
	i := twoIdentities(t)
	sound, _ := i.newest(t)
	between := i.now
	i.now = i.now.Add(24 * time.Hour)
	i.put(t, "three")
	damaged, _ := i.newest(t)
	i.Set(damaged, []byte("{}"))
	for n := range 100 {
		between = between.Add(time.Minute)
		text := fmt.Append(nil, n)
		name := fmt.Sprintf("prod/a1b2/identity/%s-%x", between.Format("20060102T150405.000Z"), sha256.Sum256(text))
		i.Set(name, text)
		i.Set(strings.Replace(name, "/identity/", "/signatures/identity-", 1), []byte("{}"))
	}
	f, err := i.store.TrustedFile(t.Context(), "a1b2", backup.FileIdentity)
	if !f.Trusted || !backup.IsDamage(err) || !strings.Contains(err.Error(), damaged) || !strings.Contains(err.Error(), "the 100 newest files with signatures") {
		t.Errorf("%+v, %v", f, err)
	}
	if !slices.ContainsFunc(f.Doubts, func(d backup.Doubt) bool { return d.Object == sound }) {
		t.Error("the one that is not read is not in doubt")
	}
}

// A signature cannot be written, attempt after attempt. Once it can, what was left is signed, or, if it says something else by then or what
// lies in place of its signature is none, is older than what is written.
func TestPutFile_SignsWhatItLeftWithoutASignature(t *testing.T) {
	i := twoIdentities(t)
	files := func() (n int) {
		for _, name := range names(t, i.Memory) {
			if strings.Contains(name, "/identity/") {
				n++
			}
		}
		return n
	}
	fail := func(text string) {
		t.Helper()
		i.store.Bucket = &backuptest.Faulty{Bucket: i.Memory, Before: func(_ context.Context, op, name string) error {
			if op == "create" && strings.Contains(name, "/signatures/") {
				return errors.New("403 forbidden")
			}
			return nil
		}}
		defer func() { i.store.Bucket = i.Memory }()
		for range 3 {
			i.now = i.now.Add(time.Minute)
			if err := i.store.PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte(text)); err == nil {
				t.Fatal("there is a signature")
			}
		}
	}
	put := func(text string, want int) {
		t.Helper()
		i.put(t, text)
		if f := i.read(t); string(f.Data) != text || f.Newer != nil || files() != want {
			t.Errorf("%q, newer %v, %d files; want %q and %d", f.Data, f.Newer, files(), text, want)
		}
	}
	fail("three")
	put("three", 3)
	fail("four")
	i.now = i.now.Add(-time.Hour) // by another clock
	put("five", 5)
	fail("six")
	_, signature := i.newest(t)
	i.Set(signature, []byte("{}"))
	put("six", 7)

	// The first of all.
	i.Memory = backuptest.NewMemory()
	fail("one")
	put("one", 1)
}

// Whatever backups are chosen, a copy names the members of every incarnation: also of one of which it has no backup. In a copy of a target
// whose newest identity is damaged, the one before it is not the newest either.
func TestCopy_NamesTheMembersOfEveryIncarnation(t *testing.T) {
	f, signer := signedFixture(t)
	b := f.bucket.Clone()
	s := f.guarded(t, b, signer)
	put := func(lineage, text string) {
		t.Helper()
		if err := s.PutFile(t.Context(), lineage, backup.FileIdentity, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	put("a1b2", "one")
	put("a1b2", "two")
	put("c3d4", "a later incarnation, whose first full is not stored yet")
	fulls, _ := f.objects(t)
	for _, filter := range []backup.CopyFilter{{}, {Since: place(t, fulls[len(fulls)-1]).Time}, {Since: time.Now().Add(time.Hour)}, {Lineage: "a1b2"}, {Lineage: "c3d4"}} {
		dst := backuptest.NewMemory()
		if _, err := s.Copy(t.Context(), dst, filter); err != nil {
			t.Fatal(err)
		}
		for _, lineage := range []string{"a1b2", "c3d4"} {
			if got, err := f.guarded(t, dst, signer).TrustedFile(t.Context(), lineage, backup.FileIdentity); err != nil || !got.Trusted || got.Newer != nil {
				t.Errorf("%+v: %s: %+v, %v", filter, lineage, got, err)
			}
		}
	}
	newest := ""
	for _, name := range names(t, b) {
		if strings.Contains(name, "a1b2/identity/") {
			newest = name
		}
	}
	b.Set(newest, []byte("{}"))
	dst := backuptest.NewMemory()
	if _, err := s.Copy(t.Context(), dst, backup.CopyFilter{}); !backup.IsDamage(err) {
		t.Errorf("%v", err)
	}
	if got, err := f.guarded(t, dst, signer).TrustedFile(t.Context(), "a1b2", backup.FileIdentity); err != nil || string(got.Data) != "one" || !backup.IsDamage(got.Newer) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The check of an incarnation reads cluster file and identity, which no backup needs.
func TestCheck_ReadsClusterFileAndIdentity(t *testing.T) {
	f, signer := signedFixture(t)
	for _, kind := range []backup.FileKind{backup.FileSpec, backup.FileIdentity} {
		for what, harm := range map[string]func(b *backuptest.Memory, file, signature string){
			"damaged":     func(b *backuptest.Memory, file, _ string) { b.Set(file, []byte("{}")) },
			"lost":        func(b *backuptest.Memory, file, _ string) { b.Delete(t.Context(), file) },
			"not signed":  func(b *backuptest.Memory, _, signature string) { b.Delete(t.Context(), signature) },
			"sound":       func(*backuptest.Memory, string, string) {},
			"not trusted": func(b *backuptest.Memory, _, signature string) { b.Set(signature, []byte("{}")) },
		} {
			b := f.bucket.Clone()
			s := f.guarded(t, b, signer)
			if err := s.PutFile(t.Context(), "a1b2", kind, []byte("one")); err != nil {
				t.Fatal(err)
			}
			all := names(t, b)
			file := all[slices.IndexFunc(all, func(name string) bool { return strings.Contains(name, "/"+string(kind)+"/") })]
			harm(b, file, strings.Replace(file, "/"+string(kind)+"/", "/signatures/"+string(kind)+"-", 1))
			r, err := s.Check(t.Context(), "")
			if err != nil || r.LastGood != f.last {
				t.Fatalf("%s %s: %+v, %v", kind, what, r, err)
			}
			if what == "sound" && r.Findings != nil || what != "sound" && (len(r.Findings) != 1 || r.Findings[0].Object != file || r.Findings[0].LastGood != f.last) {
				t.Errorf("%s %s: %+v", kind, what, r.Findings)
			}
		}
	}
	old := makeFixture(t, false) // of before signatures
	b := old.bucket.Clone()
	if err := old.store(t, b).PutFile(t.Context(), "a1b2", backup.FileIdentity, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if r, err := old.guarded(t, b, signer).Check(t.Context(), ""); err != nil || r.Findings != nil {
		t.Errorf("%+v, %v", r.Findings, err)
	}
}
