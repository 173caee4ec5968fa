package boot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// dockerEtcd runs an etcd image in the Docker engine of this host, without any network. Nothing is pulled.
type dockerEtcd struct {
	image string

	name string
	// made are the containers to be removed.
	made []string
}

var _ etcdRunner = (*dockerEtcd)(nil)

// removeLimit bounds the removal of what was made.
const removeLimit = 30 * time.Second

// docker returns what it prints; with an error also what that says.
func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
		err = fmt.Errorf("docker %s: %s", args[0], lastLine(string(exit.Stderr)))
	}
	return string(out), err
}

func (d *dockerEtcd) String() string { return "image " + d.image }

func (d *dockerEtcd) version(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return "", errors.New("there is no docker in PATH")
	}
	if _, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", d.image); err != nil {
		return "", fmt.Errorf("the Docker engine of this host does not have the image %s", d.image)
	}
	out, err := docker(ctx, "run", "--rm", "--network", "none", "--entrypoint", "etcd", d.image, "--version")
	if err != nil {
		return "", err
	}
	return versionIn(out)
}

const (
	drillPrefix = "cke-drill-"
	// abandoned is the age from which a drill's container is one that a killed program left behind.
	abandoned = time.Hour
)

// sweep removes what killed programs left behind.
func sweep(ctx context.Context) {
	out, _ := docker(ctx, "ps", "--all", "--filter", "name=^"+drillPrefix, "--format", "{{.Names}}\t{{.CreatedAt}}")
	for line := range strings.Lines(out) {
		name, created, _ := strings.Cut(strings.TrimSpace(line), "\t")
		at, err := time.Parse("2006-01-02 15:04:05 -0700 MST", created)
		if err != nil || time.Since(at) < abandoned {
			continue
		}
		docker(ctx, "rm", "--force", name)
		docker(ctx, "volume", "rm", "--force", name[:strings.LastIndexByte(name, '-')])
	}
}

// container makes a container of the image with the drill's volume.
func (d *dockerEtcd) container(ctx context.Context, program string, args ...string) (string, error) {
	if d.name == "" {
		sweep(ctx)
		d.name = drillPrefix + strings.ToLower(rand.Text()[:12])
	}
	name := d.name + "-" + program
	d.made = append(d.made, name)
	if _, err := docker(ctx, append([]string{"create", "--name", name, "--network", "none", "--volume", d.name + ":/drill", "--entrypoint", program, d.image}, args...)...); err != nil {
		return "", fmt.Errorf("%w: %w", errNotTried, err)
	}
	return name, nil
}

func (d *dockerEtcd) restore(ctx context.Context, snapshot string) error {
	name, err := d.container(ctx, "etcdutl", "snapshot", "restore", "/snapshot.db", "--data-dir", "/drill/data", "--name", "drill",
		"--initial-cluster", "drill="+nobody, "--initial-advertise-peer-urls", nobody)
	if err != nil {
		return err
	}
	if _, err := docker(ctx, "cp", snapshot, name+":/snapshot.db"); err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	said, err := docker(ctx, "start", "--attach", name)
	return restored(err, said)
}

func (d *dockerEtcd) run(ctx context.Context) error {
	const client = "http://127.0.0.1:2379"
	name, err := d.container(ctx, "etcd", "--data-dir", "/drill/data", "--name", "drill", "--log-level", "warn",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", "http://127.0.0.1:2380",
		"--initial-cluster", "drill="+nobody, "--initial-advertise-peer-urls", nobody)
	if err != nil {
		return err
	}
	_, err = docker(ctx, "start", name)
	return err
}

func (d *dockerEtcd) ask(ctx context.Context) (bootAnswer, error) {
	var status []struct {
		Status struct {
			Header struct{ Revision int64 }
		}
	}
	var hash []struct {
		HashKV struct {
			Hash            uint32
			CompactRevision int64 `json:"compact_revision"`
		}
	}
	for command, into := range map[string]any{"status": &status, "hashkv": &hash} {
		out, err := docker(ctx, "exec", d.name+"-etcd", "etcdctl", "endpoint", command, "--write-out", "json")
		if err == nil {
			err = json.Unmarshal([]byte(out), into)
		} else if strings.Contains(err.Error(), "is not running") {
			err = errEnded
		}
		if err != nil {
			return bootAnswer{}, err
		}
	}
	if len(status) != 1 || len(hash) != 1 {
		return bootAnswer{}, errors.New("etcdctl endpoint shows no endpoint")
	}
	return bootAnswer{status[0].Status.Header.Revision, hash[0].HashKV.Hash, hash[0].HashKV.CompactRevision}, nil
}

func (d *dockerEtcd) remove() string {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit) // also after Ctrl-C
	defer cancel()
	words := ""
	for _, name := range d.made {
		if out, err := exec.CommandContext(ctx, "docker", "logs", "--tail", "1", name).CombinedOutput(); err == nil {
			words = lastLine(string(out))
		}
		docker(ctx, "rm", "--force", name)
	}
	if d.name != "" {
		docker(ctx, "volume", "rm", "--force", d.name)
	}
	return words
}
