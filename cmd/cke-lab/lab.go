package main

import (
	"fmt"

	"cke/mtest/lab"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
)

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
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, _ []string) error {
			if err := l.Down(cmd.Context()); err != nil || !images {
				return err
			}
			return l.RemoveImages(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&images, "images", false, "also remove the node images from the local engine")
	return cmd
}

func newResetCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "reset", Short: "Reset all nodes to their state at the start, quickly", Args: args(cobra.NoArgs),
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, _ []string) error {
			return l.Reset(cmd.Context())
		}),
	}
}
