package server_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"cke"
	"cke/server"
	"cke/server/strategy/scenes"
)

// scrape is what Prometheus reads.
func scrape(t *testing.T, m *server.Metrics) string {
	t.Helper()
	code, body := ask(server.API{Metrics: m}, "GET", "/metrics")
	if code != 200 {
		t.Fatalf("/metrics answers %d: %s", code, body)
	}
	return body
}

// busy is a cluster with backups, of which the first node is silent, the third member is a learner, and an operation runs.
func busy(t *testing.T, f func(c *country, g *stage)) {
	t.Helper()
	sound := scenes.SoundBackups()
	sound.NextFull, sound.NextVerify, sound.Verified = noon.Add(time.Hour), noon.Add(2*time.Hour), &cke.VerifiedBackup{Revision: 90, At: noon.Add(-2 * time.Hour)}
	sound.Lag, sound.Troubles = 7, []cke.BackupTrouble{{Work: "verify", Code: cke.CodeBackupDamaged, Since: noon}}
	governAll(t, &stageBackups{status: sound}, anInventory(), func(c *country) {
		g := c.stage("one")
		g.change(func() { g.scene.stopped(3) })
		g.pass(2 * probe) // one operation is over
		g.change(func() {
			g.do = func(ctx context.Context, call, _ string) error {
				if strings.HasPrefix(call, "start") {
					return hang(ctx)
				}
				return nil
			}
			g.scene.Spec.Backup.Target = sound.Target
			for i := range g.scene.Spec.Nodes {
				g.scene.Spec.Nodes[i].Zone = fmt.Sprintf("rack%d", i+1)
			}
			for i := range g.scene.Seen.Etcd.Endpoints {
				e := g.scene.endpoint(i + 1)
				e.DBSize, e.DBSizeInUse, e.Revision, e.RaftIndex, e.RaftApplied, e.CertNotAfter = 3000, 1000, 120, 50, 50, noon.Add(48*time.Hour)
			}
			g.scene.endpoint(2).RaftApplied = 46
			g.scene.Identity.Joins[1].Etcd.ExtraArgs = []string{"--quota-backend-bytes=5000"}
			g.scene.stopped(3)
		})
		g.pass(probe + time.Second)
		c.metrics.StoreRequest("Txn", 3*time.Millisecond)
		c.metrics.NodeConnection("one", errors.New("no route to host"))
		f(c, g)
	}, "one")
}

// A row of the table that no daemon ever exports would be a promise of the page that is not kept.
func TestMetrics_ALiveScrapeHasEachOfTheTable(t *testing.T) {
	busy(t, func(c *country, g *stage) {
		g.change(func() { g.scene.silent(1) })
		g.pass(probe + time.Second)
		series := scrape(t, c.metrics)
		for _, name := range server.MetricNames() {
			if !regexp.MustCompile(`(?m)^` + name + `(_count)?[{ ]`).MatchString(series) {
				t.Errorf("no series of %s", name)
			}
		}
		for name := range strings.SplitSeq(series, "\n# TYPE ") {
			if name, _, _ := strings.Cut(name, " "); strings.HasPrefix(name, "cke_") && !strings.Contains(strings.Join(server.MetricNames(), " ")+" ", name+" ") {
				t.Errorf("%s is not in the table", name)
			}
		}
	})
}

func TestMetrics_FollowTheStatus(t *testing.T) {
	busy(t, func(c *country, g *stage) {
		status := g.status()
		if status.Operation == nil {
			t.Fatal("no operation runs")
		}
		lines := []string{
			`cke_build_info{goversion="go`, `cke_health{cluster="one",health="DEGRADED"} 1`, `cke_health{cluster="one",health="FROZEN"} 0`,
			`cke_condition{cluster="one",condition="Quorate"} 1`, `cke_condition{cluster="one",condition="Paused"} 0`,
			`cke_problems{cluster="one",code="CKE401"} 1`,
			`cke_member_healthy{cluster="one",member="n1",role="leader"} 1`, `cke_member_healthy{cluster="one",member="n3",role="-"} 0`,
			`cke_member_lag_entries{cluster="one",member="n2"} 4`, `cke_member_db_size_bytes{cluster="one",member="n1"} 3000`,
			`cke_member_db_in_use_bytes{cluster="one",member="n1"} 1000`, `cke_member_db_free_bytes{cluster="one",member="n1"} 2000`,
			`cke_member_db_quota_bytes{cluster="one",member="n1"} 2.147483648e+09`, `cke_member_db_quota_bytes{cluster="one",member="n2"} 5000`,
			`cke_member_revision{cluster="one",member="n2"} 120`,
			`cke_node_reachable{cluster="one",node="n3"} 1`, `cke_node_drained{cluster="one",node="n3"} 0`,
			`cke_operation_running{cluster="one",operation="start-members"} 1`, `cke_tasks_pending{cluster="one"} 0`,
			`cke_backup_failing{cluster="one",work="verify"} 1`, `cke_backup_failing{cluster="one",work="take"} 0`,
			`cke_zone_can_be_lost{cluster="one",zone="rack1"} 0`, `cke_zone_can_be_lost{cluster="one",zone="rack3"} 1`, `cke_zones_losable{cluster="one"} 1`,
			`cke_store_request_seconds_count{method="Txn"} 1`,
			`cke_node_connections_total{cluster="one",result="failed"} 1`, `cke_node_connections_total{cluster="one",result="connected"} 0`,
		}
		series := scrape(t, c.metrics)
		for _, line := range lines {
			if !strings.Contains(series, "\n"+line) {
				t.Errorf("no line %s in\n%s", line, series)
			}
		}
		observed := gathered(t, c.metrics, "cke_observed_timestamp_seconds")
		if age := time.Now().Unix() - int64(observed[0]); age < 0 || age > int64(probe.Seconds()) {
			t.Errorf("observed %d s ago", age)
		}
		for name, want := range map[string]time.Time{
			"cke_operation_started_timestamp_seconds": status.Operation.Time, "cke_backup_restorable_timestamp_seconds": time.Unix(int64(observed[0])-7, 0),
			"cke_backup_next_full_timestamp_seconds": noon.Add(time.Hour), "cke_backup_next_drill_timestamp_seconds": noon.Add(2 * time.Hour),
		} {
			if got := gathered(t, c.metrics, name); len(got) != 1 || got[0] != float64(want.Unix()) {
				t.Errorf("%s is %v, want %d", name, got, want.Unix())
			}
		}
	})
}

// An alert must not depend on clusters that a daemon without a store cannot know.
func TestMetrics_ADaemonThatEndedDoesNotServe(t *testing.T) {
	var metrics *server.Metrics
	govern(t, func(c *country) {
		metrics = c.metrics
		if got := gathered(t, metrics, "cke_serving"); len(got) != 1 || got[0] != 1 {
			t.Errorf("a daemon that leads: %v", got)
		}
	}, "one")
	if got := gathered(t, metrics, "cke_serving"); len(got) != 1 || got[0] != 0 {
		t.Errorf("one that ended: %v", got)
	}
}

// A node that is silent, one that has the name of another, and a lease.
func TestMetrics_OfNodesAreOneForEachName(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		led := g.led()
		g.change(func() {
			g.scene.silent(2)
			g.scene.Seen.Nodes = append(g.scene.Seen.Nodes, *g.scene.node(1))
			led.requests.Drains = []cke.Drain{{Node: "n2", Address: "10.0.0.2", Since: time.Now(), Until: time.Now().Add(time.Hour)}}
		})
		g.pass(2 * probe)
		series := scrape(t, c.metrics)
		for _, line := range []string{
			`cke_node_reachable{cluster="one",node="n1"} 1`, `cke_node_reachable{cluster="one",node="n2"} 0`,
			`cke_node_drained{cluster="one",node="n1"} 0`, `cke_node_drained{cluster="one",node="n2"} 1`,
		} {
			if strings.Count(series, line) != 1 {
				t.Errorf("%s is not there once in\n%s", line, series)
			}
		}
	}, "one")
}

// Each figure of both queues has the value that the queue has; one that is empty has all series.
func TestMetrics_OfQueues(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		led := g.led()
		lines := func(when string, want ...string) {
			t.Helper()
			g.pass(2 * probe)
			series := scrape(t, c.metrics)
			for _, line := range want {
				if strings.Count(series, "\n"+line+"\n") != 1 {
					t.Errorf("%s: %s is not there once in\n%s", when, line, strings.Join(regexp.MustCompile(`(?m)^cke_re(boot|pair).*`).FindAllString(series, -1), "\n"))
				}
			}
		}
		entry := func(kind cke.QueueKind, id int, state cke.EntryState) cke.Entry {
			r := cke.Entry{ID: fmt.Sprint(kind, id), Node: fmt.Sprintf("n%d", id), Address: fmt.Sprintf("10.0.0.%d", id), State: state, AddedAt: time.Now().Add(-time.Hour), Since: time.Now()}
			if kind == cke.RepairQueue {
				r.On = "dead"
			}
			return r
		}
		var empty, used []string
		for _, kind := range []cke.QueueKind{cke.RebootQueue, cke.RepairQueue} {
			for _, state := range append(kind.States(), "skipped") {
				empty = append(empty, fmt.Sprintf(`cke_%s_queue_entries{cluster="one",state="%s"} 0`, kind, state))
			}
			for _, result := range cke.EntryResults() {
				empty = append(empty, fmt.Sprintf(`cke_%ss_total{cluster="one",result="%s"} 0`, kind, result))
			}
			empty = append(empty, fmt.Sprintf(`cke_%s_queue_enabled{cluster="one"} 1`, kind), fmt.Sprintf(`cke_%s_queue_oldest_seconds{cluster="one"} 0`, kind), fmt.Sprintf(`cke_%s_seconds{cluster="one"} 0`, kind))
			used = append(used, fmt.Sprintf(`cke_%s_queue_entries{cluster="one",state="queued"} 1`, kind), fmt.Sprintf(`cke_%s_queue_entries{cluster="one",state="failed"} 1`, kind),
				fmt.Sprintf(`cke_%s_queue_entries{cluster="one",state="skipped"} 1`, kind), fmt.Sprintf(`cke_%s_queue_enabled{cluster="one"} 0`, kind),
				fmt.Sprintf(`cke_%ss_total{cluster="one",result="done"} 7`, kind), fmt.Sprintf(`cke_%ss_total{cluster="one",result="failed"} 2`, kind), fmt.Sprintf(`cke_%s_seconds{cluster="one"} 90`, kind))
		}
		lines("empty", empty...)
		g.change(func() {
			for _, kind := range []cke.QueueKind{cke.RebootQueue, cke.RepairQueue} {
				skipped := entry(kind, 3, cke.EntryFailed)
				skipped.Skipped = true
				q := cke.Queue{Kind: kind, Disabled: true, Entries: []cke.Entry{entry(kind, 1, cke.EntryQueued), entry(kind, 2, cke.EntryFailed), skipped},
					History: []cke.EndedEntry{{Node: "n3", Address: "10.0.0.3", Result: cke.EntryDone, StartedAt: time.Now().Add(-2 * time.Hour), EndedAt: time.Now().Add(-2*time.Hour + 90*time.Second)}},
					Counts:  map[cke.EntryResult]int64{cke.EntryDone: 7, cke.EntryGaveUp: 2}}
				if kind == cke.RepairQueue {
					led.requests.Repairs = q
				} else {
					led.requests.Reboots = q
				}
			}
		})
		lines("used", used...)
		for _, name := range []string{"cke_reboot_queue_oldest_seconds", "cke_repair_queue_oldest_seconds"} {
			if got := gathered(t, c.metrics, name); len(got) != 1 || got[0] < 3600 || got[0] > 3700 {
				t.Errorf("%s is %v, want an hour", name, got)
			}
		}
	}, "one")
}
