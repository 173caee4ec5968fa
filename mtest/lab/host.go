package lab

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"cke/internal/cache"
)

//go:embed host
var hostFiles embed.FS

const (
	// hostPackages make the base of nodes a management host, on which packages, the status page and alerts can be checked, too.
	hostPackages   = "systemd systemd-sysv openssh-client curl lintian rpm prometheus"
	hostRepository = "cke-lab-host"
	// bootLimit bounds how long systemd may take to start everything.
	bootLimit = 2 * time.Minute
)

// Host is a management host on the network of a lab: a Debian whose first process is systemd, without the programs of cke.
type Host struct {
	// Name is that of the container.
	Name string
	lab  *Lab
}

// StartHost makes a management host on the lab's network, and returns it once systemd has started everything. It is
// removed with the lab, or with Remove.
func (l *Lab) StartHost(ctx context.Context) (*Host, error) {
	docker, err := l.engine(ctx)
	if err != nil {
		return nil, err
	}
	image, err := l.hostImage(ctx)
	if err != nil {
		return nil, err
	}
	h := &Host{Name: l.name + "-host", lab: l}
	config := &container.Config{Hostname: h.Name, Image: image, Labels: l.labels()}
	hostConfig := nodeHostConfig(l.networkName())
	hostConfig.Tmpfs["/run/lock"] = ""
	if _, err := docker.ContainerCreate(ctx, config, hostConfig, nil, nil, h.Name); err != nil {
		return nil, fmt.Errorf("create %s: %w", h.Name, err)
	}
	if err := docker.ContainerStart(ctx, h.Name, container.StartOptions{}); err != nil {
		return h, fmt.Errorf("start %s: %w", h.Name, err)
	}
	return h, h.awaitBoot(ctx)
}

// hostImage returns the image of management hosts, building it unless this machine has it.
func (l *Lab) hostImage(ctx context.Context) (string, error) {
	cache, err := cache.Dir()
	if err != nil {
		return "", err
	}
	_, base, err := nodeRefs()
	if err != nil {
		return "", err
	}
	inputs := []string{base, hostPackages}
	for _, name := range []string{"Dockerfile", "init"} {
		data, err := hostFiles.ReadFile("host/" + name)
		if err != nil {
			return "", err
		}
		inputs = append(inputs, string(data))
	}
	ref, packages := hostRepository+":"+contentKey(inputs...), hostPackages
	return ref, l.ensureOnce(ctx, cache, ref, func() error {
		if err := l.ensureBase(ctx, base); err != nil {
			return fmt.Errorf("make the base image of hosts: %w", err)
		}
		return l.Progress.step("Build the image of management hosts", func() error {
			return l.build(ctx, ref, buildFiles{hostFiles, "host", "Dockerfile"}, map[string]*string{"BASE": &base, "PACKAGES": &packages}, "default")
		})
	})
}

// awaitBoot waits until systemd has started everything.
func (h *Host) awaitBoot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	for {
		state, err := h.Exec(ctx, "systemctl", "is-system-running", "--wait")
		switch state = strings.TrimSpace(state); {
		case state == "running":
			return nil
		case state == "degraded":
			failed, _ := h.Exec(ctx, "systemctl", "--failed", "--no-legend", "--plain") // it is for the message
			return fmt.Errorf("%s started without some units: %s", h.Name, strings.TrimSpace(failed))
		case ctx.Err() != nil:
			return fmt.Errorf("wait for %s to start: %w, after %q", h.Name, ctx.Err(), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond): // systemd does not answer yet
		}
	}
}

// Exec runs a command as root on the host, and returns what it wrote to stdout. A status other than 0 is an *ExitError.
func (h *Host) Exec(ctx context.Context, command ...string) (string, error) {
	return h.lab.exec(ctx, h.Name, command...)
}

// Put writes a file of root on the host.
func (h *Host) Put(ctx context.Context, path string, data []byte, mode int64) error {
	return h.lab.putFiles(ctx, h.Name, file{Name: strings.TrimPrefix(path, "/"), Mode: mode, Data: data})
}

// Remove removes the host and everything on it.
func (h *Host) Remove(ctx context.Context) error { return h.lab.remove(ctx, h.Name) }
