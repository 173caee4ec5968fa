package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"cke"
)

// getOptions are the options of `cluster get`.
type getOptions struct {
	revision int64 // 0: the present one
	defaults bool
}

func newClusterGetCommand(a *app) *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get [NAME]",
		Short: "Show the stored cluster file",
		Long: `Show the stored cluster file as it was written, ready to be edited and set again.

With -o json it comes with its revision, when it was set and by whom.`,
		Args: arguments(0, 1), ValidArgsFunction: first(a.completeClusters()),
		RunE: a.onCluster(func(ctx context.Context, s store, _ []string) error {
			return runGet(ctx, a, s, o)
		}),
	}
	cmd.Flags().Int64Var(&o.revision, "revision", 0, "show this `revision`, as in `ckecli cluster log`")
	cmd.Flags().BoolVar(&o.defaults, "defaults", false, "fill in every default")
	return cmd
}

func runGet(ctx context.Context, a *app, s specs, o getOptions) error {
	name, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	spec, err := specAt(ctx, s, name, o.revision)
	if err != nil {
		return err
	}
	if o.defaults {
		spec.Cluster, spec.Source = spec.Wanted(), ""
	}
	text, err := textOf(spec)
	if err != nil {
		return err
	}
	return a.showFile(spec, name, string(text))
}

// showFile shows a cluster file: as its text, which is YAML, or as data.
func (a *app) showFile(data any, name, text string) error {
	if a.output == formatYAML {
		_, err := io.WriteString(a.stdout, text)
		return err
	}
	return a.show(view{data: data, names: []string{name}, table: func(w io.Writer, _, _ bool) error {
		_, err := io.WriteString(w, text)
		return err
	}})
}

// textOf is the text of a stored cluster file: as a user wrote it, or made from what it says.
func textOf(spec cke.Spec) ([]byte, error) {
	if spec.Source != "" {
		return []byte(spec.Source), nil
	}
	return cke.MarshalCluster(spec.Cluster)
}

// shownRevisions is how many revisions are named to somebody who asks for one that is not there.
const shownRevisions = 10

// specAt is a revision of a cluster's file; 0: the present one.
func specAt(ctx context.Context, s specs, name string, revision int64) (cke.Spec, error) {
	if revision == 0 {
		return s.Spec(ctx, name)
	}
	log, err := s.SpecLog(ctx, name)
	if err != nil {
		return cke.Spec{}, err
	}
	var there []string
	for _, spec := range log {
		if spec.Generation == revision {
			return spec, nil
		}
		there = append(there, fmt.Sprint(spec.Generation))
	}
	if len(there) > shownRevisions {
		there = append(there[:shownRevisions-1], "… "+there[len(there)-1])
	}
	return cke.Spec{}, &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("cluster %s has no revision %d", name, revision),
		Facts: []string{"there are " + strings.Join(there, ", ")}, Unchanged: true, Try: "ckecli cluster log " + name}
}
