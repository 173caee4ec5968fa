package etcdnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"cke"
)

// What the engine keeps: volumes and images.

// engineVolume is a volume with the directory that backs it, where one was named.
type engineVolume struct {
	cke.Volume
	Device string
	Over   []string // incarnations that it marks as over; nil: it is no mark
}

func (d *docker) volumes(ctx context.Context) ([]engineVolume, error) {
	list, err := d.api.VolumeList(ctx, volume.ListOptions{})
	if err != nil {
		return nil, meaning(err)
	}
	out := make([]engineVolume, 0, len(list.Volumes))
	for _, v := range list.Volumes {
		if v == nil || v.Name == "" { // left out, a volume that is there would look missing
			return nil, answerError{"the list of volumes has an entry without a name"}
		}
		out = append(out, volumeOf(*v))
	}
	return out, nil
}

func volumeOf(v volume.Volume) engineVolume {
	return engineVolume{Device: v.Options["device"], Over: strings.Fields(v.Labels[LabelOver]), Volume: cke.Volume{
		Name: v.Name, Cluster: v.Labels[LabelCluster], Incarnation: v.Labels[LabelIncarnation],
		Join: cke.JoinID(v.Labels[LabelJoin]), CreatedAt: moment(v.CreatedAt),
	}}
}

func (d *docker) volume(ctx context.Context, name string) (engineVolume, error) {
	v, err := d.api.VolumeInspect(ctx, name)
	return named(name, v, err)
}

// createVolume makes a volume, or returns the one that is there, with whatever labels it has.
func (d *docker) createVolume(ctx context.Context, name string, labels map[string]string, device string) (engineVolume, error) {
	o := volume.CreateOptions{Name: name, Driver: "local", Labels: labels}
	if device != "" {
		o.DriverOpts = map[string]string{"type": "none", "o": "bind", "device": device}
	}
	v, err := d.api.VolumeCreate(ctx, o)
	return named(name, v, err)
}

// named is the volume that was asked for.
func named(name string, v volume.Volume, err error) (engineVolume, error) {
	if err == nil && v.Name != name {
		err = answerError{fmt.Sprintf("the answer is about volume %q, not %s", v.Name, name)}
	}
	return volumeOf(v), meaning(err)
}

// users are the names of the containers, running or not, that mount a volume or bind a directory.
func (d *docker) users(ctx context.Context, volume, dir string) (names []string, err error) {
	list, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("volume", volume), filters.Arg("volume", dir))})
	for _, c := range list {
		name := c.ID
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		names = append(names, name)
	}
	return names, meaning(err)
}

func (d *docker) removeVolume(ctx context.Context, name string) error {
	return meaning(d.api.VolumeRemove(ctx, name, false))
}

func (d *docker) hasImage(ctx context.Context, ref string) (bool, error) {
	_, err := d.api.ImageInspect(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// loadImage sends the content of a docker archive.
func (d *docker) loadImage(ctx context.Context, archive io.Reader) error {
	resp, err := d.api.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return meaning(err)
	}
	defer resp.Body.Close()
	return followStream(resp.Body, nil)
}

// pullImage has the engine pull an image; login is as RegistryAuth of the Docker API, or empty.
func (d *docker) pullImage(ctx context.Context, ref, login string, progress func(string)) error {
	r, err := d.api.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: login})
	if err != nil {
		return meaning(err)
	}
	defer r.Close()
	return followStream(r, progress)
}

// followStream reads the engine's account of a load or pull to its end; errors are in it.
func followStream(r io.Reader, progress func(string)) error {
	type line struct {
		ID             string `json:"id"`
		Status         string `json:"status"`
		ProgressDetail bytesOf
		Error          string `json:"error"`
	}
	layers := map[string]bytesOf{}
	for d := json.NewDecoder(r); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the engine's account: %w", err)
		}
		if l.Error != "" {
			return errors.New(l.Error)
		}
		if progress == nil || l.Status != "Downloading" || l.ProgressDetail.Total <= 0 {
			continue
		}
		if _, known := layers[l.ID]; !known && (len(layers) == mostLayers || len(l.ID) > longestLayer) {
			continue
		}
		layers[l.ID] = l.ProgressDetail
		var sum bytesOf
		for _, b := range layers {
			sum.Current, sum.Total = sum.Current+b.Current, sum.Total+b.Total
		}
		progress(progressText(sum.Current, sum.Total))
	}
}

// bytesOf is how much of a layer has come.
type bytesOf struct{ Current, Total int64 }

// Bounds of what is kept of an engine's account. Source: Docker, layer.maxLayerDepth; ids are shortened digests.
const (
	mostLayers   = 125
	longestLayer = 100
)

// progressText is "42 of 63 MB".
func progressText(current, total int64) string {
	return fmt.Sprintf("%d of %d MB", current/units.MB, max(total, current)/units.MB)
}
