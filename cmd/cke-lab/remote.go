package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"cke/mtest/lab"
)

func newExecCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec NODE -- COMMAND…", Short: "Run a command as root on a node, past its network", Args: args(cobra.MinimumNArgs(2)),
		ValidArgsFunction: g.completeNodes,
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, words []string) error {
			command := withoutDashes(words[1:])
			if len(command) == 0 {
				return usageError{errors.New("exec: name a command")}
			}
			return l.Run(cmd.Context(), words[0], stdin(), cmd.OutOrStdout(), cmd.ErrOrStderr(), command...)
		}),
	}
	cmd.Flags().SetInterspersed(false) // flags after the node are the command's
	return cmd
}

// withoutDashes drops the "--" between a node and its command.
func withoutDashes(words []string) []string {
	if len(words) > 0 && words[0] == "--" {
		return words[1:]
	}
	return words
}

// stdin is what is piped into this process, or nil: a command on a node must not wait for the user's key strokes.
func stdin() io.Reader {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return os.Stdin
}

func newSSHCommand(g *global) *cobra.Command {
	var restricted bool
	cmd := &cobra.Command{
		Use: "ssh NODE [-- COMMAND…]", Short: "Log in to a node with the lab's key", Args: args(cobra.MinimumNArgs(1)),
		ValidArgsFunction: g.completeNodes,
		RunE: g.onLab(func(cmd *cobra.Command, l *lab.Lab, words []string) error {
			n, err := l.Node(words[0])
			if err != nil {
				return err
			}
			program, err := exec.LookPath("ssh")
			if err != nil {
				return fmt.Errorf("log in to %s: %w", n.Name, err)
			}
			key := n.KeyFile
			if restricted {
				key = n.RestrictedKeyFile
			}
			line := append([]string{"ssh", "-F", "none", "-i", key, "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + l.KnownHosts(),
				"-o", "StrictHostKeyChecking=yes", "-p", strconv.Itoa(n.Port), n.User + "@" + n.Address}, withoutDashes(words[1:])...)
			return syscall.Exec(program, line, os.Environ())
		}),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVar(&restricted, "restricted-key", false, "use the key that is good for the engine's socket only")
	return cmd
}
