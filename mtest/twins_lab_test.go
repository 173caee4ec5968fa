package mtest_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// TestLabTwins_TwoClustersOfOneIDEndAsOne puts the disk of the first member back to when it was alone: it serves by itself, under the
// id of the cluster that goes on without it. That freezes the cluster; once a person has chosen, the other one never comes back, whoever
// is down meanwhile.
func TestLabTwins_TwoClustersOfOneIDEndAsOne(t *testing.T) {
	s := newStory(t, 3)
	d := s.daemon("cke1")
	s.setKey()
	s.becomes(s.of(0))
	twin := s.nodes[0]
	s.must(d.Freeze())
	s.on(twin, fmt.Sprintf("docker stop %[1]s && cp -a %[2]s /srv/alone && docker start %[1]s", s.volumeOn(twin), s.dataOf(twin)))
	s.must(d.Thaw())
	s.becomes(s.of(0, 1, 2))
	tls := s.clientTLS()
	w := s.writer(tls)
	s.must(w.Await(s.within(seenLimit), 20))

	for _, ahead := range []bool{false, true} {
		s.part(fmt.Sprintf("the other one has served more: %v", ahead), func(s *story) {
			w.Stop()
			w = s.writer(tls)
			s.must(w.Await(s.within(seenLimit), 20))
			w.Stop() // through all three, of which one will lie
			s.must(d.Freeze())
			for _, n := range s.nodes[1:] {
				s.apart(twin, n)
			}
			container, data := s.volumeOn(twin), s.dataOf(twin)
			s.on(twin, fmt.Sprintf("docker kill %[1]s; rm -rf %[2]s && cp -a /srv/alone %[2]s && docker start %[1]s", container, data))
			if ahead {
				s.getsAhead(twin, tls)
			}
			s.must(d.Thaw())
			s.await("the freeze", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthFrozen })
			var e struct{ Freeze *cke.Freeze }
			s.eventually("evidence on record", func() bool {
				e.Freeze = nil
				s.must(json.Unmarshal([]byte(s.do("cluster", "evidence", "-o", "json")), &e))
				return e.Freeze.Active()
			})
			if k := e.Freeze.Kind; k != cke.FreezeTwoQuorums && (ahead || k != cke.FreezeWentBack) { // by what was seen first
				s.Errorf("frozen by %s: %s", e.Freeze.Kind, e.Freeze.Problem.Message)
			}
			lift := []string{"cluster", "unfreeze", s.Cluster, "--reason", "its disk was put back by a test", "--confirm", s.Cluster, "--wrong"}
			s.refused(6, []string{"CKE302"}, lift[:len(lift)-1]...)
			s.refused(6, []string{"CKE302"}, append(lift, s.nodes[1].Name)...) // it serves with the third
			s.refused(6, []string{"CKE302"}, append(lift, twin.Name+","+s.nodes[1].Name)...)
			s.do(append(lift, twin.Name)...)
			s.awaitProblem(twin.Name, cke.CodeSplitBrain)
			s.eventually("it to be stopped for good", func() bool {
				return strings.TrimSpace(s.on(twin, "docker inspect -f '{{.HostConfig.RestartPolicy.Name}} {{.State.Running}}' "+container)) == "no false"
			})

			other := s.nodes[1]
			s.must(s.Lab.Kill(s.ctx, other.Name))
			s.on(twin, "docker start "+container) // by hand, while the others have no quorum
			s.eventually("it to be stopped", func() bool {
				return strings.TrimSpace(s.on(twin, "docker inspect -f '{{.State.Running}}' "+container)) == "false"
			})
			s.must(s.Lab.Start(s.ctx, other.Name))
			s.await("the others to serve", readyLimit, func(st cke.Status) bool {
				c, _ := st.Condition(cke.CondQuorate)
				return c.Status == cke.True && st.Ready == 2
			})
			for _, r := range s.records() {
				if r.Operation == "end-membership" || slices.Contains(r.Targets, twin.Name) && r.Operation == "start-members" {
					s.Errorf("%s of %v: %s", r.Operation, r.Targets, r.Reason)
				}
			}
			s.together(s.nodes...)
			s.do("replace", twin.Name, "--yes")
			s.ready()
			s.must(w.Check(s.ctx, s.urls(), tls))
		})
	}
}

// getsAhead lets a member that is alone serve more, in a later term, than the others did.
func (s *story) getsAhead(n lab.Node, tls *tls.Config) {
	c, err := rig.Client("https://"+n.Address+":2379", tls)
	s.must(err)
	defer c.Close()
	for range 8 {
		s.on(n, "docker restart -t 1 "+s.volumeOn(n))
		s.must(rig.PutThrough(s.within(seenLimit), c, "twin", "x"))
	}
	for range 3000 {
		s.must(rig.PutThrough(s.within(seenLimit), c, "twin", "y"))
	}
}
