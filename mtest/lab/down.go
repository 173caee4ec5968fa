package lab

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"
)

// remove deletes a container and its volumes. One that is not there is fine.
func (l *Lab) remove(ctx context.Context, containerName string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	err = docker.ContainerRemove(ctx, containerName, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsConflict(err) { // someone else is removing it
		gone, failed := docker.ContainerWait(ctx, containerName, container.WaitConditionRemoved)
		select {
		case <-gone:
			return nil
		case err = <-failed:
		}
	}
	if err != nil && !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", containerName, err)
	}
	return nil
}

// Down removes the lab: nodes, their disks, the network and the state. Images stay. A lab that is not there is fine,
// and so is one whose state was lost.
func (l *Lab) Down(ctx context.Context) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	found, err := docker.ContainerList(ctx, container.ListOptions{All: true, Filters: l.mine()})
	if err != nil {
		return fmt.Errorf("list the nodes of lab %s: %w", l.name, err)
	}
	err = l.Progress.step("Remove "+countNodes(len(found)), func() error {
		g, ctx := errgroup.WithContext(ctx)
		for _, c := range found {
			g.Go(func() error { return l.remove(ctx, c.ID) })
		}
		return g.Wait()
	})
	if err != nil {
		return err
	}
	networks, err := docker.NetworkList(ctx, network.ListOptions{Filters: l.mine()})
	if err != nil {
		return fmt.Errorf("list the networks of lab %s: %w", l.name, err)
	}
	for _, n := range networks {
		if err := docker.NetworkRemove(ctx, n.ID); err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("remove network %s: %w", n.Name, err)
		}
	}
	if _, err := os.Stat(l.path(upLock)); err == nil { // this is a lab's directory, whatever it holds
		if err := os.RemoveAll(l.dir); err != nil {
			return fmt.Errorf("remove the state: %w", err)
		}
		removeIfEmpty(l.path(".."))
	}
	return nil
}

// removeIfEmpty removes a directory that holds nothing any more.
func removeIfEmpty(dir string) {
	if entries, err := fs.ReadDir(os.DirFS(dir), "."); err == nil && len(entries) == 0 {
		os.Remove(dir)
	}
}
