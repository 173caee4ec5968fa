package mtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/internal/need"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

var withAPIServer = flag.Bool("apiserver", false, "run the story of a real kube-apiserver, which is built once in a quarter of an hour; it takes as long again")

const apiserverLimit = time.Hour

// TestLabAPIServer_ServesThroughWhatHappensToEtcd is what a kube-apiserver, set up as docs/tenants.md says, and its clients meet while etcd
// is changed, damaged and restored: no request fails for another reason than etcd's, watches resume, and nothing that was acknowledged is lost.
func TestLabAPIServer_ServesThroughWhatHappensToEtcd(t *testing.T) {
	if !*withAPIServer {
		t.Skip("make apiserver (-apiserver) runs it")
	}
	program, err := apiserverProgram.Build()
	if err != nil {
		need.Missing(t, "%v", err)
	}
	s := newStory(t, 5)
	ctx, cancel := context.WithTimeout(t.Context(), apiserverLimit)
	t.Cleanup(cancel)
	s.ctx = ctx
	k := newKube(s, program)
	k.part("nothing happens", func() {
		if f := k.under("nothing", func() { k.writes(); k.writes(); k.writes() }); f.failures() > 0 {
			k.Error("requests failed")
		}
	})
	k.part("a changed argument", func() {
		k.under("a rolling restart", func() { k.arguments("5m", "--quota-backend-bytes=4294967296"); k.apply() })
	})
	k.part("three, five, three", func() {
		for _, n := range []int{5, 3} {
			k.under(fmt.Sprintf("to %d", n), func() { k.members(span(n)...); k.apply() })
		}
	})
	k.part("a dead leader", func() {
		k.under("its container is killed", func() {
			k.on(k.role("leader"), "docker kill $(docker ps -q --filter label=cke.join)")
			k.fresh()
			k.settled()
		})
	})
	k.part("a leader that is replaced", func() {
		dead := k.role("leader")
		k.under("its node loses power", func() {
			k.must(k.Lab.Cut(k.ctx, dead.Name, lab.Cut{})) // no connection is closed, as its processes do when they are killed
			k.loses(dead)
			k.writes()
			k.writes()
		})
		k.under("another node takes its place", func() { k.do("replace", dead.Name, k.spare()); k.adopt(); k.settled() })
		k.under("a kube-apiserver with the present members takes over", k.exchange)
		k.must(k.Lab.Heal(k.ctx, dead.Name))
		k.must(k.Lab.Start(k.ctx, dead.Name))
	})
	k.part("certificates", func() { k.renewed() })
	k.part("authorities", func() { k.rotated() })
	k.part("compaction", func() { k.compacted() })
	k.part("a minor upgrade", func() {
		k.archive(nextVersion)
		k.under("to "+nextVersion, func() { k.file.Options.Etcd.Version = nextVersion; k.apply() })
	})
	k.part("a restore", func() { k.restored() })
	if n := k.server.logged(t, "permission denied"); n > 0 {
		t.Errorf("etcd refused %d requests of kube-apiserver: %s", n, k.server.logText())
	}
}

// carriers is the story of the nodes that carry members.
func (k *kube) carriers() *story {
	k.Helper()
	s := *k.story
	s.nodes = nil
	for _, m := range k.settled().Members {
		n, err := k.Lab.Node(m.Name)
		k.must(err)
		s.nodes = append(s.nodes, n)
	}
	return &s
}

// renewed lets the members renew certificates that are about to expire, and renews that of kube-apiserver.
func (k *kube) renewed() {
	members := k.carriers()
	f := k.under("those of members are renewed", func() {
		members.certify(time.Now().Add(20*time.Minute), func() {}) // of an hour and twenty minutes
		k.daemon.Kill()                                            // the next one reads all files at once
		k.daemon = k.whole.daemon("cke2")
		began := time.Now()
		k.await("all certificates to be renewed", readyLimit, func(st cke.Status) bool {
			return st.ObservedAt.After(began) && rig.Ready(st) && !slices.ContainsFunc(st.Members, func(m cke.MemberStatus) bool { return time.Until(m.CertNotAfter) < 24*time.Hour })
		})
	})
	g := k.under("its own is renewed", func() { k.issue(); k.writes() })
	if f.failures()+g.failures() > 0 {
		k.Error("requests failed, and no member was stopped")
	}
}

// rotated replaces each authority. kube-apiserver reads its own certificate at each connection, and whom to trust when it starts.
func (k *kube) rotated() {
	members := k.carriers()
	replaced := func(name cke.AuthorityName, prepare func()) {
		former := k.authorities()
		k.under("the authority of "+string(name)+"s", func() {
			k.do("ca", "rotate", string(name))
			if prepare != nil {
				k.await("it to wait for the operator", seenLimit, func(st cke.Status) bool { return len(st.Authorities) == 1 && st.Authorities[0].Person })
				prepare()
				k.do("ca", "finish", string(name), "--yes")
			}
			k.await("it to be replaced", 2*readyLimit, func(st cke.Status) bool { return rig.Ready(st) && len(st.Authorities) == 0 })
		})
		members.replaced(name, 1, former)
	}
	replaced(cke.PeerAuthority, nil)
	replaced(cke.ServerAuthority, func() { k.issue(); k.exchange() })
	replaced(cke.ClientAuthority, k.issue)
}

// compacted lets etcd compact, as the page says, and a kube-apiserver try to, as it does by default.
func (k *kube) compacted() {
	k.arguments("10s")
	k.apply()
	c := tenants{backedUp: k.target.in(k.carriers()), dir: k.dir}.client("kube", "kube-apiserver-etcd-client")
	const key = "/registry/health"
	before, err := c.Get(k.within(seenLimit), key)
	k.must(err)
	f := k.under("etcd compacts", func() {
		k.eventually("a compaction", func() bool {
			_, err := c.Get(k.ctx, key, clientv3.WithRev(before.Header.Revision))
			return errors.Is(err, rpctypes.ErrCompacted)
		})
	})
	if f.failures() > 0 {
		k.Error("requests failed")
	}
	k.under("kube-apiserver tries to", func() {
		other := k.start(map[string]string{"etcd-compaction-interval": "2s"})
		k.eventually("its compaction to be refused", func() bool { return other.logged(k.T, "compact failed: .*permission denied") > 1 })
		var all kubeList
		k.must(k.client.do(k.ctx, http.MethodGet, other.url+configMaps+"?limit=1", nil, &all))
		other.stop()
	})
	k.arguments("5m")
	k.apply()
}

var (
	planned    = regexp.MustCompile(`continues from the backups of .*, revision (\d+)`)
	isRestored = regexp.MustCompile(`the cluster continues from the backups of \S+ at revision (\d+)`)
)

// revisionIn is the revision that a plan of a restore leads to, or that was restored.
func (k *kube) revisionIn(text string, words *regexp.Regexp) int64 {
	k.Helper()
	m := words.FindStringSubmatch(text)
	if m == nil {
		k.Fatalf("%s is not in\n%s", words, text)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	k.must(err)
	return n
}

// restored restores the newest state in place. What was acknowledged up to its revision, which is at least that of the plan, is there then; what
// was acknowledged after it is not, and is in the backups of the former incarnation. kube-apiserver is not restarted.
func (k *kube) restored() {
	k.target.awaitBackups("True UpToDate")
	before := k.ready()
	k.load = startKubeLoad(k.client, k.server.url, true)
	former := k.load
	defer former.end()
	k.writes()
	former.take()
	began := time.Now()
	res, err := k.CLI(k.within(restoreLimit), "restore", "--confirm", k.Cluster)
	k.must(err)
	said := res.Stderr + res.Stdout
	k.Logf("\n%s", said)
	if res.Code != 0 {
		k.Fatalf("exit code %d", res.Code)
	}
	plan, restored := k.revisionIn(said, planned), k.revisionIn(said, isRestored)
	k.load = startKubeLoad(k.client, k.server.url, false)
	defer k.load.end()
	k.writes()
	later := k.load.take()
	k.Logf("clients write again %s after the restore was ordered: %s", since(began), later)
	maps.DeleteFunc(later.failed, func(what string, _ int) bool { return strings.Contains(what, "storage is (re)initializing") }) // it lists everything again
	k.causedByEtcd(later)
	context.AfterFunc(k.within(readyLimit), former.stop)
	former.workers.Wait() // until another incarnation answers
	k.Logf("clients of the former incarnation: %s", former.take())
	all := k.revisionIn(k.do("restore", "--plan", "--lineage", before.Incarnation), planned)
	kept, lost := 0, 0
	former.each(func(name string, w kubeWrite) {
		switch {
		case w.revision <= restored:
			kept++
		case w.revision < cke.RevisionBump:
			lost++
			if w.revision > all {
				k.Errorf("%s at revision %d was acknowledged, and the backups lead to revision %d", name, w.revision, all)
			}
		}
	})
	k.must(former.finish(k.within(seenLimit), revisions{restored, cke.RevisionBump - 1}))
	k.Logf("revision %d was restored, and %d planned: %d acknowledged writes are there, and %d later ones are in the backups of the former incarnation, up to revision %d", restored, plan, kept, lost, all)
	if restored < plan || kept == 0 || lost == 0 {
		k.Error("less than planned was restored, nothing was kept, or nothing was lost")
	}
	k.must(k.load.finish(k.within(seenLimit), revisions{}))
	k.under("kube-apiserver is restarted", k.exchange)
}
