package server_test

import (
	"testing"
	"time"

	"cke"
	"cke/server/strategy/scenes"
)

// cut lets the daemon reach no node of a cluster, but these.
func (g *stage) cut(reached ...int) {
	g.change(func() {
		sound := formed(3)
		g.scene.Seen = sound.silent(1, 2, 3).lost().Seen
		for _, i := range reached {
			g.scene.Seen.Nodes[i-1] = formed(3).Seen.Nodes[i-1]
		}
	})
	g.led().wake()
}

// Another daemon may reach nodes that this one does not.
func TestDaemon_GivesUpAClusterOfWhichItReachesNoNode(t *testing.T) {
	governOnce(t, func(c *country) {
		c.sees(fleet([]string{"one"}, me, "s2"))
		pass(10 * time.Minute)
		c.stage("one").cut()
		pass(50 * time.Second)
		if got := c.heirs("one"); got != "one -" {
			t.Errorf("at once: %s", got)
		}
		pass(20 * time.Second)
		if got := c.heirs("one"); got != "one s2" || c.logged("handed over to h2: unreachable") != 1 {
			t.Errorf("%s, log:\n%s", got, c.log.String())
		}
	}, "one")
}

// While an operation fails, or an operator waits for a task, no other daemon could do less.
func TestDaemon_GivesUpAClusterWithATaskThatWaits(t *testing.T) {
	governOnce(t, func(c *country) {
		c.sees(fleet([]string{"one"}, me, "s2"))
		g := c.stage("one")
		g.change(func() { g.leading.requests.Unread = []string{"t1"} })
		g.cut()
		pass(2 * time.Minute)
		if got := c.heirs("one"); got != "one s2" {
			t.Error(got)
		}
	}, "one")
}

func TestDaemon_KeepsAClusterThatNoOtherDaemonCouldLeadBetter(t *testing.T) {
	for name, c := range map[string]struct {
		fleet   cke.Fleet
		reached []int
		with    func(g *stage)
	}{
		"it is the only one":        {fleet: fleet([]string{"one"}, me)},
		"it reaches one node":       {fleet: fleet([]string{"one"}, me, "s2"), reached: []int{3}},
		"a node reboots as queued":  {fleet: fleet([]string{"one"}, me, "s2"), with: rebooting},
		"the other one is too old":  {fleet: older(fleet([]string{"one"}, me, "s2"))},
		"no other one waits for it": {fleet: alone(fleet([]string{"one"}, me, "s2"))},
	} {
		t.Run(name, func(t *testing.T) {
			governOnce(t, func(y *country) {
				y.sees(c.fleet)
				g := y.stage("one")
				if c.with != nil {
					g.change(func() { c.with(g) })
				}
				g.cut(c.reached...)
				pass(5 * time.Minute)
				if got := y.heirs("one"); got != "one -" || g.led().number != 1 {
					t.Errorf("%s, term %d", got, g.led().number)
				}
			}, "one")
		})
	}
}

func rebooting(g *stage) {
	n, now := g.scene.Spec.Nodes[2], time.Now()
	g.leading.requests.Reboots.Entries = []cke.Entry{{ID: "r1", Node: n.Hostname, Address: n.Address, State: cke.EntryRebooting, Agent: "n3", Since: now, StartedAt: now, Attempt: 1}}
	g.leading.requests.Drains = []cke.Drain{{Node: n.Hostname, Address: n.Address, Entry: "r1", Since: now, Until: now.Add(time.Hour)}}
}

func older(f cke.Fleet) cke.Fleet {
	f.Daemons[1].Schema--
	return f
}

func alone(f cke.Fleet) cke.Fleet {
	f.Clusters[0].Waiting = nil
	return f
}

// A cluster whose nodes are all down changes hands after as long as it has been unreached, up to an hour: it is handed over ever more rarely.
func TestDaemon_GivesUpAClusterEverMoreRarely(t *testing.T) {
	for _, c := range []struct{ since, want time.Duration }{{0, time.Minute}, {10 * time.Minute, 10 * time.Minute}, {24 * time.Hour, time.Hour}} {
		govern(t, func(y *country) {
			y.once()
			y.add("one")
			g := y.stage("one")
			g.change(func() {
				g.scene.Seen = formed(3).silent(1, 2, 3).lost().Seen
				if c.since > 0 {
					g.statuses = []cke.Status{{UnreachedSince: time.Now().Add(-c.since), ObservedAt: time.Now()}}
				}
			})
			y.declare("one")
			y.sees(fleet([]string{"one"}, me, "s2"))
			pass(c.want - 10*time.Second)
			if got := y.heirs("one"); got != "one -" {
				t.Errorf("unreached for %s: %s", c.since, got)
			}
			pass(30 * time.Second)
			if got := y.heirs("one"); got != "one s2" {
				t.Errorf("unreached for %s: later: %s", c.since, got)
			}
		})
	}
}

// A node that refuses the login, or whose engine does not answer, is reached.
func TestLoop_TellsSinceWhenNoNodeWasReached(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		if s := g.status(); !s.UnreachedSince.IsZero() {
			t.Errorf("unreached since %s", s.UnreachedSince)
		}
		g.change(func() { scenes.Silence(&g.scene.Input, 1, 2, 3) })
		g.pass(time.Minute)
		first := g.status().UnreachedSince
		if first.IsZero() || time.Since(first) < 50*time.Second {
			t.Errorf("unreached since %s", first)
		}
		g.change(func() { g.scene.node(2).Problem.Code = cke.CodeEngine })
		g.pass(time.Minute)
		if s := g.status(); !s.UnreachedSince.IsZero() {
			t.Errorf("an engine does not answer: unreached since %s", s.UnreachedSince)
		}
		_ = p.over()
	})
}
