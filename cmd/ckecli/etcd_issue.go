package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"cke"
	"cke/pki"
)

// issueOptions are the options of `etcd issue`.
type issueOptions struct {
	ttl       time.Duration
	out       string
	overwrite bool
	// renewBefore keeps a certificate that is valid for longer than this; zero: none is kept.
	renewBefore time.Duration
}

// defaultClientTTL is how long an issued client certificate is valid.
const defaultClientTTL = 365 * 24 * time.Hour

func newIssueCommand(a *app) *cobra.Command {
	var o issueOptions
	cmd := &cobra.Command{
		Use:   "issue NAME",
		Short: "Issue a client certificate",
		Long: `Issue a client certificate for NAME, and write NAME.crt, NAME.key and ca.crt. If etcd's authentication is on, members
take NAME for the user: ` + "`ckecli etcd user add`" + ` makes one. It needs the secret key file of the management host.

With --renew-before the command can be run regularly, as once a day: it keeps files that are valid for longer than that, and replaces
others, also those of a certificate authority that the cluster no longer has.`,
		Args: arguments(1, 1),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if err := checkClientName(cmd, args[0]); err != nil {
				return err
			}
			switch {
			case o.ttl <= 0:
				return usageError{errors.New("--ttl must be greater than zero"), cmd.CommandPath()}
			case o.renewBefore < 0 || o.renewBefore >= o.ttl:
				return usageError{errors.New("--renew-before must be less than --ttl, and not negative"), cmd.CommandPath()}
			}
			return nil
		},
		RunE: a.onStore(func(ctx context.Context, s store, args []string) error {
			return runIssue(ctx, a, s, args[0], o)
		}),
	}
	cmd.Flags().DurationVar(&o.ttl, "ttl", defaultClientTTL, "how long it is valid")
	cmd.Flags().StringVar(&o.out, "out", ".", "`directory` to write to")
	cmd.Flags().BoolVar(&o.overwrite, "overwrite", false, "replace existing files")
	cmd.Flags().DurationVar(&o.renewBefore, "renew-before", 0, "replace existing files only if they are valid for less than `duration`")
	must(cmd.MarkFlagDirname("out"))
	return cmd
}

func checkClientName(cmd *cobra.Command, name string) error {
	if err := cke.CheckClientName(name); err != nil {
		return usageError{err, cmd.CommandPath()}
	}
	return nil
}

// issued is a client certificate as commands write it for programs.
type issued struct {
	Name     string    `json:"name"`
	CertFile string    `json:"certFile"`
	KeyFile  string    `json:"keyFile"`
	CAFile   string    `json:"caFile"`
	NotAfter time.Time `json:"notAfter"`
}

// filesOf names the files of one client in a directory.
func filesOf(dir, name string) issued {
	return issued{Name: name, CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key"), CAFile: filepath.Join(dir, "ca.crt")}
}

func runIssue(ctx context.Context, a *app, s store, name string, o issueOptions) error {
	cluster, err := a.theCluster(ctx, s)
	if err != nil {
		return err
	}
	b := filesOf(o.out, name)
	kept, state := time.Time{}, "Issued"
	if o.renewBefore > 0 {
		if kept, err = a.usable(ctx, s, cluster, b, o.renewBefore); err != nil {
			return err
		}
	}
	for _, file := range []string{b.CertFile, b.KeyFile} {
		if _, err := os.Lstat(file); err == nil && !o.overwrite && o.renewBefore == 0 {
			return &cke.Error{Code: cke.CodeConfirm, What: file + " already exists", Unchanged: true, Try: "the same command with --overwrite"}
		}
	}
	if b.NotAfter = kept; !kept.IsZero() {
		state = "Kept"
	} else if err := a.issue(ctx, s, cluster, &b, o.ttl); err != nil {
		return err
	}
	return a.show(view{data: b, names: []string{b.CertFile, b.KeyFile, b.CAFile}, table: func(w io.Writer, _, _ bool) error {
		fmt.Fprintf(a.stderr, "%s for %s, valid until %s:\n", state, name, b.NotAfter.UTC().Format("2006-01-02 15:04Z"))
		_, err := io.WriteString(w, lines([]string{b.CertFile, b.KeyFile, b.CAFile}))
		return err
	}})
}

// issue issues a client certificate of a formed cluster into the files that b names.
func (a *app) issue(ctx context.Context, s identities, cluster string, b *issued, ttl time.Duration) error {
	id, err := s.Identity(ctx, cluster)
	if err != nil {
		return err
	}
	if !isFormed(id) {
		return refused(&cke.Error{Code: cke.CodeUnformed, What: cluster + " is not formed yet: no member would know the certificate", Unchanged: true,
			Try: a.again(cluster, "status --watch")})
	}
	cert, key, ca, notAfter, err := pki.New(s.Secrets(cluster), cluster, a.now).IssueClient(ctx, id.Authorities, b.Name, ttl)
	if err != nil {
		return err
	}
	b.NotAfter = notAfter
	if err := os.MkdirAll(filepath.Dir(b.KeyFile), 0o700); err != nil {
		return fmt.Errorf("make the directory for the certificate: %w", err)
	}
	for _, f := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{{b.KeyFile, 0o600, key}, {b.CertFile, 0o644, cert}, {b.CAFile, 0o644, ca}} {
		if err := writeFile(f.name, f.mode, f.data); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

// writeFile puts data in place of whatever has that name; nobody sees half of it.
func writeFile(name string, mode os.FileMode, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".ckecli-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails when all went well
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}
