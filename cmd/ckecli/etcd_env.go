package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/pki"
)

// Certificates that `etcd env` keeps for a user.
const (
	envTTL = 30 * 24 * time.Hour
	// envRenew is how much validity must be left.
	envRenew = 7 * 24 * time.Hour
	envName  = "client"
)

func newEnvCommand(a *app) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Write the variables with which etcdctl reaches the cluster",
		Long: `Write the variables with which etcdctl reaches the cluster, for a shell:

  eval "$(ckecli etcd env)"
  etcdctl endpoint status

A client certificate is kept in a directory (default: ckecli/CLUSTER in $XDG_CONFIG_HOME or ~/.config), and issued again
when it is missing, expires within 7 days, or is not of the certificate authorities that the cluster has now.`,
		Args: arguments(0, 0),
		RunE: a.onStore(func(ctx context.Context, s store, _ []string) error {
			return runEnv(ctx, a, s, dir)
		}),
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`directory` of the certificate")
	must(cmd.MarkFlagDirname("dir"))
	return cmd
}

// etcdctlEnv is what `etcd env` writes for programs.
type etcdctlEnv struct {
	Endpoints string `json:"ETCDCTL_ENDPOINTS"`
	CACert    string `json:"ETCDCTL_CACERT"`
	Cert      string `json:"ETCDCTL_CERT"`
	Key       string `json:"ETCDCTL_KEY"`
}

func runEnv(ctx context.Context, a *app, s store, dir string) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	urls, _, err := endpoints(ctx, s, cluster)
	if err != nil {
		return err
	}
	if dir == "" {
		if dir, err = a.userDir(cluster); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	b := filesOf(dir, envName)
	kept, err := a.usable(ctx, s, cluster, b, envRenew)
	if err != nil {
		return err
	}
	if kept.IsZero() {
		if err := a.issue(ctx, s, cluster, &b, envTTL); err != nil {
			return err
		}
	}
	env := etcdctlEnv{strings.Join(urls, ","), b.CAFile, b.CertFile, b.KeyFile}
	all := []string{"ETCDCTL_ENDPOINTS=" + shellQuote(env.Endpoints), "ETCDCTL_CACERT=" + shellQuote(env.CACert),
		"ETCDCTL_CERT=" + shellQuote(env.Cert), "ETCDCTL_KEY=" + shellQuote(env.Key)}
	return a.show(view{data: env, names: all, table: func(w io.Writer, _, _ bool) error {
		for _, line := range all {
			if _, err := fmt.Fprintln(w, "export "+line); err != nil {
				return err
			}
		}
		return nil
	}})
}

// userDir is where the user's certificate for a cluster is kept.
func (a *app) userDir(cluster string) (string, error) {
	base := a.getenv("XDG_CONFIG_HOME")
	if base == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", refused(&cke.Error{What: "neither XDG_CONFIG_HOME nor HOME names a directory for the certificate", Unchanged: true, Try: "ckecli etcd env --dir DIR"})
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "ckecli", cluster), nil
}

// usable returns when the certificate that is there expires; zero: it has to be issued, as it would be valid for less than left.
func (a *app) usable(ctx context.Context, s identities, cluster string, b issued, left time.Duration) (until time.Time, err error) {
	pair, err := tls.LoadX509KeyPair(b.CertFile, b.KeyFile)
	if err != nil || pair.Leaf.Subject.CommonName != b.Name || pair.Leaf.NotAfter.Sub(a.now()) < left {
		return until, nil
	}
	ca, err := os.ReadFile(b.CAFile)
	if err != nil {
		return until, nil
	}
	id, err := s.Identity(ctx, cluster)
	if err != nil {
		return until, err
	}
	authority := pki.New(s.Secrets(cluster), cluster, a.now)
	now, err := authority.ServerCA(ctx, id.Authorities)
	ours := false
	if err == nil {
		ours, err = authority.SignsClient(ctx, id.Authorities, pair.Leaf)
	}
	switch {
	case cke.CodeOf(err) == cke.CodeSecret:
		return pair.Leaf.NotAfter, nil // without the key file no other can be issued either
	case err != nil && !errors.Is(err, cke.ErrNotFound):
		return until, err
	case err == nil && ours && bytes.Equal(ca, now):
		return pair.Leaf.NotAfter, nil
	}
	return until, nil
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+=-]+$`)

// shellQuote returns s as one word of a POSIX shell.
func shellQuote(s string) string {
	if shellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
