package mtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/mtest/lab"
)

// Versions of etcd that upgrades go through: the one below the rig's minor, and the patch below the rig's.
const (
	formerMinor = "3.5.35"
	formerPatch = "3.6.15"
)

// changes are what people ask of a cluster.
var changes = []chapter{
	{name: "one, three, five, three, one", nodes: 5, members: 1, often: true, tell: func(m *loaded) {
		m.measured("the only member restarts", func() {
			m.argument("4294967296")
			m.apply()
		})
		for _, n := range []int{3, 5, 3, 1} {
			m.measured(fmt.Sprintf("to %d", n), func() {
				m.members(span(n)...)
				m.apply()
			})
		}
	}},
	{name: "a dead member is replaced by another node", nodes: 4, members: 3, quick: true, tell: func(m *loaded) {
		dead := m.nodes[1]
		m.measured("power lost", func() { m.loses(dead) })
		m.measured("replaced", func() {
			m.do("replace", dead.Name, m.nodes[3].Name)
			m.adopt()
			m.settled()
		})
		m.measured("the dead node is back, and no member", func() {
			m.must(m.Lab.Start(m.ctx, dead.Name))
			m.fresh()
			m.settled()
		})
	}},
	{name: "a dead member is replaced on its own node", nodes: 3, members: 3, tell: func(m *loaded) {
		victim := m.nodes[2]
		m.measured("its data is lost", func() {
			m.must(m.daemon.Freeze()) // else the container is made anew before its volume is gone
			m.on(victim, "docker rm -f $(docker ps -aq) && docker volume rm $(docker volume ls -q)")
			m.must(m.daemon.Thaw())
			m.awaitProblem(victim.Name, cke.CodeDataMissing)
		})
		m.measured("replaced", func() {
			m.do("replace", victim.Name, "--yes")
			m.settled()
		})
	}},
	{name: "a healthy member is replaced", nodes: 4, members: 3, tell: func(m *loaded) {
		for _, role := range []string{"leader", "follower"} {
			from, spare := m.role(role), m.spare()
			m.measured("the "+role+" by another node", func() {
				m.do("replace", from.Name, spare)
				m.adopt()
				m.settled()
			})
		}
		m.measured("a follower on its own node", func() {
			m.do("replace", m.role("follower").Name, "--yes")
			m.settled()
		})
	}},
	{name: "other arguments, one member after the other", nodes: 3, members: 3, tell: func(m *loaded) {
		for _, quota := range []string{"4294967296", "5368709120"} {
			m.measured("quota "+quota, func() {
				m.argument(quota)
				m.apply()
			})
		}
	}},
	{name: "members that cke restarts are no failure", nodes: 3, members: 3, tell: func(m *loaded) {
		checks := m.checks()
		m.measured("other arguments", func() {
			m.argument("4294967296")
			m.apply()
		})
		if seen := checks(); seen[cke.HealthUpdating] == 0 {
			m.Errorf("it was never %s: %v", cke.HealthUpdating, seen)
		}
	}},
	{name: "what does not work is taken back", nodes: 3, members: 3, tell: func(m *loaded) {
		sound := m.file
		m.archive(nextVersion)
		m.doesNotWork("an argument that etcd refuses, with a version", func(o *cke.EtcdOptions) {
			o.ExtraArgs, o.Version = []string{"--cipher-suites=NO_SUCH_CIPHER"}, nextVersion
		}, "NO_SUCH_CIPHER")
		m.file = sound
		m.doesNotWork("a mount of what is missing", func(o *cke.EtcdOptions) {
			o.ExtraBinds = []cke.Bind{{Source: "/srv/nothing", Destination: "/notes", ReadOnly: true}}
		}, "/srv/nothing")
		newest := m.newest()
		m.measured("corrected", func() {
			for _, n := range m.nodes {
				m.on(n, "mkdir -p /srv/nothing")
			}
			m.apply()
		})
		for _, r := range m.did(newest) {
			if r.State == cke.RecordCompleted && !slices.Contains(stepsOf(r), "try") {
				m.Errorf("#%d %s did not try the options: %v", r.ID, r.Operation, stepsOf(r))
			}
		}
		for _, n := range m.nodes {
			if binds := m.inspect(n).binds(); binds != "/srv/nothing /notes false" {
				m.Errorf("the container of %s has %q", n.Name, binds)
			}
		}
		m.noHelpers()
		m.measured("an argument that etcd judges late, with a version", func() {
			m.file.Options.Etcd.ExtraArgs, m.file.Options.Etcd.Version = []string{"--auth-token=none"}, nextVersion
			m.set(m.file)
			m.await("a member to be down", readyLimit, func(st cke.Status) bool {
				return slices.ContainsFunc(st.Problems, func(p cke.Problem) bool { return strings.Contains(p.Message, "invalid auth options") })
			})
		})
		m.measured("taken back", func() {
			m.file = sound
			m.apply()
		})
		m.measured("a minor version, until one member runs it", func() {
			m.file.Options.Etcd.Version = nextVersion
			m.set(m.file)
			m.await("one member to run it", readyLimit, func(st cke.Status) bool {
				return slices.ContainsFunc(st.Members, func(b cke.MemberStatus) bool { return b.Version == nextVersion })
			})
		})
		m.measured("that is taken back, too", func() {
			m.file = sound
			for _, member := range m.apply().Members {
				if member.Version != "3.6.16" {
					m.Errorf("%s runs %s", member.Name, member.Version)
				}
			}
		})
	}},
	{name: "a patch version up", nodes: 3, members: 3, version: formerPatch, tell: func(m *loaded) { m.upgrade("3.6.16") }},
	{name: "one minor version after the other", nodes: 3, members: 3, version: formerMinor, tell: func(m *loaded) {
		m.upgrade("3.6.16")
		m.upgrade(nextVersion)
	}},
}

// doesNotWork changes how members are to run so that it does not work: that is told in etcd's or the engine's own words before
// any member is stopped for it, and nothing is left on the nodes.
func (m *loaded) doesNotWork(what string, change func(*cke.EtcdOptions), words string) {
	m.Helper()
	newest := m.newest()
	var before []string
	for _, n := range m.nodes {
		before = append(before, m.started(n))
	}
	m.measured(what, func() {
		change(&m.file.Options.Etcd)
		m.set(m.file)
		st := m.await(what+" to be told", readyLimit, func(st cke.Status) bool {
			return slices.ContainsFunc(st.Problems, func(p cke.Problem) bool {
				return p.Code == cke.CodeOptions && strings.Contains(p.Message, words)
			})
		})
		m.Logf("%+v", st.Problems)
	})
	m.allServe()
	for i, n := range m.nodes {
		if now := m.started(n); now != before[i] {
			m.Errorf("the member on %s was started at %s, before %s", n.Name, now, before[i])
		}
	}
	did := m.did(newest)
	for _, r := range did {
		if steps := stepsOf(r); r.State == cke.RecordCompleted || len(steps) == 0 || steps[len(steps)-1] != "try" {
			m.Errorf("#%d %s is %s, steps %v", r.ID, r.Operation, r.State, steps)
		}
	}
	if len(did) == 0 {
		m.Errorf("nothing was begun for %s", what)
	}
	m.noHelpers()
}

// started tells which container of a member runs on a node, and since when.
func (m *loaded) started(n lab.Node) string {
	m.Helper()
	return strings.TrimSpace(m.on(n, "docker inspect --format '{{.Id}} {{.State.StartedAt}}' $(docker ps -q --filter label=cke.join)"))
}

// noHelpers fails if a container that is no member is on a node.
func (m *loaded) noHelpers() {
	m.Helper()
	for _, n := range m.nodes {
		m.eventually("no helper on "+n.Name, func() bool { // one of a trial that began before the file was set back may be there
			return strings.TrimSpace(m.on(n, "docker ps -a --filter label=cke.helper --format '{{.Names}}'")) == ""
		})
	}
}

// checks runs `ckecli status --check` again and again. The function that it returns ends that, and counts which health was shown:
// each has to exit with 0. Members that cke does not restart may be too busy to answer in time.
func (m *loaded) checks() func() map[cke.Health]int {
	m.Helper()
	ctx, stop := context.WithCancel(m.ctx)
	seen, done := map[cke.Health]int{}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			res, err := m.CLI(ctx, "status", "--check", "-o", "json")
			var st cke.Status
			if err == nil {
				err = json.Unmarshal([]byte(res.Stdout), &st)
			}
			switch {
			case ctx.Err() != nil:
			case err != nil:
				m.Errorf("%v: %s", err, res.Stderr)
			case res.Code != 0 && st.Health == cke.HealthReady: // the leader has not taken note of the file yet
			case res.Code != 0 && ofOthers(st): // they are busy
				seen["busy"]++
			case res.Code != 0:
				m.Errorf("ckecli status --check exits with %d: %s, %q, problems %+v", res.Code, st.Health, st.Summary, st.Problems)
			default:
				seen[st.Health]++
			}
		}
	}()
	return func() map[cke.Health]int {
		stop()
		<-done
		return seen
	}
}

// ofOthers reports whether a status names a problem of a node that is no target of what is under way.
func ofOthers(st cke.Status) bool {
	return slices.ContainsFunc(st.Problems, func(p cke.Problem) bool {
		return p.Code == cke.CodeEngine || p.Code == cke.CodeUnreachable || st.Operation == nil || !slices.Contains(st.Operation.Targets, p.Node)
	})
}

// upgrade makes all members run this version.
func (m *loaded) upgrade(version string) {
	m.Helper()
	if version != "3.6.16" { // nodes have that one
		m.archive(version)
	}
	m.measured("to "+version, func() {
		m.file.Options.Etcd.Version = version
		for _, member := range m.apply().Members {
			if member.Version != version {
				m.Errorf("%s runs %s", member.Name, member.Version)
			}
		}
	})
}

// spare is the name of a declared node that is no control-plane node.
func (m *loaded) spare() string {
	m.Helper()
	for _, n := range m.file.Nodes {
		if !n.ControlPlane {
			return n.Name()
		}
	}
	m.Fatal("no node is spare")
	return ""
}

// loses takes a node's power and waits until that is told.
func (m *loaded) loses(n lab.Node) {
	m.Helper()
	m.must(m.Lab.Kill(m.ctx, n.Name))
	m.awaitProblem(n.Name, cke.CodeUnreachable)
}

// soon makes the daemon replace what is provably lost at once.
func (m *loaded) soon() {
	m.file.Policies.Replace.Grace = cke.Duration(time.Second)
	m.apply()
}
