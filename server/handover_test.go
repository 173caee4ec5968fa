package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/server/strategy/scenes"
)

// me is the daemon under test among all.
const me = "s1"

// fleet is these daemons, by their sessions, of which the first leads all clusters; the host of s2 is h2.
func fleet(clusters []string, sessions ...string) cke.Fleet {
	f := cke.Fleet{Self: me, Schema: 4}
	for _, s := range sessions {
		f.Daemons = append(f.Daemons, cke.Daemon{ID: s, Host: "h" + s[1:], Schema: 4})
	}
	for _, name := range clusters {
		f.Clusters = append(f.Clusters, cke.Led{Cluster: name, By: me, Waiting: slices.DeleteFunc(slices.Clone(sessions), func(s string) bool { return s == me })})
	}
	return f
}

// sees lets the daemon see a fleet.
func (c *country) sees(f cke.Fleet) {
	c.fleets <- f
	synctest.Wait()
}

// heirs is who got each of these clusters: "one s2, two -".
func (c *country) heirs(names ...string) string {
	var all []string
	for _, name := range names {
		t := c.stage(name).led()
		t.mu.Lock()
		heir := t.heir
		t.mu.Unlock()
		if heir == "" {
			heir = "-"
		}
		all = append(all, name+" "+heir)
	}
	return strings.Join(all, ", ")
}

// once lets the daemon lead each cluster once, and then wait for it.
func (c *country) once() {
	led := map[string]bool{}
	c.campaign = func(ctx context.Context, cluster string) error {
		c.mu.Lock()
		again := led[cluster]
		led[cluster] = true
		c.mu.Unlock()
		if again {
			return hang(ctx)
		}
		return nil
	}
}

func governOnce(t *testing.T, f func(c *country), clusters ...string) {
	govern(t, func(c *country) {
		c.once()
		for _, name := range clusters {
			c.add(name)
		}
		c.declare(clusters...)
		f(c)
	})
}

func TestDaemon_HandsANewDaemonItsShareOnceItHasSettled(t *testing.T) {
	names := []string{"four", "one", "three", "two"}
	governOnce(t, func(c *country) {
		c.sees(fleet(names, me))
		pass(time.Minute)
		c.sees(fleet(names, me, "s2"))
		pass(14 * time.Second)
		if got := c.heirs(names...); got != "four -, one -, three -, two -" {
			t.Errorf("at once: %s", got)
		}
		pass(2 * time.Second)
		if got := c.heirs(names...); got != "four s2, one s2, three -, two -" {
			t.Errorf("later: %s", got)
		}
		if c.logged("handed over to h2: balance") != 2 || c.logged(`level=WARN msg="term ended"`) != 0 {
			t.Errorf("log:\n%s", c.log.String())
		}
		figures := scrape(t, c.metrics)
		for _, line := range []string{`cke_handovers_total{reason="balance"} 2`, `cke_handovers_total{reason="stop"} 0`, "cke_clusters_led 2"} {
			if !strings.Contains(figures, line+"\n") {
				t.Errorf("metrics lack %s", line)
			}
		}
	}, names...)
}

func TestDaemon_HandsNothingToDaemonsThatComeAndGo(t *testing.T) {
	names := []string{"four", "one", "three", "two"}
	governOnce(t, func(c *country) {
		for i := range 40 {
			c.sees(fleet(names, me))
			pass(5 * time.Second)
			c.sees(fleet(names, me, fmt.Sprintf("s%d", i+2)))
			pass(10 * time.Second)
		}
		if got := c.heirs(names...); got != "four -, one -, three -, two -" {
			t.Error(got)
		}
	}, names...)
}

func TestDaemon_BalancesAtOnceWhenItIsAsked(t *testing.T) {
	names := []string{"four", "one", "three", "two"}
	governOnce(t, func(c *country) {
		f := fleet(names, me, "s2")
		f.Asked = &cke.BalanceRequest{By: "ann@boot-1"}
		c.sees(f)
		pass(time.Second)
		if got := c.heirs(names...); got != "four s2, one s2, three -, two -" {
			t.Error(got)
		}
	}, names...)
}

// A daemon that cannot lead ends each term at once, and waits in the queue again: it gets the cluster ever more rarely.
func TestDaemon_RarelyHandsOverAgainWhatComesBack(t *testing.T) {
	for name, f := range map[string]cke.Fleet{"even": fleet([]string{"one", "two"}, me, "s2"), "preferred": preferred()} {
		t.Run(name, func(t *testing.T) {
			govern(t, func(c *country) {
				c.add("one")
				c.add("two")
				c.declare("one", "two")
				c.sees(f)
				pass(10 * time.Minute)
				n := c.logged("handed over to h2")
				if n < 3 || n > 10 {
					t.Errorf("%d handovers in 10 minutes", n)
				}
				pass(110 * time.Minute)
				if n = c.logged("handed over to h2") - n; n < 2 || n > 10 {
					t.Errorf("%d handovers later", n)
				}
				restarted := fleet([]string{"one"}, me, "s3")
				restarted.Clusters[0].Prefer = []string{"h3"}
				c.sees(restarted)
				pass(16 * time.Second)
				if c.logged("handed over to h3") != 1 {
					t.Error("a daemon that was started again gets nothing")
				}
			})
		})
	}
}

// An operator asked the other daemon to resign: it does not get the cluster back at once.
func TestDaemon_KeepsForAMinuteWhatAnotherOneGaveUp(t *testing.T) {
	govern(t, func(c *country) {
		elected := make(chan struct{})
		c.campaign = func(ctx context.Context, _ string) error {
			select {
			case <-elected:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c.add("one")
		c.declare("one")
		there := preferred()
		there.Clusters[0].By, there.Clusters[0].Waiting = "s2", []string{me}
		c.sees(there)
		pass(time.Minute)
		elected <- struct{}{}
		c.sees(preferred())
		pass(59 * time.Second)
		if got := c.heirs("one"); got != "one -" {
			t.Errorf("at once: %s", got)
		}
		pass(20 * time.Second)
		if got := c.heirs("one"); got != "one s2" {
			t.Errorf("later: %s", got)
		}
	})
}

func TestDaemon_SpreadsItsClustersWhenItStops(t *testing.T) {
	names := []string{"four", "one", "three", "two"}
	governOnce(t, func(c *country) {
		c.sees(fleet(names, me, "s2", "s3"))
		c.stop()
		<-c.ended
		if got := c.heirs(names...); got != "four s2, one s3, three s2, two s3" {
			t.Error(got)
		}
	}, names...)
}

// preferred is a fleet in which one cluster prefers the other daemon.
func preferred() cke.Fleet {
	f := fleet([]string{"one"}, me, "s2")
	f.Clusters[0].Prefer = []string{"h2"}
	return f
}

func TestDaemon_HandsOverBetweenOperationsOnly(t *testing.T) {
	governOnce(t, func(c *country) {
		g := c.stage("one")
		release := make(chan struct{})
		g.change(func() {
			g.scene.stopped(1)
			g.do = func(ctx context.Context, _, _ string) error {
				select {
				case <-release:
					g.change(func() { g.scene.Seen = formed(3).Seen })
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		pass(probe)
		c.sees(preferred())
		pass(20 * time.Second)
		if got := g.told(); len(got) != 1 || got[0] != "1 start-members running" || c.heirs("one") != "one -" {
			t.Fatalf("history %v, %s", got, c.heirs("one"))
		}
		close(release)
		pass(10 * time.Second)
		if got := g.told(); len(got) != 1 || got[0] != "1 start-members completed" || c.heirs("one") != "one s2" {
			t.Errorf("history %v, %s", got, c.heirs("one"))
		}
	}, "one")
}

// What is under way keeps a cluster where it is, and is what another leader would have to take up.
func TestDaemon_KeepsAClusterInWhichSomethingIsUnderWay(t *testing.T) {
	for name, under := range map[string]func(g *stage) (over func()){ // nil: it is not over within the test
		"a restore": func(g *stage) func() {
			g.scene.Identity.Incarnation.State = cke.Restoring
			return nil
		},
		"a task": func(g *stage) func() {
			g.leading.requests.Unread = []string{"t1"}
			return func() { g.leading.requests.Unread = nil }
		},
		"a reboot": func(g *stage) func() {
			n, now := g.scene.Spec.Nodes[2], time.Now()
			e := cke.Entry{ID: "r1", Node: n.Hostname, Address: n.Address, State: cke.EntryRebooting, Agent: "n3", Since: now, StartedAt: now, Attempt: 1}
			g.leading.requests.Reboots.Entries = []cke.Entry{e}
			g.leading.requests.Drains = []cke.Drain{{Node: n.Hostname, Address: n.Address, Entry: e.ID, Since: now, Until: now.Add(time.Hour)}}
			return func() { g.leading.requests.Reboots.Entries, g.leading.requests.Drains = nil, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			governOnce(t, func(c *country) {
				g := c.stage("one")
				var over func()
				g.change(func() { over = under(g) })
				g.led().wake()
				pass(probe)
				c.sees(preferred())
				pass(time.Minute)
				if got := c.heirs("one"); got != "one -" {
					t.Error("it was handed over")
				}
				if over == nil {
					return
				}
				g.change(over)
				g.led().wake()
				pass(time.Minute)
				if got := c.heirs("one"); got != "one s2" {
					t.Errorf("it is over: %s", got)
				}
			}, "one")
		})
	}
	t.Run("a full", func(t *testing.T) {
		busy := scenes.SoundBackups()
		busy.Busy = true
		b := &stageBackups{status: busy}
		governWith(t, b, func(c *country) {
			c.once()
			c.add("one")
			c.declare("one")
			c.keepsUntilIdle(b)
		})
	})
}

// A full that starts after the last observation, and before the loop reads what it is asked for, is not cut.
func TestDaemon_KeepsAClusterWhoseFullHasJustStarted(t *testing.T) {
	b := &stageBackups{}
	governWith(t, b, func(c *country) {
		c.once()
		c.add("one")
		c.declare("one")
		c.sees(fleet([]string{"one"}, me, "s2"))
		pass(time.Minute)
		busy := scenes.SoundBackups()
		busy.Busy = true
		b.mu.Lock()
		b.status = busy
		b.mu.Unlock()
		c.keepsUntilIdle(b)
	})
}

// keepsUntilIdle checks that a cluster that another daemon should lead is handed over only once its backups are idle.
func (c *country) keepsUntilIdle(b *stageBackups) {
	c.t.Helper()
	c.sees(preferred())
	pass(time.Minute)
	if got := c.heirs("one"); got != "one -" {
		c.t.Error("it was handed over")
	}
	b.mu.Lock()
	b.status = nil
	b.mu.Unlock()
	pass(time.Minute)
	if got := c.heirs("one"); got != "one s2" {
		c.t.Errorf("it is over: %s", got)
	}
}

// How often an operation completed in a row is known to the loop alone: another leader would repeat it without a pause.
func TestDaemon_KeepsAClusterInWhichAnOperationIsRepeated(t *testing.T) {
	governOnce(t, func(c *country) {
		g := c.stage("one")
		lasting := false
		g.change(func() {
			g.scene.stopped(1)
			g.do = func(_ context.Context, call, _ string) error {
				if call == "start" {
					time.AfterFunc(time.Second, func() {
						g.change(func() {
							if !lasting {
								g.scene.stopped(1)
							}
						})
					})
				}
				return nil
			}
		})
		c.sees(preferred())
		pass(10 * time.Minute)
		if got := c.heirs("one"); got != "one -" {
			t.Errorf("%s, history %v", got, g.told())
		}
		if n := len(g.told()); n < 5 {
			t.Errorf("it was repeated %d times", n)
		}
		g.change(func() { lasting = true })
		pass(2 * time.Minute)
		if got := c.heirs("one"); got != "one s2" {
			t.Errorf("it is over: %s", got)
		}
	}, "one")
}

func TestLoop_ShowsOtherDaemonsWhatIsPreferred(t *testing.T) {
	onStage(t, formed(3), func(g *stage) {
		p := g.perform()
		for _, hosts := range [][]string{{"h2"}, {"h3", "h4"}, nil} {
			g.change(func() { g.scene.Spec.Prefer = hosts })
			p.term.wake()
			g.pass(time.Second)
			var got []string
			g.change(func() { got = p.term.prefers })
			if !slices.Equal(got, hosts) {
				t.Errorf("got %v, want %v", got, hosts)
			}
		}
		_ = p.over()
	})
}
