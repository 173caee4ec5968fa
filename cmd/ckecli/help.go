package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/internal/term"
)

func newHelpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND|CODE]", GroupID: groupSelf,
		Short: "Explain a command, or the code of an error or a problem",
		Long:  "Explain a command, or the code of an error or a problem, as CKE104. `ckecli help codes` lists all codes.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && strings.EqualFold(args[0], "codes") {
				return runCodes(a)
			}
			if len(args) == 1 && isCode(args[0]) {
				return runExplain(a, args[0])
			}
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no command or code %q", strings.Join(args, " ")), "ckecli"}
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			target, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var all []cobra.Completion
			for _, c := range target.Commands() {
				if c.IsAvailableCommand() {
					all = append(all, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			if len(args) == 0 {
				for _, e := range cke.Explanations() {
					code := string(e.Code)
					if strings.HasPrefix(prefix, "c") {
						code = strings.ToLower(code)
					}
					all = append(all, cobra.CompletionWithDesc(code, e.Title))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

func isCode(s string) bool {
	return len(s) > 3 && strings.EqualFold(s[:3], "CKE") && strings.Trim(s[3:], "0123456789") == ""
}

// explanation is cke.Explanation as it is written for programs.
type explanation struct {
	Code    cke.Code `json:"code"`
	Title   string   `json:"title"`
	Meaning string   `json:"meaning"`
	WayOut  string   `json:"wayOut"`
}

func runExplain(a *app, code string) error {
	all := cke.Explanations()
	i := slices.IndexFunc(all, func(e cke.Explanation) bool { return strings.EqualFold(string(e.Code), code) })
	if i < 0 {
		return usageError{fmt.Errorf("there is no code %s; `ckecli help codes` lists all", strings.ToUpper(code)), "ckecli help"}
	}
	e := all[i]
	return a.show(view{data: explanation(e), names: []string{string(e.Code)}, table: func(w io.Writer, colour, _ bool) error {
		_, err := fmt.Fprintf(w, "%s  %s\n\n%s\n\nWay out: %s\n", term.Paint(colour, term.Bold, string(e.Code)), e.Title, e.Meaning, e.WayOut)
		return err
	}})
}

func runCodes(a *app) error {
	var all []explanation
	var names []string
	for _, e := range cke.Explanations() {
		all, names = append(all, explanation(e)), append(names, string(e.Code))
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		t := term.NewTable("CODE", "TITLE")
		for _, e := range all {
			t.Add(term.Text(string(e.Code)), term.Text(e.Title))
		}
		return t.Write(w, colour)
	}})
}
