package storage

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"cke"
	"cke/storage/embedded"
	"cke/storage/internal/local"
)

func TestStartEmbedded_OpensNoTCPPort(t *testing.T) {
	before := listeningSockets(t)
	newStore(t)
	for inode, addr := range listeningSockets(t) {
		if before[inode] == "" {
			t.Errorf("the store listens on %s", addr)
		}
	}
}

// listeningSockets returns this process's listening TCP sockets: local addresses, in hex, by inode.
func listeningSockets(t *testing.T) map[string]string {
	t.Helper()
	mine := map[string]bool{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			mine[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	sockets := map[string]string{}
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(b), "\n") {
			const listening = "0A" // TCP_LISTEN
			if f := strings.Fields(line); len(f) > 9 && f[3] == listening && mine[f[9]] {
				sockets[f[9]] = f[1]
			}
		}
	}
	return sockets
}

func TestStartEmbedded_ServesFromALongPath(t *testing.T) {
	c := testConfig(t)
	c.Embedded.DataDir = filepath.Join(c.Embedded.DataDir, strings.Repeat("long/", 40))
	startEmbeddedStore(t, c)
	setCluster(t, openStore(t, c), "prod")
}

func TestStartEmbedded_ShutsOthersOut(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c).Close()
	if err := os.Chmod(c.Embedded.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	startEmbeddedStore(t, c)
	for path, want := range map[string]os.FileMode{c.Embedded.DataDir: 0o700, filepath.Join(c.Embedded.DataDir, local.SocketName): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, not %o", path, got, want)
		}
	}
}

func TestStartEmbedded_LeavesForeignDirectoriesAlone(t *testing.T) {
	c := testConfig(t)
	member := filepath.Join(c.Embedded.DataDir, "member", "snap")
	if err := os.MkdirAll(member, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.Embedded.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := embedded.Start(t.Context(), c.Embedded.DataDir, c.Log, func(string) {})
	if cke.CodeOf(err) != cke.CodeStore || !strings.Contains(err.Error(), "not created by cke") {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(c.Embedded.DataDir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory was changed: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(c.Embedded.DataDir); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestStartEmbedded_MakesRoomInAStoreThatRanFull(t *testing.T) {
	c := testConfig(t)
	e := startEmbeddedStore(t, c)
	s := openStore(t, c)
	ctx := testContext(t)
	setCluster(t, s, "prod")
	members, err := s.client.MemberList(ctx)
	if err != nil {
		t.Fatal(err)
	}
	full := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE, MemberID: members.Members[0].ID}
	if _, err := etcdserverpb.NewMaintenanceClient(s.client.ActiveConnection()).Alarm(ctx, full); err != nil {
		t.Fatal(err)
	}
	_, err = s.SetSpec(ctx, "test", testCluster("test"), nil, "me", SetOptions{})
	if cke.CodeOf(err) != cke.CodeStore || !strings.Contains(err.Error(), "is full") {
		t.Errorf("got %v", err)
	}
	s.Close()
	e.Close()
	startEmbeddedStore(t, c)
	setCluster(t, openStore(t, c), "test")
}

func TestStartEmbedded_FollowsAKilledProcess(t *testing.T) {
	c := testConfig(t)
	c.SessionTTL = time.Hour // longer than the test waits: the killed process's session must not be waited for
	task := helperTask{Where: whereOf(c), Serve: true, Lead: "prod", Host: "first"}
	{
		e := startEmbeddedStore(t, c)
		s := openStore(t, c)
		setCluster(t, s, "prod")
		s.Close()
		e.Close()
	}
	p := startProcess(t, task)
	p.says("elected 1")

	waiting := make(chan string, 1)
	startWaiting(t, c, func(holder string) {
		waiting <- holder
		p.signal(syscall.SIGKILL)
	})
	select {
	case holder := <-waiting:
		if !strings.Contains(holder, "another cke") {
			t.Errorf("holder is told as %q", holder)
		}
	default:
		t.Error("nobody was told of the waiting")
	}
	s := openStore(t, c)
	term := campaign(t, s, "prod", "second")
	if term.Number() != 2 {
		t.Errorf("term %d after a term 1", term.Number())
	}
}

func TestStartEmbedded_GivesUpWaitingWhenTold(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := embedded.Start(ctx, c.Embedded.DataDir, c.Log, func(string) { cancel() })
	if !errors.Is(err, context.Canceled) || cke.CodeOf(err) != cke.CodeStore {
		t.Errorf("got %v", err)
	}
}

func TestStartEmbedded_WaitsForWhoeverHasTheDatabaseOpen(t *testing.T) {
	c := testConfig(t)
	startEmbeddedStore(t, c).Close()
	db, err := os.Open(filepath.Join(c.Embedded.DataDir, "member", "snap", "db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(db.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	startWaiting(t, c, func(string) { db.Close() })
}

func TestEmbedded_CloseFreesTheDirectory(t *testing.T) {
	c := testConfig(t)
	e := startEmbeddedStore(t, c)
	s := openStore(t, c)
	states := s.WatchCluster(testContext(t), "prod")
	<-states // an open watch does not hold Close up
	begun := time.Now()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(begun))
	startWaiting(t, c, func(holder string) { t.Errorf("held by %s", holder) })
}

func TestOpen_TellsWhatIsWrong(t *testing.T) {
	stale := func(t *testing.T, c Config) {
		startEmbeddedStore(t, c).Close()
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(c.Embedded.DataDir, local.SocketName), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	deaf := func(t *testing.T, c Config) {
		os.MkdirAll(c.Embedded.DataDir, 0o700)
		l, err := net.Listen("unix", filepath.Join(c.Embedded.DataDir, local.SocketName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	for name, test := range map[string]struct {
		prepare func(*testing.T, Config)
		says    string
	}{
		"NothingThere":   {func(*testing.T, Config) {}, "cke is not running on this host"},
		"StaleSocket":    {stale, "cke is not running on this host"},
		"DoesNotAnswer":  {deaf, "does not answer"},
		"LeftByAKilled1": {func(t *testing.T, c Config) { killedStore(t, c) }, "cke is not running on this host"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			test.prepare(t, c)
			c.Patience = 0 // it ends by itself
			_, err := Open(t.Context(), c)
			if cke.CodeOf(err) != cke.CodeStore || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// killedStore leaves behind what a killed daemon does, its socket included.
func killedStore(t *testing.T, c Config) {
	t.Helper()
	p := startProcess(t, helperTask{Where: whereOf(c), Serve: true})
	p.says("serving")
	p.signal(syscall.SIGKILL)
	p.cmd.Process.Wait()
}

func TestStartEmbedded_ReplacesTheSocketOfAKilledProcess(t *testing.T) {
	c := testConfig(t)
	killedStore(t, c)
	if _, err := os.Stat(filepath.Join(c.Embedded.DataDir, local.SocketName)); err != nil {
		t.Fatalf("no socket was left: %v", err)
	}
	startEmbeddedStore(t, c)
	openStore(t, c)
}

func TestOpen_KeepsToItsContext(t *testing.T) {
	c := testConfig(t)
	os.MkdirAll(c.Embedded.DataDir, 0o700)
	l, err := net.Listen("unix", filepath.Join(c.Embedded.DataDir, local.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := l.Accept(); err == nil { // Open looks whether somebody is there
			defer conn.Close()
		}
		cancel()
	}()
	if _, err := Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConfig_RefusesWhatCannotWork(t *testing.T) {
	for name, c := range map[string]Config{
		"EndpointsAndEmbedded": {Endpoints: []string{"https://10.0.0.5:2379"}, Embedded: EmbeddedConfig{DataDir: "/x"}},
		"EndpointWithoutURL":   {Endpoints: []string{"10.0.0.5:2379"}},
		"CertWithoutKey":       {TLS: TLS{CertFile: "x"}},
		"UserWithoutPassword":  {Username: "x"},
		"ShortSession":         {SessionTTL: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.withDefaults(); cke.CodeOf(err) != cke.CodeConfig {
				t.Errorf("got %v", err)
			}
		})
	}
	c, err := Config{Prefix: "/x"}.withDefaults()
	if err != nil || c.Prefix != "/x/" || c.Embedded.DataDir != DefaultDataDir || c.SessionTTL != DefaultSessionTTL {
		t.Errorf("got %+v, %v", c, err)
	}
}

// Requirements I2, D15: all state is scoped by cluster.
func TestSchema_KeysOfOneClusterAreNoOthers(t *testing.T) {
	k := schema{"/cke/"}
	keys := []string{
		k.sealedWith(), k.globalSSHKey(), k.spec("a"), k.spec("a-b"), k.incarnation("a"), k.join("a", "x"), k.hostKey("a", "::1"),
		k.offeredKey("a", "::1"), k.sshKey("a", ""), k.sshKey("a", "default"), k.sshKey("a", "../../b/spec"), k.request("a", "resign"),
		k.specRevision("a", 1), k.specRevision("a", 10), k.secret("a", "ca"), k.secret("a", "x/y"), k.status("a"), k.record("a", 1),
		k.candidate("a", "1f"), k.term("a"), k.archive("a", "now"),
	}
	slices.Sort(keys)
	if len(slices.Compact(slices.Clone(keys))) != len(keys) {
		t.Errorf("keys collide: %v", keys)
	}
	for _, key := range keys {
		if below(key, k.cluster("b")) || key != k.spec("a-b") && below(key, k.cluster("a-b")) {
			t.Errorf("%s is another cluster's", key)
		}
	}
	for _, name := range []string{"", "a/b", "A", "a b", strings.Repeat("a", 41), "ä"} {
		if checkName(name) == nil {
			t.Errorf("%q is taken as a name", name)
		}
	}
}
