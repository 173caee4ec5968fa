package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"cke/mtest/lab"

	"github.com/docker/go-units"
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

func newRootCommand() *cobra.Command {
	g := &global{}
	root := &cobra.Command{
		Use:           "cke-lab",
		Short:         "Real nodes on one machine: sshd and a Docker engine each, with a disk, a cable and a power switch",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().StringVar(&g.dir, "dir", lab.DefaultDir, "directory of the labs' state")
	root.PersistentFlags().StringVar(&g.name, "name", lab.DefaultName, "name of the lab; several stand side by side")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newUpCommand(g), newDownCommand(g), newListCommand(g), newLabsCommand(), newSpecCommand(g), newResetCommand(g), newPruneCommand(),
		newNodesCommand(g, "kill", "Switch nodes off, as by pulling the plug", (*lab.Lab).Kill),
		newNodesCommand(g, "start", "Switch nodes on", (*lab.Lab).Start),
		newNodesCommand(g, "pause", "Freeze nodes: connections stay, nothing answers", (*lab.Lab).Pause),
		newNodesCommand(g, "unpause", "Let frozen nodes go on", (*lab.Lab).Unpause),
		newCutCommand(g),
		newNodesCommand(g, "heal", "Mend all cut cables of nodes", (*lab.Lab).Heal),
		newWipeCommand(g),
		newNodesCommand(g, "fill-disk", "Fill the disks of nodes to the last block", (*lab.Lab).FillDisk),
		newNodesCommand(g, "free-disk", "Take back what fill-disk did", (*lab.Lab).FreeDisk),
		newNodesCommand(g, "hang-docker", "Stop the engines of nodes with SIGSTOP", (*lab.Lab).HangDocker),
		newNodesCommand(g, "resume-docker", "Let hung engines go on", (*lab.Lab).ResumeDocker),
		newNodesCommand(g, "restart-docker", "Restart the engines of nodes in good order", (*lab.Lab).RestartDocker),
		newNodesCommand(g, "crash-docker", "Kill the engines of nodes; they start again", (*lab.Lab).CrashDocker),
		newExecCommand(g), newSSHCommand(g),
		newLoadImageCommand(g), newEtcdImageCommand(), newNodeImageCommand(g),
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
		RunE: func(cmd *cobra.Command, nodes []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			each, ctx := errgroup.WithContext(cmd.Context())
			for _, n := range nodes {
				each.Go(func() error { return do(l, ctx, n) })
			}
			return each.Wait()
		},
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

func newUpCommand(g *global) *cobra.Command {
	var o lab.UpOptions
	var disk, output string
	cmd := &cobra.Command{
		Use: "up", Short: "Make the lab, or grow it, and switch all nodes on", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Disk, err = parseDisk(disk); err != nil {
				return usageError{err}
			}
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			if err := l.Up(cmd.Context(), o); err != nil {
				return err
			}
			return runList(cmd.Context(), l, cmd.OutOrStdout(), output)
		},
	}
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "how many nodes there should be at least")
	cmd.Flags().StringVar(&disk, "disk", units.BytesSize(float64(lab.DefaultDisk)), `size of each new node's disk; "none" leaves it to this machine's disk`)
	cmd.Flags().StringSliceVar(&o.Etcd, "etcd", nil, "etcd versions whose images new nodes carry")
	outputFlag(cmd, &output)
	return cmd
}

func parseDisk(s string) (int64, error) {
	if s == "none" {
		return lab.Unbounded, nil
	}
	n, err := units.RAMInBytes(s)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("--disk %s: want a size such as 600MiB, or none", s)
	}
	return n, nil
}

func newDownCommand(g *global) *cobra.Command {
	var images bool
	cmd := &cobra.Command{
		Use: "down", Short: "Remove the lab with its disks, network and state", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			if err := l.Down(cmd.Context()); err != nil || !images {
				return err
			}
			return l.RemoveImages(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&images, "images", false, "also remove the node images from the local engine")
	return cmd
}

func newResetCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "reset", Short: "Bring all nodes back to how they came up, quickly", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			return l.Reset(cmd.Context())
		},
	}
}

func newCutCommand(g *global) *cobra.Command {
	var c lab.Cut
	cmd := &cobra.Command{
		Use: "cut NODE", Short: "Cut a node's cable: from everything, from this machine, or from another node", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: g.completeNodes,
		RunE: func(cmd *cobra.Command, nodes []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			return l.Cut(cmd.Context(), nodes[0], c)
		},
	}
	cmd.Flags().StringVar(&c.From, "from", lab.FromAll, "all, host (this machine) or another node")
	cmd.Flags().StringVar((*string)(&c.Direction), "direction", string(lab.Both), "in, out or both, as the node sees it")
	return cmd
}

func newWipeCommand(g *global) *cobra.Command {
	var o lab.WipeOptions
	cmd := newNodesCommand(g, "wipe", "Replace nodes by blank machines of the same name and address",
		func(l *lab.Lab, ctx context.Context, node string) error { return l.Wipe(ctx, node, o) })
	cmd.Flags().BoolVar(&o.KeepHostKey, "keep-host-key", false, "keep the host key, which is new otherwise")
	return cmd
}

func newLoadImageCommand(g *global) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "load-image [NODE…] FILE | [NODE…] --etcd VERSION", Short: "Load a docker archive into nodes; none named means all",
		RunE: func(cmd *cobra.Command, nodes []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			var archive string
			switch {
			case version != "":
				img, err := lab.EtcdImage(cmd.Context(), version, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				archive = img.Archive
			case len(nodes) == 0:
				return usageError{errors.New("name a docker archive, or a version with --etcd")}
			default:
				archive, nodes = nodes[len(nodes)-1], nodes[:len(nodes)-1]
			}
			return l.LoadImage(cmd.Context(), archive, nodes...)
		},
	}
	cmd.Flags().StringVar(&version, "etcd", "", "load the etcd image of this version, built if need be")
	return cmd
}

func newEtcdImageCommand() *cobra.Command {
	var out string
	var load bool
	cmd := &cobra.Command{
		Use: "etcd-image VERSION…", Short: "Build etcd images as docker archives; prints their paths", Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, versions []string) error {
			if out != "" && len(versions) != 1 {
				return usageError{errors.New("--out takes one version")}
			}
			for _, v := range versions {
				img, err := lab.EtcdImage(cmd.Context(), v, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				if load {
					if err := lab.LoadHere(cmd.Context(), img.Archive); err != nil {
						return err
					}
				}
				if out != "" {
					if err := copyFile(img.Archive, out); err != nil {
						return err
					}
					img.Archive = out
				}
				fmt.Fprintln(cmd.OutOrStdout(), img.Archive)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "copy the archive to this file")
	cmd.Flags().BoolVar(&load, "load", false, "also load it into this machine's engine")
	return cmd
}

func newNodeImageCommand(g *global) *cobra.Command {
	var versions []string
	cmd := &cobra.Command{
		Use: "node-image", Short: "Build the image of nodes ahead of time; prints its name", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := g.open(cmd)
			if err != nil {
				return err
			}
			defer l.Close()
			ref, err := l.NodeImage(cmd.Context(), versions...)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), ref)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&versions, "etcd", nil, "etcd versions whose images nodes carry")
	return cmd
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", strings.Join(outputs, "|"))
}
