package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"cke/mtest/lab"
)

// installations is how often the package is installed.
const installations = 5

// buildPackage builds the deb of what is in the working directory, in a copy: dist/ belongs to the user.
const buildPackage = `cd "$(git rev-parse --show-toplevel)"
mkdir "$1"
git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- --create | tar --extract --directory "$1"
cd "$1"
VERSION=0.0.0+bench SOURCE_DATE_EPOCH=$(date +%s) ARCHS=$2 packaging/packages.sh`

// removed leaves nothing of cke on a host.
const removed = "if dpkg -s cke >/dev/null 2>&1; then dpkg -P cke; rm -r /etc/cke /var/lib/cke; userdel cke; fi"

// benchPackage measures on a host with systemd how long it takes from the installation of the package until cke answers.
func benchPackage(ctx context.Context, h *host) ([]figure, error) {
	fmt.Fprintln(os.Stderr, "Build the package")
	copied := filepath.Join(h.dir, "package")
	if out, err := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", buildPackage, "bash", copied, runtime.GOARCH).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the package: %w: %s", err, out)
	}
	built, err := filepath.Glob(filepath.Join(copied, "dist", "*.deb"))
	if err != nil || len(built) != 1 {
		return nil, fmt.Errorf("%d packages were built: %w", len(built), err)
	}
	data, err := os.ReadFile(built[0])
	if err != nil {
		return nil, err
	}
	host, err := h.lab.StartHost(ctx)
	if host != nil {
		defer host.Remove(context.WithoutCancel(ctx)) // what stays goes with the lab
	}
	if err != nil {
		return nil, err
	}
	if err := host.Put(ctx, "/root/cke.deb", data, 0o600); err != nil {
		return nil, err
	}
	var took []time.Duration
	for range installations {
		if err := quietly(ctx, host, removed); err != nil {
			return nil, err
		}
		began := time.Now()
		if err := quietly(ctx, host, "dpkg -i /root/cke.deb && ckecli cluster list"); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return []figure{
		{name: "package installed until cke answers: median", value: median(took).Seconds(), unit: "s", target: 3},
		{name: "package installed until cke answers: slowest", value: took[installations-1].Seconds(), unit: "s"},
	}, nil
}

// quietly runs a script on a host, whose output is only for the error.
func quietly(ctx context.Context, host *lab.Host, script string) error {
	if out, err := host.Exec(ctx, "bash", "-ec", script); err != nil {
		return fmt.Errorf("%s: %w\n%s", script, err, strings.TrimSpace(out))
	}
	return nil
}
