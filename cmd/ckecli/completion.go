package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionLimit bounds what pressing Tab waits for.
const completionLimit = 2 * time.Second

func newCompletionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", GroupID: groupSelf,
		Short: "Write a shell's completion script",
		Long: `Write the completion script of a shell. That of bash needs the package bash-completion.

  bash:  ckecli completion bash > /etc/bash_completion.d/ckecli
  zsh:   ckecli completion zsh > "${fpath[1]}/_ckecli"
  fish:  ckecli completion fish > ~/.config/fish/completions/ckecli.fish`,
		Args: arguments(1, 1), ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
			return usageError{fmt.Errorf("there is no completion for %q", args[0]), cmd.CommandPath()}
		},
	}
}

// completion answers what may stand in a place.
type completion = func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete asks the store; trouble completes nothing.
func (a *app) complete(ask func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error)) completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if err := a.begin(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		s, err := a.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		cluster, _ := a.theCluster(ctx, s)
		all, err := ask(ctx, s, cluster)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// first completes only the first argument.
func first(c completion) completion {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c(cmd, args, prefix)
	}
}

func (a *app) completeClusters() completion {
	return a.complete(func(ctx context.Context, s store, _ string) ([]cobra.Completion, error) {
		names, err := s.Clusters(ctx)
		return names, err
	})
}

func (a *app) completeNodes() completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		spec, err := s.Spec(ctx, cluster)
		var all []cobra.Completion
		for _, n := range spec.Cluster.Nodes {
			all = append(all, cobra.CompletionWithDesc(n.Name(), n.Address))
		}
		return all, err
	})
}

// completedRecords is how many records, or revisions, are offered.
const completedRecords = 30

func (a *app) completeRecords() completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		records, err := s.Records(ctx, cluster, completedRecords)
		var all []cobra.Completion
		for _, r := range records {
			all = append(all, cobra.CompletionWithDesc(fmt.Sprint(r.ID), fmt.Sprintf("%s, %s, %s ago", r.Operation, r.State, a.ago(r.StartedAt))))
		}
		return all, err
	})
}

func (a *app) completeRevisions() completion {
	return a.complete(func(ctx context.Context, s store, cluster string) ([]cobra.Completion, error) {
		log, err := s.SpecLog(ctx, cluster)
		var all []cobra.Completion
		for _, spec := range log[:min(len(log), completedRecords)] {
			all = append(all, cobra.CompletionWithDesc(fmt.Sprint(spec.Generation), fmt.Sprintf("set %s ago by %s", a.ago(spec.SetAt), spec.SetBy)))
		}
		return all, err
	})
}

// completeBackups offers the ids in the target that the command line names.
func (a *app) completeBackups(o *backupOptions) completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if err := a.begin(cmd); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
		defer cancel()
		b, err := a.openBackups(ctx, *o)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer b.Close()
		s, err := b.store(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		lineages, err := s.Lineages(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var all []cobra.Completion
		for _, l := range lineages {
			for _, f := range l.Fulls {
				all = append(all, cobra.CompletionWithDesc(f.ID(), "taken "+a.ago(f.Time)+" ago"))
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeGlobals completes the values of global flags.
func completeGlobals(a *app, root *cobra.Command) {
	must(root.RegisterFlagCompletionFunc("cluster", a.completeClusters()))
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	must(root.RegisterFlagCompletionFunc("timeout", cobra.NoFileCompletions))
}

// completeNoFiles offers files only where a file is required.
func completeNoFiles(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil && cmd.ValidArgs == nil && !strings.Contains(cmd.Use, "FILE") && !strings.Contains(cmd.Use, "DIR") {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, c := range cmd.Commands() {
		completeNoFiles(c)
	}
}

// must is for what can only fail by a fault in this program.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
