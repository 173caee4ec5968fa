package main

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"cke"
	"cke/clusterfile"
	"cke/quorum"
)

func newClusterInitCommand(a *app) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "init [USER@]ADDRESS…",
		Short: "Write a cluster file to start from",
		Long: `Write a cluster file with these nodes as control-plane nodes, and comments on further options, to stdout. With -o json it is
JSON, which has no comments and is a valid cluster file as well.`,
		Example: "  ckecli cluster init --name prod cke@10.0.0.11 cke@10.0.0.12 cke@10.0.0.13 > cluster.yml",
		Args:    arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var faulty *cke.Error
			err := runInit(a, name, args)
			if err != nil && !errors.As(err, &faulty) {
				return usageError{err, cmd.CommandPath()}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "prod", "name of the cluster")
	return cmd
}

func runInit(a *app, name string, nodes []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, initHead, name)
	for i, arg := range nodes {
		n, err := userAtAddress(arg)
		if err != nil {
			return err
		}
		if _, err := netip.ParseAddr(n.Address); err != nil {
			return fmt.Errorf("%q is not an IP address; members reach each other by the addresses of this file", n.Address)
		}
		fmt.Fprintf(&b, "  - address: %s\n    hostname: cp%d\n", n.Address, i+1)
		if n.User != "" {
			fmt.Fprintf(&b, "    user: %s\n", n.User)
		}
		b.WriteString("    control_plane: true\n")
	}
	fmt.Fprintf(&b, initTail, cke.DefaultSSHUser, cke.DefaultEtcdVersion)
	if n := len(nodes); n%2 == 0 {
		fmt.Fprintf(a.stderr, "warning: %d members tolerate the loss of %d, as %d would; an odd number is better\n", n, n-quorum.Of(n), n-1)
	}
	c, _, err := clusterfile.ParseCluster("", []byte(b.String()))
	if err != nil {
		return err
	}
	return a.showFile(c, c.Name, b.String())
}

const initHead = `# A cluster of etcd. Check it with: ckecli cluster validate FILE
# Store it, and follow its bootstrap, with: ckecli cluster set FILE
name: %s

# The machines. A node with control_plane: true carries a member; three or five of them are usual.
nodes:
`

const initTail = `
# Further options of a node:
#    user: cke                       # who logs in by SSH; default: %s
#    ssh: {port: 22, host_key: "ssh-ed25519 AAAA…"}   # default: the key is pinned at first sight
#    zone: rack1

options:
  etcd:
    version: %s
#    image: registry.example/etcd@sha256:…   # default: the official image of the version
#    volume_root: /mnt/nvme/etcd             # default: the engine's own place
#    client_port: 2379
#    peer_port: 2380
#    extra_args: ["--quota-backend-bytes=8589934592"]
#    resources: {cpus: 2, memory: 8GiB}

# policies:
#  replace: {mode: auto, grace: 10m}   # a member whose data is provably gone
#  volumes: {on_removal: archive, keep: 168h}

# How nodes of the reboot queue are rebooted; the command is one of the daemon's configuration:
# reboot: {command: power-cycle, boot_timeout: 30m, window: {schedule: "0 2 * * 6", duration: 4h}}

# Management hosts whose daemon should lead the cluster; others do while none of these is alive:
# prefer: [boot-1]

# How machines of the repair queue are repaired:
# repair: {procedures: [{on: unreachable, steps: [{command: power-cycle, watch: 10m, reboot: true}]}]}
`
