package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cke"
)

// Every hint that is written as a command is one: the command is there, takes these flags and this many arguments.
func TestHints_AreCommands(t *testing.T) {
	hints := map[string]string{} // to where they stand
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literal := regexp.MustCompile(`(?:Try:|try:|a\.again\(\w+,|how =|how :=) *"((?:[^"\\\\]|\\\\.)*)"( *\+)?`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			hint := m[1]
			if strings.Contains(m[0], "again(") {
				hint = "ckecli " + hint
			}
			if m[2] != "" {
				hint += "X"
			}
			hints[hint] = file
		}
	}
	for _, e := range cke.Explanations() {
		for _, m := range regexp.MustCompile("`(ckecli [^`]*)`").FindAllStringSubmatch(e.Meaning+" "+e.WayOut, -1) {
			hints[m[1]] = string(e.Code)
		}
	}
	checked := 0
	for hint, where := range hints {
		if !strings.HasPrefix(hint, "ckecli ") || strings.ContainsAny(hint, ",;|>&%…") {
			continue
		}
		checked++
		args := strings.Fields(hint)[1:]
		for i := range args {
			if args[i] = strings.Trim(args[i], "[]"); args[i] == "N" {
				args[i] = "1"
			}
		}
		cmd, rest, err := newRootCommand(&app{getenv: func(string) string { return "" }}).Find(args)
		if err != nil || !cmd.HasParent() {
			t.Errorf("%s: %q is no command: %v", where, hint, err)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", where, hint, err)
			continue
		}
		if cmd.Args != nil && len(cmd.Flags().Args()) > 0 {
			if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %q: %v", where, hint, err)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d hints were found", checked)
	}
}

func TestHints_NameTheirCluster(t *testing.T) {
	for _, c := range []struct{ flag, command, arg, hint, want string }{
		{"one", "status", "", "ckecli node list", "ckecli node list --cluster one"},
		{"", "status", "", "ckecli node list", "ckecli node list"},
		{"one", "status", "", "ckecli restore --cluster one", "ckecli restore --cluster one"},
		{"one", "status", "", "ckecli help CKE104", "ckecli help CKE104"},
		{"one", "status", "", "ckecli cluster evidence one", "ckecli cluster evidence one"},
		{"one", "status", "", "ckecli cluster get > FILE, then ckecli cluster set FILE", "ckecli cluster get > FILE, then ckecli cluster set FILE"},
		{"", "cluster delete", "one", "ckecli node list", "ckecli node list --cluster one"},
		{"one", "status", "", "name one with --cluster, or in CKECLI_CLUSTER", "name one with --cluster, or in CKECLI_CLUSTER"},
	} {
		a := &app{getenv: func(string) string { return "" }}
		cmd, _, err := newRootCommand(a).Find(strings.Fields(c.command))
		a.clusterFlag = c.flag
		if err != nil {
			t.Fatal(err)
		}
		if c.arg != "" {
			if err := cmd.ParseFlags([]string{c.arg}); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.aimed(cmd, c.hint); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.command, c.arg, got, c.want)
		}
	}
}
