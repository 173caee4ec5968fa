package server

import (
	"fmt"
	"strings"
	"testing"

	"cke/internal/golden"
)

// pageStart is what docs/metrics.md says before its tables.
const pageStart = `# Metrics

The daemon serves its metrics for Prometheus at ` + "`/metrics`" + `. ` + "`ckecli monitoring scrape-config`" + ` writes the configuration
that collects them, ` + "`ckecli monitoring rules`" + ` the alerts, and ` + "`ckecli monitoring dashboard`" + ` a dashboard for Grafana:
[the commands](cli.md#monitoring). [Runbooks](runbooks.md) say what to do about each alert.

Only the daemon that leads a cluster exports what follows from its observation. Each daemon exports ` + "`cke_leader`" + ` for
each declared cluster. So aggregate over daemons: ` + "`max by (cluster) (cke_tolerance)`" + `. Counters exist, at 0, from the
moment a daemon leads the cluster. A value that is not known has no series.

This page is generated from the table in ` + "`server/figures.go`" + `.
`

// docs/metrics.md has each metric. The same test with -update writes it.
func TestMetrics_ThePageHasTheTable(t *testing.T) {
	var page strings.Builder
	page.WriteString(pageStart)
	for _, s := range sections() {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | value |\n|---|---|---|---|\n", s.title)
		for _, row := range s.rows {
			var labels []string
			for _, l := range row.labels {
				labels = append(labels, "`"+l+"`")
			}
			fmt.Fprintf(&page, "| `%s_%s` | %s | %s | %s |\n", namespace, row.name, row.kind, strings.Join(labels, ", "), row.help)
		}
	}
	golden.Compare(t, "../docs/metrics.md", page.String())
}
