package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"cke/internal/cache"
)

const (
	registryImage = "debian:bookworm-slim"
	suite         = "bookworm"
	// debootstrapRecipe is part of the base image's name: change it when the image comes out differently.
	debootstrapRecipe = "minbase " + suite + ", without documentation"
	// registryLimit bounds how long a registry may take to hand out registryImage.
	registryLimit = 2 * time.Minute
)

// ErrNoBase says that nodes cannot be made here; the message says what to do.
var ErrNoBase = errors.New("neither a registry nor debootstrap can give a Debian")

// ensureBase makes the base image: from a registry if one answers, else with debootstrap. What debootstrap made is
// kept in the cache.
func (l *Lab) ensureBase(ctx context.Context, ref string) error {
	if there, err := l.hasImage(ctx, ref); there || err != nil {
		return err
	}
	cache, err := cache.Dir()
	if err != nil {
		return err
	}
	cached := filepath.Join(cache, strings.ReplaceAll(ref, ":", "-")+".tar")
	if _, err := os.Stat(cached); err == nil {
		return l.importBase(ctx, ref, cached)
	}
	registry := l.buildFromRegistry(ctx, ref)
	if registry == nil || ctx.Err() != nil {
		return registry
	}
	if err := l.debootstrap(ctx, cached); err != nil {
		return fmt.Errorf("%w; the registry said: %w", err, registry)
	}
	return l.importBase(ctx, ref, cached)
}

// buildFromRegistry pulls a Debian, unless this machine has it, and installs the packages.
func (l *Lab) buildFromRegistry(ctx context.Context, ref string) error {
	if there, err := l.hasImage(ctx, registryImage); err != nil {
		return err
	} else if !there {
		if err := l.Progress.step("Ask the registry for "+registryImage, func() error { return l.pull(ctx, registryImage) }); err != nil {
			return err
		}
	}
	packages := nodePackages
	return l.Progress.step("Install packages into "+registryImage, func() error {
		return l.build(ctx, ref, buildFiles{nodeFiles, "node", "Dockerfile.base"}, map[string]*string{"PACKAGES": &packages}, "default")
	})
}

func (l *Lab) pull(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	answer, err := docker.ImagePull(ctx, ref, image.PullOptions{})
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	defer answer.Close()
	if err := readStream(answer); err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	return nil
}

// debootstrap makes a root file system with the packages, as a tar file.
func (l *Lab) debootstrap(ctx context.Context, out string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: debootstrap needs root: run cke-lab node-image once as root, or docker pull %s", ErrNoBase, registryImage)
	}
	if err := l.installDebootstrap(ctx); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "cke-lab-root-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	include := "--include=" + strings.ReplaceAll(nodePackages, " ", ",")
	err = l.Progress.step("Make a Debian with debootstrap", func() error {
		// In a mount namespace of its own: what it mounts ends with it, also when it is interrupted.
		return command(ctx, "unshare", "--mount", "debootstrap", "--variant=minbase", include, suite, scratch)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoBase, err)
	}
	return l.Progress.step("Pack the Debian", func() error {
		part := out + ".part"
		defer os.Remove(part)
		args := []string{"-C", scratch, "--numeric-owner", "-cf", part}
		for _, skip := range []string{"var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "proc", "sys"} {
			args = append(args, "--exclude=./"+skip+"/*")
		}
		if err := command(ctx, "tar", append(args, ".")...); err != nil {
			return err
		}
		return os.Rename(part, out)
	})
}

func (l *Lab) installDebootstrap(ctx context.Context) error {
	if _, err := exec.LookPath("debootstrap"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w: install debootstrap, or docker pull %s", ErrNoBase, registryImage)
	}
	return l.Progress.step("Install debootstrap", func() error {
		err := command(ctx, "apt-get", "install", "-y", "--no-install-recommends", "debootstrap")
		if err == nil {
			return nil
		}
		if err := command(ctx, "apt-get", "update"); err != nil {
			return fmt.Errorf("%w: %w", ErrNoBase, err)
		}
		if err := command(ctx, "apt-get", "install", "-y", "--no-install-recommends", "debootstrap"); err != nil {
			return fmt.Errorf("%w: %w", ErrNoBase, err)
		}
		return nil
	})
}

// command runs a program of this machine and returns the end of what it wrote with the error.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, lastLines(string(out), 3))
	}
	return nil
}

func (l *Lab) importBase(ctx context.Context, ref, tarFile string) error {
	return l.Progress.step("Import the Debian", func() error {
		docker, err := l.engine(ctx)
		if err != nil {
			return err
		}
		f, err := os.Open(tarFile)
		if err != nil {
			return err
		}
		defer f.Close()
		answer, err := docker.ImageImport(ctx, image.ImportSource{Source: f, SourceName: "-"}, ref,
			image.ImportOptions{Changes: []string{"LABEL " + labelImage + "=" + ref}})
		if err != nil {
			return fmt.Errorf("import %s: %w", tarFile, err)
		}
		defer answer.Close()
		return readStream(answer)
	})
}

func reference(ref string) filters.Args { return filters.NewArgs(filters.Arg("reference", ref)) }

// RemoveImages removes the images that labs are made of from the local engine, also older ones. The cache on disk
// stays. Images that a lab still uses are refused by the engine.
func (l *Lab) RemoveImages(ctx context.Context) error {
	docker, err := l.engine(ctx)
	if err != nil {
		return err
	}
	// Seeded images first, bases last: each is made from a later one.
	for _, repository := range []string{seedRepository, nodeRepository, hostRepository, baseRepository} {
		found, err := docker.ImageList(ctx, image.ListOptions{Filters: reference(repository)})
		if err != nil {
			return fmt.Errorf("list images: %w", err)
		}
		for _, i := range found {
			for _, tag := range i.RepoTags {
				if _, err := docker.ImageRemove(ctx, tag, image.RemoveOptions{PruneChildren: true}); err != nil {
					return fmt.Errorf("remove image %s: %w", tag, err)
				}
			}
		}
	}
	return nil
}
