// Command cke is the daemon: it leads etcd clusters and keeps them as they are declared.
package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	_ "time/tzdata" // schedules name time zones, and a host may have none

	welllog "github.com/cybozu-go/log"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"cke"
)

var version = "dev" // set by the linker

// options are the daemon's flags.
type options struct {
	config, dataDir, http string
	hostName              string
	logFormat, logLevel   string
	man                   bool
}

func main() {
	if err := newCommand().Execute(); err != nil {
		os.Exit(exitCode(err))
	}
}

func newCommand() *cobra.Command {
	// cobra takes over what libraries declared, which here is well's flags for a log of its own.
	pflag.CommandLine = pflag.NewFlagSet("cke", pflag.ContinueOnError)
	var o options
	cmd := &cobra.Command{
		Use:     "cke",
		Short:   "Keep etcd clusters on bare-metal nodes as they are declared",
		Long:    "cke leads etcd clusters: it bootstraps them on nodes over SSH and the Docker API and keeps them healthy.\nWithout a configuration file it embeds its own store and serves HTTP on " + cke.DefaultListen + ".",
		Version: version,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return misused(fmt.Errorf("unexpected argument %q: cke takes flags only", args[0]))
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.man {
				cmd.DisableAutoGenTag = true
				return doc.GenMan(cmd, &doc.GenManHeader{Title: "CKE", Section: "8", Source: "cke", Manual: "cke"}, os.Stdout)
			}
			log, err := newLogger(o)
			if err == nil {
				err = o.complete()
			}
			if err != nil {
				return misused(err)
			}
			if err := run(o, cmd.Flags().Changed("config"), log); err != nil {
				tell(err)
				return err
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused(err) })
	f := cmd.Flags()
	f.StringVar(&o.config, "config", cke.DefaultConfigFile, "configuration file")
	f.StringVar(&o.dataDir, "data-dir", "", "directory of the embedded store; overrides the file")
	f.StringVar(&o.http, "http", "", "address and port of the HTTP API; overrides the file")
	f.StringVar(&o.hostName, "host-name", "", "name of this host in leadership and records (default: the system's host name)")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&o.man, "man", false, "print the manual page, and exit")
	_ = f.MarkHidden("man") // it is for those who make packages; the flag exists
	return cmd
}

var errUsage = errors.New("usage")

// misused reports a wrong flag or argument.
func misused(err error) error {
	fmt.Fprintf(os.Stderr, "error: %v\nTry: cke --help\n", err)
	return errUsage
}

// complete refuses flags that no configuration file could make right, and makes paths absolute.
func (o *options) complete() (err error) {
	if _, _, err := net.SplitHostPort(o.http); o.http != "" && err != nil {
		return fmt.Errorf("--http %s: want HOST:PORT, as %s", o.http, cke.DefaultListen)
	}
	if o.dataDir != "" {
		o.dataDir, err = filepath.Abs(o.dataDir)
	}
	return err
}

// exitCode follows the command line's contract.
func exitCode(err error) int {
	switch {
	case errors.Is(err, errUsage), cke.CodeOf(err) == cke.CodeConfig:
		return 64
	case cke.CodeOf(err) == cke.CodeStore:
		return 8
	}
	return 1
}

// tell prints an error as ckecli would: what, the facts, the way out.
func tell(err error) {
	var e *cke.Error
	if !errors.As(err, &e) {
		fmt.Fprintln(os.Stderr, "error:", err)
		return
	}
	cause := e.What
	if e.Err != nil {
		cause += ": " + e.Err.Error()
	}
	fmt.Fprintf(os.Stderr, "error[%s]: %s\n", e.Code, cause)
	for _, f := range e.Facts {
		fmt.Fprintln(os.Stderr, "  "+f)
	}
	if e.Try != "" {
		fmt.Fprintln(os.Stderr, "Try: "+e.Try)
	}
}

func newLogger(o options) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %s: want debug, info, warn or error", o.logLevel)
	}
	var handler slog.Handler
	switch o.logFormat {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	default:
		return nil, fmt.Errorf("--log-format %s: want text or json", o.logFormat)
	}
	log := slog.New(handler)
	slog.SetDefault(log)
	welllog.DefaultLogger().SetFormatter(wellFormat{log})
	return log, nil
}
