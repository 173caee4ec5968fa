package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// aimed is a hint with --cluster, if the command cmd that gives it was told its cluster on the command line and the hint is a
// command that needs it: without it the hint would fail, or mean another cluster. A hint in words is left as it is.
func (a *app) aimed(cmd *cobra.Command, hint string) string {
	cluster := a.clusterFlag
	if cluster == "" && cmd != nil && takesCluster(cmd) && strings.Contains(cmd.Use, "NAME") {
		cluster = cmd.Flags().Arg(0)
	}
	words := strings.Fields(hint)
	if cluster == "" || len(words) < 2 || words[0] != "ckecli" || strings.ContainsAny(hint, ",;|<>&") || strings.Contains(hint, "--cluster") || strings.Contains(hint, "--help") {
		return hint
	}
	target, _, err := cmd.Root().Find(words[1:])
	if err != nil || !target.HasParent() || !target.Runnable() || takesCluster(target) || target.Name() == "help" || target.GroupID == groupSelf {
		return hint
	}
	return hint + " --cluster " + cluster
}

// takesCluster reports whether the first argument of a command is the name of a cluster, or its file.
func takesCluster(cmd *cobra.Command) bool {
	parent := cmd.Parent()
	return parent != nil && parent.Name() == "cluster" && (strings.Contains(cmd.Use, "NAME") || strings.Contains(cmd.Use, "FILE"))
}
