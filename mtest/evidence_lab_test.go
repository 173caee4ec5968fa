package mtest_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// TestLabEvidence_UnequalDataVolumesStrangersAndPorts plays what persons, disks and other hands do to a cluster: three
// members, and a node that was one of them before.
func TestLabEvidence_UnequalDataVolumesStrangersAndPorts(t *testing.T) {
	extra(t)
	s := newStory(t, 4)
	s.daemon("cke1")
	s.setKey()
	s.becomes(s.of(0, 1, 2, 3))
	founded := s.becomes(s.of(0, 1, 2))
	tls := s.clientTLS()
	client, err := rig.Client(s.urls()[0], tls)
	s.must(err)
	t.Cleanup(func() { client.Close() })

	s.part("members with different data freeze the cluster until a person lifts it", func(s *story) {
		s.do("etcd", "compare")
		was, is := "the value that everybody was told", "the value that one disk made of it"
		s.must(rig.PutThrough(s.within(seenLimit), client, "precious", was))
		s.alter(s.nodes[1], was, is[:len(was)-1]+"!")
		s.refusedWith(1, "CKE306", "etcd", "compare")
		st := s.await("the freeze", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthFrozen })
		if c, _ := st.Condition(cke.CondDataConsistent); c.Status != cke.False || c.Reason != "UnequalHashes" {
			s.Errorf("condition %+v", c)
		}
		var e struct{ Freeze *cke.Freeze }
		s.must(json.Unmarshal([]byte(s.do("cluster", "evidence", "-o", "json")), &e))
		if e.Freeze == nil || e.Freeze.Compared == nil || len(e.Freeze.Compared.Hashes) != 3 || len(e.Freeze.Etcd.Endpoints) != 3 {
			s.Fatalf("evidence %+v", e.Freeze)
		}
		s.on(s.nodes[2], killContainer) // nothing is done while it is frozen
		s.refusedWith(6, "CKE309", "volume", "purge", "etcd-cke.none", "--confirm", "etcd-cke.none")
		s.alter(s.nodes[1], is[:len(was)-1]+"!", was)
		s.do("cluster", "unfreeze", s.Cluster, "--reason", "a disk of node 2 was altered by a test", "--confirm", s.Cluster)
		s.ready()
		s.do("etcd", "compare")
		s.await("the finding to be over", seenLimit, func(st cke.Status) bool {
			c, _ := st.Condition(cke.CondDataConsistent)
			return c.Status == cke.True && rig.Ready(st)
		})
	})

	s.part("a former member's volume is listed and purged, a present one's is not", func(s *story) {
		old := s.former()
		s.refusedWith(6, "CKE310", "volume", "purge", s.volumeOn(s.nodes[0]), "--confirm", s.volumeOn(s.nodes[0]))
		s.do("volume", "undelete", old)
		s.on(s.nodes[3], fmt.Sprintf("mkdir -p /srv/hand && cp -r /var/lib/docker/volumes/%s/_data/pki /srv/hand/", old))
		s.do("volume", "purge", old, "--confirm", old)
		if left := s.carried(s.nodes[3]); left != "" {
			s.Errorf("left on %s:\n%s", s.nodes[3].Name, left)
		}
		if out := s.do("volume", "list"); strings.Contains(out, old) {
			s.Errorf("still listed:\n%s", out)
		}
	})

	s.part("a member that was added by hand is told, and removed by policy", func(s *story) {
		s.addByHand(client, s.nodes[3], founded)
		st := s.await("the stranger to be told", seenLimit, func(st cke.Status) bool {
			return len(st.Members) == 4 && st.Members[3].State == "stranger" && st.Members[3].Role == "follower"
		})
		if _, told := problemOf(st, "hand", cke.CodeStranger); !told || st.Tolerance != 1 || !rig.Ready(st) {
			s.Errorf("%s, tolerance %d, problems %+v", st.Health, st.Tolerance, st.Problems)
		}
		c := s.of(0, 1, 2)
		c.Policies.Foreign = cke.ForeignRemove
		s.set(c)
		s.await("the stranger to be gone", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && len(st.Members) == 3 })
	})

	s.part("a member that was added by hand on a declared node gives its place to one of cke's, and comes back no more", func(s *story) {
		n := s.nodes[3]
		s.on(n, "docker rm -f hand && rm -rf /srv/hand/data")
		st := s.becomes(s.of(0, 1, 2))
		s.addByHand(client, n, st)
		s.set(s.of(0, 1, 2, 3))
		s.await("the stranger to be told", seenLimit, func(st cke.Status) bool {
			p, told := problemOf(st, n.Name, cke.CodeStranger)
			return told && strings.Contains(p.Remedy, "ckecli etcd adopt "+n.Name)
		})
		s.refusedWith(6, "CKE111", "etcd", "adopt", s.nodes[0].Name, "--yes")
		s.refusedWith(6, "CKE107", "etcd", "adopt", n.Name)
		s.leadsByHand(tls)
		s.must(rig.PutThrough(s.within(seenLimit), client, "adopted", "by replacement"))
		if out := s.do("etcd", "adopt", n.Name, "--yes"); !strings.Contains(out, "container hand is stopped, not started again, and kept, with /srv/hand") {
			s.Error(out)
		}
		st = s.await("four members of cke's", readyLimit, func(st cke.Status) bool { return rig.Ready(st) && len(st.Members) == 4 })
		for _, m := range st.Members {
			if m.Join == "" || m.Name == "hand" {
				s.Errorf("%+v", m)
			}
		}
		s.on(n, "docker restart "+s.volumeOn(n)+" >/dev/null; test -d /srv/hand/data/member/wal")
		if out := s.on(n, "docker inspect -f '{{.State.Status}} {{.HostConfig.RestartPolicy.Name}}' hand"); strings.TrimSpace(out) != "exited no" {
			s.Errorf("the container is %q", out)
		}
		s.becomes(s.of(0, 1, 2))
	})

	s.part("members move to other ports with their ids and data", func(s *story) {
		before := s.now()
		c := s.of(0, 1, 2)
		c.Options.Etcd.ClientPort, c.Options.Etcd.PeerPort = 3379, 3380
		s.becomes(c)
		s.stillMembers(before)
		moved, err := rig.Client(fmt.Sprintf("https://%s:3379", s.nodes[2].Address), tls)
		s.must(err)
		defer moved.Close()
		got, err := moved.Get(s.within(seenLimit), "precious")
		s.must(err)
		if len(got.Kvs) != 1 {
			s.Errorf("what was written is not there: %+v", got)
		}
		s.do("etcd", "compare")
	})
}

// refusedWith runs ckecli and wants this exit code and this code in what it says.
func (s *story) refusedWith(exit int, code string, args ...string) {
	s.Helper()
	s.refused(exit, []string{code}, args...)
}

// former is the volume of the membership that ended.
func (s *story) former() string {
	s.Helper()
	var all []struct{ Name, State string }
	s.must(json.Unmarshal([]byte(s.do("volume", "list", "-o", "json")), &all))
	for _, v := range all {
		if v.State == "archived" {
			return v.Name
		}
	}
	s.Fatalf("no archived volume in %+v", all)
	return ""
}

// alter changes a text in a running member's database file, as a faulty disk does: etcd sees it in its memory map.
func (s *story) alter(n lab.Node, was, is string) {
	s.Helper()
	file := "/var/lib/docker/volumes/" + s.volumeOn(n) + "/_data/data/member/snap/db"
	var found []int
	for end := time.Now().Add(seenLimit); len(found) == 0 && time.Now().Before(end); {
		var db bytes.Buffer
		s.must(s.Lab.Run(s.ctx, n.Name, nil, &db, nil, "cat", file))
		for at := 0; ; {
			i := bytes.Index(db.Bytes()[at:], []byte(was))
			if i < 0 {
				break
			}
			found = append(found, at+i)
			at += i + len(was)
		}
	}
	if len(found) == 0 {
		s.Fatalf("%q is not in the database of %s", was, n.Name)
	}
	for _, at := range found {
		s.must(s.Lab.Run(s.ctx, n.Name, strings.NewReader(is), nil, nil, "dd", "of="+file, "bs=1", fmt.Sprintf("seek=%d", at), "conv=notrunc"))
	}
}

// addByHand adds a voter on a node as a person with etcdctl and docker would.
func (s *story) addByHand(c *clientv3.Client, n lab.Node, st cke.Status) {
	s.Helper()
	ctx := s.within(readyLimit)
	// With another peer port it is none that once was cke's: those are removed whatever the policy.
	client, peer := rig.URL(n), fmt.Sprintf("https://%s:2390", n.Address)
	var added *clientv3.MemberAddResponse
	s.insist(ctx, func() (err error) { // etcd wants its members to have been connected for a while
		added, err = c.MemberAddAsLearner(ctx, []string{peer})
		return err
	})
	initial := "hand=" + peer
	for _, m := range added.Members {
		if m.ID != added.Member.ID {
			initial += "," + m.Name + "=" + m.PeerURLs[0]
		}
	}
	pki := "/var/lib/etcd/pki/"
	s.on(n, strings.Join([]string{
		"docker run -d --name hand --restart always --network host -v /srv/hand:/var/lib/etcd --entrypoint etcd", s.spec().WithDefaults().Options.Etcd.Image,
		"--name=hand --data-dir=/var/lib/etcd/data --initial-cluster-state=existing --initial-cluster=" + initial,
		"--listen-client-urls=" + client + " --advertise-client-urls=" + client, "--listen-peer-urls=" + peer + " --initial-advertise-peer-urls=" + peer,
		"--client-cert-auth=true --trusted-ca-file=" + pki + "client-ca.crt --cert-file=" + pki + "server.crt --key-file=" + pki + "server.key",
		"--peer-client-cert-auth=true --peer-trusted-ca-file=" + pki + "peer-ca.crt --peer-cert-file=" + pki + "peer.crt --peer-key-file=" + pki + "peer.key",
	}, " "))
	s.insist(ctx, func() error {
		_, err := c.MemberPromote(ctx, added.Member.ID)
		return err
	})
}

// leadsByHand lets the member that a person added lead: etcd takes that from the leader alone.
func (s *story) leadsByHand(tls *tls.Config) {
	s.Helper()
	s.insist(s.within(readyLimit), func() error {
		st := s.now()
		var from, to cke.MemberStatus
		for _, m := range st.Members {
			if m.Role == "leader" {
				from = m
			}
			if m.State == "stranger" {
				to = m
			}
		}
		if from.ClientURL == "" {
			return fmt.Errorf("nobody is told to lead: %+v", st.Members) // for a moment
		}
		c, err := rig.Client(from.ClientURL, tls)
		s.must(err)
		defer c.Close()
		id, err := strconv.ParseUint(to.ID, 16, 64)
		if err == nil {
			_, err = c.MoveLeader(s.within(seenLimit), id)
		}
		return err
	})
	s.await("the stranger to lead", seenLimit, func(st cke.Status) bool {
		return slices.ContainsFunc(st.Members, func(m cke.MemberStatus) bool { return m.State == "stranger" && m.Role == "leader" })
	})
}

// insist tries again until etcd accepts a change, or ctx ends.
func (s *story) insist(ctx context.Context, try func() error) {
	s.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatal(err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
