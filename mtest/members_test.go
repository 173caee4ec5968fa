package mtest_test

import (
	"crypto/tls"
	"fmt"
	"strconv"
	"time"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

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
