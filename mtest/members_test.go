package mtest_test

import (
	"crypto/tls"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// oneCluster checks that there is exactly one cluster of all nodes: one cluster id, a member with a certificate of its
// own on each node, and on each node one container and one volume, those of its member.
func (s *story) oneCluster() cke.Status {
	s.Helper()
	st := s.ready()
	if st.ClusterID == "" || st.Ready != len(s.nodes) || len(st.Members) != len(s.nodes) {
		s.Fatalf("not one ready cluster of %d members: %+v", len(s.nodes), st)
	}
	if c, _ := st.Condition(cke.CondClusterIDMismatch); c.Status != cke.False {
		s.Errorf("condition %+v", c)
	}
	ids := map[string]bool{}
	for _, m := range st.Members {
		ids[m.ID] = true
		if m.CertNotAfter.Before(time.Now()) || m.State != "healthy" {
			s.Errorf("member %s: %+v", m.Name, m)
		}
	}
	if len(ids) != len(s.nodes) {
		s.Errorf("%d member ids: %+v", len(ids), st.Members)
	}
	for _, n := range s.nodes {
		has := s.carried(n)
		containers, volumes := rig.Lines(has, "container "), rig.Lines(has, "volume ")
		if len(containers) != 1 || len(volumes) != 1 || !strings.HasSuffix(containers[0], " running") {
			s.Errorf("%s carries more or less than one member:\n%s", n.Name, has)
			continue
		}
		if name := strings.TrimPrefix(volumes[0], "volume "); !strings.HasPrefix(containers[0], "container "+name+" ") {
			s.Errorf("%s: container and volume differ:\n%s", n.Name, has)
		}
	}
	tls := s.clientTLS()
	for _, n := range s.nodes {
		s.must(s.oneOf(n, st, rig.URL(n), tls))
	}
	return st
}

// oneOf asks a member itself: it must be in the cluster of the status, know the same members, and take a write.
func (s *story) oneOf(n lab.Node, st cke.Status, url string, tls *tls.Config) error {
	c, err := rig.Client(url, tls)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := s.within(seenLimit)
	if err := rig.PutThrough(ctx, c, "probe", n.Name); err != nil {
		return err
	}
	list, err := c.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("member list through %s: %w", n.Name, err)
	}
	if id := strconv.FormatUint(list.Header.ClusterId, 16); id != st.ClusterID {
		return fmt.Errorf("%s is in cluster %s, the status says %s", n.Name, id, st.ClusterID)
	}
	if len(list.Members) != len(st.Members) {
		return fmt.Errorf("%s lists %d members, the status %d", n.Name, len(list.Members), len(st.Members))
	}
	known := map[string]string{}
	for _, m := range st.Members {
		known[m.ID] = m.Name
	}
	for _, m := range list.Members {
		if id := strconv.FormatUint(m.ID, 16); known[id] != m.Name {
			return fmt.Errorf("%s lists member %s as %q, the status as %q", n.Name, id, m.Name, known[id])
		}
	}
	return nil
}

// sameMembers waits until the cluster is ready after something that happened since then, and checks that it and its
// members are those of before.
func (s *story) sameMembers(before cke.Status, since time.Time) {
	s.Helper()
	s.await("the members to be back", readyLimit, func(st cke.Status) bool { return st.ObservedAt.After(since) && rig.Ready(st) })
	s.nudge() // what was told may be older than what happened
	s.stillMembers(before)
}

// stillMembers checks that the cluster is ready, and that it and its members are those of before.
func (s *story) stillMembers(before cke.Status) {
	s.Helper()
	now := s.ready()
	if now.ClusterID != before.ClusterID || now.Incarnation != before.Incarnation {
		s.Errorf("another cluster: %s of %s, before %s of %s", now.ClusterID, now.Incarnation, before.ClusterID, before.Incarnation)
	}
	for i, m := range before.Members {
		if got := now.Members[i]; got.ID != m.ID || got.Join != m.Join || got.Name != m.Name {
			s.Errorf("member %s is another one: %+v, before %+v", m.Name, got, m)
		}
	}
}

// clientTLS is what a client with a certificate of the cluster needs.
func (s *story) clientTLS() *tls.Config {
	s.Helper()
	config, err := s.ClientTLS(s.ctx)
	s.must(err)
	return config
}

// urls are where clients reach the members.
func (s *story) urls() []string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, rig.URL(n))
	}
	return all
}
