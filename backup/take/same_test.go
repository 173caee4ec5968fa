package take_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// What a member of another cluster holds is not backed up, whatever its URL.
func TestTaker_AMemberOfAnotherClusterIsNotBackedUp(t *testing.T) {
	t.Parallel()
	right, wrong := etcdtest.Start(t, etcdtest.Options{}), etcdtest.StartCluster(t, 1)[0]
	id := strconv.FormatUint(uint64(right.Etcd.Server.Cluster().ID()), 16)
	c := taketest.Config(wrong, backuptest.NewMemory())
	c.ClusterID = id
	if _, err := take.Full(etcdtest.Context(t), c); err == nil || !strings.Contains(err.Error(), "cluster id") {
		t.Errorf("%v", err)
	}
	b := backuptest.NewMemory()
	c = taketest.Config(right, b)
	c.ClusterID = id
	c.Endpoints = append([]string{wrong.Endpoint}, c.Endpoints...)
	r := taketest.Start(t, right, c)
	r.Await(take.FullStored)
	for range 20 {
		if _, err := right.Client.Put(etcdtest.Context(t), "mine", time.Now().String()); err != nil {
			t.Fatal(err)
		}
		if _, err := wrong.Client.Put(etcdtest.Context(t), "foreign", "x"); err != nil {
			t.Fatal(err)
		}
	}
	for r.Taker.Flush(etcdtest.Context(t)) != nil {
	}
	same(t, r, b)
}

// The address of a member is that of another cluster when the snapshot is asked for: the stream carries no cluster id.
func TestFull_IsNotOfAClusterThatTookTheAddress(t *testing.T) {
	t.Parallel()
	right, wrong := etcdtest.Start(t, etcdtest.Options{}), etcdtest.StartCluster(t, 1)[0]
	full := func(b backup.Bucket, known bool) (backup.Header, error) {
		c := taketest.Config(right, b)
		if c.Scratch = t.TempDir(); known {
			c.ClusterID = strconv.FormatUint(uint64(right.Etcd.Server.Cluster().ID()), 16)
		}
		var address cutter
		c.Endpoints = []string{address.start(t, right.Address)}
		var once sync.Once
		c.Now = func() time.Time { // first right before a snapshot is asked for
			once.Do(func() { address.move(wrong.Address) })
			return time.Now()
		}
		return take.Full(etcdtest.Context(t), c)
	}
	for _, known := range []bool{true, false} {
		b := backuptest.NewMemory()
		h, err := full(b, known)
		for err != nil && strings.Contains(err.Error(), "receive a snapshot") { // the client had not noticed yet that its connection was cut
			b = backuptest.NewMemory()
			h, err = full(b, known)
		}
		if err == nil || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("cluster id known %t: full %s: %v", known, h.Place.ID(), err)
		}
		if all, err := b.List(etcdtest.Context(t), ""); err != nil || len(all) > 0 {
			t.Errorf("cluster id known %t: %d objects are stored, %v", known, len(all), err)
		}
	}
}
