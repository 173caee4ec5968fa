package take_test

import (
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"cke/backup"
	"cke/backup/backuptest"
	"cke/backup/internal/etcdtest"
	"cke/backup/internal/taketest"
	"cke/backup/take"
)

// Members of etcd 3.5.3 to 3.5.17 forget the deletions of the very revision that they compact to, and let a watch start there all the same. If another
// key was written in the same transaction, no revision is missing.
func TestTaker_DeletionsOfTheRevisionCompactedToAreNotLost(t *testing.T) {
	t.Parallel()
	ctx := etcdtest.Context(t)
	s := etcdtest.Start(t, etcdtest.Options{})
	r := &taketest.Rig{T: t, Server: s}
	r.Put("a", "1")
	r.Put("gone", "1")
	r = taketest.Start(t, s, taketest.Config(s, backuptest.NewMemory()))
	r.Await(take.FullStored)
	r.Put("a", "2")
	r.Flush()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	res, err := s.Client.Txn(ctx).Then(clientv3.OpPut("a", "3"), clientv3.OpDelete("gone")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	compacted := res.Header.Revision
	compact(t, r, compacted)
	c := taketest.Config(s, r.Bucket)
	c.Endpoints = []string{etcdtest.AlteringProxy(t, s, func(method string, answer []byte) []byte {
		var w pb.WatchResponse
		if method != watching || proto.Unmarshal(answer, &w) != nil {
			return nil
		}
		w.Events = slices.DeleteFunc(w.Events, func(e *mvccpb.Event) bool {
			return e.Type == mvccpb.Event_DELETE && e.Kv.ModRevision == compacted
		})
		altered, err := proto.Marshal(&w)
		if err != nil {
			t.Error(err)
		}
		return altered
	})}
	r = taketest.Start(t, s, c)
	told(t, r, compacted, compacted)
	r.Put("b", "1")
	r.Flush()
	got, x := taketest.Extract(t, r.Store(), backup.At{})
	taketest.SameState(t, s.State(t, x.Revision), got.State(t, 0))
}
