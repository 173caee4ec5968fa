package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"
)

// LoadImage loads a docker archive ("docker save", Image.Archive) into the engines of nodes, side by side; no nodes
// named means all of the lab. Loading what is there already is quick and changes nothing.
func (l *Lab) LoadImage(ctx context.Context, archive string, nodes ...string) error {
	if len(nodes) == 0 {
		for _, n := range l.Nodes() {
			nodes = append(nodes, n.Name)
		}
	}
	if _, err := os.Stat(archive); err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	return l.Progress.step(fmt.Sprintf("Load %s into %s", filepath.Base(archive), countNodes(len(nodes))), func() error {
		g, ctx := errgroup.WithContext(ctx)
		for _, n := range nodes {
			g.Go(func() error { return l.loadInto(ctx, n, archive) })
		}
		return g.Wait()
	})
}

// loadInto loads an archive into one node, given as a person would name it.
func (l *Lab) loadInto(ctx context.Context, node, archive string) error {
	n, err := l.node(node)
	if err != nil {
		return err
	}
	if err := l.needRunning(ctx, n.Name); err != nil {
		return err
	}
	return l.loadFile(ctx, n.Name, archive)
}

func (l *Lab) loadFile(ctx context.Context, containerName, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	var stderr bytes.Buffer
	if err := l.run(ctx, containerName, f, nil, &stderr, "docker", "load", "--quiet"); err != nil {
		return fmt.Errorf("load %s into %s: %w: %s", archive, containerName, err, lastLines(stderr.String(), 1))
	}
	return nil
}

// LoadHere loads a docker archive into this machine's own engine.
func LoadHere(ctx context.Context, archive string) error {
	docker, err := connect(ctx)
	if err != nil {
		return err
	}
	defer docker.Close()
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	answer, err := docker.ImageLoad(ctx, f, client.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("load %s: %w", archive, err)
	}
	defer answer.Body.Close()
	return readStream(answer.Body)
}
