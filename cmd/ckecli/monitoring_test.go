package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"cke"
	"cke/internal/golden"
	"cke/monitoring"
)

// output is what ckecli writes, without a store.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	a := renderer()
	a.stdout, a.stderr = &stdout, &stderr
	if code := a.run(t.Context(), args); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	return stdout.String()
}

func TestMonitoring_RulesAreYAMLOfTheAlerts(t *testing.T) {
	text := output(t, "monitoring", "rules", "--runbooks", "https://cke.example/runbooks")
	var parsed any
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(parsed)
	if err != nil {
		t.Fatal(err)
	}
	var got monitoring.Rules
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(monitoring.RulesFor("https://cke.example/runbooks"), got); diff != "" {
		t.Error(diff)
	}
	if names := output(t, "monitoring", "rules", "-o", "name"); strings.Count(names, "\n") != len(monitoring.Alerts()) || !strings.HasPrefix(names, monitoring.Alerts()[0].Name+"\n") {
		t.Errorf("names:\n%s", names)
	}
}

func TestMonitoring_TheDashboardIsJSON(t *testing.T) {
	var got monitoring.Dashboard
	if err := json.Unmarshal([]byte(output(t, "monitoring", "dashboard")), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(monitoring.NewDashboard(), got); diff != "" {
		t.Error(diff)
	}
}

// What an alert or a runbook says is to be typed can be typed, flags included.
func TestMonitoring_AlertsAndRunbooksNameCommandsThatAreThere(t *testing.T) {
	var commands []string
	for _, a := range monitoring.Alerts() {
		if strings.HasPrefix(a.Command, "ckecli ") {
			commands = append(commands, strings.ReplaceAll(a.Command, "{{ $labels.cluster }}", "prod"))
		}
	}
	for _, m := range regexp.MustCompile("`(ckecli [^`]+)`").FindAllStringSubmatch(golden.Read(t, "../../docs/runbooks.md"), -1) {
		commands = append(commands, m[1])
	}
	for _, command := range commands {
		root := newRootCommand(renderer())
		root.InitDefaultHelpCmd()
		cmd, rest, err := root.Find(strings.Fields(command)[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil || cmd == root || cmd.HasSubCommands() {
			t.Errorf("`%s`: %v", command, err)
		}
	}
	if len(commands) < 2*len(monitoring.Alerts()) {
		t.Errorf("only %d commands", len(commands))
	}
}

func TestMonitoring_ScrapeConfigIssuesCertificatesAndKeepsThem(t *testing.T) {
	h := declared(t)
	certs := filepath.Join(h.dir, "certs")
	stdout, stderr := h.run(exitDone, "monitoring", "scrape-config", "--certs", certs)
	contains(t, stderr, "Prometheus has to run on this host", "prod is not formed yet and is left out")
	contains(t, stdout, "- 127.0.0.1:10180\n")
	if _, err := os.Stat(certs); err == nil {
		t.Error("certificates of a cluster that is not formed")
	}
	id := h.form(h.lead("prod"))
	args := []string{"monitoring", "scrape-config", "--certs", certs, "--daemon", "boot-1:10180", "--daemon", "boot-2:10180"}
	stdout, stderr = h.run(exitDone, args...)
	if stderr != "" {
		t.Errorf("it writes %q", stderr)
	}
	var got struct {
		Configs []struct {
			Job    string            `yaml:"job_name"`
			Scheme string            `yaml:"scheme"`
			TLS    map[string]string `yaml:"tls_config"`
			Static []struct {
				Targets []string
				Labels  map[string]string
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(stdout), &got); err != nil || len(got.Configs) != 2 {
		t.Fatalf("%v\n%s", err, stdout)
	}
	daemons, members := got.Configs[0], got.Configs[1]
	if daemons.Job != "cke" || daemons.Scheme != "http" || !cmp.Equal(daemons.Static[0].Targets, []string{"boot-1:10180", "boot-2:10180"}) {
		t.Errorf("daemons: %+v", daemons)
	}
	if members.Job != "etcd-prod" || members.Scheme != "https" || len(members.Static) != len(id.Joins) || !cmp.Equal(members.Static[0].Targets, []string{"10.0.0.11:2379"}) ||
		!cmp.Equal(members.Static[0].Labels, map[string]string{"cluster": "prod", "member": "cp1"}) {
		t.Errorf("members: %+v", members)
	}
	if want := map[string]string{"ca_file": certs + "/prod/ca.crt", "cert_file": certs + "/prod/prometheus.crt", "key_file": certs + "/prod/prometheus.key"}; !cmp.Equal(members.TLS, want) {
		t.Errorf("%v, want %v", members.TLS, want)
	}
	first := readFile(t, members.TLS["cert_file"])
	if again, _ := h.run(exitDone, args...); again != stdout || !cmp.Equal(first, readFile(t, members.TLS["cert_file"])) {
		t.Errorf("the same command writes otherwise:\n%s", again)
	}
	h.run(exitUsage, "monitoring", "scrape-config")
	h.run(exitUsage, "monitoring", "scrape-config", "--certs", certs, "--daemon", "boot-1")
	h.run(exitUsage, "monitoring", "scrape-config", "--certs", certs, "--ttl", "1h")
	h.run(exitUsage, "monitoring", "scrape-config", "--certs", certs, "--daemon-cert", "/p/cke.crt")
}

func TestMonitoring_ScrapeConfigLogsInAsTheDaemonRequires(t *testing.T) {
	a := renderer()
	var notes strings.Builder
	a.stderr = &notes
	http := cke.HTTPConfig{Listen: "0.0.0.0:10180", TLS: cke.HTTPTLS{CertFile: "/c", KeyFile: "/k", ClientCAFile: "/ca"},
		BasicAuth: cke.BasicAuth{Username: "ops", PasswordFile: "/etc/cke/http.password"}}
	daemons := []string{"boot-1:10180"}
	job := a.daemonJob(http, scrapeOptions{daemons: daemons})
	if job.Scheme != "https" || job.TLS != nil || job.Auth == nil || *job.Auth != (monitoring.BasicAuth{Username: "ops", PasswordFile: "/etc/cke/http.password"}) {
		t.Errorf("%+v", job)
	}
	contains(t, notes.String(), "name the CA of its certificate", "requires client certificates")

	notes.Reset()
	o := scrapeOptions{daemons: daemons, tls: monitoring.TLS{CAFile: "/p/ca.crt", CertFile: "/p/cke.crt", KeyFile: "/p/cke.key"}}
	if job = a.daemonJob(http, o); job.TLS == nil || *job.TLS != o.tls || notes.String() != "" {
		t.Errorf("%+v, notes %q", job, notes.String())
	}
	if job = a.daemonJob(cke.HTTPConfig{Listen: "0.0.0.0:10180"}, o); job.Scheme != "http" || job.TLS != nil {
		t.Errorf("%+v", job)
	}
	contains(t, notes.String(), "are not used")
}
