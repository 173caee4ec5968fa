package main

import (
	"context"
	"strings"

	"cke/mtest/lab"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// usageError is a command line that means nothing.
type usageError struct{ error }

// global is what every command takes.
type global struct{ dir, name string }

func (g *global) open(cmd *cobra.Command) (*lab.Lab, error) {
	l, err := lab.Open(g.dir, g.name)
	if err != nil {
		return nil, usageError{err}
	}
	l.Progress = lab.NewProgress(cmd.ErrOrStderr())
	return l, nil
}

// onLab runs a command with the lab.
func (g *global) onLab(run func(cmd *cobra.Command, l *lab.Lab, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l, err := g.open(cmd)
		if err != nil {
			return err
		}
		defer l.Close()
		return run(cmd, l, args)
	}
}

func newRootCommand() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:           "cke-lab",
		Short:         "Real nodes on one machine: sshd and a Docker engine each, with a disk, a cable and a power switch",
		Version:       version,
		Args:          args(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&g.dir, "dir", lab.DefaultDir, "directory of the labs' state")
	root.PersistentFlags().StringVar(&g.name, "name", lab.DefaultName, "name of the lab; several can exist side by side")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newUpCommand(g), newDownCommand(g), newListCommand(g), newLabsCommand(), newSpecCommand(g), newResetCommand(g), newPruneCommand(),
		newNodesCommand(g, "kill", "Switch nodes off, as by pulling the plug", (*lab.Lab).Kill),
		newNodesCommand(g, "start", "Switch nodes on", (*lab.Lab).Start),
		newNodesCommand(g, "pause", "Freeze nodes: connections stay, nothing answers", (*lab.Lab).Pause),
		newNodesCommand(g, "unpause", "Let frozen nodes continue", (*lab.Lab).Unpause),
		newCutCommand(g),
		newNodesCommand(g, "heal", "Reconnect all cut cables of nodes", (*lab.Lab).Heal),
		newWipeCommand(g),
		newNodesCommand(g, "fill-disk", "Fill the disks of nodes to the last block", (*lab.Lab).FillDisk),
		newNodesCommand(g, "free-disk", "Free the space that fill-disk took", (*lab.Lab).FreeDisk),
		newNodesCommand(g, "hang-docker", "Stop the engines of nodes with SIGSTOP", (*lab.Lab).HangDocker),
		newNodesCommand(g, "resume-docker", "Let hung engines continue", (*lab.Lab).ResumeDocker),
		newNodesCommand(g, "restart-docker", "Restart the engines of nodes in good order", (*lab.Lab).RestartDocker),
		newNodesCommand(g, "crash-docker", "Kill the engines of nodes; they start again", (*lab.Lab).CrashDocker),
		newExecCommand(g), newSSHCommand(g),
		newLoadImageCommand(g), newEtcdImageCommand(), newNodeImageCommand(g), newGamedayCommand(g),
	)
	return root
}

func args(n cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := n(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// newNodesCommand does one thing to each of the nodes named, side by side.
func newNodesCommand(g *global, name, short string, do func(*lab.Lab, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " NODE…", Short: short, Args: args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: g.completeNodes,
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, nodes []string) error {
			each, ctx := errgroup.WithContext(cmd.Context())
			for _, n := range nodes {
				each.Go(func() error { return do(l, ctx, n) })
			}
			return each.Wait()
		}),
	}
}

func (g *global) completeNodes(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if l, err := lab.Open(g.dir, g.name); err == nil {
		for _, n := range l.Nodes() {
			names = append(names, n.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func newCutCommand(g *global) *cobra.Command {
	var c lab.Cut
	cmd := &cobra.Command{
		Use: "cut NODE", Short: "Cut a node's cable: from everything, from this machine, or from another node", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: g.completeNodes,
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, nodes []string) error {
			return l.Cut(cmd.Context(), nodes[0], c)
		}),
	}
	cmd.Flags().StringVar(&c.From, "from", lab.FromAll, "all, host (this machine) or another node")
	cmd.Flags().StringVar((*string)(&c.Direction), "direction", string(lab.Both), "in, out or both, as the node sees it")
	return cmd
}

func newWipeCommand(g *global) *cobra.Command {
	var o lab.WipeOptions
	cmd := newNodesCommand(g, "wipe", "Replace nodes with blank machines of the same name and address",
		func(l *lab.Lab, ctx context.Context, node string) error { return l.Wipe(ctx, node, o) })
	cmd.Flags().BoolVar(&o.KeepHostKey, "keep-host-key", false, "keep the host key (default: a new one)")
	return cmd
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", strings.Join(outputs, "|"))
}
