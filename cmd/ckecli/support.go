package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"cke"
)

// partLimit bounds the gathering of one part of a bundle.
const partLimit = 20 * time.Second

func newSupportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "support-bundle [FILE]", GroupID: groupSelf, Short: "Pack what is known of a cluster, without secrets, for whoever is to help",
		Long: `Pack what is known of a cluster into FILE (.tar.gz, mode 0600; default: a name with cluster and time, here): status, plan,
history with its steps, cluster file and revisions, leader, tasks, configuration, versions, what each node and member says now,
the end of the members' logs, and the metrics of the daemon of this host.

What cannot be reached is a file that says why; neither a leader nor an answering store is needed. Keys, passwords and
credentials are left out, as are the values in extra_env and a person's comments in the cluster file. Names and addresses
of nodes are in it.`,
		Example: "  ckecli support-bundle\n  ckecli support-bundle --cluster prod /tmp/prod.tar.gz",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			return runSupport(cmd.Context(), a, file)
		},
	}
}

// entry is a file of a bundle, or why it is not there.
type entry struct {
	Name    string `json:"name"`
	Bytes   int    `json:"bytes"`
	Problem string `json:"problem,omitempty"`

	data []byte
}

// part gathers some entries; name is what stands for them when it fails.
type part struct {
	name   string
	gather func(ctx context.Context) ([]entry, error)
}

// bundleResult is what `support-bundle` writes for programs, and what stands in the bundle as its list.
type bundleResult struct {
	File    string    `json:"file"`
	Cluster string    `json:"cluster"`
	MadeAt  time.Time `json:"madeAt"`
	MadeBy  string    `json:"madeBy"`
	Entries []entry   `json:"entries"`
}

func runSupport(ctx context.Context, a *app, file string) error {
	w, err := a.witness(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	r := bundleResult{File: file, Cluster: w.cluster, MadeAt: a.now().UTC().Truncate(time.Second), MadeBy: a.whoami()}
	base := fmt.Sprintf("cke-support-%s-%s", cmp.Or(w.cluster, "unknown"), r.MadeAt.Format("20060102-150405"))
	if r.File == "" {
		r.File = base + ".tar.gz"
	}
	if _, err := os.Lstat(r.File); err == nil {
		return &cke.Error{Code: cke.CodeConfirm, What: r.File + " is there already", Unchanged: true, Try: "another name"}
	}
	if info, err := os.Stat(filepath.Dir(r.File)); err != nil || !info.IsDir() {
		return refused(&cke.Error{What: "there is no directory " + filepath.Dir(r.File) + " to write the bundle to", Unchanged: true})
	}
	r.Entries = gatherAll(ctx, w.parts())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	packed, err := pack(base, r, w.scrub)
	if err != nil {
		return fmt.Errorf("pack the bundle: %w", err)
	}
	if err := writeFile(r.File, 0o600, packed); err != nil {
		return fmt.Errorf("write %s: %w", r.File, err)
	}
	for _, e := range r.Entries {
		if e.Problem != "" {
			fmt.Fprintf(a.stderr, "missing: %s: %s\n", e.Name, e.Problem)
		}
	}
	return a.showLine(r, r.File, r.File)
}

// gatherAll gathers all parts at the same time; what fails is an entry that says why.
func gatherAll(ctx context.Context, parts []part) []entry {
	results := make([][]entry, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, partLimit)
			defer cancel()
			got, err := p.gather(ctx)
			if err != nil {
				got = append(got, entry{Name: p.name, Problem: oneLine(err)})
			}
			results[i] = got
		})
	}
	wg.Wait()
	all := slices.Concat(results...)
	for i := range all {
		all[i].Bytes = len(all[i].data)
	}
	return all
}

// oneLine is an error with its code, where it has one.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	var coded *cke.Error
	if errors.As(err, &coded) && coded.Code != "" {
		text += " [" + string(coded.Code) + "]"
	}
	return text
}

// pack makes a compressed archive of the entries and their list.
func pack(base string, r bundleResult, scrub scrubber) ([]byte, error) {
	for i := range r.Entries {
		r.Entries[i].Problem = string(scrub.text([]byte(r.Entries[i].Problem)))
	}
	list, err := scrub.json(r)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	add := func(name string, data []byte) error {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(base, name), Mode: 0o600, Size: int64(len(data)), ModTime: r.MadeAt})
		if err == nil {
			_, err = io.Copy(w, bytes.NewReader(data))
		}
		return err
	}
	err = add("bundle.json", list)
	for _, e := range r.Entries {
		if err != nil {
			return nil, err
		}
		if e.Problem != "" {
			err = add(e.Name+".missing.txt", []byte(e.Problem+"\n"))
		} else {
			err = add(e.Name, e.data)
		}
	}
	err = errors.Join(err, w.Close(), z.Close())
	return b.Bytes(), err
}
