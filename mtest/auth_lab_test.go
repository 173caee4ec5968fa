package mtest_test

import (
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/mtest/rig"
)

// asRoot lets the tester be a user of etcd with the role root, and then do something.
func (b backedUp) asRoot(do func(c *clientv3.Client)) {
	b.Helper()
	b.through(func(c *clientv3.Client) error { do(c); return nil })
}

// root makes a user with the role root; one that is there is no error.
func (b backedUp) root(c *clientv3.Client, user string) {
	b.Helper()
	if _, err := c.UserAddWithOptions(b.ctx, user, "", &clientv3.UserAddOptions{NoPassword: true}); err != nil && !strings.Contains(err.Error(), "already exists") {
		b.Fatal(err)
	}
	_, err := c.UserGrantRole(b.ctx, user, "root")
	b.must(err)
}

// reader makes sure of a user that may read everything and nothing else.
func (b backedUp) reader(c *clientv3.Client, user string) {
	b.Helper()
	_, err := c.RoleAdd(b.ctx, "reader")
	b.must(err)
	_, err = c.RoleGrantPermission(b.ctx, "reader", "\x00", "\x00", clientv3.PermissionType(clientv3.PermRead))
	b.must(err)
	_, err = c.UserAddWithOptions(b.ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
	b.must(err)
	_, err = c.UserGrantRole(b.ctx, user, "reader")
	b.must(err)
}

// Authentication that somebody turned on without cke's user is a problem with a remedy; turned on by cke, everything works
// with it.
func TestLabAuth_EverythingWorksWithAuthentication(t *testing.T) {
	rare(t)
	b, _ := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	w := b.writer(client)
	b.must(w.Await(b.within(seenLimit), 20))

	b.part("turned on by hand, without cke", func(s *story) {
		b := b.in(s)
		b.asRoot(func(c *clientv3.Client) {
			b.root(c, "root")
			b.root(c, "tester")
			_, err := c.AuthEnable(b.ctx)
			b.must(err)
		})
		s.awaitProblem("", cke.CodeAuth)
		b.asRoot(func(c *clientv3.Client) { b.reader(c, cke.EtcdUser) }) // it may read everything, and is still refused what cke has to do
		term := s.now().Leader.Term
		s.do("leader", "--resign")
		s.await("a leader that has seen it", seenLimit, func(st cke.Status) bool { return st.Leader.Term > term && st.Etcd.Quorate })
		p := s.awaitProblem("", cke.CodeAuth)
		if !strings.Contains(p.Remedy, "etcdctl user add cke") {
			t.Errorf("%+v", p)
		}
		s.await("the cluster to be degraded", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthDegraded })
		s.refusedWith(6, "CKE325", "etcd", "compare")
		if out := s.do("etcd", "auth", "status"); !strings.Contains(out, "refuses cke") {
			t.Error(out)
		}
		b.asRoot(func(c *clientv3.Client) { b.root(c, cke.EtcdUser) }) // as the remedy says
		s.ready()
		s.do("etcd", "auth", "disable", "--yes")
		b.asRoot(func(c *clientv3.Client) {
			_, err := c.UserDelete(b.ctx, cke.EtcdUser)
			b.must(err)
		})
		s.ready()
	})
	b.do("etcd", "auth", "enable", "--yes")
	b.ready()
	on := func() {
		b.Helper()
		if out := b.do("etcd", "auth", "status"); !strings.Contains(out, "authentication is on, and user cke has the role root") {
			b.Error(out)
		}
	}
	on()
	b.do("replace", b.nodes[2].Name, "--yes")
	b.ready()
	c := b.spec()
	c.Options.Etcd.ExtraArgs = append(c.Options.Etcd.ExtraArgs, "--heartbeat-interval=110")
	revision := b.set(c)
	b.await("the members to be restarted", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && st.ObservedGeneration >= revision })
	b.do("etcd", "defrag", "--yes")
	b.do("etcd", "compare")
	w.Stop()
	b.must(w.Check(b.ctx, b.urls(), client))
	revision = b.put("kept", 10)
	b.now()
	b.awaitRevision(revision)
	want := b.content(client)
	before := b.ready()
	b.restores()
	b.isRestored(before)
	b.holds(want, client)
	on()
	b.do("etcd", "compare")
}
