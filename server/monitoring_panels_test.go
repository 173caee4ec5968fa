package server_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cke/monitoring"
	"cke/server"
)

// noPanel are metrics without a panel, with the reason.
var noPanel = map[string]string{
	"cke_serving":                             "an alert has it; the panel of leader daemons shows the same",
	"cke_condition_since_timestamp_seconds":   "an alert has it; the panel of conditions shows when one changed",
	"cke_zone_can_be_lost":                    "the panel of zones has their number, the status page their names",
	"cke_quorum":                              "alerts have it; the panel of health shows LOST and UNKNOWN",
	"cke_operations_failed_total":             "an alert has it; the panel of operations has them by state",
	"cke_backup_ready":                        "the panel of conditions has BackupReady",
	"cke_backup_next_drill_timestamp_seconds": "an alert has it; the panel of drills shows the age of the last one",
	"cke_backup_revision":                     "it grows with the revision of members, which has a panel",
	"cke_backup_lag_revisions":                "the panel of changes that wait shows for how long, which is what matters",
	"cke_backup_buffered_bytes":               "the panel of changes that wait shows for how long, which is what matters",
	"cke_inventory_up":                        "the panel of the last good read shows it",
}

// A metric that no panel shows is left out for a reason.
func TestMonitoring_EachMetricHasAPanelOrAReason(t *testing.T) {
	shown := map[string]bool{}
	for _, p := range monitoring.NewDashboard().Panels {
		for _, q := range p.Targets {
			for _, name := range regexp.MustCompile(`cke_[a-z_]+`).FindAllString(q.Expr, -1) {
				shown[strings.TrimSuffix(name, "_bucket")] = true
			}
		}
	}
	names := server.MetricNames()
	for _, name := range names {
		if shown[name] == (noPanel[name] != "") {
			t.Errorf("%s: in a panel %v, reason for none %q: want one of both, in monitoring/dashboard.go or here", name, shown[name], noPanel[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(noPanel)) {
		if !slices.Contains(names, name) {
			t.Errorf("%s is in no row of server/figures.go", name)
		}
	}
}
