// Package archive tells which images an archive holds that "docker save" wrote.
package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxManifest bounds what is read of one file in an archive, in bytes.
const maxManifest = 1 << 20

// Is reports whether a file of this name is taken for an archive.
func Is(name string) bool {
	for _, ending := range []string{".tar", ".tar.gz", ".tgz"} {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return false
}

// Refs returns the references of the images in an archive. Source: Docker image specification v1.2, manifest.json.
func Refs(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, fmt.Errorf("it is no archive: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if head[0] == 0x1f && head[1] == 0x8b {
		unzipped, err := gzip.NewReader(bufio.NewReader(f))
		if err != nil {
			return nil, err
		}
		defer unzipped.Close()
		in = unzipped
	}
	return refs(tar.NewReader(in))
}

func refs(t *tar.Reader) ([]string, error) {
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it holds no manifest.json; make it with docker save")
		}
		if err != nil {
			return nil, fmt.Errorf("it is no archive, or not whole: %w", err)
		}
		if strings.TrimPrefix(h.Name, "./") != "manifest.json" {
			continue
		}
		var images []struct{ RepoTags []string }
		if err := json.NewDecoder(io.LimitReader(t, maxManifest)).Decode(&images); err != nil {
			return nil, fmt.Errorf("read manifest.json: %w", err)
		}
		var all []string
		for _, i := range images {
			all = append(all, i.RepoTags...)
		}
		if len(all) == 0 {
			return nil, errors.New("its images have no names; give them to docker save by name and tag")
		}
		return all, nil
	}
}

// Same reports whether two references name one image: Docker leaves out its own registry and the tag "latest".
func Same(a, b string) bool { return plain(a) == plain(b) }

func plain(ref string) string {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "index.docker.io/")
	ref = strings.TrimPrefix(ref, "library/")
	if name := ref[strings.LastIndexByte(ref, '/')+1:]; !strings.ContainsAny(name, ":@") {
		ref += ":latest"
	}
	return ref
}
