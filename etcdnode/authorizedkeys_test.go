package etcdnode

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestWithKey_LeavesOtherLinesAlone(t *testing.T) {
	signer, _ := newTestKey(t, "")
	foreign, _ := newTestKey(t, "ecdsa")
	key, other := keyLine(signer.PublicKey()), keyLine(foreign.PublicKey())
	line := `restrict,command="a, \"b\"" ` + key
	for name, c := range map[string]struct {
		old, want string
		change    KeyChange
		others    []string
	}{
		"no file":            {"", line + "\n", KeyInstalled, nil},
		"no line break":      {"# ours\n" + other, "# ours\n" + other + "\n" + line + "\n", KeyInstalled, nil},
		"comment with a key": {"# " + line + "\n", "# " + line + "\n" + line + "\n", KeyInstalled, nil},
		"there":              {other + "\n" + line + " cke@boot-1", other + "\n" + line + " cke@boot-1", KeyPresent, nil},
		"line break of DOS":  {line + "\r\n", line + "\r\n", KeyPresent, nil},
		"no options":         {key + " x\nnonsense\n" + other + "\n", "nonsense\n" + other + "\n" + line + "\n", KeyReplaced, []string{key + " x"}},
		"both":               {key + "\n" + line + "\n", line + "\n", KeyReplaced, []string{key}},
	} {
		text, change, others, err := withKey([]byte(c.old), line)
		if err != nil || string(text) != c.want || change != c.change || !slices.Equal(others, c.others) {
			t.Errorf("%s: %q %s %q %v, want %q", name, text, change, others, err, c.want)
		}
	}
	if _, _, _, err := withKey(nil, "restrict"); err == nil {
		t.Error("a line without a key is taken")
	}
}

// What arrives cut off, or after another program has written, leaves the file as it is and nothing beside it.
func TestWriteScript_ReplacesOnlyWhatWasRead(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".ssh/authorized_keys")
	write := func(old, announced, sent string) (string, error) {
		cmd := exec.Command("sh", "-c", writeScript, "sh", digestOf([]byte(old)), digestOf([]byte(announced)))
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
		cmd.Stdin = strings.NewReader(sent)
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	if said, err := write("", "one\n", "one\n"); err != nil {
		t.Fatal(err, said)
	}
	for want, c := range map[string][3]string{
		"did not arrive as a whole": {"one\n", "one\ntwo\n", "one\n"},
		"changed it meanwhile":      {"none\n", "two\n", "two\n"},
	} {
		if said, err := write(c[0], c[1], c[2]); err == nil || !strings.Contains(said, want) {
			t.Errorf("%v %q, want %q", err, said, want)
		}
	}
	text, err := os.ReadFile(file)
	all, _ := filepath.Glob(filepath.Join(home, ".ssh/*"))
	if err != nil || string(text) != "one\n" || len(all) != 1 {
		t.Errorf("%q %v; there are %v", text, err, all)
	}
}

// Shells quote the commands in one way only if these are not in them.
func TestScripts_AreQuotedAlikeByEveryShell(t *testing.T) {
	if strings.ContainsAny(readScript+writeScript, "'!\n") {
		t.Error("a single quote, an exclamation mark or a line break")
	}
}
