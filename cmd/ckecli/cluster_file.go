package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"cke"
	"cke/clusterfile"
	"cke/plan"
)

// edition is the text of a cluster file on its way into the store.
type edition struct {
	cluster cke.Cluster
	text    []byte
	// name is what users know the text by: a file or a revision.
	name string
	// set stores the text and plan shows what would be done with it: command lines without ckecli.
	set, plan string
	// as is the earlier revision that the text is of; nil: it is a new one.
	as *cke.Spec
}

// after is the revision that the text becomes after the stored one; the same number where it means the same.
func (e edition) after(stored cke.Spec) cke.Spec {
	was := stored
	if e.as != nil {
		was = *e.as
	}
	next := stored.Following(e.cluster, was)
	if stored.Generation > 0 && len(plan.Changes(stored.Wanted(), next.Wanted())) == 0 {
		next.Generation = stored.Generation
	}
	return next
}

func fileEdition(file string, c cke.Cluster, text []byte) edition {
	return edition{cluster: c, text: text, name: fileName(file), set: "cluster set " + file, plan: "plan " + file}
}

// readCluster reads and checks a cluster file; "-" is standard input. Warnings are shown.
func (a *app) readCluster(ctx context.Context, file string) (cke.Cluster, []byte, error) {
	data, err := a.readFile(ctx, file)
	if err != nil {
		return cke.Cluster{}, nil, err
	}
	c, err := a.parseCluster(fileName(file), data)
	return c, data, err
}

// parseCluster checks the text of a cluster file that users know by a name. Warnings are shown.
func (a *app) parseCluster(name string, text []byte) (cke.Cluster, error) {
	c, warnings, err := clusterfile.ParseCluster(name, text)
	for _, w := range warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", w)
	}
	var coded *cke.Error
	if errors.As(err, &coded) {
		coded.Unchanged = true
	}
	return c, err
}

func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// maxFile bounds what is read from a file or standard input, in bytes.
const maxFile = 1 << 20

// readFile reads a file, or standard input for "-". Reading what a user types ends with ctx, too.
func (a *app) readFile(ctx context.Context, file string) ([]byte, error) {
	in := a.stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &cke.Error{What: "cannot read " + file, Unchanged: true, Err: plainError(err)}
		}
		defer f.Close()
		in = f
	}
	var data []byte
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		data, err = io.ReadAll(io.LimitReader(in, maxFile+1))
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case err != nil:
		return nil, &cke.Error{Code: cke.CodeConfig, What: "cannot read " + fileName(file), Unchanged: true, Err: plainError(err)}
	case len(data) > maxFile:
		return nil, &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("%s is larger than %d bytes", fileName(file), maxFile), Unchanged: true}
	}
	return data, nil
}

// plainError is err without the operation and the path that the message has already.
func plainError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
