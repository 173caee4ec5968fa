package etcdnode_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cke"
	"cke/etcdnode"
	"cke/mtest/lab"
)

const (
	testVersion = "3.6.16"
	testImage   = lab.EtcdRepository + ":v" + testVersion
)

var pool = lab.NewPool()

// onNodes are the names of tests on real nodes. The others run with patience only (make unit).
var onNodes = regexp.MustCompile("^Test(Machine|Etcd|Observer)_")

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		etcdnode.BePatient() // tests on real nodes are about the limits themselves
	}
	code := m.Run()
	if err := pool.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if code == 0 {
		// x/crypto/ssh forgets a channel that is opened in the moment in which its connection ends; see session.dialEngine.
		if err := goleak.Find(goleak.IgnoreAnyFunction("golang.org/x/crypto/ssh.(*mux).openChannel")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func TestOnNodes_AreTheTestsThatMakeRunsThere(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("-run '%s' ./etcdnode\n", onNodes); !strings.Contains(string(makefile), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
}

// rig is a fleet on lab nodes.
type rig struct {
	*etcdnode.Fleet
	lab     *lab.Lab
	ca      *etcdnode.TestCA
	keys    *hostKeys
	cluster cke.Cluster
	ident   cke.Identity

	once sync.Once
	tls  *tls.Config
}

// client is what the fleet shows to members; ca may be set before it is first asked for.
func (r *rig) client() *tls.Config {
	r.once.Do(func() { r.tls = r.ca.TLS("cke") })
	return r.tls
}

// hostKeys keeps host keys in memory.
type hostKeys struct {
	mu      sync.Mutex
	pinned  map[string]string
	offered map[string]string
}

func (h *hostKeys) Pinned(address string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	line, ok := h.pinned[address]
	return line, ok
}

func (h *hostKeys) Pin(_ context.Context, address, line string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pinned[address] = line
	return nil
}

func (h *hostKeys) Offered(_ context.Context, address, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offered[address] = line
}

func (h *hostKeys) offer(address string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.offered[address]
}

func newRig(t testing.TB, n int, change func(*etcdnode.Config)) *rig {
	t.Helper()
	if _, test := t.(*testing.T); test && !onNodes.MatchString(t.Name()) {
		t.Fatalf("make nodes runs the tests on real nodes by their names, which begin with %s", onNodes)
	}
	l := pool.Lab(t, n)
	return rigOn(t, l, n, change)
}

// builtProbe is the probe of this tree.
var builtProbe = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "cke-probe")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-o", dir, "cke/cmd/cke-probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the probe: %w: %s", err, out)
	}
	return os.ReadFile(filepath.Join(dir, etcdnode.ProbeProgram))
})

func rigOn(t testing.TB, l *lab.Lab, n int, change func(*etcdnode.Config)) *rig {
	t.Helper()
	r := &rig{lab: l, ca: etcdnode.NewTestCA(t), keys: &hostKeys{pinned: map[string]string{}, offered: map[string]string{}}}
	c := etcdnode.Config{
		Keys:      func(context.Context, cke.Node) ([]byte, error) { return os.ReadFile(l.Nodes()[0].KeyFile) },
		HostKeys:  r.keys,
		ClientTLS: func(context.Context) (*tls.Config, error) { return r.client(), nil },
		Archives:  &etcdnode.Archives{Dir: archiveDir(t)},
		Program:   builtProbe,
	}
	if flag.Lookup("test.v").Value.String() == "true" { // -v; testing.Verbose also holds under -json, as make runs tests
		c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if change != nil {
		change(&c)
	}
	r.Fleet = etcdnode.New(c)
	t.Cleanup(r.Fleet.Close)
	r.cluster = cke.Cluster{Name: "demo", Options: cke.Options{Etcd: cke.EtcdOptions{Version: testVersion, Image: testImage}}}
	for _, node := range l.Nodes()[:n] {
		r.cluster.Nodes = append(r.cluster.Nodes, cke.Node{Address: node.Address, Hostname: node.Name, User: node.User, ControlPlane: true})
	}
	r.cluster = r.cluster.WithDefaults()
	return r
}

// archiveDir is a directory of image archives with the tested version.
func archiveDir(t testing.TB) string {
	t.Helper()
	img, err := lab.EtcdImage(t.Context(), testVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(img.Archive)
}

func (r *rig) update() { r.Update(r.cluster, r.ident) }

// found gives the cluster an identity of its control-plane nodes.
func (r *rig) found() cke.Incarnation {
	inc := cke.NewIncarnation(r.cluster, nil, time.Now())
	r.ident = cke.Identity{Incarnation: &inc, Joins: inc.Founders}
	r.update()
	return inc
}

func (r *rig) spec(inc cke.Incarnation, j cke.Join, mode cke.StartMode) cke.MemberSpec {
	s := cke.MemberSpec{Cluster: r.cluster.Name, Join: j, Mode: mode, Token: inc.Token}
	for _, f := range inc.Founders {
		s.Peers = append(s.Peers, cke.Peer{Name: f.Member, URL: f.PeerURL()})
	}
	return s
}

// bootstrap starts all members and waits until each serves.
func (r *rig) bootstrap(t testing.TB) cke.Incarnation {
	t.Helper()
	inc := r.found()
	var wg sync.WaitGroup
	for _, j := range inc.Founders {
		wg.Go(func() {
			m := r.Machine(j.Node)
			spec := r.spec(inc, j, cke.StartPrepared)
			ensureImage(t, m, j.Etcd.Image)
			must(t, m.EnsureVolume(t.Context(), spec))
			must(t, m.EnsureContainer(t.Context(), spec))
			must(t, m.PutFounder(t.Context(), spec, r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))))
			must(t, m.StartContainer(t.Context(), j))
			r.awaitServing(t, j)
		})
	}
	wg.Wait()
	if t.Failed() { // what follows would wait for a cluster that is not there
		t.FailNow()
	}
	for i := range inc.Founders {
		inc.Founders[i].StartedAt = time.Now().UTC()
	}
	return inc
}

// ensureImage brings an image to a node. It tries again where the engine was too busy to answer, as operations do.
func ensureImage(t testing.TB, m cke.Machine, image string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		err := m.EnsureImage(ctx, image, nil)
		if cke.CodeOf(err) != cke.CodeEngine || ctx.Err() != nil {
			must(t, err)
			return
		}
		t.Log(err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// awaitServing waits for a linearizable read through the member.
func (r *rig) awaitServing(t testing.TB, j cke.Join) {
	t.Helper()
	r.await(t, 30*time.Second, "the member serves", func() (bool, any) {
		e := r.Endpoint(t.Context(), j.ClientURL())
		return e.Healthy() && e.Linearizable, e.Problem
	})
}

// await asks until done says so.
func (r *rig) await(t testing.TB, limit time.Duration, what string, done func() (bool, any)) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		ok, seen := done()
		if ok {
			return
		}
		if time.Now().After(deadline) || t.Context().Err() != nil {
			t.Errorf("waited %s until %s; last seen: %+v", limit, what, seen)
			return
		}
		<-tick.C
	}
}

// awaitObserved looks each time something changed.
func (r *rig) awaitObserved(t testing.TB, limit time.Duration, what string, done func(cke.Observation) bool) cke.Observation {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		o := r.Observe(t.Context())
		if done(o) {
			return o
		}
		select {
		case <-r.Changed():
		case <-deadline.C:
			t.Fatalf("waited %s until %s; last seen: %+v", limit, what, o)
		}
	}
}

func TestMachine_EveryMinorVersionStartsAndStartsAgain(t *testing.T) {
	r := newRig(t, 1, nil)
	for _, version := range []string{"3.5.35", testVersion, "3.7.3"} {
		t.Run(version, func(t *testing.T) {
			image, err := lab.EtcdImage(t.Context(), version, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			must(t, r.lab.LoadImage(t.Context(), image.Archive))
			r.cluster.Options.Etcd.Version, r.cluster.Options.Etcd.Image = version, image.Ref
			inc := r.bootstrap(t)
			j := inc.Founders[0]
			m := r.Machine(j.Node)
			if e := r.Endpoint(t.Context(), j.ClientURL()); e.Version != version {
				t.Errorf("%+v", e)
			}
			must(t, m.StopContainer(t.Context(), j, 10*time.Second))
			must(t, m.EnsureContainer(t.Context(), r.spec(inc, j, cke.StartOwnData)))
			must(t, m.StartContainer(t.Context(), j))
			r.awaitServing(t, j)
			must(t, m.StopContainer(t.Context(), j, 10*time.Second))
			must(t, m.RemoveContainer(t.Context(), j))
			must(t, m.RemoveVolume(t.Context(), j))
		})
	}
}

func TestMachine_LifeOfAMember(t *testing.T) {
	r := newRig(t, 1, nil)
	inc := r.found()
	j := inc.Founders[0]
	j.Etcd.Resources = cke.Resources{CPUs: 1.5, Memory: 1 << 30}
	m := r.Machine(j.Node)
	ctx := t.Context()
	spec := r.spec(inc, j, cke.StartPrepared)

	// Nothing is there yet.
	if _, err := m.Container(ctx, j); !errors.Is(err, cke.ErrNotFound) {
		t.Fatalf("Container before there is one: %v", err)
	}
	ensureImage(t, m, testImage)
	if err := m.EnsureContainer(ctx, spec); !errors.Is(err, cke.ErrDataMissing) {
		t.Fatalf("EnsureContainer without a volume: %v", err)
	}
	for range 2 { // every call may be repeated
		must(t, m.EnsureVolume(ctx, spec))
		must(t, m.EnsureContainer(ctx, spec))
		must(t, m.PutFiles(ctx, j, r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))))
	}
	foreign := j
	foreign.ID = "000000000000"
	if err := m.EnsureVolume(ctx, cke.MemberSpec{Cluster: "demo", Join: foreign}); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("EnsureVolume over another join's: %v", err)
	}
	if err := m.StopContainer(ctx, foreign, time.Second); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("StopContainer of another join's: %v", err)
	}
	if state, err := m.Data(ctx, j); err != nil || state != cke.DataMissing {
		t.Fatalf("Data before there is a log: %q, %v", state, err)
	}
	for range 2 {
		must(t, m.PutFounder(ctx, spec, r.ca.MemberFiles(j.Node.Address, time.Now().Add(time.Hour))))
	}
	if state, err := m.Data(ctx, j); err != nil || state != cke.DataPresent {
		t.Fatalf("Data before the first start: %q, %v", state, err)
	}
	for range 2 {
		must(t, m.StartContainer(ctx, j))
	}
	if err := m.PutFounder(ctx, spec, nil); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("PutFounder after the start: %v", err)
	}
	if err := m.EnsureContainer(ctx, spec); cke.CodeOf(err) != cke.CodeOlderStore {
		t.Fatalf("EnsureContainer of one that was started off the record: %v", err)
	}
	j.StartedAt = time.Now().UTC()
	r.awaitServing(t, j)
	must(t, r.ProveWrite(ctx, j.ClientURL()))
	clusterID, members, err := r.Members(ctx, j.ClientURL())
	if err != nil || clusterID == "" || len(members) != 1 || members[0].Name != j.Member {
		t.Fatalf("Members: %q, %+v, %v", clusterID, members, err)
	}
	own := r.spec(inc, j, cke.StartOwnData)
	other := own
	other.Join.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
	if err := m.EnsureContainer(ctx, other); !errors.Is(err, cke.ErrConflict) {
		t.Fatalf("EnsureContainer of a running one with another description: %v", err)
	}
	must(t, m.KeepRunning(ctx, j))

	o := r.Observe(ctx)
	n := o.Nodes[0]
	if n.Problem != nil || n.EngineVersion == "" || len(n.Volumes) != 1 || n.Volumes[0].Join != j.ID {
		t.Fatalf("observed: %+v", n)
	}
	if c, ok := n.Of(j.ID); !ok || c.State != cke.ContainerRunning || c.StartedAt.IsZero() || c.Cluster != "demo" || !strings.HasPrefix(c.ImageID, "sha256:") ||
		c.CPUs != 1.5 || c.Memory != 1<<30 || c.Options != j.Etcd.Digest() || c.Place != j.Place() {
		t.Fatalf("observed container: %+v", c)
	}
	e, _ := o.Etcd.Endpoint(j.ID)
	if !o.Etcd.Quorate || !e.Healthy() || e.ClusterID != clusterID || e.CertNotAfter.IsZero() || o.Etcd.MembersSource != cke.MembersLinearizable || len(o.Etcd.Members) != 1 {
		t.Fatalf("observed etcd: %+v", o.Etcd)
	}

	for range 2 {
		must(t, m.StopContainer(ctx, j, 10*time.Second))
	}
	c, err := m.Container(ctx, j)
	if err != nil || c.State != cke.ContainerExited || c.Data != cke.DataPresent || c.FinishedAt.IsZero() {
		t.Fatalf("stopped: %+v, %v", c, err)
	}
	if state, err := m.Data(ctx, j); err != nil || state != cke.DataPresent {
		t.Fatalf("Data after the stop: %q, %v", state, err)
	}
	must(t, m.EnsureContainer(ctx, own)) // replaced: it does not run
	renamed := own                       // nothing follows from the version's name but how it is told
	renamed.Join.Etcd.Version = "3.6.999"
	must(t, m.EnsureContainer(ctx, renamed))
	if c, err = m.Container(ctx, j); err != nil || !c.MadeWith(renamed.Join.Etcd) || c.MadeWith(own.Join.Etcd) {
		t.Fatalf("made anew with another version of the same image: %+v, %v", c, err)
	}
	must(t, m.EnsureContainer(ctx, own))
	must(t, m.StartContainer(ctx, j))
	r.awaitServing(t, j)

	must(t, m.StopContainer(ctx, j, 10*time.Second))
	for range 2 {
		must(t, m.RemoveContainer(ctx, j))
	}
	for range 2 {
		must(t, m.RemoveVolume(ctx, j))
	}
	o = r.Observe(ctx)
	if len(o.Nodes[0].Containers) != 0 || len(o.Nodes[0].Volumes) != 0 || o.Nodes[0].ClientPort != cke.PortClosed || o.Nodes[0].PeerPort != cke.PortClosed {
		t.Fatalf("after the removal: %+v", o.Nodes[0])
	}
	if e, _ := o.Etcd.Endpoint(j.ID); !strings.Contains(e.Problem, "refused") {
		t.Fatalf("endpoint after the removal: %+v", e)
	}
}
