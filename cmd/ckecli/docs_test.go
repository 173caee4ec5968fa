package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
