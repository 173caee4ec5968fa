package clusterfile_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke/clusterfile"
)

// one is a cluster file with one thing in it that is wrong.
type one struct {
	file string // added to name and one node, unless it begins with name:
	path string
	says string // in the message or in the remedy
}

func (o one) text() string {
	if strings.HasPrefix(o.file, "name:") {
		return o.file
	}
	if node, ok := strings.CutPrefix(o.file, "node:"); ok {
		return minimal + "    " + strings.TrimSpace(node) + "\n"
	}
	if etcd, ok := strings.CutPrefix(o.file, "etcd:"); ok {
		return minimal + "options:\n  etcd: {" + strings.TrimSpace(etcd) + "}\n"
	}
	return minimal + o.file + "\n"
}

func nodes(addresses ...string) string {
	s := "name: prod\nnodes:\n"
	for _, a := range addresses {
		s += fmt.Sprintf("  - {address: %q, control_plane: true}\n", a)
	}
	return s
}

// zoned are nodes in zones; "": a node has none.
func zoned(zones ...string) string {
	s := "name: prod\nnodes:\n"
	for i, z := range zones {
		s += fmt.Sprintf("  - {address: 10.0.0.%d, control_plane: true, zone: %q}\n", i+1, z)
	}
	return s
}

func TestParseCluster_TellsTheOneThingThatIsWrong(t *testing.T) {
	wrong := []one{
		{"name: [a]\nnodes: [{address: 10.0.0.1, control_plane: true}]", "name", "is a list"},
		{"name: -a\nnodes: [{address: 10.0.0.1, control_plane: true}]", "name", "lower-case"},
		{"name: " + strings.Repeat("a", 41) + "\nnodes: [{address: 10.0.0.1, control_plane: true}]", "name", "1 to 40"},
		{"name: ok", "nodes", "is missing"},
		{"name: ok\nnodes: {}", "nodes", "want a list"},
		{"name: ok\nnodes: []", "nodes", "at least one"},
		{"name: ok\nnodes: [~]", "nodes[0]", "is empty"},
		{"name: ok\nnodes: [{address: 10.0.0.1}]", "nodes", "no node is a control-plane node"},
		{nodes("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "10.0.0.8"), "nodes", "at most 7"},
		{nodes(""), "nodes[0].address", "is missing"},
		{nodes("10.0.0.1:22"), "nodes[0].address", "without port"},
		{nodes("10.0.0.0/24"), "nodes[0].address", "invalid IP address"},
		{nodes("10.0.0.01"), "nodes[0].address", "invalid IP address"},
		{nodes("0.0.0.0"), "nodes[0].address", "not the address of a machine"},
		{nodes("224.0.0.1"), "nodes[0].address", "not the address of a machine"},
		{nodes("fe80::1%eth0"), "nodes[0].address", "zone"},
		{nodes("2001:DB8::1"), "nodes[0].address", "Write 2001:db8::1"},
		{nodes("::ffff:10.0.0.1"), "nodes[0].address", "Write 10.0.0.1"},
		{nodes("10.0.0.1", "10.0.0.1", "10.0.0.3"), "nodes[1].address", "line 3"},
		{"name: ok\nnodes: [{address: 10.0.0.1, control_plane: true}, {address: 10.0.0.2, hostname: 10.0.0.1}]", "nodes[1].hostname", "other than the node's own"},
		{"name: ok\nnodes: [{address: 10.0.0.1, hostname: a, control_plane: true}, {address: 10.0.0.2, hostname: a}]", "nodes[1].hostname", "name a is given twice"},
		{"node: hostname: a=b", "nodes[0].hostname", "member's name"},
		{"node: user: root admin", "nodes[0].user", "invalid user name"},
		{"node: ssh: {port: 0}", "nodes[0].ssh.port", "1 to 65535"},
		{"node: ssh: {port: \"22\"}", "nodes[0].ssh.port", "without quotes"},
		{"node: ssh: {port: 2380}", "nodes[0].ssh.port", "also a port of etcd"},
		{"node: ssh: {host_key: ssh-ed25519}", "nodes[0].ssh.host_key", "not a public host key"},
		{"node: ssh: {host_key: -----BEGIN OPENSSH PRIVATE KEY-----}", "nodes[0].ssh.host_key", "is a private key"},
		{"node: labels: {a b: c}", `nodes[0].labels["a b"]`, "without spaces"},
		{"node: labels: {a: [b]}", "nodes[0].labels.a", "want text"},
		{"node: prot: 22", "nodes[0].prot", "unknown key"},
		{"node: port: 22", "nodes[0].port", "It belongs to nodes[].ssh"},
		{"node: Hostname: a", "nodes[0].Hostname", "did you mean hostname?"},
		{"etcd: version: v3.6.16", "options.etcd.version", "without the v"},
		{"etcd: version: 3.6", "options.etcd.version", "all three numbers"},
		{"etcd: version: 3.7.0-rc.1", "options.etcd.version", "not a version"},
		{"etcd: version: 3.4.30", "options.etcd.version", "3.5 and newer"},
		{"etcd: version: 4.0.0", "options.etcd.version", "3.5 and newer 3.x, not 4.0.0"},
		{"etcd: version: 2.3.8", "options.etcd.version", "3.5 and newer"},
		{"etcd: version: 3.5.2", "options.etcd.version", "corrupts data"},
		{"etcd: image: r.example.com/Etcd:v1", "options.etcd.image", "invalid image reference"},
		{"etcd: image: 'r.example.com/etcd:v3.5.35', version: 3.6.16", "options.etcd.image", "Set version: 3.5.35"},
		{"etcd: image: 'r.example.com/etcd:v3.4.35'", "options.etcd.image", "cke runs etcd 3.5 and newer"},
		{"etcd: version: 3.6.15, image: 'r.example.com/etcd:3.6.14'", "options.etcd.image", "but the version is 3.6.15"},
		{"etcd: volume_name: a/b", "options.etcd.volume_name", "invalid volume name"},
		{"etcd: volume_root: var/etcd", "options.etcd.volume_root", "relative path"},
		{"etcd: volume_root: /mnt/../etc", "options.etcd.volume_root", "Write /etc"},
		{"etcd: volume_root: /", "options.etcd.volume_root", "root of the file system"},
		{"etcd: volume_root: /run/etcd", "options.etcd.volume_root", "is lost in a restart"},
		{"etcd: client_port: 70000", "options.etcd.client_port", "invalid port"},
		{"etcd: client_port: 1.5", "options.etcd.client_port", "whole number"},
		{"etcd: peer_port: 2379", "options.etcd.peer_port", "cannot share"},
		{"etcd: extra_args: [--name=x]", "options.etcd.extra_args[0]", "member's name is the node's hostname"},
		{"etcd: extra_args: [--auto-compaction-mode=hourly]", "options.etcd.extra_args[0]", "periodic, revision"},
		{"etcd: extra_args: [--DATA-DIR=/x]", "options.etcd.extra_args[0]", "lower case"},
		{"etcd: extra_args: [--Pre-Vote=false]", "options.etcd.extra_args[0]", "Write --pre-vote."},
		{"etcd: extra_args: [--help]", "options.etcd.extra_args[0]", "print its arguments and exit"},
		{"etcd: extra_args: [--h]", "options.etcd.extra_args[0]", "print its arguments and exit"},
		{"etcd: extra_args: [-pre-vote=false]", "options.etcd.extra_args[0]", "Write --pre-vote=false."},
		{"etcd: extra_args: [--pre-vote=maybe]", "options.etcd.extra_args[0]", "true or false"},
		{"etcd: extra_args: [--pre-vot=true]", "options.etcd.extra_args[0]", "Did you mean --pre-vote?"},
		{"etcd: extra_args: [--strange=1]", "options.etcd.extra_args[0]", "does not have --strange and would not start"},
		{"etcd: extra_args: [--snapshot-count 10000]", "options.etcd.extra_args[0]", "is not one argument"},
		{"etcd: extra_args: [--snapshot-count=many]", "options.etcd.extra_args[0]", "a whole number from 0"},
		{"etcd: extra_args: [--raft-read-timeout=5]", "options.etcd.extra_args[0]", "a duration"},
		{"etcd: extra_args: [--metrics=all]", "options.etcd.extra_args[0]", "basic, extensive"},
		{"etcd: extra_binds: [{source: /var/run/docker.sock, destination: /x}]", "options.etcd.extra_binds[0].source", "everything on the node that root can"},
		{"etcd: extra_binds: [{source: /proc, destination: /x}]", "options.etcd.extra_binds[0].source", "the kernel's"},
		{"etcd: extra_binds: [{source: /etc, destination: /x}]", "options.etcd.extra_binds[0].source", "read_only: true"},
		{"etcd: extra_binds: [{source: /x, destination: /etc}]", "options.etcd.extra_binds[0].destination", "would hide"},
		{"etcd: extra_binds: [{source: /x, destination: /usr/local/bin/etcd}]", "options.etcd.extra_binds[0].destination", "would hide"},
		{"etcd: extra_binds: [{source: /x, destination: /proc/sys}]", "options.etcd.extra_binds[0].destination", "would hide"},
		{"etcd: extra_args: ['']", "options.etcd.extra_args[0]", "not an argument"},
		{"etcd: extra_args: [--]", "options.etcd.extra_args[0]", "not an argument"},
		{"etcd: extra_args: [--heartbeat-interval=100ms]", "options.etcd.extra_args[0]", "milliseconds"},
		{"etcd: extra_args: [--election-timeout=60000]", "options.etcd.extra_args[0]", "50000"},
		{"etcd: extra_args: [--memory-mlock, --experimental-memory-mlock]", "options.etcd.extra_args[1]", "does not start with both"},
		{"etcd: extra_args: [--feature-gates=LeaseCheckpointPersist=true]", "options.etcd.extra_args[0]", "needs LeaseCheckpoint"},
		{"etcd: extra_args: [--feature-gates=LeaseCheckpoint]", "options.etcd.extra_args[0]", "sets no feature gate"},
		{"etcd: extra_env: {ETCD_DATA_DIR: /x}", "options.etcd.extra_env.ETCD_DATA_DIR", "volume_root"},
		{"etcd: extra_env: {ETCD_MAX_WALS: 5}", "options.etcd.extra_env.ETCD_MAX_WALS", "Write --max-wals=5 in extra_args"},
		{"etcd: extra_env: {a-b: 1}", "options.etcd.extra_env.a-b", "not a valid name of an environment variable"},
		{"etcd: extra_binds: [{source: /a}]", "options.etcd.extra_binds[0].destination", "is missing"},
		{"etcd: extra_binds: [{source: /a, destination: /b, read_only: maybe}]", "options.etcd.extra_binds[0].read_only", "true or false"},
		{"etcd: extra_binds: [{source: /a, destination: b}]", "options.etcd.extra_binds[0].destination", "relative path"},
		{"etcd: extra_binds: [{source: /a, destination: /var/lib/etcd/wal}]", "options.etcd.extra_binds[0].destination", "clashes"},
		{"etcd: extra_binds: [{source: /a, destination: /b}, {source: /c, destination: /b}]", "options.etcd.extra_binds[1].destination", "given twice"},
		{"etcd: resources: {cpus: -1}", "options.etcd.resources.cpus", "is negative"},
		{"etcd: resources: {cpus: .inf}", "options.etcd.resources.cpus", "a number"},
		{"etcd: resources: {cpus: 500m}", "options.etcd.resources.cpus", "a number"},
		{"etcd: resources: {memory: 8Gi}", "options.etcd.resources.memory", "GiB"},
		{"etcd: resources: {memory: 1MiB}", "options.etcd.resources.memory", "6MiB"},
		{"etcd: resources: {memory: -1}", "options.etcd.resources.memory", "is not a size"},
		{"policies: {reconcile: Auto}", "policies.reconcile", "did you mean auto?"},
		{"policies: {foreign: keep}", "policies.foreign", "hold, remove"},
		{"policies: {reconcile: window}", "policies.window", "is missing"},
		{"policies: {reconcile: window, window: {schedule: 0 2 * * 6}}", "policies.window.duration", "is missing"},
		{"policies: {reconcile: window, window: {duration: 2h}}", "policies.window.schedule", "is missing"},
		{"prefer: [boot 1]", "prefer[0]", "as `ckecli leader` shows it"},
		{"prefer: [boot-1, boot-2, boot-1]", "prefer[2]", "first at prefer[0]"},
		{"prefer: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]", "prefer", "at most 16"},
		{"reboot: {}", "reboot.command", "is missing"},
		{"reboot: {command: /bin/reboot}", "reboot.command", "from `commands` in the daemon's configuration"},
		{"reboot: {command: x, check: a b}", "reboot.check", "is not the name of a command"},
		{"reboot: {command: x, command_timeout: 0s}", "reboot.command_timeout", "5m is usual"},
		{"reboot: {command: x, boot_timeout: 1s}", "reboot.boot_timeout", "too short"},
		{"reboot: {command: x, interval: 48h}", "reboot.interval", "too long"},
		{"reboot: {command: x, settle: 0s}", "reboot.settle", "2m is usual"},
		{"reboot: {command: x, retries: -1}", "reboot.retries", "from 0 to 10"},
		{"reboot: {command: x, max_concurrent: 0}", "reboot.max_concurrent", "only one reboots at a time"},
		{"reboot: {command: x, window: {schedule: 0 2 * * 6}}", "reboot.window.duration", "no node would ever be rebooted"},
		{"repair: {}", "repair.procedures", "is missing"},
		{"repair: {procedures: [{steps: [{command: x}]}]}", "repair.procedures[0].on", "is missing"},
		{"repair: {procedures: [{on: A b, steps: [{command: x}]}]}", "repair.procedures[0].on", "is not the name of a fault"},
		{"repair: {procedures: [{on: x}]}", "repair.procedures[0].steps", "has 0 steps"},
		{"repair: {procedures: [{on: x, check: /bin/true, steps: [{command: x}]}]}", "repair.procedures[0].check", "is not the name of a command"},
		{"repair: {procedures: [{on: x, types: [''], steps: [{command: x}]}]}", "repair.procedures[0].types[0]", "is empty"},
		{"repair: {procedures: [{on: x, steps: [{command: x}]}, {on: x, steps: [{command: x}]}]}", "repair.procedures[1]", "procedure for"},
		{"repair: {procedures: [{on: x, steps: [{}]}]}", "repair.procedures[0].steps[0].command", "is missing"},
		{"repair: {procedures: [{on: x, steps: [{command: a b}]}]}", "repair.procedures[0].steps[0].command", "is not the name of a command"},
		{"repair: {procedures: [{on: x, steps: [{command: x, timeout: 0s}]}]}", "repair.procedures[0].steps[0].timeout", "5m is usual"},
		{"repair: {procedures: [{on: x, steps: [{command: x, watch: 48h}]}]}", "repair.procedures[0].steps[0].watch", "too long"},
		{"repair: {procedures: [{on: x, steps: [{command: x, retries: 11}]}]}", "repair.procedures[0].steps[0].retries", "from 0 to 10"},
		{"repair: {max_concurrent: 0, procedures: [{on: x, steps: [{command: x}]}]}", "repair.max_concurrent", "only one is repaired at a time"},
		{"repair: {per_day: -1, procedures: [{on: x, steps: [{command: x}]}]}", "repair.per_day", "3 is usual"},
		{"repair: {per_day: 101, procedures: [{on: x, steps: [{command: x}]}]}", "repair.per_day", "from 1 to 100"},
		{"repair: {cooldown: 0s, procedures: [{on: x, steps: [{command: x}]}]}", "repair.cooldown", "24h is usual"},
		{"reboot: {command: x, window: {duration: 2h}}", "reboot.window.schedule", "is missing"},
		{"policies: {window: {schedule: 0 2 * * 6, duration: 2h}}", "policies.window", "no effect"},
		{"policies: {replace: {grace: 0s}}", "policies.replace.grace", "1s"},
		{"policies: {replace: {grace: 10}}", "policies.replace.grace", "is not a duration"},
		{"policies: {replace: {grace: -1m}}", "policies.replace.grace", "is not a duration"},
		{"policies: {volumes: {keep: 0s}}", "policies.volumes.keep", "on_removal: delete"},
		{"backup: {delta: {period: 10s}}", "backup.target", "there is delta"},
		{"backup: {target: /var/backups}", "backup.target", "has no scheme"},
		{"backup: {target: 'ftp://x/y'}", "backup.target", "not a backup target"},
		{"backup: {target: 'file://var/backups'}", "backup.target", "names no directory"},
		{"backup: {target: 's3:///prefix'}", "backup.target", "names no bucket"},
		{"backup: {target: 's3://b/p?prefix=a'}", "backup.target", "unknown option prefix"},
		{"backup: {target: 's3://b/p?path_style=maybe'}", "backup.target", "neither true nor false"},
		{"backup: {target: 's3://b/p?endpoint=s3.example.com'}", "backup.target", "not a URL"},
		{"backup: {target: 'file:///b?region=x'}", "backup.target", "names no directory"},
		{"backup: {target: 's3://key:secret@bucket/'}", "backup.target", "credentials"},
		{"backup: {target: 'file:///b', full: {schedule: '0 * * *'}}", "backup.full.schedule", "has 4 fields"},
		{"backup: {target: 'file:///b', full: {schedule: 'TZ=UTC 0 * * * *'}}", "backup.full.schedule", "time_zone"},
		{"backup: {target: 'file:///b', full: {time_zone: UTC}}", "backup.full.schedule", "is missing"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *, time_zone: Local}}", "backup.full.time_zone", "IANA"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, retention: {daily: -1}}", "backup.retention.daily", "is negative"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, retention: {max_age: 10m}}", "backup.retention.max_age", "too short"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, retention: {max_age: 0s}}", "backup.retention.max_age", "zero"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, retention: {within: 0s}}", "backup.retention.within", "zero"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, retention: {within: 72h, max_age: 48h}}", "backup.retention.within", "longer than max_age, 48h"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, compaction: {schedule: '0 3 * *'}}", "backup.compaction.schedule", "has 4 fields"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, compaction: {schedule: 0 3 * * *, time_zone: Mars}}", "backup.compaction.time_zone", "IANA"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, compaction: {time_zone: UTC}}", "backup.compaction.schedule", "is missing"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, compaction: {size: 0}}", "backup.compaction.size", "zero"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, compaction: {events: -1}}", "backup.compaction.events", "is negative"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, delta: {size: 0}}", "backup.delta.size", "zero"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, delta: {period: 10ms}}", "backup.delta.period", "too short"},
		{"backup: {target: 'file:///b', full: {schedule: 0 * * * *}, encryption: {recipients: [me]}}", "backup.encryption.recipients[0]", "age-keygen"},
	}
	for _, c := range wrong {
		t.Run(c.path+" "+c.says, func(t *testing.T) {
			_, _, err := clusterfile.ParseCluster("cluster.yml", []byte(c.text()))
			if err == nil {
				t.Fatalf("accepted:\n%s", c.text())
			}
			got := faults(t, err)
			if len(got) != 1 {
				t.Errorf("want one fault, got\n%v", err)
			}
			if got[0].Path != c.path || !strings.Contains(got[0].Message+" "+got[0].Remedy, c.says) {
				t.Errorf("want %s: … %s …, got\n%v", c.path, c.says, got[0])
			}
			if got[0].Line == 0 {
				t.Errorf("no line in %v", got[0])
			}
		})
	}
	item := regexp.MustCompile(`\[[0-9]*\]`)
	for path := range schemaPaths(t) {
		if strings.HasPrefix(path, "options.etcd.") && !slices.ContainsFunc(wrong, func(o one) bool {
			return strings.HasPrefix(item.ReplaceAllString(o.path, "")+".", item.ReplaceAllString(path, "")+".")
		}) {
			t.Errorf("clusterfile/validate_test.go: no row has a wrong value of %s", path)
		}
	}
}

func TestParseCluster_NeverTellsSecrets(t *testing.T) {
	for _, file := range []string{
		"backup: {target: 's3://key:hunter2@bucket/'}",
		"backup: {target: 's3://key:hunter2%zz@bucket/'}",
		"backup: {target: 'file:///b', encryption: {recipients: [AGE-SECRET-KEY-1HUNTER2]}}",
		"backup: {target: 'file:///b', encryption: {recipients: [age-plugin-x-1hunter2]}}",
		"nodes: [{address: 10.0.0.1, ssh: {host_key: \"-----BEGIN OPENSSH PRIVATE KEY-----\\nhunter2\"}}]",
	} {
		_, _, err := clusterfile.ParseCluster("f", []byte("name: prod\n"+file))
		if err == nil {
			t.Errorf("%s was accepted", file)
		} else if strings.Contains(strings.ToLower(err.Error()), "hunter2") {
			t.Error(err)
		}
	}
}

func TestParseCluster_AcceptsWhatIsRight(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEoAoUNCQXAfSLJsYTqLFSnaXqFHH5jwDc3OHqHRFbsR"
	for _, c := range []one{
		{file: nodes("2001:db8::1")},
		{file: nodes("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7")},
		{file: zoned("r1", "r2", "r3")},
		{file: zoned("", "", "")},
		{file: zoned("r1")},
		{file: "node: ssh: {host_key: " + key + " root@cp1}"},
		{file: "node: hostname: 10.0.0.11"},
		{file: "node: hostname: cp1.example.com"},
		{file: "node: labels: {example.com/rack: 7, on: true, date: 2024-01-01}"},
		{file: "etcd: version: 3.7.3"},
		{file: "etcd: version: 3.5.35, image: 'quay.io/x/etcd:3.5.35.1'"},
		{file: "etcd: image: 'quay.io/x/etcd@sha256:" + strings.Repeat("ab", 32) + "'"},
		{file: "etcd: client_port: 12379, peer_port: 2379"},
		{file: "etcd: extra_args: [--pre-vote=false, --enable-pprof, --snapshot-count=10000, --initial-election-tick-advance=false]"},
		{file: "etcd: extra_args: ['--feature-gates=LeaseCheckpoint=true,LeaseCheckpointPersist=true']"},
		{file: "etcd: version: 3.5.35, extra_args: [--experimental-memory-mlock]"},
		{file: "etcd: resources: {cpus: 0.5, memory: 536870912}"},
		{file: "etcd: extra_binds: [{source: /var/lib/etcd, destination: /var/lib/etcd-old}]"},
		{file: "policies: {reconcile: window, window: {schedule: '*/5 0-6,22 1 jan-mar *', duration: 90m, time_zone: Europe/Berlin}}"},
		{file: "backup: {target: 'azblob://container/prefix', full: {schedule: 30 3 * * MON}}"},
		{file: "backup: {target: 's3://b/p?region=eu-central-1&endpoint=https://s3.example.com:9000&path_style=1', full: {schedule: 30 3 29 2 *}}"},
		{file: "backup: {target: 'file:///b', retention: {last: 2, within: 72h, max_age: 2160h}, compaction: {events: 5, size: 1GiB, schedule: 0 3 * * *, time_zone: Asia/Tokyo}}"},
		{file: "backup:"},
		{file: "backup: {}"},
	} {
		_, warnings, err := clusterfile.ParseCluster("cluster.yml", []byte(c.text()))
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", c.text(), warnings, err)
		}
	}
}

func TestParseCluster_Warns(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEoAoUNCQXAfSLJsYTqLFSnaXqFHH5jwDc3OHqHRFbsR"
	for _, c := range []one{
		{nodes("10.0.0.1", "10.0.0.2"), "nodes", "quorum of 2 is 2, of 1 it is 1"},
		{zoned("r1", "r2", "r2"), "nodes", "2 of 3 control-plane nodes are in zone r2: without it there is no quorum Have at most 1 in one zone"},
		{zoned("r1", "r2", ""), "nodes", "no zone is declared of 10.0.0.3: each counts as in every zone"},
		{nodes("127.0.0.1"), "nodes[0].address", "loopback"},
		{"node: {}\n  - {address: 10.0.0.12, ssh: {host_key: " + key + "}}\n  - {address: 10.0.0.13, ssh: {host_key: " + key + "}}", "nodes[2].ssh.host_key", "same host key"},
		{"etcd: version: 3.8.0", "options.etcd.version", "does not know etcd 3.8"},
		{"etcd: version: 3.7.0", "options.etcd.version", "3.7.1 or newer"},
		{"etcd: image: etcd:latest", "options.etcd.image", "tag or a digest"},
		{"etcd: version: 3.6.99, extra_args: [--strange=1]", "options.etcd.extra_args[0]", "not known to have"},
		{"etcd: version: 3.6.16, image: r.example.com/etcd:v3.6.16, extra_args: [--strange=1]", "options.etcd.extra_args[0]", "not known to have"},
		{"etcd: extra_args: [--quota-backend-bytes=-1]", "options.etcd.extra_args[0]", "until the disk is full"},
		{"etcd: volume_root: /tmp/etcd", "options.etcd.volume_root", "empty /tmp"},
		{"policies: {volumes: {on_removal: delete}}", "policies.volumes.on_removal", "no backups are declared"},
		{"backup: {target: 'file:///b', full: {schedule: 0 0 1 * 1}}", "backup.full.schedule", "differently"},
	} {
		text := strings.Replace(c.text(), "    {}\n", "", 1)
		_, warnings, err := clusterfile.ParseCluster("cluster.yml", []byte(text))
		if err != nil || len(warnings) != 1 {
			t.Errorf("%s\nwarnings %v, error %v", text, warnings, err)
			continue
		}
		w := warnings[0]
		if w.Path != c.path || !strings.Contains(w.Message+" "+w.Remedy, c.says) || w.Line == 0 {
			t.Errorf("want %s: … %s …, got %v", c.path, c.says, w)
		}
	}
}
