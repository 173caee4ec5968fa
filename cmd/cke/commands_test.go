package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
)

// A command of the configuration gets its words, the arguments of the daemon and the environment of its node, and its end is kept.
func TestCommands_RunAsTheConfigurationSays(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte(`#!/bin/sh
case "$1" in
show) echo "$# $*"; env | grep ^CKE_ ;;
long) head -c 200000 /dev/zero | tr '\\0' x; echo end ;;
fail) echo no power >&2; exit 3 ;;
hang) sleep 60 ;;
esac
`), 0o700); err != nil {
		t.Fatal(err)
	}
	c := commands{"show": {program, "show", "two words"}, "long": {program, "long"}, "fail": {program, "fail"}, "hang": {program, "hang"}}
	if got := c.Names(); !slices.Equal(got, []string{"fail", "hang", "long", "show"}) {
		t.Error(got)
	}
	run := func(name string, limit time.Duration, args ...string) (string, error) {
		return c.Run(context.Background(), cke.CommandRun{Name: name, Entry: "e1", Attempt: 2, Cluster: "prod", Node: cke.Node{Hostname: "n1", Address: "10.0.0.1"}, Limit: limit}, args...)
	}
	out, err := run("show", time.Minute, "10.0.0.1")
	if err != nil || !strings.HasPrefix(out, "3 show two words 10.0.0.1\n") {
		t.Errorf("%v, %q", err, out)
	}
	for _, line := range []string{"CKE_NODE=n1", "CKE_ATTEMPT=2"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("the environment lacks %s: %q", line, out)
		}
	}
	if out, err = run("long", time.Minute); err != nil || len(out) > cke.MaxCommandOutput || !strings.HasSuffix(out, "end\n") {
		t.Errorf("%v, %d bytes of output, at most %d and the end of it are kept", err, len(out), cke.MaxCommandOutput)
	}
	if out, err = run("fail", time.Minute); err == nil || !strings.Contains(err.Error(), "3") || !strings.Contains(out+err.Error(), "no power") {
		t.Errorf("%v, %q", err, out)
	}
	began := time.Now()
	if _, err = run("hang", 200*time.Millisecond); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	if _, err = run("none", time.Minute); !errors.Is(err, cke.ErrNotFound) || cke.CodeOf(err) != cke.CodeConfig {
		t.Errorf("%v", err)
	}
}
