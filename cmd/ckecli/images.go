package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cke/cmd/ckecli/internal/archive"
	"cke/cmd/ckecli/internal/term"
)

func newImagesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "images", GroupID: groupEtcd, Args: usage(cobra.NoArgs),
		Short: "List the images that clusters need, and the archives that hold them",
		Long: `List the images that clusters need, and the archives on this host that hold them, for nodes that cannot pull.
An archive is the output of "docker save", compressed with gzip or not, in images.archive_dir.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.loadConfig()
			if err != nil {
				return err
			}
			s, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			return runImages(cmd.Context(), a, s, c.Images.ArchiveDir)
		},
	}
}

// image is one image, needed or archived.
type image struct {
	Ref      string   `json:"ref"`
	Clusters []string `json:"clusters"`
	Archives []string `json:"archives"`
}

func runImages(ctx context.Context, a *app, s specs, dir string) error {
	all, err := neededImages(ctx, s)
	if err != nil {
		return err
	}
	files, err := archiveFiles(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		refs, err := archive.Refs(file)
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: %s: %s\n", file, term.Clean(err.Error()))
		}
		for _, ref := range refs {
			i := slices.IndexFunc(all, func(i image) bool { return archive.Same(i.Ref, ref) })
			if i < 0 {
				all = append(all, image{Ref: ref, Clusters: []string{}, Archives: []string{}})
				i = len(all) - 1
			}
			all[i].Archives = append(all[i].Archives, file)
		}
	}
	names := []string{}
	for _, i := range all {
		names = append(names, i.Ref)
	}
	return a.show(view{data: all, names: names, table: func(w io.Writer, colour, _ bool) error {
		if len(all) == 0 {
			fmt.Fprintf(a.stderr, "No cluster needs an image yet, and %s holds none.\n", dir)
			return nil
		}
		t := term.NewTable("IMAGE", "NEEDED BY", "ARCHIVE")
		for _, i := range all {
			held := term.Styled(term.Yellow, "none: nodes must have it, or pull it")
			if len(i.Archives) > 0 || len(i.Clusters) == 0 {
				held = term.Text(strings.Join(i.Archives, ", "))
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
		if err != nil {
			return nil, err
		}
		ref := spec.Cluster.WithDefaults().Options.Etcd.Image
		i := slices.IndexFunc(all, func(i image) bool { return archive.Same(i.Ref, ref) })
		if i < 0 {
			all = append(all, image{Ref: ref, Archives: []string{}})
			i = len(all) - 1
		}
		all[i].Clusters = append(all[i].Clusters, name)
	}
	return all, nil
}

// archiveFiles are the archives in dir, sorted; a directory that is not there holds none.
func archiveFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("look for archives: %w", err)
	}
	var all []string
	for _, e := range entries {
		if !e.IsDir() && archive.Is(e.Name()) {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all, nil
}
