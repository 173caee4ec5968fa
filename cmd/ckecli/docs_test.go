package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cke"
)

// The section of a command has each of its flags by its long name. --no-wait, which many have, is among the conventions.
func TestDocs_NameEveryCommandAndFlag(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	var visit func(cmd *cobra.Command, above string)
	visit = func(cmd *cobra.Command, above string) {
		if !cmd.HasSubCommands() && !strings.Contains(docs, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not name `%s`", cmd.CommandPath())
		}
		section := sectionOf(docs, cmd)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			named := regexp.MustCompile(`[^\w-]--` + f.Name + `[^\w-]`)
			if f.Name != "no-wait" && !named.MatchString(above+section) {
				t.Errorf("docs/cli.md does not name --%s in the section of %s", f.Name, cmd.CommandPath())
			}
		})
		if cmd.HasParent() {
			start, _, _ := strings.Cut(section, "\n### ")
			above += start
		}
		for _, c := range cmd.Commands() {
			visit(c, above)
		}
	}
	visit(newRootCommand(renderer()), "")
	for _, name := range variables {
		if !strings.Contains(docs, name) {
			t.Errorf("docs/cli.md does not name %s", name)
		}
	}
}

// sectionOf returns the section of docs/cli.md whose heading has a command, else the one of the command above it, or the last one.
func sectionOf(docs string, cmd *cobra.Command) string {
	heading := "### .*`" + cmd.CommandPath() + "[ `]"
	switch {
	case !cmd.HasParent():
		heading = "## Conventions\n"
	case !cmd.Parent().HasParent():
		heading += "|## .*\\b" + cmd.Name() + "\\b"
	}
	at := regexp.MustCompile("\n(" + heading + ")").FindStringIndex(docs)
	switch {
	case at != nil:
	case cmd.Parent().HasParent():
		return sectionOf(docs, cmd.Parent())
	default:
		return docs[strings.LastIndex(docs, "\n## "):]
	}
	section, next := docs[at[0]:], regexp.MustCompile("\n##? ")
	if strings.HasPrefix(section, "\n###") {
		next = regexp.MustCompile("\n##?#? ")
	}
	if end := next.FindStringIndex(section[1:]); end != nil {
		section = section[:end[0]+2]
	}
	return section
}

// A command without Args ignores arguments, and one without a group is listed apart from the others.
func TestCommands_HaveArgsAndAGroup(t *testing.T) {
	root := newRootCommand(renderer())
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Args == nil {
			t.Errorf("`%s` has no Args", cmd.CommandPath())
		}
		if cmd.Parent() == root && !cmd.Hidden && cmd.GroupID == "" {
			t.Errorf("`%s` has no GroupID", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(root)
}

// What an explanation tells a person to try is there to be tried.
func TestHelp_NamesCommandsThatAreThere(t *testing.T) {
	root := newRootCommand(renderer())
	command := regexp.MustCompile("`ckecli ([^`]+)`")
	for _, e := range cke.Explanations() {
		for _, m := range command.FindAllStringSubmatch(e.Meaning+" "+e.WayOut, -1) {
			words := strings.Fields(m[1])
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() {
				t.Errorf("%s: there is no `ckecli %s`", e.Code, m[1])
				continue
			}
			for _, w := range rest {
				if name, flag := strings.CutPrefix(w, "--"); flag && cmd.Flags().Lookup(name) == nil {
					t.Errorf("%s: `ckecli %s` has no --%s", e.Code, cmd.Name(), name)
				}
			}
		}
	}
}

// A member that is lost for good is given up for a fresh one: whoever looks up why it does not serve has to find that.
func TestHelp_TellsHowToGiveAMemberUp(t *testing.T) {
	for _, code := range []cke.Code{cke.CodeUnreachable, cke.CodeDataMissing, cke.CodeEtcdExited, cke.CodeQuorum} {
		for _, e := range cke.Explanations() {
			if e.Code == code && !strings.Contains(e.WayOut, "`ckecli replace NODE`") {
				t.Errorf("%s: %s", code, e.WayOut)
			}
		}
	}
}

// A refusal names the way out, wherever in cke it is made: what it says is there.
func TestRefusals_NameCommandsThatAreThere(t *testing.T) {
	root := newRootCommand(renderer())
	root.InitDefaultHelpCmd()
	quoted := regexp.MustCompile("`(ckecli [^`]+)`|^(ckecli .+)$")
	check := func(where token.Position, text string) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			whole := m[1] + m[2]
			cmd, _, err := root.Find(strings.Fields(whole)[1:])
			unfinished := strings.HasSuffix(text, " ") || strings.Contains(whole, "%") // the rest is put in later
			if err != nil || cmd == root && !strings.HasPrefix(whole, "ckecli --") && !unfinished || cmd != root && cmd.HasSubCommands() && !unfinished && whole != cmd.CommandPath() {
				t.Errorf("%s: there is no `%s`", where, whole)
			}
		}
	}
	for _, dir := range []string{".", "server", "op", "plan", "etcdnode", "storage", "pki", "backup", "backup/keep", "backup/take", "backup/target", "cmd/cke", "cmd/ckecli"} {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING && lit.Value[0] == '"' {
					text, _ := strconv.Unquote(lit.Value) // it was parsed
					check(set.Position(lit.Pos()), text)
				}
				return true
			})
		}
	}
}
