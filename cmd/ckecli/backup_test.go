package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/internal/golden"
)

// told runs a command and writes it down as a person sees it.
func (h *backedUpHouse) told(b *strings.Builder, code int, args ...string) {
	h.t.Helper()
	c := h.start(args...).must(code)
	fmt.Fprintf(b, "$ ckecli %s\n%s", strings.Join(args, " "), c.stdout.String())
	if text := c.stderr.String(); text != "" {
		b.WriteString("--\n" + text)
	}
	if code != 0 {
		fmt.Fprintf(b, "exit code %d\n", code)
	}
	b.WriteString("\n")
}

func TestBackup_WorksFromTheTargetAlone(t *testing.T) {
	t.Setenv("PATH", "")
	h := newBackedUpHouse(t)
	out := func(name string) string { return filepath.Join(h.house.dir, name) }
	old, newer := fmt.Sprint(h.fulls[0]), fmt.Sprint(h.fulls[1])
	var b strings.Builder
	h.told(&b, exitDone, "backup", "list", "--target", h.url)
	h.told(&b, exitDone, "backup", "list", "--target", h.url, "-o", "name")
	h.told(&b, exitDone, "backup", "show", newer, "--target", h.url, "-o", "wide")
	h.told(&b, exitDone, "backup", "verify", "--target", h.url)
	h.told(&b, exitDone, "backup", "verify", "--target", h.url, "--restore")
	h.told(&b, exitDone, "backup", "show", newer, "--target", h.url)
	h.told(&b, exitDone, "backup", "extract", out("newest.db"), "--target", h.url)
	h.told(&b, exitDone, "backup", "extract", out("earlier.db"), "--target", h.url, "--revision", "9")
	h.told(&b, exitRefused, "backup", "extract", out("newest.db"), "--target", h.url)
	h.told(&b, exitDone, "backup", "copy", h.url, "file://"+out("copy"), "--last", "1")
	h.told(&b, exitDone, "backup", "copy", "file://"+out("copy"), "--target", h.url)
	h.told(&b, exitDone, "backup", "compact", "--target", h.url)
	h.told(&b, exitDone, "backup", "compact", "--target", h.url)
	h.told(&b, exitDone, "backup", "prune", "--target", h.url, "--keep-last", "1", "--dry-run")
	h.told(&b, exitRefused, "backup", "prune", "--target", h.url, "--keep-last", "1")
	h.told(&b, exitRefused, "backup", "delete", old, "--target", h.url)
	h.told(&b, exitRefused, "backup", "delete", old, "--target", h.url, "--confirm", "test")
	h.told(&b, exitDone, "backup", "delete", old, "--target", h.url, "--confirm", "prod")
	h.told(&b, exitDone, "backup", "prune", "--target", h.url, "--keep-last", "1", "--confirm", "prod")
	golden.Compare(t, "testdata/backup/story.txt", h.still(b.String()))
}

func TestBackup_DamageIsToldAndHasAnExitCodeOfItsOwn(t *testing.T) {
	h := newBackedUpHouse(t)
	h.spoil(h.objects("delta")[3])
	if err := os.Remove(h.objects("delta")[1]); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(h.house.dir, "out.db")
	var b strings.Builder
	h.told(&b, exitDone, "backup", "list", "--target", h.url)
	h.told(&b, exitDamaged, "backup", "verify", "--target", h.url)
	h.told(&b, exitDamaged, "backup", "verify", "--target", h.url, "-o", "json")
	h.told(&b, exitDamaged, "backup", "extract", out, "--target", h.url)
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written although something is damaged")
	}
	h.told(&b, exitDone, "backup", "extract", out, "--target", h.url, "--allow-partial")
	for _, f := range h.objects("full") {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	h.told(&b, exitDone, "backup", "list", "--target", h.url)
	h.told(&b, exitDamaged, "backup", "verify", "--target", h.url)
	golden.Compare(t, "testdata/backup/damage.txt", h.still(b.String()))
}

// The first delta of all is damaged, so no delta of its run is sound before that.
func TestBackup_VerifyTellsThatTheFirstDeltaIsDamaged(t *testing.T) {
	h := newBackedUpHouse(t)
	first := h.objects("delta")[0]
	h.spoil(first)
	c := h.start("backup", "verify", "--target", h.url).must(exitDamaged)
	contains(t, c.stdout.String(), filepath.Base(first))
	contains(t, c.stderr.String(), "error[CKE401]: an object in the backups of prod is damaged or missing\n", "revisions 3 to 11 cannot be restored\n")
}

func TestBackup_EveryRefusalHasItsCode(t *testing.T) {
	h := newBackedUpHouse(t)
	alone := filepath.Join(t.TempDir(), "alone")
	h.run(exitDone, "backup", "copy", h.url, "file://"+alone, "--last", "1")
	conflict := filepath.Join(t.TempDir(), "conflict")
	full := h.objects("full")[0]
	rel, err := filepath.Rel(h.dir, full)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(conflict, rel)
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.db")
	on := func(args ...string) []string { return append(append([]string{"backup"}, args...), "--target", h.url) }
	for name, tc := range map[string]struct {
		args []string
		exit int
		want string // in stderr
	}{
		"Empty":            {[]string{"backup", "list", "--target", "file://" + t.TempDir()}, exitDamaged, "CKE404"},
		"EmptyVerify":      {[]string{"backup", "verify", "--target", "file://" + t.TempDir()}, exitDamaged, "CKE404"},
		"OtherCluster":     {on("list", "--backup-cluster", "test"), exitDamaged, "it has backups of prod"},
		"ByCluster":        {on("verify", "--cluster", "test"), exitDamaged, "CKE404"},
		"NoLineage":        {on("verify", "--lineage", "none"), exitDamaged, "CKE404"},
		"TooLateRevision":  {on("extract", out, "--revision", "999"), exitRefused, "CKE402"},
		"TooEarlyTime":     {on("extract", out, "--time", "3d"), exitRefused, "CKE402"},
		"NoSuchBackup":     {on("show", "777"), exitFailed, "CKE407"},
		"DeleteNoSuch":     {on("delete", "777"), exitFailed, "CKE407"},
		"OnlyFull":         {[]string{"backup", "delete", fmt.Sprint(h.fulls[1]), "--target", "file://" + alone}, exitRefused, "--force"},
		"NoRetention":      {on("prune"), exitRefused, "CKE406"},
		"CopyNothing":      {[]string{"backup", "copy", h.url, "file://" + out, "--newer-than", "0s"}, exitDamaged, "CKE404"},
		"NoTargetURL":      {[]string{"backup", "list", "--target", "/var/backups"}, exitFailed, "CKE405"},
		"NoKeyFile":        {on("verify", "--key", out), exitFailed, "cannot read"},
		"NoIdentity":       {on("verify", "--key", full), exitFailed, "CKE403"},
		"NoCredentials":    {on("list", "--credentials", full), exitRefused, "CKE101"},
		"BothPoints":       {on("extract", out, "--revision", "3", "--time", "1h"), exitUsage, "cannot be used together"},
		"BadRevision":      {on("compact", "--revision", "-3"), exitUsage, "start at 1"},
		"BadTime":          {on("extract", out, "--time", "yesterday"), exitUsage, "yesterday"},
		"BadLast":          {[]string{"backup", "copy", h.url, "file://" + out, "--last", "0"}, exitUsage, "--last"},
		"NoDirectory":      {on("extract", "/missing/dir/x"), exitRefused, "there is no directory /missing/dir"},
		"NoSpan":           {on("prune", "--max-age", "old"), exitUsage, "invalid duration"},
		"ZeroSpan":         {on("prune", "--keep-within", "0s"), exitUsage, "zero"},
		"SpansCross":       {on("prune", "--keep-within", "3d", "--max-age", "48h"), exitUsage, "shorter"},
		"NegativeKeep":     {on("prune", "--keep-daily", "-1"), exitUsage, "negative"},
		"SourceTwice":      {on("copy", h.url, "file://"+out), exitUsage, "twice"},
		"BadRecipient":     {on("compact", "--recipient", "age1x"), exitUsage, "--recipient"},
		"NoConfiguration":  {[]string{"backup", "list"}, exitRefused, "CKE101"},
		"PruneOtherAnswer": {on("prune", "--keep-last", "1", "--confirm", "x"), exitRefused, "CKE107"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr := h.run(tc.exit, tc.args...)
			if !strings.Contains(stderr, tc.want) || stdout != "" {
				t.Errorf("got %q and %q, want %q", stdout, stderr, tc.want)
			}
		})
	}
	stdout, stderr := h.run(exitRefused, "backup", "copy", h.url, "file://"+conflict)
	if !strings.Contains(stderr, "CKE406") || !strings.Contains(stdout, "different content under this name") {
		t.Errorf("conflict: got %s%s", stdout, stderr)
	}
	if got := len(h.objects("full")); got != 2 {
		t.Errorf("%d fulls are left", got)
	}
	h.run(exitDone, "backup", "delete", fmt.Sprint(h.fulls[1]), "--target", "file://"+alone, "--force", "--confirm", "prod")
}

// One object that nobody may delete keeps the others from nothing; what cannot be deleted for another reason is a failure.
func TestBackup_PrunePassesOverWhatItCannotDelete(t *testing.T) {
	h := newBackedUpHouse(t)
	var b strings.Builder
	locked := h.objects("delta")[1]
	backuptest.Chattr(t, locked, unix.STATX_ATTR_IMMUTABLE)
	h.told(&b, exitDone, "backup", "prune", "--target", h.url, "--keep-last", "1", "--confirm", "prod")
	h.told(&b, exitDone, "backup", "prune", "--target", h.url, "--keep-last", "1", "--confirm", "prod", "-o", "json")
	golden.Compare(t, "testdata/backup/prune.txt", h.still(b.String()))
	if n := len(h.objects("full")); n != 2 { // the newest, and what the delta is restored from
		t.Errorf("%d fulls are left", n)
	}
	h.run(exitDone, "backup", "extract", filepath.Join(t.TempDir(), "out"), "--target", h.url, "--revision", "10")
}

func TestBackup_PruneByAge(t *testing.T) {
	h := newBackedUpHouse(t)
	h.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	stdout, _ := h.run(exitDone, "backup", "prune", "--target", h.url, "--keep-last", "9", "--max-age", "365d", "--dry-run", "-o", "json")
	if strings.Contains(stdout, "older") {
		t.Errorf("got %s", stdout)
	}
	h.run(exitDone, "backup", "prune", "--target", h.url, "--keep-within", "3d", "--confirm", "prod")
	if n := len(h.objects("full")); n != 2 {
		t.Errorf("%d fulls are left", n)
	}
}

// All that is sound is copied, and what is not is told with the side that it is on.
func TestBackup_CopyTellsWhatItDoesNotCopy(t *testing.T) {
	h := newBackedUpHouse(t)
	dst := filepath.Join(h.house.dir, "copy")
	var b strings.Builder
	h.spoil(h.objects("delta")[3])
	h.told(&b, exitDamaged, "backup", "copy", h.url, "file://"+dst)
	h.told(&b, exitDamaged, "backup", "copy", h.url, "file://"+dst)
	rel, err := filepath.Rel(h.dir, h.objects("full")[1])
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dst, rel)
	info, err := os.Stat(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(full, info.Size()-100); err != nil {
		t.Fatal(err)
	}
	h.told(&b, exitDamaged, "backup", "copy", h.url, "file://"+dst)
	golden.Compare(t, "testdata/backup/copy.txt", h.still(b.String()))
	if after, err := os.Stat(full); err != nil || after.Size() != info.Size()-100 {
		t.Errorf("it was overwritten: %v", err)
	}
}

// On a cluster that is quiet a time after the newest change stands for the newest state.
func TestBackup_ExtractAtATimeAfterTheNewestChange(t *testing.T) {
	h := newBackedUpHouse(t)
	out := filepath.Join(h.house.dir, "out.db")
	stdout, stderr := h.run(exitDone, "backup", "extract", out, "--target", h.url, "--time", "0s")
	if !strings.Contains(stdout, fmt.Sprintf("Revision  %d", h.last)) || !strings.Contains(stderr, "note: the backups hold no change between") {
		t.Errorf("got %s%s", stdout, stderr)
	}
	h.run(exitRefused, "backup", "extract", out+"2", "--target", h.url, "--time", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

func TestBackup_SeveralClustersInOneTarget(t *testing.T) {
	h := newBackedUpHouse(t)
	h.backUp("test")
	stdout, _ := h.run(exitDone, "backup", "list", "--target", h.url, "-o", "json")
	var rows []backupRow
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4 || rows[0].Cluster != "prod" || rows[3].Cluster != "test" || rows[3].LastRevision != h.last || rows[3].Until.IsZero() {
		t.Errorf("got %+v", rows)
	}
	if _, stderr := h.run(exitFailed, "backup", "verify", "--target", h.url); !strings.Contains(stderr, "CKE106") || !strings.Contains(stderr, "prod, test") {
		t.Errorf("got %s", stderr)
	}
	h.run(exitDone, "backup", "verify", "--target", h.url, "--backup-cluster", "test")
	h.env["CKECLI_CLUSTER"] = "prod"
	h.run(exitDone, "backup", "verify", "--target", h.url)
	delete(h.env, "CKECLI_CLUSTER")
	dst := "file://" + t.TempDir()
	stdout, _ = h.run(exitDone, "backup", "copy", h.url, dst, "-o", "name")
	if stdout != "prod\ntest\n" {
		t.Errorf("copied %q", stdout)
	}
}

func TestBackup_EncryptedNeedsAKey(t *testing.T) {
	var files [2]string
	var to [2]*age.X25519Identity
	for i := range to {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		files[i], to[i] = filepath.Join(t.TempDir(), "key.txt"), id
		if err := os.WriteFile(files[i], []byte("# mine\n"+id.String()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	right, wrong := files[0], files[1]
	h := newBackedUpHouse(t, to[0].Recipient())
	out := filepath.Join(h.house.dir, "out.db")
	var b strings.Builder
	h.told(&b, exitDone, "backup", "list", "--target", h.url)
	h.told(&b, exitDone, "backup", "verify", "--target", h.url)
	h.told(&b, exitFailed, "backup", "verify", "--target", h.url, "--restore")
	h.told(&b, exitFailed, "backup", "extract", out, "--target", h.url, "--key", wrong)
	h.told(&b, exitRefused, "backup", "compact", "--target", h.url, "--key", right)
	golden.Compare(t, "testdata/backup/encrypted.txt", h.still(strings.NewReplacer(wrong, "/wrong.key", right, "/right.key").Replace(b.String())))

	h.run(exitDone, "backup", "extract", out, "--target", h.url, "--key", wrong, "--key", right)
	h.run(exitDone, "backup", "verify", "--target", h.url, "--key", right)
	h.run(exitDone, "backup", "compact", "--target", h.url, "--key", right, "--recipient", to[0].Recipient().String(), "--revision", "9")
	for _, f := range h.objects("full") {
		data, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(data), "age-encryption.org") {
			t.Errorf("%s is not encrypted, %v", filepath.Base(f), err)
		}
	}
}

func TestBackup_PruneAsksForTheNameOnATerminal(t *testing.T) {
	h := newBackedUpHouse(t)
	screen := h.onTerminal("backup", "prune", "--target", h.url, "--keep-last", "1")
	screen.stdout.await(t, "Type prod to confirm: ")
	screen.types("prod\n")
	screen.must(exitDone)
	if text := screen.stdout.String(); !strings.Contains(text, "objects were deleted") || len(h.objects("full")) != 1 {
		t.Errorf("got %s", text)
	}
	screen = h.onTerminal("backup", "delete", fmt.Sprint(h.fulls[1]), "--target", h.url, "--force")
	screen.stdout.await(t, "no state of it could be restored after that")
	screen.types("no\n")
	screen.must(exitRefused)
	if len(h.objects("full")) != 1 {
		t.Error("it was deleted")
	}
}

// deaf is an S3 target that takes connections and never answers.
func deaf(t *testing.T, h *house) []string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return []string{"--target", "s3://bucket/x?path_style=true&endpoint=http://" + l.Addr().String(),
		"--credentials", h.write("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = s\n")}
}

func TestBackup_StopsWhenItIsToldTo(t *testing.T) {
	h := newBackedUpHouse(t)
	target := deaf(t, h.house)
	if _, stderr := h.run(exitTimedOut, append([]string{"--timeout", "300ms", "backup", "list"}, target...)...); !strings.Contains(stderr, "--timeout") {
		t.Errorf("got %s", stderr)
	}
	screen := h.onTerminal(append([]string{"backup", "verify", "--backup-cluster", "prod"}, target...)...)
	screen.stdout.await(t, "Checking: 0 objects")
	screen.cancel()
	screen.must(exitInterrupted)
	if !strings.Contains(screen.stdout.String(), "Interrupted.") {
		t.Errorf("got %q", screen.stdout.String())
	}
}

func TestBackup_CompletesIDs(t *testing.T) {
	h := newBackedUpHouse(t)
	stdout, _ := h.run(exitDone, "__complete", "backup", "show", "--target", h.url, "")
	if !strings.Contains(stdout, "a1b2/"+fmt.Sprintf("%020d", h.fulls[1])) || !strings.Contains(stdout, "taken ") {
		t.Errorf("got %s", stdout)
	}
}

func TestParseWhen(t *testing.T) {
	for in, want := range map[string]time.Time{
		"2026-11-19T01:02:03Z": time.Date(2026, 11, 19, 1, 2, 3, 0, time.UTC), "2026-11-19T01:02:03+09:00": time.Date(2026, 11, 18, 16, 2, 3, 0, time.UTC),
		"90s": noon.Add(-90 * time.Second), "12h": noon.Add(-12 * time.Hour), "0s": noon, "3d": noon.AddDate(0, 0, -3), "0d": noon,
	} {
		if got, err := parseWhen(in, noon); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "-1h", "-3d", "3", "3dd", "3d4h", "now", "2026-11-19"} {
		if got, err := parseWhen(bad, noon); err == nil {
			t.Errorf("%q: got %s", bad, got)
		}
	}
}

func TestFindFull_RefusesWhatStandsForSeveral(t *testing.T) {
	place := func(lineage string, revision int64, minute int) backup.Entry {
		return backup.Entry{Place: backup.FullPlace("prod", lineage, revision, noon.Add(time.Duration(minute)*time.Minute))}
	}
	lineages := []backup.Lineage{
		{Name: "a", Fulls: []backup.Entry{place("a", 5, 0), place("a", 5, 1), place("a", 7, 2)}},
		{Name: "b", Fulls: []backup.Entry{place("b", 7, 3)}},
	}
	b := &backups{}
	for id, want := range map[string]int{"a/7": 2, "b/7": 3, place("a", 5, 1).ID(): 1, strings.TrimPrefix(place("a", 5, 1).ID(), "a/"): 1} {
		got, _, err := b.findFull(lineages, id)
		if err != nil || !got.Time.Equal(noon.Add(time.Duration(want)*time.Minute)) {
			t.Errorf("%s: got %s, %v", id, got.ID(), err)
		}
	}
	for _, id := range []string{"7", "a/5", "5", "", "c/7"} {
		if got, _, err := b.findFull(lineages, id); err == nil {
			t.Errorf("%q: got %s", id, got.ID())
		}
	}
}

// A path with a slip of the pen in it holds no backups, and says why.
func TestBackup_TellsThatADirectoryIsNotThere(t *testing.T) {
	h := newHouseWithoutStore(t)
	none := filepath.Join(h.dir, "none")
	_, stderr := h.run(exitDamaged, "backup", "list", "--target", "file://"+none)
	contains(t, stderr, "error[CKE404]: ", "there is no directory "+none+" on this host\n")
	if _, stderr = h.run(exitDamaged, "backup", "list", "--target", "file://"+h.dir); strings.Contains(stderr, "no directory") {
		t.Errorf("an empty directory is there: %s", stderr)
	}
}
