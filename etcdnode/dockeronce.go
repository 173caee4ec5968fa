package etcdnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"cke"
)

// once is a container that runs one command on the volume at DataPath and ends. It has no network.
type once struct {
	name, image, volume string
	command             []string // its first word is searched for in the image's PATH
	capabilities        []string
	nanoCPUs, memory    int64
}

// createOnce makes such a container, not started, and returns the engine's id of it.
func (d *docker) createOnce(ctx context.Context, o once) (id string, err error) {
	made, err := d.api.ContainerCreate(ctx,
		&container.Config{Image: o.image, Entrypoint: o.command[:1], Cmd: o.command[1:], Labels: map[string]string{LabelHelper: "true"}},
		&container.HostConfig{
			NetworkMode: container.NetworkMode("none"), ReadonlyRootfs: true,
			Mounts:  []mount.Mount{{Type: mount.TypeVolume, Source: o.volume, Target: DataPath, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
			CapDrop: []string{"ALL"}, CapAdd: o.capabilities, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logSize}},
			Resources: container.Resources{NanoCPUs: o.nanoCPUs, Memory: o.memory},
		}, nil, nil, o.name)
	return made.ID, meaning(err)
}

// createTry makes a container from a description, but without its volume and without a network, and with all else to be
// read only, and returns the engine's id of it. It is a helper: its labels are none of a member's.
func (d *docker) createTry(ctx context.Context, c Description) (id string, err error) {
	var mounts []mount.Mount
	for _, b := range c.Binds {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: b.Source, Target: b.Destination, ReadOnly: true})
	}
	made, err := d.api.ContainerCreate(ctx,
		&container.Config{Image: c.Image, Entrypoint: c.Entrypoint, Cmd: c.Args, Env: c.Env, Labels: map[string]string{LabelHelper: "true"}},
		&container.HostConfig{
			NetworkMode: container.NetworkMode("none"), Mounts: mounts, ReadonlyRootfs: true,
			CapDrop: []string{"ALL"}, CapAdd: c.Capabilities, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "json-file", Config: c.LogOptions},
			Resources: container.Resources{NanoCPUs: c.NanoCPUs, Memory: c.Memory},
		}, nil, nil, c.Name)
	return made.ID, meaning(err)
}

// createVisit makes a container for a program that is yet to be put into it, not started. The engine removes it when the
// program ends. It is on the node's own network.
func (d *docker) createVisit(ctx context.Context, name string, v Visit) error {
	// A volume without a name goes with the container; the label is for one that an engine loses track of as it restarts.
	m := mount.Mount{Type: mount.TypeVolume, Target: VisitDir, VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{LabelHelper: "true"}}}
	if v.Dir != "" {
		m = mount.Mount{Type: mount.TypeBind, Source: v.Dir, Target: VisitDir}
	}
	var processes container.PidMode
	if v.Processes {
		processes = "host"
	}
	_, err := d.api.ContainerCreate(ctx,
		&container.Config{Image: v.Image, User: "0", Entrypoint: []string{visitProgram}, Cmd: v.Args, Labels: map[string]string{LabelHelper: "true"}},
		&container.HostConfig{
			NetworkMode: container.NetworkMode("host"), PidMode: processes, AutoRemove: true, Mounts: []mount.Mount{m},
			CapDrop: []string{"ALL"}, CapAdd: []string{"DAC_OVERRIDE", "NET_BIND_SERVICE"}, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": logSize}},
		}, nil, nil, name)
	return meaning(err)
}

// leftVisits are the containers of visits that were made before a time.
func (d *docker) leftVisits(ctx context.Context, before time.Time) (ids []string, err error) {
	list, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", LabelHelper+"=true"), filters.Arg("name", "^/?"+visitPrefix))})
	for _, c := range list {
		if c.Created < before.Unix() {
			ids = append(ids, c.ID)
		}
	}
	return ids, meaning(err)
}

// leftVolumes are the volumes of visits that were made before a time, and that no container has.
func (d *docker) leftVolumes(ctx context.Context, before time.Time) (names []string, err error) {
	list, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", LabelHelper+"=true"), filters.Arg("dangling", "true"))})
	for _, v := range list.Volumes {
		if v != nil && moment(v.CreatedAt).Before(before) {
			names = append(names, v.Name)
		}
	}
	return names, meaning(err)
}

// attach returns what a container will write to stdout and stderr, in frames. The engine's log does not do for one that is removed when
// it ends: its file may be gone before it is read. The library's own function would dial by itself.
func (d *docker) attach(ctx context.Context, id string) (io.ReadCloser, error) {
	path := fmt.Sprintf("http://%s/v%s/containers/%s/attach?stream=1&stdout=1&stderr=1", client.DummyHost, d.api.ClientVersion(), id)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.api.HTTPClient().Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, lastWordsLength))
	err = fmt.Errorf("attach to container %s: %s: %s", id, resp.Status, bytes.TrimSpace(said))
	if resp.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w: %w", cke.ErrNotFound, err)
	}
	return nil, err
}

// leastLine, in bytes, is how long etcd's lines are at least, all told.
const leastLine = 100

// endOfLog returns the last bytes of a container's log.
func (d *docker) endOfLog(ctx context.Context, id string, most int) ([]byte, error) {
	end := &tail{most: most}
	err := d.log(ctx, id, container.LogsOptions{Tail: fmt.Sprint(most / leastLine)}, math.MaxInt64, end, end)
	return end.end(), err
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
	err := d.removeWith(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}) // those without a name
	if errors.Is(err, cke.ErrNotFound) {
		return nil
	}
	return err
}
