package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"cke/internal/cache"
)

// Image is an etcd image as a docker archive.
type Image struct {
	Ref     string // name and tag the image gets where it is loaded: the official one of its version
	Archive string // path of the docker archive ("docker load" reads it)
	ID      string // image ID, "sha256:…"; the same wherever the archive is loaded
}

// EtcdRepository is where the official images live; the lab's have the same names.
const EtcdRepository = "gcr.io/etcd-development/etcd"

// etcdRecipe is part of the cache key: change it when binaries or the image come out differently.
const etcdRecipe = "2: go build -trimpath -ldflags=-s -w, CGO off, etcd etcdctl etcdutl in /usr/local/bin"

var etcdVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// EtcdImage returns the image of an etcd version such as "3.6.16", building it from etcd's Go modules unless the cache
// has it. Building needs the go command and a module proxy and takes minutes; it is narrated on w, which may be nil.
// It does not need Docker. Concurrent calls, also of other processes, build once.
func EtcdImage(ctx context.Context, version string, w io.Writer) (Image, error) {
	return etcdImage(ctx, version, NewProgress(w))
}

func etcdImage(ctx context.Context, version string, p *Progress) (Image, error) {
	version = strings.TrimPrefix(version, "v")
	if !etcdVersion.MatchString(version) {
		return Image{}, fmt.Errorf("etcd version %q: want one like 3.6.16", version)
	}
	cache, err := cache.Dir()
	if err != nil {
		return Image{}, err
	}
	dir := filepath.Join(cache, "etcd", contentKey(etcdRecipe, version, runtime.GOARCH))
	archive := filepath.Join(dir, "etcd-"+version+".tar")
	if img, err := readArchive(archive); err == nil {
		return img, nil
	}
	release, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return Image{}, err
	}
	defer release()
	if img, err := readArchive(archive); err == nil {
		return img, nil
	}
	if err := buildEtcdArchive(ctx, version, archive, p); err != nil {
		return Image{}, fmt.Errorf("build etcd %s: %w", version, err)
	}
	return readArchive(archive)
}

func buildEtcdArchive(ctx context.Context, version, archive string, p *Progress) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("the go command is needed once per version: install Go, or put a docker archive at %s", archive)
	}
	scratch, err := os.MkdirTemp("", "cke-etcd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.WriteFile(filepath.Join(scratch, "go.mod"), []byte("module scratch\n\ngo 1.24\n"), 0o644); err != nil {
		return err
	}
	modules := []string{"go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3", "go.etcd.io/etcd/etcdutl/v3"}
	get := []string{"get"}
	for _, m := range modules {
		get = append(get, m+"@v"+version)
	}
	if err := p.step("Get the modules of etcd "+version, func() error { _, err := runGo(ctx, scratch, get...); return err }); err != nil {
		return err
	}
	build := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", "bin/"}, modules...)
	if err := p.step("Build etcd "+version, func() error { _, err := runGo(ctx, scratch, build...); return err }); err != nil {
		return err
	}
	bin := filepath.Join(scratch, "bin")
	if err := os.Rename(filepath.Join(bin, "server"), filepath.Join(bin, "etcd")); err != nil {
		return err
	}
	released, err := moduleTime(ctx, scratch, modules[0])
	if err != nil {
		return err
	}
	return p.step("Pack etcd "+version, func() error {
		return writeArchive(archive, EtcdRepository+":v"+version, bin, released)
	})
}

// moduleTime tells when a module's version was made: the images' date, so that a build gives the same bytes each time.
func moduleTime(ctx context.Context, dir, module string) (time.Time, error) {
	out, err := runGo(ctx, dir, "list", "-m", "-f", "{{.Time.UTC.Format \"2006-01-02T15:04:05Z\"}}", module)
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339, strings.TrimSpace(out))
}

// runGo runs the go command in a scratch module, untouched by settings meant for other modules, and returns its output.
func runGo(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=-mod=mod", "GOWORK=off")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(said.String(), 3))
	}
	return out.String(), nil
}

// lastLines returns the last n lines of text on one line.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}
