package mtest_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke"
	"cke/mtest/lab"
)

// oldEtcd is the container of an etcd that an operator made, of the minor before that of the cluster, with authentication.
const oldEtcd = "old-etcd"

// makeOld runs it on a node, with ports of its own, and returns a client.
func (s *story) makeOld(n lab.Node, version string) *clientv3.Client {
	s.Helper()
	img, err := lab.EtcdImage(s.ctx, version, os.Stderr)
	s.must(err)
	s.must(s.Lab.LoadImage(s.ctx, img.Archive, n.Name))
	client, peer := fmt.Sprintf("http://%s:12379", n.Address), fmt.Sprintf("http://%s:12380", n.Address)
	image := strings.Replace(s.spec().WithDefaults().Options.Etcd.Image, s.spec().Options.Etcd.Version, version, 1)
	s.on(n, strings.Join([]string{
		"docker run -d --name " + oldEtcd + " --restart always --network host -v /srv/old:/data --entrypoint etcd", image,
		"--name=old --data-dir=/data --initial-cluster=old=" + peer, "--listen-client-urls=" + client + " --advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer + " --initial-advertise-peer-urls=" + peer,
	}, " "))
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{client}, Logger: zap.NewNop()})
	s.must(err)
	s.Cleanup(func() { c.Close() })
	return c
}

// fetch copies a file or directory of a node to the management host.
func (s *story) fetch(n lab.Node, path string) string {
	s.Helper()
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s.on(n, fmt.Sprintf("tar -C %s -cf - %s | base64", filepath.Dir(path), filepath.Base(path)))), ""))
	s.must(err)
	to := s.TempDir()
	untar := exec.CommandContext(s.ctx, "tar", "-C", to, "-xf", "-")
	untar.Stdin = strings.NewReader(string(data))
	if said, err := untar.CombinedOutput(); err != nil {
		s.Fatalf("tar: %v: %s", err, said)
	}
	return filepath.Join(to, filepath.Base(path))
}

// The walk of docs/import.md.
func TestLabImport_AHandMadeEtcdComesInFromItsSnapshotAndFromItsDirectory(t *testing.T) {
	extra(t)
	b := backedUp{newStory(t, 3), filepath.Join(t.TempDir(), "backups")}
	b.daemon("boot-1")
	b.setKey()
	n := b.nodes[0]
	old := b.makeOld(n, "3.5.35")
	lease, err := old.Grant(b.within(readyLimit), 36000)
	b.must(err)
	put := func(c *clientv3.Client, prefix string) {
		b.Helper()
		for i := range 200 {
			_, err := c.Put(b.within(seenLimit), fmt.Sprintf("%s/%d", prefix, i%150), strings.Repeat("v", i), clientv3.WithLease(lease.ID*clientv3.LeaseID(i%2)))
			b.must(err)
		}
	}
	put(old, "key")
	deleted, err := old.Delete(b.ctx, "key/1", clientv3.WithPrefix())
	b.must(err)
	_, err = old.Compact(b.ctx, deleted.Header.Revision)
	b.must(err)
	_, err = old.UserAdd(b.ctx, "root", "secret")
	b.must(err)
	for _, user := range []string{"root", cke.EtcdUser, "tester"} {
		b.root(old, user)
	}
	b.reader(old, "app")
	_, err = old.AuthEnable(b.ctx)
	b.must(err)
	admin, err := clientv3.New(clientv3.Config{Endpoints: old.Endpoints(), Username: "root", Password: "secret", Logger: zap.NewNop()})
	b.must(err)
	defer admin.Close()
	want, err := heldBy(b.ctx, admin)
	b.must(err)

	b.set(b.spec())
	st := b.await("the remedy for the foreign etcd", seenLimit, func(st cke.Status) bool {
		p, told := problemOf(st, n.Name, cke.CodeForeignEtcd)
		return told && strings.Contains(p.Remedy, "ckecli restore --from-snapshot")
	})
	if st.Health != cke.HealthForming || st.Ready > 0 {
		t.Errorf("%s, %d ready", st.Health, st.Ready)
	}

	holds := func(s *story, before cke.Status) {
		b := b.in(s)
		b.isRestored(before)
		client := b.clientTLS()
		b.holds(want, client)
		b.through(func(c *clientv3.Client) error {
			left, err := c.TimeToLive(b.ctx, lease.ID)
			if err == nil && left.GrantedTTL != 36000 {
				err = fmt.Errorf("the lease has %d s", left.GrantedTTL)
			}
			b.must(err)
			app, err := c.UserGet(b.ctx, "app")
			if err == nil && strings.Join(app.Roles, "") != "reader" {
				err = fmt.Errorf("roles %q", app.Roles)
			}
			return err
		})
		if out := b.do("etcd", "auth", "status"); !strings.Contains(out, "authentication is on, and user cke has the role root") {
			b.Error(out)
		}
		b.awaitBackups("True UpToDate")
	}
	b.part("from a snapshot", func(s *story) {
		s.on(n, fmt.Sprintf("docker exec %s etcdctl --endpoints http://%s:12379 --user root:secret snapshot save /data/old.db", oldEtcd, n.Address))
		file := s.fetch(n, "/srv/old/old.db")
		plan := s.do("restore", "--from-snapshot", file, "--plan")
		s.Logf("\n%s", plan)
		for _, says := range []string{"of etcd 3.5", fmt.Sprintf("%d keys, 1 lease", len(want)), "4 users", "authentication on", "was not made by cke"} {
			if !strings.Contains(plan, says) {
				s.Errorf("the plan does not say %q", says)
			}
		}
		s.refused(6, []string{"CKE209", "--from-snapshot"}, "restore", "--from-snapshot", file, "--confirm", "prod")
		s.on(n, fmt.Sprintf("docker update --restart=no %[1]s && docker stop %[1]s", oldEtcd))
		before := s.now()
		s.restores("--from-snapshot", file)
		s.on(n, fmt.Sprintf("docker inspect %s >/dev/null && test -d /srv/old/member", oldEtcd)) // it is kept
		holds(s, before)
	})
	b.part("from the data directory, after more was written", func(s *story) {
		s.on(n, "docker start "+oldEtcd)
		s.insist(s.within(readyLimit), func() error { _, err := admin.Get(s.ctx, "ready"); return err })
		put(admin, "late")
		want, err = heldBy(s.ctx, admin)
		s.must(err)
		s.on(n, "docker stop "+oldEtcd)
		before := s.ready()
		s.restores("--from-snapshot", s.fetch(n, "/srv/old"))
		holds(s, before)
	})
}
