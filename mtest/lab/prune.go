package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// ownerFile is locked by the process that a lab belongs to. Labs that a person made have none.
const ownerFile = "owner.lock"

// own binds the lab to this process: once the process is gone, however it ended, Prune removes the lab. Unless it may
// make the lock, it takes over only a lab that had an owner; one whose directory is missing counts as a person's, since
// it may be a directory that this process cannot see.
func (l *Lab) own(create bool) error {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
		if err := os.MkdirAll(l.dir, 0o755); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(l.path(ownerFile), flags, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return fmt.Errorf("lab %s belongs to another process: %w", l.name, err)
	}
	l.owner = f // kept open: the lock ends with it
	return nil
}

// disown leaves the lab to people.
func (l *Lab) disown() {
	os.Remove(l.path(ownerFile))
	l.owner.Close()
	l.owner = nil
}

// parent is the directory that Open was given.
func (l *Lab) parent() string { return filepath.Dir(l.dir) }

// Labs returns all labs of this machine's engine, ordered by directory, also those whose state was lost.
func Labs(ctx context.Context) ([]*Lab, error) {
	docker, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer docker.Close()
	labelled := filters.NewArgs(filters.Arg("label", labelDir))
	containers, err := docker.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	networks, err := docker.NetworkList(ctx, network.ListOptions{Filters: labelled})
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	names := map[string]string{}
	for _, c := range containers {
		names[c.Labels[labelDir]] = c.Labels[labelLab]
	}
	for _, n := range networks {
		names[n.Labels[labelDir]] = n.Labels[labelLab]
	}
	var labs []*Lab
	for dir, name := range names {
		labs = append(labs, &Lab{name: name, dir: dir})
	}
	slices.SortFunc(labs, func(a, b *Lab) int { return strings.Compare(a.dir, b.dir) })
	return labs, nil
}

// Prune removes the labs of processes that ended without removing them, such as test runs that were killed, and
// returns their names. Several processes may prune at once.
func Prune(ctx context.Context) ([]string, error) {
	labs, err := Labs(ctx)
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, l := range labs {
		// An owner that lives holds the lock, and so does another process that prunes this lab.
		if l.own(false) != nil {
			continue
		}
		err := errors.Join(l.Down(ctx), l.Close())
		if err != nil {
			return removed, fmt.Errorf("remove lab %s, whose owner is gone: %w", l.name, err)
		}
		removed = append(removed, l.name)
	}
	return removed, nil
}
