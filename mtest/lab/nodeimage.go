package lab

import (
	"archive/tar"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/image"

	"cke/internal/cache"
)

//go:embed node
var nodeFiles embed.FS

// nodePackages make a Debian a node.
const nodePackages = "openssh-server docker.io iptables iproute2 ca-certificates e2fsprogs mount"

// Names of the images that the lab makes; the tag is the content.
const (
	baseRepository = "cke-lab-base" // Debian with nodePackages
	nodeRepository = "cke-lab-node" // the same with the lab's own files
	seedRepository = "cke-lab-seed" // the same with etcd images laid out for the engine
	labelImage     = "cke-lab.image"
)

// NodeImage makes the image of nodes that carry these etcd versions, which Up does otherwise, and returns its name.
func (l *Lab) NodeImage(ctx context.Context, etcdVersions ...string) (string, error) {
	if _, err := l.engine(ctx); err != nil {
		return "", err
	}
	return l.ensureImages(ctx, etcdVersions)
}

// ensureImages returns the image that nodes are made of, building what this machine lacks.
func (l *Lab) ensureImages(ctx context.Context, etcdVersions []string) (string, error) {
	cache, err := cache.Dir()
	if err != nil {
		return "", err
	}
	ref, base, err := nodeRefs()
	if err != nil {
		return "", err
	}
	if len(etcdVersions) > 0 {
		return l.ensureSeeded(ctx, ref, base, etcdVersions)
	}
	return ref, l.ensureOnce(ctx, cache, ref, func() error { return l.ensureNodeImage(ctx, ref, base) })
}

// nodeRefs names the node image and its base by what they are made of.
func nodeRefs() (node, base string, err error) {
	dockerfile, err := nodeFiles.ReadFile("node/Dockerfile.base")
	if err != nil {
		return "", "", err
	}
	base = baseRepository + ":" + contentKey(string(dockerfile), nodePackages, debootstrapRecipe)
	inputs := []string{base}
	err = fs.WalkDir(nodeFiles, "node", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := nodeFiles.ReadFile(name)
		inputs = append(inputs, name, string(data))
		return err
	})
	return nodeRepository + ":" + contentKey(inputs...), base, err
}

func (l *Lab) ensureNodeImage(ctx context.Context, ref, base string) error {
	if err := l.ensureBase(ctx, base); err != nil {
		return fmt.Errorf("make the base image of nodes: %w", err)
	}
	return l.Progress.step("Build the node image", func() error {
		return l.build(ctx, ref, buildFiles{nodeFiles, "node", "Dockerfile"}, map[string]*string{"BASE": &base}, "none")
	})
}

// buildFiles are a folder of embedded files and the one that says how an image is built from them.
type buildFiles struct {
	files              embed.FS
	folder, dockerfile string
}

// build runs the engine's own builder, which needs no plugin, on embedded files.
func (l *Lab) build(ctx context.Context, ref string, from buildFiles, args map[string]*string, network string) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	buildContext, err := from.tar()
	if err != nil {
		return err
	}
	answer, err := docker.ImageBuild(ctx, buildContext, build.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{ref}, Dockerfile: from.dockerfile, BuildArgs: args, NetworkMode: network,
		Remove: true, ForceRemove: true, Labels: map[string]string{labelImage: ref},
	})
	if err != nil {
		return fmt.Errorf("build %s: %w", ref, err)
	}
	defer answer.Body.Close()
	if err := readStream(answer.Body); err != nil {
		return fmt.Errorf("build %s: %w", ref, err)
	}
	return nil
}

// tar is the build context.
func (b buildFiles) tar() (io.Reader, error) {
	var buffer bytes.Buffer
	tw := tar.NewWriter(&buffer)
	entries, err := b.files.ReadDir(b.folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := b.files.ReadFile(path.Join(b.folder, e.Name()))
		if err != nil {
			return nil, err
		}
		if err := addBytes(tw, e.Name(), data); err != nil {
			return nil, err
		}
	}
	return &buffer, tw.Close()
}

// readStream reads the engine's progress messages to their end and returns the error they carry, if any.
func readStream(r io.Reader) error {
	last := ""
	for d := json.NewDecoder(r); ; {
		var m struct{ Error, Stream, Status string }
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.Error != "" {
			return fmt.Errorf("%s (%s)", m.Error, strings.TrimSpace(last))
		}
		if strings.TrimSpace(m.Stream) != "" {
			last = m.Stream
		}
	}
}

// ensureOnce makes an image unless it is there, once even if several processes want it.
func (l *Lab) ensureOnce(ctx context.Context, cache, ref string, make func() error) error {
	if there, err := l.hasImage(ctx, ref); there || err != nil {
		return err
	}
	release, err := lockFile(ctx, path.Join(cache, "locks", strings.ReplaceAll(ref, ":", "-")))
	if err != nil {
		return err
	}
	defer release()
	if there, err := l.hasImage(ctx, ref); there || err != nil {
		return err
	}
	return make()
}

func (l *Lab) hasImage(ctx context.Context, ref string) (bool, error) {
	docker, err := l.engine(ctx)
	if err != nil {
		return false, err
	}
	found, err := docker.ImageList(ctx, image.ListOptions{Filters: reference(ref)})
	if err != nil {
		return false, fmt.Errorf("check for image %s: %w", ref, err)
	}
	return len(found) > 0, nil
}
