package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"cke"
)

// editor is an editor of one shell script, which finds the file in $1. Drafts go to a directory of the test's.
func (h *house) editor(script string) {
	h.t.Helper()
	h.env["EDITOR"] = "sh " + h.write("editor.sh", script)
	h.t.(*testing.T).Setenv("TMPDIR", filepath.Dir(h.write("tmp/.keep", "")))
}

// kept returns the text that a command says it has kept; "": none was.
func (h *house) kept(stderr string) string {
	h.t.Helper()
	found := regexp.MustCompile(`(?m)^What you wrote is kept in (.*)$`).FindStringSubmatch(stderr)
	left, err := filepath.Glob(filepath.Join(h.dir, "tmp", "ckecli-*"))
	if err != nil {
		h.t.Fatal(err)
	}
	if found == nil {
		if len(left) > 0 {
			h.t.Errorf("%v was left behind, and nobody was told", left)
		}
		return ""
	}
	text, err := os.ReadFile(found[1])
	if err != nil {
		h.t.Fatal(err)
	}
	if info, err := os.Stat(found[1]); err != nil || info.Mode().Perm() != 0o600 {
		h.t.Errorf("%v %v", info, err)
	}
	return string(text)
}

func (h *house) stored() cke.Spec {
	h.t.Helper()
	spec, err := h.store.Spec(h.ctx(), "prod")
	if err != nil {
		h.t.Fatal(err)
	}
	return spec
}

const older = "options: {etcd: {version: 3.6.15}}\n"

func TestEdit_StoresWhatWasSavedAndFollowsTheWork(t *testing.T) {
	h := declared(t)
	h.editor(`printf '# mine\n` + older[:len(older)-1] + `\n' >> "$1"`)
	edit := h.start("cluster", "edit", "prod")
	edit.stderr.await(t, "prod: stored as revision 2\n")
	h.lead("prod").status(ready(2))
	edit.must(exitDone)
	contains(t, edit.stdout.String(), "prod is ready: 3 members serve")
	if got := h.stored().Source; got != clusterFile+"# mine\n"+older {
		t.Errorf("stored is %q", got)
	}
	if h.kept(edit.stderr.String()) != "" {
		t.Error("a stored text was kept")
	}
}

func TestEdit_ChangesNothingWhereNothingWasChanged(t *testing.T) {
	for name, script := range map[string]string{"unchanged": "true", "emptied": `: > "$1"`, "only a note": `printf '#! a note\n' >> "$1"`} {
		t.Run(name, func(t *testing.T) {
			h := declared(t)
			h.editor(script)
			stdout, stderr := h.run(exitDone, "cluster", "edit")
			if stdout != "Nothing changed.\n" || h.kept(stderr) != "" || h.stored().Generation != 1 {
				t.Errorf("%q %q, revision %d", stdout, stderr, h.stored().Generation)
			}
		})
	}
}

func TestEdit_OpensTheTextAgainWithItsFaults(t *testing.T) {
	h := declared(t)
	// First a fault is written; the second time what is shown is put aside and the fault corrected.
	h.editor(`if grep -q '^#!' "$1"; then cp "$1" "$HOUSE/shown"; sed -i s/verzion/version/ "$1"; else echo 'options: {etcd: {verzion: 3.6.15}}' >> "$1"; fi`)
	t.Setenv("HOUSE", h.dir)
	_, stderr := h.run(exitDone, "cluster", "edit", "--no-wait")
	contains(t, stderr, "prod: stored as revision 2\n")
	if got := h.stored().Source; got != clusterFile+older || h.kept(stderr) != "" {
		t.Errorf("stored is %q", got)
	}
	shown, err := os.ReadFile(filepath.Join(h.dir, "shown"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(shown), "#! Nothing is stored yet.", "#! line ", ": options.etcd.verzion: unknown key, did you mean version?\n", "\nname: prod\n")
	// The line that is named is where the fault stands in the file as it is shown.
	var line int
	for i, text := range strings.Split(string(shown), "\n") {
		if strings.HasPrefix(text, "options:") {
			line = i + 1
		}
	}
	if want := regexp.MustCompile(`(?m)^#! line (\d+): options`).FindStringSubmatch(string(shown)); want == nil || want[1] != strconv.Itoa(line) {
		t.Errorf("the fault is on line %d, and told is %v in\n%s", line, want, shown)
	}
}

func TestEdit_GivesUpAndKeepsATextThatIsSavedAgainWithItsFaults(t *testing.T) {
	for name, c := range map[string]struct{ script, says, kept string }{
		"unknown key":   {`grep -q '^#!' "$1" || echo 'nodez: []' >> "$1"`, "error[CKE101]: 1 fault in ", clusterFile + "nodez: []\n"},
		"another name":  {`sed -i s/prod/test/ "$1"`, "error[CKE101]: the file is that of cluster prod, and its name cannot be changed to test\n", strings.Replace(clusterFile, "prod", "test", 1)},
		"editor failed": {`echo '# mine' >> "$1"; exit 3`, "error: the editor failed: sh ", clusterFile + "# mine\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := declared(t)
			h.editor(c.script)
			edit := h.start("cluster", "edit", "--no-wait")
			if edit.wait() == exitDone {
				t.Error("it is said to be done")
			}
			contains(t, edit.stderr.String(), c.says, "Nothing was changed.\n")
			if got := h.kept(edit.stderr.String()); got != c.kept {
				t.Errorf("kept is %q", got)
			}
			if h.stored().Generation != 1 {
				t.Error("it was stored")
			}
		})
	}
}

// Nobody's change is lost to another's.
func TestEdit_RefusesAndKeepsWhatSomebodyElseWasFasterThan(t *testing.T) {
	for name, c := range map[string]struct{ theirs, says string }{
		"another revision": {older, "error[CKE103]: cluster prod has revision 2, not 1\n"},
		"a comment":        {"# theirs\n", "error[CKE103]: the text of revision 1 of cluster prod has changed meanwhile, with the same meaning\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := declared(t)
			h.editor(`touch "$HOUSE/opened"; while [ ! -e "$HOUSE/go" ]; do sleep 0.02; done; echo '# mine' >> "$1"`)
			t.Setenv("HOUSE", h.dir)
			edit := h.start("cluster", "edit")
			for {
				if _, err := os.Stat(filepath.Join(h.dir, "opened")); err == nil {
					break
				}
				select {
				case <-edit.ended:
					t.Fatal(edit.stderr.String())
				default:
				}
			}
			h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", clusterFile+c.theirs))
			h.write("go", "")
			edit.must(exitRefused)
			contains(t, edit.stderr.String(), "What you wrote is kept in ", c.says, "Nothing was changed.\n")
			if got := h.kept(edit.stderr.String()); got != clusterFile+"# mine\n" {
				t.Errorf("kept is %q", got)
			}
			if got := h.stored().Source; got != clusterFile+c.theirs {
				t.Errorf("stored is %q", got)
			}
		})
	}
}

func TestEdit_KeepsWhatWasNotConfirmed(t *testing.T) {
	h := declared(t)
	h.form(h.lead("prod"))
	h.editor(`sed -i '/cp[23]/d' "$1"`)
	_, stderr := h.run(exitRefused, "cluster", "edit")
	contains(t, stderr, "error[CKE107]: removing members of prod was not confirmed\n", "Try: ckecli cluster set ", " --yes\n")
	if h.kept(stderr) == "" {
		t.Error("the text is lost")
	}
	_, stderr = h.run(exitDone, "cluster", "edit", "--yes", "--no-wait")
	contains(t, stderr, "stored as revision 2")
}

func TestEdit_NeedsAnEditorOrATerminal(t *testing.T) {
	h := declared(t)
	_, stderr := h.run(exitRefused, "cluster", "edit")
	contains(t, stderr, "error: there is no terminal to edit on, and neither VISUAL nor EDITOR names an editor\n", "Nothing was changed.\n")
}

func TestEdit_GivesTheEditorTheTerminal(t *testing.T) {
	h := declared(t)
	h.editor(`test -t 0 && test -t 1 && printf 'Editing: ' && read line && echo "# $line" >> "$1"`)
	edit := h.onTerminal("cluster", "edit", "--no-wait")
	edit.stdout.await(t, "Editing: ")
	edit.types("mine\n")
	edit.must(exitDone)
	if got := h.stored().Source; got != clusterFile+"# mine\n" {
		t.Errorf("stored is %q", got)
	}
}
