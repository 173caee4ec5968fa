package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cke"
	"cke/clusterfile"
)

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:                        "ckecli",
		Version:                    buildVersion().Version,
		Short:                      "Declare etcd clusters, and see what cke does",
		Long:                       rootLong,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Args:                       cobra.ArbitraryArgs,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE:          func(cmd *cobra.Command, _ []string) error { return a.begin(cmd) },
		RunE:                       groupRun,
	}
	root.SetVersionTemplate("ckecli {{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVar(&a.config, "config", cke.DefaultConfigFile, "configuration `file`")
	f.StringVar(&a.cluster, "cluster", "", "`name` of the cluster; needed only where there are several")
	f.StringVarP(&a.output, "output", "o", formatTable, "output `format`: "+strings.Join(formats, ", "))
	f.DurationVar(&a.timeout, "timeout", 0, "longest time to wait, as 90s or 10m; work that was started continues (default: no limit)")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{flagFault(cmd, err), cmd.CommandPath()} })
	root.AddGroup(
		&cobra.Group{ID: groupWant, Title: "Clusters and requests:"},
		&cobra.Group{ID: groupSee, Title: "Status and operations:"},
		&cobra.Group{ID: groupBackup, Title: "Backups:"},
		&cobra.Group{ID: groupEtcd, Title: "Nodes and etcd:"},
		&cobra.Group{ID: groupSelf, Title: "About ckecli:"},
	)
	root.AddCommand(
		newClusterCommand(a), newReplaceCommand(a), newTaskCommand(a), newPauseCommand(a), newResumeCommand(a), newRebootQueueCommand(a), newRepairQueueCommand(a),
		newStatusCommand(a), newPlanCommand(a), newHistoryCommand(a), newLeaderCommand(a), newPreflightCommand(a), newMonitoringCommand(a),
		newBackupCommand(a), newRestoreCommand(a), newRecoverCommand(a),
		newNodeCommand(a), newSSHKeyCommand(a), newEtcdCommand(a), newCACommand(a), newVolumeCommand(a), newImagesCommand(a), newSabakanCommand(a),
		newVersionCommand(a), newStoreCommand(a), newSupportCommand(a), newCompletionCommand(a), newManCommand(),
	)
	root.SetHelpCommand(newHelpCommand(a))
	root.SetHelpCommandGroupID(groupSelf)
	completeGlobals(a, root)
	completeNoFiles(root)
	return root
}

const rootLong = `ckecli declares etcd clusters to cke, and shows what cke observes, what it does and why.

Flags can be given as variables, too: CKECLI_CONFIG, CKECLI_CLUSTER, CKECLI_OUTPUT, CKECLI_TIMEOUT. NO_COLOR switches
colors off.

Exit codes: 0 done, 1 failed, 2 something to do (plan --detailed-exitcode), 3 degraded (status --check), 4 no leader or
no status yet, 5 quorum lost (status --check), 6 refused or not confirmed, 7 waiting timed out and the work continues,
8 store unreachable, 9 backup damaged, incomplete or missing, 64 usage, 130 interrupted.`

// Groups of commands in the help.
const (
	groupWant   = "want"
	groupSee    = "see"
	groupBackup = "backup"
	groupEtcd   = "etcd"
	groupSelf   = "self"
)

// variables are the environment variables of global flags. A flag on the command line goes before its variable.
var variables = map[string]string{
	"config": "CKECLI_CONFIG", "cluster": "CKECLI_CLUSTER", "output": "CKECLI_OUTPUT", "timeout": "CKECLI_TIMEOUT",
}

// begin fills in what the environment says and starts the clock of --timeout.
func (a *app) begin(cmd *cobra.Command) error {
	a.clusterFlag = a.cluster
	var fault error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := variables[f.Name]
		value := a.getenv(name)
		if name == "" || value == "" || f.Changed {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			fault = usageError{fmt.Errorf("variable %s: %w", name, err), cmd.CommandPath()}
		}
	})
	if fault != nil {
		return fault
	}
	a.configGiven = cmd.Flags().Changed("config")
	if !slices.Contains(formats, a.output) {
		return usageError{fmt.Errorf("output format %q is unknown; there are %s", a.output, strings.Join(formats, ", ")), cmd.CommandPath()}
	}
	if a.timeout < 0 {
		return usageError{fmt.Errorf("--timeout %s is negative", a.timeout), cmd.CommandPath()}
	}
	if a.timeout > 0 {
		ctx, cancel := a.bound(cmd.Context(), a.timeout, errTimedOut)
		a.cancel = cancel
		cmd.SetContext(ctx)
	}
	return nil
}

// flagFault says what a flag wants, in place of what Go's parsers say.
func flagFault(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		collect := func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		cmd.Flags().VisitAll(collect)
		cmd.InheritedFlags().VisitAll(collect)
		if near := clusterfile.NearestWord(unknown.GetSpecifiedName(), names); near != "" {
			return fmt.Errorf("%w, did you mean --%s?", err, near)
		}
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	wanted, known := map[string]string{
		"duration": "want a number with s, m or h, as 90s, 10m or 2h",
		"int":      "want a whole number", "int64": "want a whole number",
		"bool": "want true or false",
	}[invalid.GetFlag().Value.Type()]
	if !known {
		return err
	}
	name := "--" + invalid.GetFlag().Name
	if short := invalid.GetFlag().Shorthand; short != "" {
		name = "-" + short + ", " + name
	}
	return fmt.Errorf("%s: invalid value %q: %s", name, invalid.GetValue(), wanted)
}

// notNegative refuses a number that makes no sense below zero.
func notNegative(cmd *cobra.Command, flag string, n int) error {
	if n < 0 {
		return usageError{fmt.Errorf("%s %d is negative", flag, n), cmd.CommandPath()}
	}
	return nil
}

// namedHere are the commands here for those of CKE that have another name.
var namedHere = map[string]string{
	"etcd user-add":     "ckecli etcd user add NAME --prefix PREFIX",
	"etcd root-issue":   "ckecli etcd issue root",
	"etcd local-backup": "ckecli backup now",
}

// groupRun is what a command does that only holds others.
func groupRun(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		err := fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
		if here, renamed := namedHere[cmd.Name()+" "+args[0]]; renamed {
			err = fmt.Errorf("%w; it is `%s` here", err, here)
		} else if close := cmd.SuggestionsFor(args[0]); len(close) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(close, " or "))
		} else if top, _, _ := cmd.Root().Find(args[:1]); cmd.HasParent() && top != cmd.Root() {
			err = fmt.Errorf("%w; did you mean `%s`?", err, top.CommandPath())
		}
		return usageError{err, cmd.CommandPath()}
	}
	if !cmd.HasParent() {
		return cmd.Help()
	}
	var all []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			all = append(all, c.Name())
		}
	}
	return usageError{fmt.Errorf("%s needs a command: %s", cmd.CommandPath(), strings.Join(all, ", ")), cmd.CommandPath()}
}

// newGroup makes a command that only holds others.
func newGroup(use, group, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, GroupID: group, Short: short, Args: cobra.ArbitraryArgs, RunE: groupRun, SuggestionsMinimumDistance: 2}
	cmd.AddCommand(commands...)
	return cmd
}

// arguments makes a wrong number of arguments a usage error; most < 0: there may be any number.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError{fmt.Errorf("an argument is missing; usage: %s", cmd.UseLine()), cmd.CommandPath()}
		case most == 0 && len(args) > 0:
			return usageError{fmt.Errorf("%s takes no argument, but %q is given", cmd.CommandPath(), args[0]), cmd.CommandPath()}
		case most > 0 && len(args) > most:
			return usageError{fmt.Errorf("%q is one argument too many; usage: %s", args[most], cmd.UseLine()), cmd.CommandPath()}
		}
		return nil
	}
}
