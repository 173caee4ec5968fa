package main

import (
	"io"

	"github.com/spf13/cobra"

	"cke/monitoring"
)

func newMonitoringCommand(a *app) *cobra.Command {
	return newGroup("monitoring", groupSee, "Write alerts, a dashboard and a configuration for Prometheus and Grafana",
		newRulesCommand(a), newDashboardCommand(a), newScrapeCommand(a))
}

// defaultRunbooks is the page of the runbooks.
const defaultRunbooks = "docs/runbooks.md"

func newRulesCommand(a *app) *cobra.Command {
	var runbooks string
	cmd := &cobra.Command{
		Use: "rules", Short: "Write the alerts as rules for Prometheus", Args: arguments(0, 0),
		Long: `Write the alerts as rules for Prometheus. Each alert has the command to type first, and the address of its runbook:

  ckecli monitoring rules > /etc/prometheus/rules/cke.yml`,
		RunE: func(*cobra.Command, []string) error {
			var names []string
			for _, alert := range monitoring.Alerts() {
				names = append(names, alert.Name)
			}
			return a.showAs(monitoring.RulesFor(runbooks), names, writeYAML)
		},
	}
	cmd.Flags().StringVar(&runbooks, "runbooks", defaultRunbooks, "`address` of the page with the runbooks, which alerts link to")
	return cmd
}

func newDashboardCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "dashboard", Short: "Write a dashboard for Grafana", Args: arguments(0, 0),
		Long: "Write a dashboard for Grafana, to be imported or provisioned as it is. It asks for the data source and for clusters.",
		RunE: func(*cobra.Command, []string) error {
			d := monitoring.NewDashboard()
			return a.showAs(d, []string{d.UID}, writeJSON)
		},
	}
}

// showAs shows what is a file for another program: users get it in the format of that program.
func (a *app) showAs(data any, names []string, write func(io.Writer, any) error) error {
	return a.show(view{data: data, names: names, table: func(w io.Writer, _, _ bool) error { return write(w, data) }})
}
