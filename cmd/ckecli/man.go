package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// newManCommand is hidden: it is for those who make packages.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true, Args: arguments(1, 1),
		Short: "Write the manual pages into a directory",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			header := &doc.GenManHeader{Title: "CKECLI", Section: "1", Source: "cke", Manual: "cke"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages to %s: %w", args[0], err)
			}
			return nil
		},
	}
}
