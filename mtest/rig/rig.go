// Package rig runs the real programs against the real nodes of a lab: a cke daemon (or two), ckecli, and etcd clients
// that an operator would have. It is what tests on real nodes and benchmarks share.
package rig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"

	"cke"
	"cke/mtest/lab"
)

// EtcdVersion is what clusters of a rig run unless a test says otherwise.
const EtcdVersion = cke.DefaultEtcdVersion

// Rig is a management host with its nodes. Make it with New.
type Rig struct {
	// Dir holds configuration, store, logs and certificates.
	Dir string
	// Bin holds the programs.
	Bin string
	Lab *lab.Lab
	// Cluster is the name of the cluster that the methods are about.
	Cluster string
	// Config is written to Dir/config.yml by New; change it with WriteConfig.
	Config string
	// HTTP is the address that the daemon serves; chosen by New.
	HTTP string
}

// New makes a management host in dir for a cluster of this name. No program is started.
func New(dir, bin string, l *lab.Lab, cluster string) (*Rig, error) {
	r := &Rig{Dir: dir, Bin: bin, Lab: l, Cluster: cluster}
	return r, r.WriteConfig(map[string]any{})
}

// WriteConfig writes the configuration of cke and ckecli: an embedded store in Dir, changed by over (top-level keys).
func (r *Rig) WriteConfig(over map[string]any) error {
	if r.HTTP == "" {
		free, err := FreeAddress()
		if err != nil {
			return err
		}
		r.HTTP = free
	}
	config := map[string]any{
		"store":           map[string]any{"embedded": map[string]any{"data_dir": filepath.Join(r.Dir, "store")}},
		"secret_key_file": filepath.Join(r.Dir, "secret.key"),
		"http":            map[string]any{"listen": r.HTTP},
		"images":          map[string]any{"archive_dir": filepath.Join(r.Dir, "images")},
		"backup":          map[string]any{"scratch_dir": filepath.Join(r.Dir, "scratch")},
		"session_ttl":     "3s",
	}
	for k, v := range over {
		config[k] = v
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.Dir, "images"), 0o700); err != nil {
		return err
	}
	r.Config = filepath.Join(r.Dir, "config.yml")
	return os.WriteFile(r.Config, data, 0o600)
}

// Page returns the address of the cluster's status page, as the configuration in Config has it.
func (r *Rig) Page() (string, error) {
	data, err := os.ReadFile(r.Config)
	if err != nil {
		return "", err
	}
	var c struct {
		HTTP cke.HTTPConfig `yaml:"http"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return "", fmt.Errorf("%s: %w", r.Config, err)
	}
	host, port, err := net.SplitHostPort(cmp.Or(c.HTTP.Listen, cke.DefaultListen))
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Config, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if c.HTTP.TLS.CertFile != "" {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s/clusters/%s", scheme, net.JoinHostPort(host, port), r.Cluster), nil
}

// Build builds cke, ckecli and cke-probe from the module that the working directory is in, with extra arguments for go build.
func Build(ctx context.Context, bin string, args ...string) error {
	args = append([]string{"build", "-o", bin + "/"}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "cke/cmd/cke", "cke/cmd/ckecli", "cke/cmd/cke-probe")...)
	if !slices.Contains(args, "-race") {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as they are released
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("build cke and ckecli: %w: %s", err, out)
	}
	return nil
}

// BuildLab builds cke-lab, which switches the nodes of a lab on and off.
func BuildLab(ctx context.Context, program string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "cke/cmd/cke-lab").CombinedOutput(); err != nil {
		return fmt.Errorf("build cke-lab: %w: %s", err, out)
	}
	return nil
}

// RaceVariable names the environment variable that, set to anything, makes tests build the programs with Go's race
// detector: they are several times slower then, and a data race in one of them fails the test.
const RaceVariable = "CKE_RACE"

// BuildArgs are the arguments for Build that the environment asks for.
func BuildArgs() []string {
	if os.Getenv(RaceVariable) == "" {
		return nil
	}
	return []string{"-race"}
}

// raceFound is how the race detector begins to tell.
const raceFound = "WARNING: DATA RACE"

// Spec is a cluster file for the first n nodes of the lab, all control plane.
func (r *Rig) Spec(n int) cke.Cluster {
	c := cke.Cluster{Name: r.Cluster}
	c.Options.Etcd.Version = EtcdVersion
	for _, node := range r.Lab.Nodes()[:n] {
		c.Nodes = append(c.Nodes, cke.Node{Address: node.Address, Hostname: node.Name, User: node.User, ControlPlane: true,
			SSH: cke.SSH{Port: node.Port, HostKey: node.HostKey}})
	}
	return c
}

// WriteSpec writes a cluster file into Dir and returns its path.
func (r *Rig) WriteSpec(c cke.Cluster) (string, error) {
	data, err := yaml.Marshal(c)
	if err != nil {
		return "", err
	}
	path := filepath.Join(r.Dir, "cluster.yml")
	return path, os.WriteFile(path, data, 0o600)
}

// Result is what a run of ckecli left.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// CLI runs ckecli to its end. The error is set only when it could not be run, ctx ended, or the race detector found
// something; an exit code is no error.
func (r *Rig) CLI(ctx context.Context, args ...string) (Result, error) {
	cmd := r.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	res := Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		err = nil
	}
	if i := strings.Index(res.Stderr, raceFound); i >= 0 {
		err = errors.New("ckecli: " + res.Stderr[i:])
	}
	return res, err
}

// command is ckecli as a person on this management host would run it.
func (r *Rig) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(r.Bin, "ckecli"), args...)
	// In a process group of its own it is not interrupted with this program, which may have to clean up with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "CKECLI_CONFIG="+r.Config, "CKECLI_CLUSTER="+r.Cluster, "NO_COLOR=1", "HOME="+r.Dir)
	return cmd
}

// Do runs ckecli and fails unless it exits with 0.
func (r *Rig) Do(ctx context.Context, args ...string) (string, error) {
	res, err := r.CLI(ctx, args...)
	if err == nil && res.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", res.Code, strings.TrimSpace(res.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("ckecli %s: %w", strings.Join(args, " "), err)
	}
	return res.Stdout, nil
}

// SetSSHKey stores the key that the lab's nodes accept: the restricted one, good for the engine's socket alone.
func (r *Rig) SetSSHKey(ctx context.Context) error {
	_, err := r.Do(ctx, "ssh-key", "set", r.Lab.Nodes()[0].RestrictedKeyFile)
	return err
}

// Records returns the latest n records, newest first.
func (r *Rig) Records(ctx context.Context, n int) ([]cke.Record, error) {
	out, err := r.Do(ctx, "history", "-n", fmt.Sprint(n), "-o", "json")
	if err != nil {
		return nil, err
	}
	var records []cke.Record
	return records, json.Unmarshal([]byte(out), &records)
}

// Ready reports whether the cluster is ready and all of its present file is done.
func Ready(s cke.Status) bool {
	return s.Health == cke.HealthReady && s.ObservedGeneration == s.Generation
}
