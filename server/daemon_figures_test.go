package server_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
)

// only are the metrics of these names in a scrape.
func only(series string, names ...string) (text string) {
	for block := range strings.SplitSeq(series, "# HELP ") {
		if name, _, _ := strings.Cut(block, " "); slices.Contains(names, name) {
			text += "# HELP " + block
		}
	}
	return text
}

func TestDaemon_TellsItsFigures(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		g.change(func() { g.scene.stopped(3) })
		time.Sleep(probe)
		synctest.Wait()
		g.change(func() { g.scene.silent(2) })
		time.Sleep(probe)
		synctest.Wait()
		want := `
# HELP cke_leader 1 while this daemon leads the cluster, 0 while it does not.
# TYPE cke_leader gauge
cke_leader{cluster="one"} 1
# HELP cke_members_declared Members that the cluster file declares.
# TYPE cke_members_declared gauge
cke_members_declared{cluster="one"} 3
# HELP cke_members_ready Declared members that serve.
# TYPE cke_members_ready gauge
cke_members_ready{cluster="one"} 2
# HELP cke_operations_failed_total Operations that failed; 0 from the moment this daemon leads the cluster.
# TYPE cke_operations_failed_total counter
cke_operations_failed_total{cluster="one"} 0
# HELP cke_quorum 1 with a quorum, 0 without one, -1 while members that could form one cannot be seen.
# TYPE cke_quorum gauge
cke_quorum{cluster="one"} 1
# HELP cke_tolerance How many more voters may fail before quorum is lost; -1 without quorum, or while none can be seen.
# TYPE cke_tolerance gauge
cke_tolerance{cluster="one"} 0
`
		names := []string{"cke_leader", "cke_members_declared", "cke_members_ready", "cke_operations_failed_total", "cke_quorum", "cke_tolerance"}
		series := scrape(t, c.metrics)
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), only(series, names...)); diff != "" {
			t.Error(diff)
		}
		for _, line := range []string{
			`cke_operations_total{cluster="one",operation="start-members",state="completed"} 1`,
			`cke_operations_total{cluster="one",operation="start-members",state="failed"} 0`,
			`cke_operations_total{cluster="one",operation="bootstrap",state="interrupted"} 0`,
		} {
			if !strings.Contains(series, line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
		if n := strings.Count(only(series, "cke_observation_seconds", "cke_operation_seconds"), "_count{"); n != 2 {
			t.Errorf("%d histograms:\n%s", n, series)
		}
		// One that does not lead says so: an alarm on a figure that vanished would never fire.
		g.led().end(cke.ErrDeposed)
		synctest.Wait()
		not := "# HELP cke_leader 1 while this daemon leads the cluster, 0 while it does not.\n# TYPE cke_leader gauge\ncke_leader{cluster=\"one\"} 0\n"
		if diff := cmp.Diff(not, only(scrape(t, c.metrics), "cke_leader", "cke_members_ready", "cke_quorum", "cke_tolerance")); diff != "" {
			t.Error(diff)
		}
		// Of a cluster that is not declared any more it says nothing.
		c.declare()
		if series := scrape(t, c.metrics); strings.Contains(series, "cluster=") {
			t.Errorf("figures of a cluster that is not declared:\n%s", series)
		}
	}, "one")
}

// Nodes that all stop answering, as after a key was taken from them, are in the log once each, and once they answer again.
func TestDaemon_LogsProblemsOnce(t *testing.T) {
	govern(t, func(c *country) {
		g := c.stage("one")
		before := c.logged("msg=problem ")
		g.change(func() { g.scene.silent(1, 2, 3) })
		g.pass(5 * time.Minute)
		if n := c.logged("msg=problem "); n < before+3 || c.logged("node=n1") != 1 || c.logged("code=CKE201") != 3 {
			t.Errorf("%d problems are logged:\n%s", n-before, c.log.String())
		}
		g.change(func() { g.scene.Seen = formed(3).Seen })
		g.pass(5 * time.Minute)
		if c.logged(`msg="problem resolved"`) < 3 {
			t.Errorf("their end is not logged:\n%s", c.log.String())
		}
	}, "one")
}
