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

func TestDocs_NameEveryCommandAndFlag(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if !cmd.HasSubCommands() && !strings.Contains(docs, "`"+cmd.CommandPath()) {
			t.Errorf("docs/cli.md does not name `%s`", cmd.CommandPath())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(docs, "--"+f.Name) && !strings.Contains(docs, "-"+f.Shorthand) {
				t.Errorf("docs/cli.md does not name --%s of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRootCommand(renderer()))
	for _, name := range variables {
		if !strings.Contains(docs, name) {
			t.Errorf("docs/cli.md does not name %s", name)
		}
	}
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
