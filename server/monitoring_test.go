package server_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/monitoring"
)

var (
	namedMetric = regexp.MustCompile(`cke_[a-z_]+(\{[^}]*\})?`)
	matcher     = regexp.MustCompile(`([a-z]+)=~?"([^"]*)"`)
)

// A rule or a panel that names a metric that no daemon exports is silent for ever, and so is one with a label or a value
// that the metric never has.
func TestMonitoring_RulesAndPanelsNameWhatALiveScrapeHas(t *testing.T) {
	asked := map[string][]string{} // expressions, by what asks
	for _, a := range monitoring.Alerts() {
		asked[a.Name] = append(asked[a.Name], a.Expr)
	}
	for _, p := range monitoring.NewDashboard().Panels {
		for _, q := range p.Targets {
			asked[p.Title] = append(asked[p.Title], q.Expr)
		}
	}
	var codes []string
	for _, e := range cke.Explanations() {
		codes = append(codes, string(e.Code))
	}
	busy(t, func(c *country, g *stage) {
		g.change(func() { g.scene.silent(1) })
		g.pass(probe + time.Second)
		lines := strings.Split(scrape(t, c.metrics), "\n")
		there := func(metric, part string) bool {
			return slices.ContainsFunc(lines, func(l string) bool {
				return (strings.HasPrefix(l, metric+"{") || strings.HasPrefix(l, metric+" ")) && strings.Contains(l, part)
			})
		}
		for who, exprs := range asked {
			for _, expr := range exprs {
				for _, named := range namedMetric.FindAllString(expr, -1) {
					name, selector, _ := strings.Cut(named, "{")
					if !there(name, "") {
						t.Errorf("%s asks for %s, which no daemon exports", who, name)
					}
					for _, m := range matcher.FindAllStringSubmatch(selector, -1) {
						for value := range strings.SplitSeq(m[2], "|") {
							switch {
							case value == "$cluster":
								value = "one"
							case m[1] == "code":
								if !slices.Contains(codes, value) {
									t.Errorf("%s asks for the code %s, which is none", who, value)
								}
								continue
							}
							if !there(name, m[1]+`="`+value+`"`) {
								t.Errorf("%s asks for %s with %s=%q, which no daemon exports", who, name, m[1], value)
							}
						}
					}
				}
			}
		}
	})
}
