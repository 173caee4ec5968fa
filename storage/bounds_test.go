package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// formedWith campaigns for a new cluster that has so many ended memberships, as a store of a former version may hold.
func formedWith(t *testing.T, s *Store, name string, ended int) *Term {
	t.Helper()
	ctx := testContext(t)
	c := setCluster(t, s, name).Cluster.WithDefaults()
	term := campaign(t, s, name, "here")
	inc := cke.NewIncarnation(c, nil, time.Now())
	if err := term.CreateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	inc.State = cke.Formed
	if err := term.UpdateIncarnation(ctx, inc); err != nil {
		t.Fatal(err)
	}
	var ops []clientv3.Op
	c.Options.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8589934592", "--auto-compaction-mode=periodic", "--auto-compaction-retention=1h", "--heartbeat-interval=200"}
	for range ended {
		j := endedJoin(c, inc.ID)
		op, err := put(s.keys.join(name, string(j.ID)), j)
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	for _, some := range batches(ops) {
		if err := term.write(ctx, "test", nil, some...); err != nil {
			t.Fatal(err)
		}
	}
	return term
}

func endedJoin(c cke.Cluster, life string) cke.Join {
	j := cke.NewJoin(c, c.ControlPlane()[2], life)
	j.MemberID, j.StartedAt = "8e9e05c52164694d", time.Now().UTC()
	j.EndedAt, j.KeepUntil = time.Now().UTC(), time.Now().Add(168*time.Hour).UTC()
	return j
}

func keys(t *testing.T, s *Store, prefix string) int {
	t.Helper()
	r := under(prefix)
	resp, err := s.client.Get(testContext(t), r.start, r.options(clientv3.WithCountOnly())...)
	if err != nil {
		t.Fatal(err)
	}
	return int(resp.Count)
}

// A store in which a former version left thousands of memberships forgets the oldest ones, and its cluster can be deleted.
func TestBounds_EndedMembershipsAreForgotten(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	term := formedWith(t, s, "prod", 2900)
	for range 2900 / maxOps {
		id, err := term.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j := id.Joins[0]
		if err := term.PutJoins(ctx, id, j); err != nil {
			t.Fatal(err)
		}
	}
	id, err := term.Identity(ctx)
	if err != nil || len(id.Ended) != cke.KeptEnded || len(id.Joins) != 3 {
		t.Errorf("%d ended memberships, %d present ones, %v", len(id.Ended), len(id.Joins), err)
	}
}

func TestBounds_AClusterWithThousandsOfEndedMembershipsIsDeleted(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	term := formedWith(t, s, "prod", 2900)
	if err := s.RequestDelete(ctx, "prod", "me"); err != nil {
		t.Fatal(err)
	}
	if err := term.FinishDelete(ctx); err != nil {
		t.Fatal(err)
	}
	all, err := s.Deleted(ctx)
	if err != nil || len(all) != 1 || len(all[0].Identity.Ended) != cke.KeptEnded || len(all[0].Identity.Joins) != 3 {
		t.Errorf("%d archives, %v", len(all), err)
	}
	if n := keys(t, s, s.keys.cluster("prod")); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// A restore that declares a cluster of many nodes pins the host keys of all of them.
func TestBounds_ARestoreOfManyNodesIsAsked(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	if err := s.OpenSecrets(ctx); err != nil {
		t.Fatal(err)
	}
	c := testCluster("prod")
	lines := map[string]string{}
	for i := range 500 {
		a := fmt.Sprintf("10.1.%d.%d", i/200, i%200+1)
		c.Nodes, lines[a] = append(c.Nodes, cke.Node{Address: a}), "ssh-ed25519 AAAA"
	}
	order := func() error {
		task := cke.NewTask(cke.TaskRestore, "", "", "me", time.Now())
		task.Restore = &cke.RestoreOrder{Target: "file:///x", Source: "prod"}
		return s.AskRestore(ctx, "prod", task, RestoreAsked{Declare: &Declared{Cluster: c, HostKeys: lines, Secrets: map[string][]byte{"pki/peer-ca": []byte("x")}}})
	}
	// What an attempt that was cut off has left is no key of a cluster, however that is declared.
	if _, err := s.lend(ctx, "other", cke.Task{}, map[string]string{"10.9.9.9": "ssh-ed25519 BBBB"}, nil); err != nil {
		t.Fatal(err)
	}
	setCluster(t, s, "other")
	if pinned, err := s.HostKeys(ctx, "other"); err != nil || len(pinned) != 0 {
		t.Errorf("host keys of a cluster that was declared just now: %v, %v", pinned, err)
	}
	if _, err := s.lend(ctx, "prod", cke.Task{}, map[string]string{"10.9.9.9": "ssh-ed25519 BBBB"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := order(); err != nil {
		t.Fatal(err)
	}
	if pinned, err := s.HostKeys(ctx, "prod"); err != nil || len(pinned) != 500 || pinned["10.9.9.9"] != "" {
		t.Errorf("%d host keys, %v", len(pinned), err)
	}
	if err := order(); !errors.Is(err, cke.ErrConflict) {
		t.Errorf("declared twice: %v", err)
	}
	if pinned, err := s.HostKeys(ctx, "prod"); err != nil || len(pinned) != 500 {
		t.Errorf("%d host keys after an order that was refused, %v", len(pinned), err)
	}
}

// What is written in a month of revisions, records, requests, host keys and deletions stays below the bounds.
func TestBounds_AMonth(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	term := formedWith(t, s, "prod", 0)
	k := s.keys
	revise := func(ctx context.Context, i int) {
		c := testCluster("prod")
		c.Options.Etcd.ExtraArgs = []string{fmt.Sprintf("--heartbeat-interval=%d", 100+i)}
		if _, err := s.SetSpec(ctx, "prod", c, nil, "me", SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keptRevisions + 20 {
		revise(ctx, i)
	}
	for range keptRecords + 20 {
		if _, err := term.AppendRecord(ctx, cke.Record{Operation: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 { // tombstones: learners that came and went
		id, err := term.Identity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		j := endedJoin(testCluster("prod").WithDefaults(), id.Incarnation.ID)
		j.NeverVoted, j.RemovedAt = true, time.Now().Add(time.Duration(i)*time.Second)
		if err := term.PutJoins(ctx, id, j); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for i := range maxRequests + 5 {
		if err := s.AddTask(ctx, "prod", cke.Task{ID: fmt.Sprint(i)}); err != nil {
			refused++
		}
	}
	for row, n := range map[string][2]int{
		k.specLog("prod"): {keys(t, s, k.specLog("prod")), keptRevisions}, k.records("prod"): {keys(t, s, k.records("prod")), keptRecords},
		k.joins("prod"): {keys(t, s, k.joins("prod")), 3 + cke.KeptTombstones}, k.requests("prod"): {keys(t, s, k.requests("prod")), maxRequests},
	} {
		if n[0] != n[1] {
			t.Errorf("%d keys below %s, not %d", n[0], row, n[1])
		}
	}
	if refused != 5 {
		t.Errorf("%d requests were refused", refused)
	}
	for i := range keptArchives + 3 {
		name := "short"
		setCluster(t, s, name)
		term := campaign(t, s, name, "here")
		if err := s.RequestDelete(ctx, name, "me"); err != nil {
			t.Fatal(err)
		}
		if err := term.FinishDelete(ctx); err != nil {
			t.Fatal(i, err)
		}
	}
	if n := keys(t, s, k.archives("short")); n != keptArchives {
		t.Errorf("%d archives", n)
	}
}

// Of a host that offers another key at each connect the last one is kept, and of many hosts the newest.
func TestBounds_HostKeysThatAreOffered(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	term := formedWith(t, s, "prod", 0)
	for i := range 5 {
		if err := term.OfferHostKey(ctx, "10.0.0.1", fmt.Sprintf("ssh-ed25519 AAA%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var ops []clientv3.Op
	for i := range keptHostKeys + 10 {
		ops = append(ops, clientv3.OpPut(s.keys.offeredKey("prod", fmt.Sprintf("h%d", i)), "{}"))
	}
	for _, some := range batches(ops) {
		if _, err := s.txn(ctx, nil, some); err != nil {
			t.Fatal(err)
		}
	}
	if err := term.OfferHostKey(ctx, "10.0.0.2", "ssh-ed25519 AAAA"); err != nil {
		t.Fatal(err)
	}
	if n := keys(t, s, s.keys.offeredKeys("prod")); n != keptHostKeys {
		t.Errorf("%d keys are kept", n)
	}
}
