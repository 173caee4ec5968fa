package lab

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

// The image is laid out like the official one: the same places, the same default command, no entry point, so that the
// same arguments work with both.
// Source: etcd's Dockerfile.
var (
	etcdDirs     = []string{"tmp", "usr", "usr/local", "usr/local/bin", "var", "var/etcd", "var/lib", "var/lib/etcd"}
	etcdBinaries = []string{"etcd", "etcdctl", "etcdutl"}
)

type imageManifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// writeArchive makes a docker archive of one layer that carries the etcd binaries found in bin. The same binaries and
// date give the same bytes, and so the same image ID.
func writeArchive(path, ref, bin string, created time.Time) error {
	layer, err := os.CreateTemp(filepath.Dir(path), ".layer-*")
	if err != nil {
		return err
	}
	defer os.Remove(layer.Name())
	defer layer.Close()
	digest := sha256.New()
	if err := writeEtcdLayer(io.MultiWriter(layer, digest), bin); err != nil {
		return err
	}
	diffID := hex.EncodeToString(digest.Sum(nil))
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      created,
		"config": map[string]any{
			"Cmd":          []string{"/usr/local/bin/etcd"},
			"Env":          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			"ExposedPorts": map[string]any{"2379/tcp": struct{}{}, "2380/tcp": struct{}{}},
			"WorkingDir":   "/var/lib/etcd/",
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + diffID}},
		"history": []any{map[string]any{"created": created, "created_by": "cke-lab"}},
	})
	if err != nil {
		return err
	}
	id := sha256.Sum256(config)
	manifest, err := json.Marshal([]imageManifest{{
		Config:   hex.EncodeToString(id[:]) + ".json",
		RepoTags: []string{ref},
		Layers:   []string{diffID + "/layer.tar"},
	}})
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	tw := tar.NewWriter(out)
	// The manifest first: who wants to know only the name reads no further.
	err = errors.Join(
		addBytes(tw, "manifest.json", manifest),
		addBytes(tw, hex.EncodeToString(id[:])+".json", config),
		tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: diffID + "/", Mode: 0o755}),
		addFile(tw, diffID+"/layer.tar", layer.Name(), 0o644),
		tw.Close(), out.Chmod(0o644), out.Close(),
	)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(out.Name(), path)
}

func writeEtcdLayer(w io.Writer, bin string) error {
	tw := tar.NewWriter(w)
	for _, d := range etcdDirs {
		mode := int64(0o755)
		if d == "tmp" {
			mode = 0o1777
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: mode}); err != nil {
			return err
		}
	}
	for _, b := range etcdBinaries {
		if err := addFile(tw, "usr/local/bin/"+b, filepath.Join(bin, b), 0o755); err != nil {
			return err
		}
	}
	return tw.Close()
}

func addBytes(tw *tar.Writer, name string, data []byte) error {
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := tw.Write(data)
	return err
}

func addFile(tw *tar.Writer, name, path string, mode int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// readArchive tells what a docker archive with one image holds.
func readArchive(path string) (Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if err != nil {
			return Image{}, fmt.Errorf("read %s: no manifest.json: %w", path, err)
		}
		if h.Name != "manifest.json" {
			continue
		}
		var m []imageManifest
		if err := json.NewDecoder(tr).Decode(&m); err != nil {
			return Image{}, fmt.Errorf("read %s: %w", path, err)
		}
		if len(m) != 1 || len(m[0].RepoTags) != 1 {
			return Image{}, fmt.Errorf("read %s: want one image with one name", path)
		}
		id := filepath.Base(m[0].Config)
		return Image{Ref: m[0].RepoTags[0], Archive: path, ID: "sha256:" + id[:len(id)-len(filepath.Ext(id))]}, nil
	}
}

// Binaries writes etcd, etcdctl and etcdutl, which are static and run on any Linux, into a directory.
func (i Image) Binaries(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.Open(i.Archive)
	if err != nil {
		return err
	}
	defer f.Close()
	layer := tar.NewReader(f)
	for {
		h, err := layer.Next()
		if err != nil {
			return fmt.Errorf("read %s: no layer: %w", i.Archive, err)
		}
		if filepath.Base(h.Name) == "layer.tar" {
			break
		}
	}
	left := len(etcdBinaries)
	for tr := tar.NewReader(layer); left > 0; {
		h, err := tr.Next()
		if err != nil {
			return fmt.Errorf("read %s: %w", i.Archive, err)
		}
		if h.Typeflag != tar.TypeReg || !slices.Contains(etcdBinaries, filepath.Base(h.Name)) {
			continue
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return fmt.Errorf("read %s: %w", i.Archive, err)
		}
		if err := writeFile(filepath.Join(dir, filepath.Base(h.Name)), data, 0o755); err != nil {
			return err
		}
		left--
	}
	return nil
}
