package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"cke"
)

// Running etcdctl.
const (
	// ctlTTL is how long its certificate is valid.
	ctlTTL = time.Hour
	// ctlGrace is how long etcdctl may take to end once it was asked to.
	ctlGrace = 5 * time.Second
)

func newCtlCommand(a *app) *cobra.Command {
	name := envName
	cmd := &cobra.Command{
		Use: "ctl [--as NAME] -- ARGS", Short: "Run etcdctl on the cluster",
		Long: `Run etcdctl, which must be in PATH, with the endpoints of the cluster and a client certificate for an hour. The certificate
is kept in a private directory that is removed when etcdctl exits, also by a signal. What etcdctl reads and writes is passed
on, and so is its exit code.

If etcd's authentication is on, members take the name in the certificate for the user; --as names another one. Issuing
needs the secret key file of the management host. For commands that run longer than an hour use ` + "`ckecli etcd env`" + `.`,
		Example: "  ckecli etcd ctl -- endpoint status -w table\n  ckecli etcd ctl --cluster prod -- get --prefix /registry/ --keys-only",
		Args:    arguments(1, -1),
		PreRunE: func(cmd *cobra.Command, _ []string) error { return checkClientName(cmd, name) },
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runCtl(ctx, a, s, name, args)
		}),
	}
	cmd.Flags().StringVar(&name, "as", envName, "`name` in the certificate")
	cmd.Flags().SetInterspersed(false) // what follows etcdctl's command is etcdctl's
	return cmd
}

func runCtl(ctx context.Context, a *app, s store, name string, args []string) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	program, err := exec.LookPath("etcdctl")
	if err != nil {
		return refused(&cke.Error{What: "there is no etcdctl in PATH on this host", Unchanged: true, Try: a.again(cluster, "etcd env") + ", for another client of etcd",
			Facts: []string{"it comes with every release of etcd, and etcd's image has it as /usr/local/bin/etcdctl"}})
	}
	urls, _, err := endpoints(ctx, s, cluster)
	if err != nil {
		return err
	}
	told := make(chan os.Signal, 4) // from here on no signal leaves the certificate behind
	signal.Notify(told, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(told)
	dir, err := os.MkdirTemp("", "ckecli-etcdctl-")
	if err != nil {
		return fmt.Errorf("make a directory for the certificate: %w", err)
	}
	defer os.RemoveAll(dir)
	b := filesOf(dir, name)
	if err := a.issue(ctx, s, cluster, &b, ctlTTL); err != nil {
		return err
	}
	cmd := exec.Command(program, append(ctlFlags(urls, b, args), args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr
	cmd.Env = withoutEnv(os.Environ(), "ETCDCTL_ENDPOINTS", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY")
	return runTold(ctx, cmd, told)
}

// ctlFlags are what etcdctl reaches the cluster with, but for what the user gives: it would take endpoints of both.
// They are no variables, since it refuses what is given as flag and as variable.
func ctlFlags(urls []string, b issued, args []string) []string {
	var flags []string
	for _, f := range [][2]string{{"--endpoints", strings.Join(urls, ",")}, {"--cacert", b.CAFile}, {"--cert", b.CertFile}, {"--key", b.KeyFile}} {
		given := func(arg string) bool { return arg == f[0] || strings.HasPrefix(arg, f[0]+"=") }
		if !slices.ContainsFunc(args, given) {
			flags = append(flags, f[0]+"="+f[1])
		}
	}
	return flags
}

func withoutEnv(env []string, names ...string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(names, name)
	})
}

// runTold runs a program to its end, and passes on the signals that this process receives, and its exit code.
func runTold(ctx context.Context, cmd *exec.Cmd, told <-chan os.Signal) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var timeout, kill <-chan time.Time
	if end, bounded := ctx.Deadline(); bounded {
		timer := time.NewTimer(time.Until(end))
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		select {
		case err := <-ended:
			return exitOfProgram(ctx, cmd, err)
		case s := <-told:
			_ = cmd.Process.Signal(s) // it may have ended
		case <-timeout:
			_ = cmd.Process.Signal(syscall.SIGTERM)
			timer := time.NewTimer(ctlGrace)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			_ = cmd.Process.Kill()
		}
	}
}

// exitOfProgram makes the end of a program that of this command: its exit code, or 128 and the signal that ended it.
func exitOfProgram(ctx context.Context, cmd *exec.Cmd, err error) error {
	var exit *exec.ExitError
	switch {
	case errors.Is(context.Cause(ctx), errTimedOut):
		return ctx.Err()
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitError(128 + int(status.Signal()))
		}
		return exitError(exit.ExitCode())
	case err != nil:
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return nil
}
