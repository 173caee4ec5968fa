package mtest_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/internal/need"
	"cke/monitoring"
	"cke/mtest/rig"
)

var liveAlerts = flag.Bool("alerts", false, "let a real Prometheus raise the alerts of a cluster on real nodes")

const (
	alertsLimit = 30 * time.Minute
	// firesLimit bounds the wait for an alert after its cause: an observation, a minute until the next drill, and the
	// time for which the expression must hold, which is a minute at most.
	firesLimit = 4 * time.Minute
	// alertsQuota is so large that a database file, which grows by some MiB at a time, does not grow from less than
	// four fifths to all of it.
	alertsQuota = 36 << 20
)

// seenLater are metrics that a healthy cluster with nothing to do does not have. Each has to be there at some time.
var seenLater = map[string]string{
	"cke_problems":          "no series without problems",
	"cke_operation_running": "no series while none runs",

	"cke_inventory_last_success_timestamp_seconds": notFollowed,
	"cke_inventory_hosts":                          notFollowed,
	"cke_inventory_candidates":                     notFollowed,
	"cke_inventory_change_pending":                 notFollowed,
	"cke_inventory_change_held":                    notFollowed,
}

const notFollowed = "no series while no inventory is followed"

// alerted is a cluster that a real Prometheus watches, with the files that `ckecli monitoring` writes.
type alerted struct {
	backedUp
	// whole is the story of which this is a part: what it starts stays.
	whole      *story
	prometheus *rig.Prometheus
	daemon     *rig.Daemon
	// fired are the alerts that fired so far, with the first one of each.
	fired map[string]rig.Alert
	// lasting are those that cannot resolve before the story is over.
	lasting []string
	// allowed are those that may fire in this part, which started at began: what it waits for, and what may come with it.
	allowed map[string]bool
	began   time.Time
}

// TestLabAlerts_FireInARealPrometheusAndResolve plays what alerts are about. Only the times for which an expression must
// hold are shortened: a second for each minute. Thresholds are as they are.
func TestLabAlerts_FireInARealPrometheusAndResolve(t *testing.T) {
	if !*liveAlerts {
		t.Skip("make alerts-live (-alerts) runs it")
	}
	program, err := rig.PrometheusProgram(t.Context())
	if err != nil {
		need.Missing(t, "no Prometheus: %v", err)
	}
	s := newStory(t, 4)
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(t.Context(), alertsLimit)
	t.Cleanup(cancel)
	a := &alerted{whole: s, backedUp: backedUp{s, filepath.Join(t.TempDir(), "backups")}, fired: map[string]rig.Alert{}}
	certificate, password := s.TempDir(), s.file("http.password", "a password\n")
	s.must(rig.OwnCertificate(certificate, "127.0.0.1"))
	cert, key := filepath.Join(certificate, "server.crt"), filepath.Join(certificate, "server.key")
	s.must(s.WriteConfig(map[string]any{"probe_interval": "1s", "commands": map[string]any{"fails": []string{"/bin/false"}}, "http": map[string]any{"listen": s.HTTP,
		"tls":        map[string]any{"cert_file": cert, "key_file": key, "client_ca_file": cert},
		"basic_auth": map[string]any{"username": "ops", "password_file": password}}}))
	a.daemon = s.daemon("cke1")
	s.setKey()
	a.becomes(a.file(3))
	a.awaitBackups("True UpToDate")
	a.watch(program, cert, key)

	for _, p := range []struct {
		name string
		tell func(*alerted)
	}{
		{"everything is collected", (*alerted).everythingIsCollected},
		{"a node loses power", (*alerted).aNodeLosesPower},
		{"no node can be seen", (*alerted).noNodeCanBeSeen},
		{"the clock of a node is wrong", (*alerted).aClockIsOff},
		{"changes are paused for long", (*alerted).changesArePaused},
		{"a reboot fails", (*alerted).aRebootFails},
		{"an inventory is not read, and what follows from it waits", (*alerted).anInventoryWaits},
		{"members hold different data", (*alerted).dataDiffers},
		{"a database is nearly full", (*alerted).aDatabaseIsNearlyFull},
		{"the backup target is gone", (*alerted).theTargetIsGone},
		{"no daemon runs", (*alerted).noDaemonRuns},
		{"a drill fails", (*alerted).aDrillFails},
		{"no drill can succeed", (*alerted).aDrillIsOverdue},
		{"operations fail", (*alerted).operationsFail},
		{"a new member reaches no other one", (*alerted).aLearnerIsStuck},
	} {
		s.part(p.name, func(s *story) {
			now := *a
			now.story, now.allowed, now.began = s, map[string]bool{}, time.Now()
			p.tell(&now)
			a.daemon, a.lasting = now.daemon, now.lasting
		})
	}
	a.judge()
}

// file is a cluster file of the first n nodes, with a small quota, hourly fulls, and a drill each minute.
func (a *alerted) file(n int) cke.Cluster {
	c := a.spec()
	c.Nodes = c.Nodes[:n]
	for i := range c.Nodes {
		c.Nodes[i].Zone = fmt.Sprint("rack", i)
	}
	c.Options.Etcd.ExtraArgs = []string{fmt.Sprint("--quota-backend-bytes=", alertsQuota)}
	c.Backup.Verify.Schedule = "* * * * *"
	return c
}

var minutes = regexp.MustCompile(`(?m)^( +for: "?)(\d+)m("?)$`)

// watch starts a Prometheus with the files of `ckecli monitoring`.
func (a *alerted) watch(program, cert, key string) {
	a.Helper()
	dir := a.TempDir()
	rules := strings.ReplaceAll(a.do("monitoring", "rules"), "for: 1h\n", "for: 60m\n")
	if n := len(minutes.FindAllString(rules, -1)); n < len(monitoring.Alerts())-1 { // one holds for no time
		a.Fatalf("%d times in minutes:\n%s", n, rules)
	}
	a.must(os.WriteFile(filepath.Join(dir, "cke.yml"), []byte(minutes.ReplaceAllString(rules, "${1}${2}s${3}")), 0o600))
	scrape := a.do("monitoring", "scrape-config", "--certs", filepath.Join(dir, "certs"), "--daemon-ca", cert, "--daemon-cert", cert, "--daemon-key", key)
	a.must(os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [cke.yml]\n"+scrape), 0o600))
	a.Logf("prometheus.yml:\n%s", scrape)
	p, err := rig.StartPrometheus(a.ctx, program, dir)
	a.must(err)
	a.Cleanup(func() {
		p.Stop()
		if a.Failed() {
			a.Logf("the log of Prometheus:\n%s", p.LogText())
		}
	})
	a.prometheus = p
}

// query returns what an expression is now.
func (a *alerted) query(expr string) []rig.Sample {
	a.Helper()
	all, err := a.prometheus.Query(a.ctx, expr)
	a.must(err)
	return all
}

// awaitQuery waits until an expression has so many series.
func (a *alerted) awaitQuery(expr string, n int) {
	a.Helper()
	for ctx := a.within(seenLimit); ; {
		if got := a.query(expr); len(got) == n {
			return
		} else if ctx.Err() != nil {
			a.Fatalf("%s: %+v, want %d series", expr, got, n)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// fires waits until an alert fires with these labels: "node", "n1".
func (a *alerted) fires(name string, labels ...string) {
	a.Helper()
	began := time.Now()
	a.may(name)
	all, err := a.prometheus.AwaitAlerts(a.within(firesLimit), name+" to fire", func(all []rig.Alert) bool {
		return slices.ContainsFunc(all, func(al rig.Alert) bool { return fires(al, name, labels...) })
	})
	a.must(err)
	for _, al := range all {
		if fires(al, name, labels...) {
			if _, before := a.fired[name]; !before {
				a.fired[name] = al
			}
			a.Logf("fires after %s: %s %s: %s (%s)", since(began), al.Labels["severity"], name, al.Annotations["summary"], al.Annotations["command"])
		}
	}
}

func fires(a rig.Alert, name string, labels ...string) bool {
	ok := a.State == "firing" && a.Labels["alertname"] == name
	for i := 0; i < len(labels); i += 2 {
		ok = ok && a.Labels[labels[i]] == labels[i+1]
	}
	return ok
}

// may allows alerts to come with those that this part waits for.
func (a *alerted) may(names ...string) {
	for _, name := range names {
		a.allowed[name] = true
	}
}

// noOthers compares all alerts that fired in this part with those that may: a wrong one is as bad as a missing one.
func (a *alerted) noOthers() {
	a.Helper()
	span := max(int(time.Since(a.began).Seconds()), 1)
	for _, s := range a.query(fmt.Sprintf(`count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[%ds]))`, span)) {
		if name := s.Metric["alertname"]; !a.allowed[name] && !slices.Contains(a.lasting, name) {
			a.whole.Errorf("%s: %s fired, too, which nothing here causes", a.Name(), name) // the other parts are played
		}
	}
}

// resolves waits until no alert fires, but for those that last, and checks that no other one fired.
func (a *alerted) resolves() {
	a.Helper()
	began := time.Now()
	_, err := a.prometheus.AwaitAlerts(a.within(readyLimit), "all alerts to resolve", func(all []rig.Alert) bool {
		return !slices.ContainsFunc(all, func(al rig.Alert) bool {
			return al.State == "firing" && !slices.Contains(a.lasting, al.Labels["alertname"])
		})
	})
	a.must(err)
	a.Logf("all resolved after %s", since(began))
	a.noOthers()
}

// restart lets other work happen between two daemons.
func (a *alerted) restart(between func()) {
	a.Helper()
	_, err := a.daemon.Stop(stopLimit)
	a.must(err)
	between()
	a.daemon = a.whole.daemon("cke1")
}

var metricName = regexp.MustCompile(`\bcke_[a-z_]+`)

// named are the metrics that alerts and panels name, with who names them first.
func named() map[string]string {
	all := map[string]string{}
	add := func(who, expr string) {
		for _, name := range metricName.FindAllString(expr, -1) {
			if all[name] == "" {
				all[name] = who
			}
		}
	}
	for _, al := range monitoring.Alerts() {
		add(al.Name, al.Expr)
	}
	for _, p := range monitoring.NewDashboard().Panels {
		for _, q := range p.Targets {
			add(p.Title, q.Expr)
		}
	}
	return all
}

// judge compares what fired, and which metrics were there, with what there is.
func (a *alerted) judge() {
	a.Helper()
	for _, al := range monitoring.Alerts() {
		if _, fired := a.fired[al.Name]; !fired {
			a.Errorf("%s did not fire", al.Name)
		}
	}
	for name := range seenLater {
		if got := a.query("count_over_time(" + name + "[1h])"); len(got) == 0 {
			a.Errorf("%s had no series at any time", name)
		}
	}
	a.Logf("%d of %d alerts fired: %s", len(a.fired), len(monitoring.Alerts()), strings.Join(slices.Sorted(maps.Keys(a.fired)), " "))
}
