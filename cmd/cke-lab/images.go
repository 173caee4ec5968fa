package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"cke/mtest/lab"

	"github.com/spf13/cobra"
)

func newLoadImageCommand(g *global) *cobra.Command {
	var version string
	cmd := &cobra.Command{
		Use: "load-image [NODE…] FILE | [NODE…] --etcd VERSION", Short: "Load a docker archive into nodes; none named means all",
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, nodes []string) error {
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
		}),
	}
	cmd.Flags().StringVar(&version, "etcd", "", "load the etcd image of this version, built if necessary")
	return cmd
}

func newEtcdImageCommand() *cobra.Command {
	var out, binaries string
	var load bool
	cmd := &cobra.Command{
		Use: "etcd-image VERSION…", Short: "Build etcd images as docker archives; prints their paths", Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, versions []string) error {
			if out+binaries != "" && len(versions) != 1 {
				return usageError{errors.New("--out and --binaries take one version")}
			}
			for _, v := range versions {
				img, err := lab.EtcdImage(cmd.Context(), v, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				if binaries != "" {
					if err := img.Binaries(binaries); err != nil {
						return err
					}
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
	cmd.Flags().StringVar(&binaries, "binaries", "", "also write etcd, etcdctl and etcdutl into this directory")
	cmd.Flags().BoolVar(&load, "load", false, "also load it into this machine's engine")
	return cmd
}

func newNodeImageCommand(g *global) *cobra.Command {
	var versions []string
	cmd := &cobra.Command{
		Use: "node-image", Short: "Build the image of nodes ahead of time; prints its name", Args: args(cobra.NoArgs),
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, _ []string) error {
			ref, err := l.NodeImage(cmd.Context(), versions...)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), ref)
			return nil
		}),
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
