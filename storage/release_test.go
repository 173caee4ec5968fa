package storage

import (
	"strings"
	"testing"
	"time"

	"cke"
)

// A cluster that an older cke stored, and whose members run that one's default, is wanted as it runs, whoever reads it.
func TestSpec_OfAnOlderCkeIsResolvedOnceToWhatRuns(t *testing.T) {
	s := newStore(t)
	ctx := testContext(t)
	spec := setCluster(t, s, "prod")
	key := s.keys.spec("prod")
	if spec.Etcd.Version != cke.DefaultEtcdVersion {
		t.Errorf("a new cluster is to run %+v", spec.Etcd)
	}
	older := spec
	older.Etcd = cke.Release{}
	op, err := put(key, older)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Do(ctx, op); err != nil {
		t.Fatal(err)
	}
	term := campaign(t, s, "prod", "here")
	ran := spec.Wanted()
	ran.Options.Etcd.Version, ran.Options.Etcd.Image = "3.6.15", cke.DefaultImage+":v3.6.15"
	if err := term.CreateIncarnation(ctx, cke.NewIncarnation(ran, nil, time.Now())); err != nil {
		t.Fatal(err)
	}
	stored := func() string {
		resp, err := s.client.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return string(resp.Kvs[0].Value)
	}
	read, err := s.Spec(ctx, "prod")
	if err != nil || read.Etcd.Version != "3.6.15" || read.Generation != spec.Generation || strings.Contains(stored(), "3.6.15") {
		t.Errorf("read %+v, %v; stored is %s", read.Etcd, err, stored())
	}
	read, err = term.Spec(ctx)
	if err != nil || read.Etcd.Version != "3.6.15" || read.Generation != spec.Generation || !strings.Contains(stored(), "3.6.15") {
		t.Errorf("the leader read %+v, %v; stored is %s", read.Etcd, err, stored())
	}
	// A file without a version changes nothing about it.
	again, err := s.SetSpec(ctx, "prod", testCluster("prod"), []byte("name: prod # again"), "me", SetOptions{})
	if err != nil || again.Generation != spec.Generation || again.Etcd.Version != "3.6.15" {
		t.Errorf("set again: revision %d, %+v, %v", again.Generation, again.Etcd, err)
	}
	newer := testCluster("prod")
	newer.Options.Etcd.Version = "3.6.16"
	if now, err := s.SetSpec(ctx, "prod", newer, nil, "me", SetOptions{}); err != nil || now.Generation != spec.Generation+1 {
		t.Errorf("an upgrade: revision %d, %v", now.Generation, err)
	}
	if back, err := s.SetSpec(ctx, "prod", testCluster("prod"), nil, "me", SetOptions{As: &again}); err != nil || back.Etcd.Version != "3.6.15" {
		t.Errorf("taken back to %+v, %v", back.Etcd, err)
	}
}
