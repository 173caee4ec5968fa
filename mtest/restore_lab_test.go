package mtest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	"gopkg.in/yaml.v3"

	"cke"
	"cke/mtest/lab"
	"cke/mtest/rig"
)

// restoreLimit bounds a restore of a small cluster; storyTime stories that restore several times.
const restoreLimit = 2 * time.Minute

// backedUpOn begins a story with a running cluster of n members, a target, and some spare nodes.
func backedUpOn(t *testing.T, n, spare int) (backedUp, *rig.Daemon) {
	t.Helper()
	b := backedUp{newStory(t, n+spare), filepath.Join(t.TempDir(), "backups")}
	b.nodes = b.nodes[:n]
	d := b.daemon("boot-1")
	b.setKey()
	b.set(b.spec())
	b.ready()
	b.awaitBackups("True UpToDate")
	return b, d
}

// content is what all members hold: key to value and the revision of its last change.
func (b backedUp) content(config *tls.Config) map[string]string {
	b.Helper()
	var all map[string]string
	for _, url := range b.urls() {
		c, err := rig.Client(url, config)
		b.must(err)
		has, err := heldBy(b.within(seenLimit), c)
		c.Close()
		b.must(err)
		if all != nil && !maps.Equal(all, has) {
			b.Errorf("members differ: %d and %d keys", len(all), len(has))
		}
		all = has
	}
	return all
}

// heldBy is what one member holds.
func heldBy(ctx context.Context, c *clientv3.Client) (map[string]string, error) {
	resp, err := c.Get(ctx, "\x00", clientv3.WithFromKey())
	if err != nil {
		return nil, err
	}
	has := map[string]string{}
	for _, kv := range resp.Kvs {
		has[string(kv.Key)] = fmt.Sprintf("%s@%d/%d#%d %x", kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version, kv.Lease)
	}
	return has, nil
}

// holds fails unless the members hold exactly this.
func (b backedUp) holds(want map[string]string, config *tls.Config) {
	b.Helper()
	if got := b.content(config); !maps.Equal(got, want) {
		b.Errorf("holds %d keys, %v, not %d, %v", len(got), got, len(want), want)
	}
}

// isRestored checks what a restore leaves: one ready cluster of another life, at a revision that was never seen.
func (b backedUp) isRestored(before cke.Status) cke.Status {
	b.Helper()
	st := b.ready()
	if st.Ready != len(b.nodes) || len(st.Members) != len(b.nodes) {
		b.Errorf("not one cluster of %d members: %+v", len(b.nodes), st.Members)
	}
	if st.Incarnation == before.Incarnation || st.ClusterID == before.ClusterID {
		b.Errorf("it is the cluster that it was: %s %s", st.Incarnation, st.ClusterID)
	}
	for _, e := range st.Etcd.Endpoints {
		if e.ClusterID != st.ClusterID || e.Revision < cke.RevisionBump {
			b.Errorf("%s: cluster %s at revision %d", e.URL, e.ClusterID, e.Revision)
		}
	}
	for _, n := range b.nodes {
		if running := b.on(n, "docker ps -q | wc -l"); strings.TrimSpace(running) != "1" {
			b.Errorf("%s runs %s containers: %s", n.Name, running, b.carried(n))
		}
	}
	return st
}

// restores runs `ckecli restore` with the person's word, and shows what it tells.
func (s *story) restores(args ...string) {
	s.Helper()
	res, err := s.CLI(s.within(restoreLimit), append([]string{"restore", "--confirm", s.Cluster}, args...)...)
	s.Logf("\n%s%s", res.Stderr, res.Stdout)
	s.must(err)
	if res.Code != 0 {
		s.Fatalf("exit code %d", res.Code)
	}
}

func TestLabRestore_StoryOfACluster(t *testing.T) {
	extra(t)
	b, _ := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	lineage := b.ready().Incarnation // of the first life
	b.put("kept/1", 10)
	b.put("kept/2", 20)
	revision := b.put("kept/1", 30) // its second version
	want := b.content(client)
	b.put("late", 10)
	latest := b.put("kept/2", 5)
	wantLatest := b.content(client)
	b.awaitRevision(latest)

	b.part("refused without the cluster's name", func(s *story) {
		s.refused(6, []string{"CKE107", "--confirm prod"}, "restore", "--revision", fmt.Sprint(revision))
		s.refused(6, []string{"CKE402"}, "restore", "--revision", "99999", "--confirm", "prod")
		before := s.ready()
		plan := s.do("restore", "--plan", "--revision", fmt.Sprint(revision))
		s.Logf("\n%s", plan)
		if after := s.ready(); after.Incarnation != before.Incarnation {
			s.Error("a plan changed the cluster")
		}
	})
	b.part("to a revision, while it serves", func(s *story) {
		before := s.ready()
		s.restores("--revision", fmt.Sprint(revision))
		b.in(s).isRestored(before)
		b.in(s).holds(want, client) // with a certificate of the life before
		s.Logf("\n%s%s", s.do("history"), s.do("volume", "list"))
		b.in(s).awaitBackups("True UpToDate") // a lineage of its own
	})
	b.part("what was restored, twice more", func(s *story) {
		for i := range 2 {
			before := s.ready()
			b.in(s).put("again", 10+i)
			b.in(s).now()
			now := b.in(s).content(client)
			s.restores("--lineage", before.Incarnation)
			b.in(s).isRestored(before)
			b.in(s).holds(now, client)
		}
	})
	b.part("to the newest state of the first life, after all nodes were wiped", func(s *story) {
		before := s.ready()
		for _, n := range s.nodes {
			s.must(s.Lab.Wipe(s.ctx, n.Name, lab.WipeOptions{KeepHostKey: true}))
		}
		s.awaitProblem("", cke.CodeBlankNodes)
		s.restores("--lineage", lineage)
		b.in(s).isRestored(before)
		b.in(s).holds(wantLatest, client)
	})
}

func TestLabRestore_EndsInOneClusterWhenTheDaemonIsKilledAtAnyStep(t *testing.T) {
	rare(t)
	b, d := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	revision := b.put("kept", 10)
	want := b.content(client)
	b.awaitRevision(b.put("late", 10))
	lineage := b.ready().Incarnation
	steps := []string{"fetch", "record-restoring", "prepare", "restore-data", "fence", "record-start", "start", "verify", "keep-running", "record-formed"}
	for _, step := range steps {
		b.part(step, func(s *story) {
			s.ctx = s.within(restoreLimit)
			before := s.ready()
			newest := s.records()[0].ID
			died := s.when(s.ctx, rig.StepBegun(step), func() error { d.Kill(); return nil })
			s.do("restore", "--no-wait", "--lineage", lineage, "--revision", fmt.Sprint(revision), "--confirm", "prod")
			s.must(<-died)
			d = b.daemon("boot-1") // it outlives the part
			s.await("the restore to end", restoreLimit, func(st cke.Status) bool {
				return st.Incarnation != before.Incarnation && st.Health == cke.HealthReady
			})
			b.in(s).isRestored(before)
			b.in(s).holds(want, client)
			if left, _ := filepath.Glob(filepath.Join(s.Dir, "scratch", "restore", "*", "*")); len(left) > 0 {
				s.Errorf("left behind: %q", left)
			}
			for _, r := range s.records() {
				if r.ID > newest && r.State == cke.RecordFailed {
					s.Errorf("operation %+v", r)
				}
			}
		})
	}
}

func TestLabRestore_IntoAnotherClusterAndFromABlankManagementHost(t *testing.T) {
	b, d := backedUpOn(t, 3, 1)
	client := b.clientTLS()
	b.awaitRevision(b.put("kept", 10))
	want := b.content(client)
	before := b.ready()

	b.part("the management host burns down", func(s *story) {
		d.Kill()
		r, err := rig.New(b.TempDir(), bin, s.Lab, "prod") // what follows works with it
		s.must(err)
		again := &story{T: b.T, Rig: r, ctx: s.ctx, nodes: s.nodes}
		key, err := os.ReadFile(filepath.Join(s.Dir, "secret.key"))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(r.Dir, "secret.key"), key, 0o600))
		d = again.daemon("boot-1")
		again.restores("--from", b.url())
		b.in(again).isRestored(before)
		b.in(again).holds(want, client)
		b.Rig = r
	})
	b.part("into a cluster of another name, on another node, while the first one serves", func(s *story) {
		first := s.ready()
		r := *s.Rig
		r.Cluster = "rehearsal"
		other := &story{T: s.T, Rig: &r, ctx: s.ctx, nodes: s.Lab.Nodes()[len(s.nodes):]}
		data, err := yaml.Marshal(other.spec())
		s.must(err)
		file := s.file("new.yml", string(data))
		other.refused(9, []string{"CKE404"}, "restore", "--from", b.url(), "--source-cluster", "other", "--file", file, "--confirm", "rehearsal")
		other.do("restore", "--confirm", "rehearsal", "--no-wait", "--from", b.url(), "--source-cluster", "prod", "--lineage", before.Incarnation, "--file", file)
		other.setKey()
		b.in(other).isRestored(first)
		b.in(other).holds(want, other.clientTLS())
		if st := s.ready(); st.ClusterID != first.ClusterID || st.Ready != len(s.nodes) {
			s.Errorf("the first one is another: %s, %d ready", st.ClusterID, st.Ready)
		}
		b.in(s).holds(want, client)
	})
	d.Kill()
}

func TestLabRecover_GoesOnFromTheOnlyMemberThatIsLeft(t *testing.T) {
	extra(t)
	b, _ := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	b.put("kept", 10)
	want := b.content(client)
	before := b.ready()
	b.refused(6, []string{"CKE111", "quorum"}, "recover", "--confirm", "prod")
	b.must(b.Lab.Wipe(b.ctx, b.nodes[0].Name, lab.WipeOptions{KeepHostKey: true}))
	b.must(b.Lab.Kill(b.ctx, b.nodes[1].Name))
	b.awaitProblem(b.nodes[1].Name, cke.CodeUnreachable)
	b.await("the quorum to be lost", seenLimit, func(st cke.Status) bool { return st.Health == cke.HealthLost })
	b.refused(6, []string{"CKE313", b.nodes[1].Name}, "recover", "--confirm", "prod")
	t.Logf("\n%s", b.do("recover", "--plan", "--destroyed", b.nodes[1].Name))
	t.Logf("\n%s", b.do("recover", "--destroyed", b.nodes[1].Name, "--confirm", "prod"))
	// The machine comes back after all, with its old member.
	b.must(b.Lab.Start(b.ctx, b.nodes[1].Name))
	b.isRestored(before)
	b.holds(want, client)
}

// writes are what one client was answered: the keys that it put, and those that it deleted.
type writes struct{ there, gone []string }

// write lets a client put and delete keys through one member until it is answered by another life or ctx ends. What it was not
// answered may have happened or not, and is in neither list.
func (b backedUp) write(ctx context.Context, member int, config *tls.Config) (w writes, err error) {
	c, err := rig.Client(rig.URL(b.nodes[member]), config)
	if err != nil {
		return w, err
	}
	defer c.Close()
	ask := func(op clientv3.Op) (revision int64) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		resp, err := c.Do(ctx, op)
		switch {
		case err != nil:
			return 0
		case op.IsPut():
			return resp.Put().Header.Revision
		}
		return resp.Del().Header.Revision
	}
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("load/%d/%06d", member, i)
		switch revision := ask(clientv3.OpPut(key, "v")); {
		case revision >= cke.RevisionBump:
			return w, nil
		case revision == 0:
			continue
		}
		if i%3 > 0 {
			w.there = append(w.there, key)
		} else if revision := ask(clientv3.OpDelete(key)); revision > 0 && revision < cke.RevisionBump {
			w.gone = append(w.gone, key)
		}
	}
	return w, nil
}

// Whatever was acknowledged before the members stop is in the backups of the life that a restore replaces.
func TestLabRestore_UnderLoadStoresWhatIsAcknowledgedUntilTheMembersStop(t *testing.T) {
	extra(t)
	b, _ := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	b.awaitRevision(b.put("kept", 10))
	before := b.ready()
	load, stop := context.WithCancel(b.ctx)
	defer stop()
	answered := make([]writes, len(b.nodes))
	var wg errgroup.Group
	for i := range b.nodes {
		wg.Go(func() (err error) { answered[i], err = b.write(load, i, client); return err })
	}
	b.awaitRevision(300)
	plan := b.do("restore", "--plan")
	b.Logf("\n%s", plan)
	if !strings.Contains(plan, "What clients write until the members stop is stored in the backups first") {
		b.Error("the plan does not say what becomes of the last writes")
	}
	b.restores()
	stop()
	b.must(wg.Wait())
	b.isRestored(before)
	b.restores("--lineage", before.Incarnation) // to what the backups of the life before hold
	has := b.content(client)
	there, gone := 0, 0
	for i, w := range answered {
		b.Logf("through %s: %d puts and %d deletions", b.nodes[i].Name, len(w.there), len(w.gone))
		for _, key := range w.there {
			if has[key] == "" {
				there++
			}
		}
		for _, key := range w.gone {
			if has[key] != "" {
				gone++
			}
		}
	}
	if there+gone > 0 || len(has) < 100 {
		b.Errorf("of %d keys, %d acknowledged puts and %d acknowledged deletions are in no backup", len(has), there, gone)
	}
}

// A target that takes nothing any more when the members are about to stop: the restore is called off, and clients write again.
func TestLabRestore_IsCalledOffWhereTheLastWritesCannotBeStored(t *testing.T) {
	b, _ := backedUpOn(t, 3, 0)
	client := b.clientTLS()
	b.awaitRevision(b.put("kept", 10))
	before := b.ready()
	broken := b.when(b.within(restoreLimit), rig.StepBegun("restore-data"), func() error {
		return os.Rename(b.target, b.target+".away")
	})
	res, err := b.CLI(b.within(restoreLimit), "restore", "--confirm", "prod")
	b.must(err)
	b.must(<-broken)
	b.Logf("\n%s%s", res.Stderr, res.Stdout)
	if res.Code == 0 || !strings.Contains(res.Stderr, string(cke.CodeNotStored)) {
		b.Errorf("exit code %d", res.Code)
	}
	b.must(os.Rename(b.target+".away", b.target))
	st := b.ready()
	if st.ClusterID != before.ClusterID || st.Incarnation != before.Incarnation {
		b.Errorf("it is another cluster: %+v", st)
	}
	b.awaitRevision(b.put("again", 10))
	if has := b.content(client); len(has) != 2 {
		b.Errorf("holds %v", has)
	}
	b.await("nothing to be left of the restore", seenLimit, func(st cke.Status) bool { return len(st.Problems) == 0 })
}
