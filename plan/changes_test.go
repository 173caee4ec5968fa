package plan_test

import (
	"slices"
	"testing"
	"time"

	"cke"
	"cke/plan"
)

// What differs is shown as it is written in the file.
func TestChanges_TellsDurationsAndSizesAsTheyAreWritten(t *testing.T) {
	before := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "10.0.0.11", ControlPlane: true}}}
	after := before
	after.Options.Etcd.Resources.Memory = 8 << 30
	after.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8589934592"}
	after.Policies.Replace.Grace = cke.Duration(2 * time.Second)
	after.Policies.Volumes.Keep = cke.Duration(90 * time.Minute)
	after.Backup.Target = "file:///srv/backups"
	after.Backup.Delta = cke.BackupDelta{Period: cke.Duration(10 * time.Second), Size: 10 << 20}
	got := plan.Changes(before.WithDefaults(), after.WithDefaults())
	for _, want := range []string{
		"options.etcd.resources.memory: 8GiB",
		`options.etcd.extra_args: ["--quota-backend-bytes=8589934592"]`,
		"policies.replace.grace: 10m → 2s",
		"policies.volumes.keep: 168h → 1h30m",
		"backup.delta.period: 10s",
		"backup.delta.size: 10MiB",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
}
