package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker of a release.
var version string

// versionInfo shows what this program was built from.
type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", GroupID: groupSelf, Args: arguments(0, 0),
		Short: "Show the version of ckecli",
		RunE:  func(*cobra.Command, []string) error { return runVersion(a) },
	}
}

func runVersion(a *app) error {
	v := buildVersion()
	return a.show(view{data: v, names: []string{v.Version}, table: func(w io.Writer, _, wide bool) error {
		line := "ckecli " + v.Version
		if wide {
			line += fmt.Sprintf(", revision %s, %s, %s", orDash(v.Revision), v.Go, v.Platform)
		}
		_, err := fmt.Fprintln(w, line)
		return err
	}})
}

func buildVersion() versionInfo {
	v := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
		if v.Version == "" {
			v.Version = info.Main.Version
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "development"
	}
	return v
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
