package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/etcdnode"
	"cke/internal/term"
)

func newImagesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "images", GroupID: groupEtcd, Args: arguments(0, 0),
		Short: "List the images that clusters need, and the archives that hold them",
		Long: `List the images that clusters need, and the archives on this host that hold them, for nodes that cannot pull.
An archive is the output of "docker save", compressed or not, in images.archive_dir of the configuration file.`,
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			c, err := a.loadConfig()
			if err != nil {
				return err
			}
			return runImages(ctx, a, s, &etcdnode.Archives{Dir: c.Images.ArchiveDir})
		}),
	}
}

// image is one image that clusters need.
type image struct {
	Ref      string   `json:"ref"`
	Clusters []string `json:"clusters"`
	// Archive is the file that cke would load it from; empty: none holds it.
	Archive string `json:"archive,omitempty"`
}

func runImages(ctx context.Context, a *app, s specs, archives *etcdnode.Archives) error {
	all, err := neededImages(ctx, s)
	if err != nil {
		return err
	}
	names := []string{}
	for i := range all {
		names = append(names, all[i].Ref)
		file, _, err := archives.Find(ctx, all[i].Ref)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(a.stderr, "warning: %s: %s\n", all[i].Ref, term.Clean(err.Error()))
		}
		all[i].Archive = file
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		if len(all) == 0 {
			fmt.Fprintln(a.stderr, "There is no cluster yet, so no image is needed.")
			return nil
		}
		t := term.NewTable("IMAGE", "NEEDED BY", "ARCHIVE")
		for _, i := range all {
			held := term.Text(i.Archive)
			if i.Archive == "" {
				held = term.Styled(term.Yellow, "none in "+archives.Dir+": nodes must have it, or pull it")
			}
			t.Add(term.Text(i.Ref), term.Text(strings.Join(i.Clusters, ", ")), held)
		}
		return t.Write(w, colour)
	}})
}

// neededImages are the images of all clusters, each once.
func neededImages(ctx context.Context, s specs) ([]image, error) {
	names, err := s.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	all := []image{}
	for _, name := range names {
		spec, err := s.Spec(ctx, name)
		if errors.Is(err, cke.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		ref := spec.Wanted().Options.Etcd.Image
		i := slices.IndexFunc(all, func(i image) bool { return i.Ref == ref })
		if i < 0 {
			all = append(all, image{Ref: ref})
			i = len(all) - 1
		}
		all[i].Clusters = append(all[i].Clusters, name)
	}
	return all, nil
}
