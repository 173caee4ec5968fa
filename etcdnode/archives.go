package etcdnode

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"github.com/klauspost/compress/zstd"
)

// Archives finds images in a directory of `docker save` files: *.tar, also compressed as .tar.gz, .tgz or .tar.zst.
// The content of a file is remembered until it changes. Dir "": there are none.
type Archives struct {
	Dir string

	mu    sync.Mutex
	known map[string]archiveIndex
}

// archiveIndex is what one file holds.
type archiveIndex struct {
	changed time.Time
	size    int64
	images  []string // normalised references
	err     error
}

// Find returns the file that contains an image, and how many files were checked; file "": none does. Files that
// cannot be read are in err, and do not hide the others.
func (a *Archives) Find(ctx context.Context, ref string) (file string, looked int, err error) {
	if a == nil || a.Dir == "" {
		return "", 0, nil
	}
	wanted, err := normalise(ref)
	if err != nil {
		return "", 0, err
	}
	type found struct {
		file   string
		looked int
	}
	f, err := onDisk(ctx, a.Dir, func() (f found, err error) {
		f.file, f.looked, err = a.find(ctx, wanted)
		return f, err
	})
	return f.file, f.looked, err
}

func (a *Archives) find(ctx context.Context, wanted string) (file string, looked int, err error) {
	entries, err := os.ReadDir(a.Dir)
	if err != nil {
		return "", 0, err
	}
	var faults []error
	for _, e := range entries {
		if e.IsDir() || !isArchive(e.Name()) || ctx.Err() != nil {
			continue
		}
		looked++
		file := filepath.Join(a.Dir, e.Name())
		images, err := a.index(ctx, file)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if slices.Contains(images, wanted) {
			return file, looked, nil
		}
	}
	return "", looked, errors.Join(append(faults, ctx.Err())...)
}

// index returns the images of a file, from memory if it has not changed.
func (a *Archives) index(ctx context.Context, file string) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.known[file]; ok && k.changed.Equal(info.ModTime()) && k.size == info.Size() {
		return k.images, k.err
	}
	images, err := readIndex(ctx, file)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", file, err)
	}
	if a.known == nil {
		a.known = map[string]archiveIndex{}
	}
	a.known[file] = archiveIndex{changed: info.ModTime(), size: info.Size(), images: images, err: err}
	return images, err
}

func isArchive(name string) bool {
	for _, suffix := range []string{".tar", ".tar.gz", ".tgz", ".tar.zst"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// normalise writes a reference in full: registry, repository and tag.
func normalise(ref string) (string, error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", fmt.Errorf("image %q: %w", ref, err)
	}
	return reference.TagNameOnly(named).String(), nil
}

// Source: the formats of `docker save` (manifest.json) and of the OCI image layout (index.json).
type (
	saveManifest []struct{ RepoTags []string }
	ociIndex     struct {
		Manifests []struct{ Annotations map[string]string }
	}
)

// readIndex reads which images a file holds. A tar that is not compressed is skipped through, not read.
func readIndex(ctx context.Context, file string) ([]string, error) {
	r, err := openTar(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var images []string
	add := func(ref string) {
		if full, err := normalise(ref); err == nil && !slices.Contains(images, full) {
			images = append(images, full)
		}
	}
	for t := tar.NewReader(r); ctx.Err() == nil; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch path.Clean(h.Name) {
		case "manifest.json":
			var m saveManifest
			if err := json.NewDecoder(t).Decode(&m); err != nil {
				return nil, fmt.Errorf("manifest.json: %w", err)
			}
			for _, image := range m {
				for _, tag := range image.RepoTags {
					add(tag)
				}
			}
			if len(images) > 0 {
				return images, nil
			}
		case "index.json":
			var i ociIndex
			if err := json.NewDecoder(t).Decode(&i); err != nil {
				return nil, fmt.Errorf("index.json: %w", err)
			}
			for _, m := range i.Manifests {
				for _, key := range []string{"io.containerd.image.name", "org.opencontainers.image.ref.name"} {
					if name := m.Annotations[key]; strings.Contains(name, "/") {
						add(name)
					}
				}
			}
		}
	}
	return images, ctx.Err()
}

// openTar opens a file and takes off its compression. Only a file that is not compressed can seek.
func openTar(file string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	r, err := decompress(file, f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if r == nil {
		return f, nil
	}
	return readCloser{r, f}, nil
}

// decompress returns nil for a file that is not compressed.
func decompress(name string, r io.Reader) (io.Reader, error) {
	switch {
	case strings.HasSuffix(name, "gz"):
		return gzip.NewReader(r)
	case strings.HasSuffix(name, ".zst"):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return nil, nil
}

type readCloser struct {
	io.Reader
	file fs.File
}

func (r readCloser) Close() error {
	if c, ok := r.Reader.(io.Closer); ok {
		c.Close()
	}
	return r.file.Close()
}
