package etcdnode

import (
	"context"
	"errors"
	"fmt"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"cke"
)

// once is a container that runs one command on the volume at DataPath and ends. It has no network.
type once struct {
	name, image, volume string
	command             []string // its first word is looked for in the image's PATH
	capabilities        []string
	nanoCPUs, memory    int64
}

// createOnce makes such a container, not started.
func (d *docker) createOnce(ctx context.Context, o once) error {
	_, err := d.api.ContainerCreate(ctx,
		&container.Config{Image: o.image, Entrypoint: o.command[:1], Cmd: o.command[1:], Labels: map[string]string{LabelHelper: "true"}},
		&container.HostConfig{
			NetworkMode: container.NetworkMode("none"), ReadonlyRootfs: true,
			Mounts:  []mount.Mount{{Type: mount.TypeVolume, Source: o.volume, Target: DataPath, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
			CapDrop: []string{"ALL"}, CapAdd: o.capabilities, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logSize}},
			Resources: container.Resources{NanoCPUs: o.nanoCPUs, Memory: o.memory},
		}, nil, nil, o.name)
	return meaning(err)
}

// wait returns the exit code of a container once it has ended.
func (d *docker) wait(ctx context.Context, id string) (int, error) {
	ended, failed := d.api.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case r := <-ended:
		if r.Error != nil {
			return 0, errors.New(r.Error.Message)
		}
		return int(r.StatusCode), nil
	case err := <-failed:
		return 0, meaning(err)
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for container %s: %w", id, ctx.Err())
	}
}

// kill removes a container, running or not. One that is not there is no error.
func (d *docker) kill(ctx context.Context, id string) error {
	err := meaning(d.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}))
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	return err
}
