package mtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kube is a cluster whose client is a kube-apiserver, set up as docs/tenants.md says.
type kube struct {
	*loaded // its load is that of etcd's own clients, which is not used
	// whole is the story of which this may be a part: what it starts stays.
	whole        *story
	target       backedUp
	program, dir string // dir is where the commands of the page are typed
	client       *kubeClient
	server       *apiserver
	started      int // kube-apiservers so far
	load         *kubeLoad
}

// newKube starts a cluster and a kube-apiserver.
func newKube(s *story, program string) *kube {
	s.Helper()
	k := &kube{loaded: &loaded{story: s}, whole: s, program: program, dir: s.TempDir(), target: backedUp{s, filepath.Join(s.TempDir(), "backups")}}
	s.must(apiserverFiles(k.dir))
	certificate, err := os.ReadFile(filepath.Join(k.dir, "server.crt"))
	s.must(err)
	k.client = newKubeClient(certificate)
	k.daemon = s.daemon("cke1")
	s.setKey()
	k.file = k.target.spec()
	k.members(span(3)...)
	k.arguments("5m")
	k.set(k.file)
	k.before = k.settled()
	k.target.awaitBackups("True UpToDate")
	t := tenants{backedUp: k.target, dir: k.dir}
	t.typed("ckecli etcd auth enable --yes")
	for _, command := range walkOf(s.T, apiserverPage, apiserverSection) {
		t.typed(command)
	}
	k.exchange()
	return k
}

// arguments has members compact what is older than this, as the page says, with further arguments.
func (k *kube) arguments(retention string, more ...string) {
	k.file.Options.Etcd.ExtraArgs = append([]string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=" + retention}, more...)
}

const (
	apiserverPage    = "../docs/tenants.md"
	apiserverSection = "kube-apiserver"
)

// apiserverFlags are those of the page about etcd, by name.
func apiserverFlags(t testing.TB) map[string]string {
	t.Helper()
	page, err := os.ReadFile(apiserverPage)
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^--(etcd-[a-z-]+)=(.*)$`).FindAllStringSubmatch(string(page), -1) {
		flags[m[1]] = m[2]
	}
	return flags
}

// flags are those of the page with the files and the members of the story, and with others in place of them.
func (k *kube) flags(others map[string]string) (all []string) {
	k.Helper()
	for name, value := range apiserverFlags(k.T) {
		switch name {
		case "etcd-servers":
			value = strings.TrimSpace(k.do("etcd", "endpoints", "--join"))
		case "etcd-cafile", "etcd-certfile", "etcd-keyfile":
			value = filepath.Join(k.dir, "kube", filepath.Base(value))
		}
		if other, is := others[name]; is {
			value = other
		}
		all = append(all, "--"+name+"="+value)
	}
	return all
}

// start starts another kube-apiserver and waits until it serves.
func (k *kube) start(others map[string]string) *apiserver {
	k.Helper()
	k.started++
	began, name := time.Now(), fmt.Sprintf("apiserver%d", k.started)
	a, err := startAPIServer(k.program, k.dir, name, k.flags(others))
	k.must(err)
	k.whole.Cleanup(func() {
		a.kill()
		if k.whole.Failed() {
			k.whole.Logf("the log of %s:\n%s", name, a.logText())
		}
	})
	k.must(a.ready(k.ctx, k.client))
	k.Logf("%s serves after %s", name, since(began))
	return a
}

// exchange starts a kube-apiserver with the files and the members that there are now, and lets requests go to it, before the former one exits.
func (k *kube) exchange() {
	k.Helper()
	former := k.server
	k.server = k.start(nil)
	if k.load != nil {
		k.load.url.Store(&k.server.url)
	}
	if former != nil {
		former.stop()
	}
}

// issue issues the certificate again.
func (k *kube) issue() {
	k.Helper()
	tenants{backedUp: k.target, dir: k.dir}.typed("ckecli etcd issue kube-apiserver-etcd-client --out kube --overwrite")
}

// part runs a part of the story.
func (k *kube) part(name string, f func()) {
	k.Helper()
	whole := k.story
	whole.part(name, func(s *story) {
		k.story = s
		defer func() { k.story = whole }()
		f()
	})
}

// under does something while clients of kube-apiserver work. It prints what they met, and fails where a request failed for another reason
// than etcd's, where an answer was wrong, or where something that was acknowledged is not there in the end.
func (k *kube) under(what string, f func()) kubeFigures {
	k.Helper()
	k.load = startKubeLoad(k.client, k.server.url, false)
	defer k.load.end()
	k.writes()
	k.load.take()
	began := time.Now()
	f()
	k.writes()
	figures := k.load.take()
	k.Logf("%s: took %s: %s", what, since(began), figures)
	var from, to time.Time // of the longest one
	k.load.Silences(func(f, t time.Time) {
		if f.After(began) && t.Sub(f) >= max(worthNaming, to.Sub(from)) {
			from, to = f, t
		}
	})
	if !to.IsZero() {
		k.Logf("no write was acknowledged for %s: %s", to.Sub(from).Round(time.Millisecond), stepsWithin(k.records(), from, to))
	}
	k.causedByEtcd(figures)
	k.must(k.load.finish(k.within(seenLimit), revisions{}))
	return figures
}

// writes waits until clients have written for a while.
func (k *kube) writes() {
	k.Helper()
	goal := k.load.count() + 50
	k.eventually("writes", func() bool { return k.load.count() >= goal })
}

// etcdCauses are why etcd lets a request fail: it has no leader or is about to have another one, or the connection to a member ends.
var etcdCauses = regexp.MustCompile(`etcdserver: |raft proposal dropped|rpc error: code = Unavailable|transport is closing|connection error|error reading from server`)

// causedByEtcd fails where a request failed for another reason than etcd's.
func (k *kube) causedByEtcd(figures kubeFigures) {
	k.Helper()
	for what, n := range figures.failed {
		if !etcdCauses.MatchString(what) {
			k.Errorf("%d × %s", n, what)
		}
	}
}
