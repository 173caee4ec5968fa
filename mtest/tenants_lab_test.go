package mtest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// tenants is a story of users of etcd, with a directory in which the commands of docs/tenants.md are typed.
type tenants struct {
	backedUp
	dir, tools string
}

// typed performs a command of the page as its reader would. "# shows" says what it has to write, "# fails:" how it has to fail.
func (s tenants) typed(command string) {
	s.Helper()
	cmd := exec.CommandContext(s.ctx, "bash", "-c", `cd "$1" && if [ -f .env ]; then . ./.env; fi; eval "$2"; code=$?; export -p > .env; exit $code`, "bash", s.dir, command)
	cmd.Env = append(os.Environ(), "CKECLI_CONFIG="+s.Config, "CKECLI_CLUSTER="+s.Cluster, "NO_COLOR=1", "HOME="+s.Dir, "PATH="+s.Bin+":"+s.tools+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	s.Logf("$ %s\n%s", command, out)
	_, shows, said := strings.Cut(command, "# shows ")
	_, fails, refused := strings.Cut(command, "# fails: ")
	if (err != nil) != refused || !strings.Contains(string(out), shows+fails) || refused && said {
		s.Fatalf("%s: %v", command, err)
	}
}

// client is that of a tenant, with a certificate that was issued into a directory of its name.
func (s tenants) client(dir, name string) *clientv3.Client {
	s.Helper()
	dir = filepath.Join(s.dir, dir)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	s.must(err)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	s.must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	c, err := rig.Client(rig.URL(s.nodes[0]), &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, MinVersion: tls.VersionTLS12})
	s.must(err)
	s.Cleanup(func() { c.Close() })
	return c
}

func denied(err error) bool { return errors.Is(err, rpctypes.ErrPermissionDenied) }

// kept checks that users, roles and authentication are as they were, with cke and for a tenant.
func (s tenants) kept(users string) {
	s.Helper()
	s.ready()
	if got := s.do("etcd", "user", "list", "-o", "json"); got != users {
		s.Errorf("users were\n%s\nand are\n%s", users, got)
	}
	if out := s.do("etcd", "auth", "status"); !strings.Contains(out, "authentication is on, and user cke has the role root") {
		s.Error(out)
	}
	c := s.client("app", "app")
	s.must(rig.PutThrough(s.within(seenLimit), c, "/app/kept", "yes"))
	if _, err := c.Put(s.ctx, "/other", "no"); !denied(err) {
		s.Errorf("another key: %v", err)
	}
	if _, err := s.client("viewer", "viewer").Get(s.ctx, "/app/kept"); !denied(err) {
		s.Errorf("a removed user: %v", err)
	}
}

// tenantsOn begins a story with a cluster of three members that run a version, and a target. etcd compacts as the page says, but for
// the time.
func tenantsOn(t *testing.T, version string) (tenants, cke.Cluster) {
	t.Helper()
	extra(t)
	s := tenants{backedUp: backedUp{newStory(t, 3), filepath.Join(t.TempDir(), "backups")}, dir: t.TempDir()}
	s.archive(nextVersion)
	s.daemon("boot-1")
	s.setKey()
	c := s.spec()
	c.Options.Etcd.Version = version
	c.Options.Etcd.ExtraArgs = []string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=10s"}
	s.set(c)
	s.ready()
	s.awaitBackups("True UpToDate")
	s.tools = s.etcdctl()
	return s, c
}

func TestLabTenants_ThePageIsRightAndAnUpgradeKeepsThem(t *testing.T) {
	s, c := tenantsOn(t, rig.EtcdVersion)
	s.part("the page", func(st *story) {
		s := tenants{s.in(st), s.dir, s.tools}
		s.typed("ckecli etcd user add early --prefix /early/ # shows Authentication is off")
		s.typed("ckecli etcd user remove early --yes # shows its keys are kept")
		for _, section := range tenantSections {
			for _, command := range walkOf(t, "../docs/tenants.md", section) {
				s.typed(command)
			}
		}
	})
	s.part("what kube-apiserver does", func(st *story) { tenants{s.in(st), s.dir, s.tools}.asKubernetes() })
	s.part("users that cke did not make", func(st *story) {
		s := tenants{s.in(st), s.dir, s.tools}
		s.typed("ckecli etcd ctl --as root -- user add manual --no-password")
		for _, args := range [][]string{{"add", "manual", "--prefix", "/m/"}, {"grant", "manual", "--prefix", "/m/"}, {"remove", "manual", "--yes"}} {
			s.refused(6, []string{"CKE116", "does not manage", "Nothing was changed"}, append([]string{"etcd", "user"}, args...)...)
		}
		s.refused(6, []string{"CKE116", "user app exists"}, "etcd", "user", "add", "app", "--prefix", "/new/")
		s.refused(6, []string{"CKE116", "no user nobody"}, "etcd", "user", "grant", "nobody", "--prefix", "/m/")
		s.refused(64, []string{"reserved"}, "etcd", "user", "remove", "root", "--yes")
		if out := s.do("etcd", "user", "add", "app", "--prefix", "/app/"); !strings.Contains(out, "app may use") { // as it is
			s.Error(out)
		}
	})
	s.part("clients while users change", func(st *story) { tenants{s.in(st), s.dir, s.tools}.whileUsersChange() })
	users := s.do("etcd", "user", "list", "-o", "json")
	s.kept(users)
	s.part("an upgrade", func(st *story) {
		s := tenants{s.in(st), s.dir, s.tools}
		c.Options.Etcd.Version = nextVersion
		revision := s.set(c)
		s.await("all to run "+nextVersion, readyLimit, func(st cke.Status) bool {
			return rig.Ready(st) && st.ObservedGeneration >= revision && st.Members[0].Version == nextVersion
		})
		s.kept(users)
		s.asKubernetes()
	})
}

func TestLabTenants_AreKeptByRestoresAndRecoveries(t *testing.T) {
	s, _ := tenantsOn(t, nextVersion)
	for _, command := range []string{"ckecli etcd user add app --prefix /app/", "ckecli etcd user add viewer --prefix /app/ --read-only --shared", "ckecli etcd issue app --out app",
		"ckecli etcd issue viewer --out viewer", "ckecli etcd user remove viewer --yes", "ckecli etcd auth enable --yes"} {
		s.typed(command)
	}
	users := s.do("etcd", "user", "list", "-o", "json")
	s.kept(users)
	s.part("a restore", func(st *story) {
		s := tenants{s.in(st), s.dir, s.tools}
		before, c := s.ready(), s.client("app", "app")
		full := s.now()
		s.must(rig.PutThrough(s.within(seenLimit), c, "/app/late", "v")) // no later full leads to that state
		s.do("etcd", "user", "grant", "app", "--prefix", "/late/")
		s.restores("--revision", fmt.Sprint(full.Revision))
		s.isRestored(before)
		s.kept(users)
	})
	s.part("a recovery", func(st *story) {
		s := tenants{s.in(st), s.dir, s.tools}
		s.awaitBackups("True UpToDate")
		before := s.ready()
		s.must(s.Lab.Wipe(s.ctx, s.nodes[1].Name, lab.WipeOptions{KeepHostKey: true}))
		s.must(s.Lab.Kill(s.ctx, s.nodes[2].Name))
		s.await("the quorum to be lost", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthLost })
		s.do("recover", "--destroyed", s.nodes[2].Name, "--confirm", "prod")
		s.must(s.Lab.Start(s.ctx, s.nodes[2].Name))
		s.isRestored(before)
		s.kept(users)
	})
}

// whileUsersChange lets one tenant write and another one watch while users change. What is refused for that did nothing; an open watch
// is not checked again.
func (s tenants) whileUsersChange() {
	s.Helper()
	s.typed("ckecli etcd user add brief --prefix /app/ --read-only --shared")
	s.typed("ckecli etcd issue brief --out brief")
	watch := s.client("brief", "brief").Watch(clientv3.WithRequireLeader(s.within(seenLimit)), "/app/end")
	c, stop, done := s.client("app", "app"), make(chan struct{}), make(chan error, 1)
	written, failed := 0, 0
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			switch _, err := c.Put(s.ctx, "/app/busy", "v"); {
			case err == nil:
				written++
			case errors.Is(err, rpctypes.ErrAuthOldRevision):
				failed++
			default:
				done <- err
				return
			}
		}
	}()
	for i := range 5 {
		s.typed(fmt.Sprintf("ckecli etcd user grant app --prefix /app%d/", i))
	}
	s.typed("ckecli etcd user remove brief --yes")
	close(stop)
	s.must(<-done)
	s.Logf("%d requests were answered, and %d failed because users changed", written, failed)
	if written == 0 || failed > written/10 {
		s.Errorf("%d requests were answered, %d failed", written, failed)
	}
	kv, err := c.Get(s.ctx, "/app/busy")
	s.must(err)
	if len(kv.Kvs) != 1 || kv.Kvs[0].Version != int64(written) {
		s.Errorf("%d writes were answered: %+v", written, kv.Kvs)
	}
	s.must(rig.PutThrough(s.within(seenLimit), c, "/app/end", "v"))
	if seen := <-watch; seen.Err() != nil || len(seen.Events) != 1 {
		s.Errorf("the open watch of a removed user: %+v, %v", seen, seen.Err())
	}
	if _, err := s.client("brief", "brief").Get(s.ctx, "/app/end"); !denied(err) {
		s.Errorf("a removed user: %v", err)
	}
}

// asKubernetes makes the requests that kube-apiserver makes, with the certificate and the rights of the page.
func (s tenants) asKubernetes() {
	s.Helper()
	c, ctx := s.client("kube", "kube-apiserver-etcd-client"), s.within(seenLimit)
	key := fmt.Sprintf("/registry/pods/default/p%d", time.Now().UnixNano())
	lease, err := c.Grant(ctx, 60)
	s.must(err)
	watch := c.Watch(clientv3.WithRequireLeader(ctx), "/registry/pods/", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithProgressNotify(), clientv3.WithCreatedNotify())
	if first := <-watch; first.Err() != nil || !first.Created {
		s.Fatalf("the watch: %+v, %v", first, first.Err())
	}
	made, err := c.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).Then(clientv3.OpPut(key, "v", clientv3.WithLease(lease.ID))).Else(clientv3.OpGet(key)).Commit()
	if err != nil || !made.Succeeded {
		s.Fatalf("create: %+v, %v", made, err)
	}
	if seen := <-watch; seen.Err() != nil || len(seen.Events) != 1 || string(seen.Events[0].Kv.Key) != key {
		s.Errorf("the watch: %+v, %v", seen, seen.Err())
	}
	list, err := c.Get(ctx, "/registry/pods/", clientv3.WithRange(clientv3.GetPrefixRangeEnd("/registry/pods/")), clientv3.WithLimit(500))
	if err != nil || list.Count == 0 {
		s.Errorf("list: %+v, %v", list, err)
	}
	s.must(c.RequestProgress(ctx))
	_, err = c.Get(ctx, "/registry/health")
	s.must(err)
	if first := <-c.Watch(clientv3.WithRequireLeader(ctx), "compact_rev_key", clientv3.WithCreatedNotify()); first.Err() != nil || !first.Created {
		s.Errorf("the watch of compact_rev_key: %+v, %v", first, first.Err())
	}
	_, err = c.Status(ctx, rig.URL(s.nodes[0]))
	s.must(err)
	for what, try := range map[string]func() error{
		"a compaction":            func() error { _, err := c.Compact(ctx, made.Header.Revision); return err },
		"a change of that key":    func() error { _, err := c.Put(ctx, "compact_rev_key", "1"); return err },
		"another tenant's key":    func() error { _, err := c.Get(ctx, "/app/greeting"); return err },
		"a list of all keys":      func() error { _, err := c.Get(ctx, "\x00", clientv3.WithFromKey()); return err },
		"a list of members' data": func() error { _, err := c.HashKV(ctx, rig.URL(s.nodes[0]), 0); return err },
		"a snapshot": func() error {
			r, err := c.Snapshot(ctx)
			if err == nil {
				_, err = r.Read(make([]byte, 1))
				r.Close()
			}
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "permission denied") {
			s.Errorf("%s: %v", what, err)
		}
	}
	began := time.Now()
	for tick := time.Tick(time.Second); ; <-tick { // etcd compacts by itself
		_, err := c.Get(ctx, key, clientv3.WithRev(made.Header.Revision-1))
		if errors.Is(err, rpctypes.ErrCompacted) {
			s.Logf("compacted by etcd after %s", since(began))
			return
		}
		if err := ctx.Err(); err != nil {
			s.Fatalf("etcd does not compact: %v", err)
		}
		s.must(rig.PutThrough(ctx, c, "/registry/pods/default/other", "v"))
	}
}

// The sections of docs/tenants.md whose commands are performed, in this order.
var tenantSections = []string{"The first tenant", "kube-apiserver", "Certificates"}

// Each section that is performed has commands.
func TestTenants_ThePageHasCommands(t *testing.T) {
	for _, section := range tenantSections {
		if commands := walkOf(t, "../docs/tenants.md", section); len(commands) == 0 {
			t.Errorf("%q has no commands", section)
		}
	}
}
