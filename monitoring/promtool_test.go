package monitoring_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"cke/internal/need"
	"cke/monitoring"
)

// promtool needs no service discovery, which is most of the program.
var promtool = need.Program{File: "promtool-v0.316.0", Package: "github.com/prometheus/prometheus/cmd/promtool", Version: "v0.316.0", Tags: "remove_all_sd"}

// run runs promtool on a file that is written as JSON, which is YAML, too.
func run(t *testing.T, dir string, data any, args ...string) {
	t.Helper()
	b, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, args[len(args)-1])
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(promtool.Built(t), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const runbooks = "https://cke.example/runbooks"

// recorded is a rule that only asks for an expression.
type recorded struct {
	Record string `json:"record"`
	Expr   string `json:"expr"`
}

func TestPromtool_ReadsRulesAndPanels(t *testing.T) {
	dir := t.TempDir()
	run(t, dir, monitoring.RulesFor(runbooks), "check", "rules", "--lint=all", "--lint-fatal", "rules.yml")
	var panels []recorded
	for _, p := range monitoring.NewDashboard().Panels {
		for _, q := range p.Targets {
			panels = append(panels, recorded{fmt.Sprintf("panel_%d", p.ID), q.Expr})
		}
	}
	run(t, dir, map[string]any{"groups": []any{map[string]any{"name": "panels", "rules": panels}}}, "check", "rules", "--lint=all", "--lint-fatal", "panels.yml")
}

func TestPromtool_ReadsWhatToScrape(t *testing.T) {
	run(t, t.TempDir(), monitoring.Scrape{Configs: []monitoring.ScrapeConfig{
		{Job: monitoring.DaemonJob, Scheme: "https", Auth: &monitoring.BasicAuth{Username: "ops", PasswordFile: "/etc/cke/http.password"}, Static: []monitoring.Targets{{Targets: []string{"boot-1:10180"}}}},
		{Job: monitoring.MembersJob("prod"), Scheme: "https", TLS: &monitoring.TLS{CAFile: "/c/ca.crt", CertFile: "/c/p.crt", KeyFile: "/c/p.key"},
			Static: []monitoring.Targets{{Targets: []string{"10.0.0.11:2379"}, Labels: map[string]string{"cluster": "prod", "member": "cp1"}}}},
	}}, "check", "config", "--syntax-only", "prometheus.yml")
}

// step is the time between two samples of the cases, in minutes.
const step = 1

// unitTest is a test of promtool, as far as these tests use it.
type unitTest struct {
	Interval string      `json:"interval"`
	Name     string      `json:"name"`
	Series   []series    `json:"input_series"`
	Alerts   []alertTest `json:"alert_rule_test"`
}

type series struct {
	Series string `json:"series"`
	Values string `json:"values"`
}

type alertTest struct {
	At   string     `json:"eval_time"`
	Name string     `json:"alertname"`
	Exp  []expected `json:"exp_alerts"`
}

type expected struct {
	Labels      map[string]string `json:"exp_labels"`
	Annotations map[string]string `json:"exp_annotations"`
}

func TestPromtool_EachAlertFiresAndIsSilent(t *testing.T) {
	rules := monitoring.RulesFor(runbooks)
	byName := map[string]monitoring.Rule{}
	for _, r := range rules.Groups[0].Rules {
		byName[r.Alert] = r
	}
	var tests []unitTest
	for _, c := range cases {
		rule, known := byName[c.alert]
		if !known {
			t.Fatalf("a case for %s, which is no alert", c.alert)
		}
		test := alertTest{At: fmt.Sprintf("%dm", c.at), Name: c.alert, Exp: []expected{}}
		if c.labels != nil {
			labels := maps.Clone(c.labels)
			labels["severity"] = string(rule.Labels.Severity)
			test.Exp = append(test.Exp, expected{labels, map[string]string{"runbook_url": rule.Annotations.Runbook,
				"summary": rendered(t, rule.Annotations.Summary, c), "command": rendered(t, rule.Annotations.Command, c)}})
		}
		var all []series
		for name, values := range c.series {
			all = append(all, series{name, values})
		}
		tests = append(tests, unitTest{fmt.Sprintf("%dm", step), c.alert + ": " + c.when, all, []alertTest{test}})
	}
	dir := t.TempDir()
	b, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, map[string]any{"rule_files": []string{"rules.yml"}, "evaluation_interval": "1m", "tests": tests}, "test", "rules", "tests.yml")
}

// rendered is a template of an annotation with the labels and the value of a case, as far as the templates use them.
func rendered(t *testing.T, text string, c scenario) string {
	t.Helper()
	percentage := func(v float64) string { return strconv.FormatFloat(v*100, 'g', 4, 64) + "%" }
	parsed, err := template.New("").Option("missingkey=zero").Funcs(template.FuncMap{"humanizePercentage": percentage}).Parse("{{$labels := .Labels}}{{$value := .Value}}" + text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, map[string]any{"Labels": c.labels, "Value": c.value}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestCases_EachAlertHasOneThatFiresAndOneThatIsSilent(t *testing.T) {
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		if c.labels != nil {
			fires[c.alert] = true
		} else {
			silent[c.alert] = true
		}
	}
	for _, a := range monitoring.Alerts() {
		if !fires[a.Name] {
			t.Errorf("monitoring/cases_test.go has no case in which %s fires", a.Name)
		}
		if !silent[a.Name] {
			t.Errorf("monitoring/cases_test.go has no case in which %s is silent", a.Name)
		}
	}
}
