package mtest_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
	"cke/mtest/rig"
)

// monthTime is how long the month takes that TestLabMonth plays; 0: it is skipped.
var monthTime = flag.Duration("month", 0, "play a month of a cluster's life in this time, and check that nothing grows without a bound")

const (
	monthDays = 30
	// dayLimit bounds one event, and the wait for the cluster to be as declared after it, on a busy machine.
	dayLimit = 10 * time.Minute
	// monthKeys are the keys that clients write again and again, monthEvery is their rhythm.
	monthKeys  = 500
	monthEvery = 100 * time.Millisecond
)

// month is a cluster in a month of its life.
type month struct {
	*loaded
	target  backedUp
	clients *tls.Config
	samples samples
	backups backupsSeen
}

// event is what happens on a day.
type event struct {
	name string
	tell func(*month)
}

// events come in turn, one a day. What ends the daemon comes in the first days only: what grows in a process shows in one that lives.
var events = []event{
	{"the daemon is killed, and certificates are old", func(m *month) {
		m.daemon.Kill()
		m.daemon = m.story.daemon("cke1")
		m.ageCertificates()
	}},
	{"a member is replaced by another node", func(m *month) {
		from := m.role("follower")
		m.do("replace", from.Name, m.spare())
		m.adopt()
	}},
	{"the daemon is restarted, and resigns", func(m *month) {
		_, err := m.daemon.Stop(stopLimit)
		m.must(err)
		m.daemon = m.story.daemon("cke1")
		m.do("leader", "--resign")
	}},
	{"other arguments, and back", func(m *month) {
		was := m.now().Generation
		m.argument("4294967296")
		m.calm(m.set(m.file))
		m.do("cluster", "rollback", "--yes", strconv.FormatInt(was, 10))
		m.adopt()
	}},
	{"a database is defragmented", func(m *month) { m.target.fragment(m.clients); m.do("etcd", "defrag") }},
	{"the leader's node loses power", func(m *month) {
		n := m.role("leader")
		m.loses(n)
		m.must(m.Lab.Start(m.ctx, n.Name))
	}},
	{"the leader is replaced by another node", func(m *month) {
		from := m.role("leader")
		m.do("replace", from.Name, m.spare())
		m.adopt()
	}},
	{"a member loses its data", func(m *month) {
		n := m.role("follower")
		volume := m.volumeOn(n)
		was := m.of(m.now(), n)
		m.on(n, fmt.Sprintf("docker kill %[1]s; rm -rf /var/lib/docker/volumes/%[1]s/_data/data", volume))
		m.await("a fresh member", dayLimit, func(st cke.Status) bool { return rig.Ready(st) && len(st.Members) == 3 && m.of(st, n).Join != was.Join })
	}},
	{"certificates are old", func(m *month) { m.ageCertificates() }},
	{"a node is set aside for maintenance", func(m *month) {
		n := m.role("leader")
		m.do("node", "drain", n.Name, "--yes", "--reason", "new kernel")
		m.must(m.Lab.RestartDocker(m.ctx, n.Name))
		m.do("node", "undrain", n.Name)
	}},
	{"a member is replaced on its node", func(m *month) { m.do("replace", m.role("follower").Name, "--yes") }},
	{"it is hibernated and resumed", func(m *month) {
		m.do("cluster", "hibernate", m.Cluster, "--confirm", m.Cluster)
		m.do("cluster", "resume", m.Cluster)
	}},
	{"a fuller report is asked for", func(m *month) {
		m.do("etcd", "compare")
		m.do("support-bundle", filepath.Join(m.TempDir(), "support.tar.gz"))
		m.do("backup", "verify", "--target", m.target.url())
	}},
}

// daemonEvents are the first of events that end the daemon; they are left out after the first round.
var daemonEvents = []int{0, 2}

// TestLabMonth plays on real nodes, in a short time, what a month does to a cluster and to what keeps it: fulls, deltas, drills and
// prunes every few minutes, revisions, renewals, replacements, and restarts of the daemon. Nothing may grow that has no bound.
func TestLabMonth(t *testing.T) {
	if *monthTime == 0 {
		t.Skip("it takes as long as -month says: make month")
	}
	s := newStory(t, 4)
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(t.Context(), *monthTime+2*dayLimit)
	t.Cleanup(cancel)
	s.must(s.WriteConfig(map[string]any{"probe_interval": "1s"}))
	m := &month{loaded: &loaded{story: s}, target: backedUp{s, filepath.Join(t.TempDir(), "backups")}}
	m.file = m.target.spec()
	m.members(0, 1, 2)
	m.declare()
	m.daemon = s.daemon("cke1")
	s.setKey()
	m.calm(m.set(m.file))
	m.target.awaitBackups("True UpToDate")
	founded := m.fresh()
	m.clients = m.clientTLS()
	w := m.writing()
	t.Cleanup(func() { m.samples.show(t) })

	day, began := *monthTime/monthDays, time.Now()
	for i, n := 0, 0; i < monthDays && time.Since(began) < *monthTime; i, n = i+1, n+1 {
		if n >= len(events) && slices.Contains(daemonEvents, n%len(events)) {
			n++
		}
		e := events[n%len(events)]
		start := time.Now()
		m.everyDay(i)
		e.tell(m)
		m.calm(0)
		took := since(start)
		for time.Since(began) < time.Duration(i+1)*day { // the day goes on; what is sampled is what there is while nothing happens
			m.sample()
			m.pass(min(day/8, time.Until(began.Add(time.Duration(i+1)*day))))
		}
		m.sample()
		t.Logf("day %d: %s: %s", i+1, e.name, took)
	}
	m.backups.show(t)
	w.finish()
	m.isWell(founded)
	m.samples.judge(t)
}

// declare sets short periods for all that comes by itself.
func (m *month) declare() {
	m.file.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=5368709120", "--auto-compaction-mode=periodic", "--auto-compaction-retention=1m"}
	m.file.Policies.Replace.Grace = cke.Duration(time.Second)
	m.file.Policies.Volumes = cke.VolumePolicies{OnRemoval: cke.VolumeArchive, Keep: cke.Duration(*monthTime / monthDays)}
	m.file.Backup.Full.Schedule = "*/2 * * * *"
	m.file.Backup.Delta.Period = cke.Duration(2 * time.Second)
	m.file.Backup.Retention.Last = 4
	m.file.Backup.Compaction.Schedule = "*/5 * * * *"
	m.file.Backup.Verify.Schedule = "*/4 * * * *"
}

// argument changes one of several arguments.
func (m *month) argument(quota string) {
	m.file.Options.Etcd.ExtraArgs[0] = "--quota-backend-bytes=" + quota
}

// everyDay is what people do every day: notes in the file, and backups before they touch something.
func (m *month) everyDay(day int) {
	m.Helper()
	for i := range 8 {
		m.file.Nodes[0].Labels = map[string]string{"note": fmt.Sprintf("%d-%d", day, i)}
		m.set(m.file)
	}
	for range 10 {
		m.target.now("--delta")
	}
}

// calm waits until a revision is applied, all members serve, and nothing is under way.
func (m *month) calm(revision int64) cke.Status {
	m.Helper()
	now := time.Now()
	return m.await("the cluster to be as declared", dayLimit, func(st cke.Status) bool {
		return st.ObservedAt.After(now) && rig.Ready(st) && st.Generation >= revision && st.Ready == 3 && len(st.Members) == 3 && st.Operation == nil
	})
}

// pass lets time pass.
func (m *month) pass(d time.Duration) {
	select {
	case <-m.ctx.Done():
		m.Fatal(m.ctx.Err())
	case <-time.After(d):
	}
}

// ageCertificates gives the members certificates that are soon to end: they are renewed when the daemon reads them next.
func (m *month) ageCertificates() {
	m.Helper()
	members := *m.story
	members.nodes = nil
	for _, b := range m.calm(0).Members {
		n, err := m.Lab.Node(b.Name)
		m.must(err)
		members.nodes = append(members.nodes, n)
	}
	members.certify(time.Now().Add(20*time.Minute), func() {}) // of an hour and twenty minutes
}

// fragment writes large values and deletes them.
func (b backedUp) fragment(config *tls.Config) {
	b.Helper()
	c, err := rig.Client(rig.URL(b.nodes[0]), config)
	b.must(err)
	defer c.Close()
	c.SetEndpoints(b.urls()...)
	ctx := b.within(dayLimit)
	for i := range 40 {
		b.must(rig.PutThrough(ctx, c, fmt.Sprint("large/", i), strings.Repeat("x", 1<<20)))
	}
	b.insist(ctx, func() error {
		gone, err := c.Delete(ctx, "large/", clientv3.WithPrefix())
		if err == nil {
			_, err = c.Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical())
		}
		return err
	})
}

// monthWriter writes the same keys again and again, and remembers the last number that was acknowledged of each.
type monthWriter struct {
	*month
	client *clientv3.Client
	stop   context.CancelFunc
	wg     sync.WaitGroup
	acked  [monthKeys]int
	writes int
}

func (m *month) writing() *monthWriter {
	m.Helper()
	c, err := rig.Client(rig.URL(m.nodes[0]), m.clients)
	m.must(err)
	c.SetEndpoints(m.urls()...)
	w := &monthWriter{month: m, client: c}
	ctx, stop := context.WithCancel(m.ctx)
	w.stop = stop
	w.wg.Go(func() { w.run(ctx) })
	m.Cleanup(func() { stop(); w.wg.Wait(); c.Close() })
	return w
}

func (w *monthWriter) run(ctx context.Context) {
	tick := time.NewTicker(monthEvery)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		if _, err := w.client.Put(try, fmt.Sprintf("month/%03d", i%monthKeys), fmt.Sprintf("%012d %0200d", i, i)); err == nil {
			w.acked[i%monthKeys] = i
			w.writes++
		}
		cancel()
	}
}

// finish fails unless each key has the number that was acknowledged last, or a later one that got no answer.
func (w *monthWriter) finish() {
	w.Helper()
	w.stop()
	w.wg.Wait()
	got, err := w.client.Get(w.within(readyLimit), "month/", clientv3.WithPrefix())
	w.must(err)
	has := map[string]int{}
	for _, kv := range got.Kvs {
		n, err := strconv.Atoi(string(kv.Value[:12]))
		w.must(err)
		has[string(kv.Key)] = n
	}
	for i, last := range w.acked {
		if key := fmt.Sprintf("month/%03d", i); has[key] < last {
			w.Errorf("%s holds write %d, and %d was acknowledged", key, has[key], last)
		}
	}
	w.Logf("%d writes acknowledged", w.writes)
}

// isWell checks what the month has left: one cluster, the one that was bootstrapped, whose backups can be restored.
func (m *month) isWell(founded cke.Status) {
	m.Helper()
	st := m.calm(0)
	if st.ClusterID != founded.ClusterID || st.Incarnation != founded.Incarnation {
		m.Errorf("another cluster: %s of %s, before %s of %s", st.ClusterID, st.Incarnation, founded.ClusterID, founded.Incarnation)
	}
	for _, b := range st.Members {
		if time.Until(b.CertNotAfter) < 24*time.Hour {
			m.Errorf("the certificate of %s ends at %s", b.Name, b.CertNotAfter)
		}
	}
	m.target.awaitBackups("True UpToDate")
	m.do("backup", "verify", "--restore", "--target", m.target.url())
	count := map[string]int{}
	for _, r := range m.records() {
		count[r.Operation+" "+string(r.State)]++
		if r.State == cke.RecordFailed {
			m.Logf("#%d %s %v failed: %s", r.ID, r.Operation, r.Targets, r.Error)
		}
	}
	m.Logf("operations on record: %v", count)
}
