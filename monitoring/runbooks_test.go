package monitoring_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke/internal/golden"
	"cke/monitoring"
)

// docs/runbooks.md has a section for each alert, in their order, that starts with the command and then the severity.
func TestRunbooks_EachAlertHasOneThatStartsWithItsCommand(t *testing.T) {
	sections := strings.Split(golden.Read(t, "../docs/runbooks.md"), "\n## ")[1:]
	var titles, alerts []string
	for _, s := range sections {
		title, _, _ := strings.Cut(s, "\n")
		titles = append(titles, title)
	}
	for _, a := range monitoring.Alerts() {
		alerts = append(alerts, a.Name)
	}
	if d := cmp.Diff(alerts, titles); d != "" {
		t.Fatalf("docs/runbooks.md does not have a section for each alert in their order (-want +got):\n%s", d)
	}
	severities := map[monitoring.Severity]string{monitoring.Critical: "Critical", monitoring.Warning: "Warning"}
	for i, a := range monitoring.Alerts() {
		want := a.Name + "\n\n    " + strings.ReplaceAll(a.Command, "{{ $labels.cluster }}", "NAME") + "\n\n" + severities[a.Severity] + ". "
		if !strings.HasPrefix(sections[i], want) {
			t.Errorf("docs/runbooks.md: the section of %s does not start with\n%s", a.Name, want)
		}
	}
}

// An alert that names a daemon would be another alert once another daemon leads.
func TestAlerts_AggregateOverDaemons(t *testing.T) {
	metric := regexp.MustCompile(`(\S+ by \([a-z, ]+\) |absent)\((increase\()?cke_`)
	for _, a := range monitoring.Alerts() {
		if all, aggregated := strings.Count(a.Expr, "cke_"), len(metric.FindAllString(a.Expr, -1)); all != aggregated {
			t.Errorf("%s: %d of %d metrics are aggregated: %s", a.Name, aggregated, all, a.Expr)
		}
	}
}

func TestDashboard_PanelsHaveTheirPlaces(t *testing.T) {
	ids, places := map[int]bool{}, map[[2]int]string{}
	for _, p := range monitoring.NewDashboard().Panels {
		if ids[p.ID] {
			t.Errorf("%s has an id that another panel has", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := places[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s at %d, %d, where %q is", p.Title, x, y, other)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
	}
}
