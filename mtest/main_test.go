// Package mtest_test runs the real programs against real nodes: machines with their own sshd and Docker engine that can
// be killed, frozen, cut off, filled up and wiped. Its tests are skipped under -short.
package mtest_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"cke/mtest/lab"
	"cke/mtest/rig"
)

var (
	// bin holds cke and ckecli, built once for all tests.
	bin string
	// pool lends nodes that have the etcd image.
	pool = lab.NewPool(lab.WithEtcd(rig.EtcdVersion))
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if testing.Short() {
		return m.Run()
	}
	os.Setenv("AWS_EC2_METADATA_DISABLED", "true") // it is not on this machine
	dir, err := os.MkdirTemp("", "cke-mtest-")
	if err == nil {
		bin = dir
		defer os.RemoveAll(dir)
		err = rig.Build(context.Background(), dir, rig.BuildArgs()...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := pool.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
