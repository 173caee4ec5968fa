package take_test

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"cke"
	"cke/backup/internal/etcdtest"
)

// stopWrites stops writes as a restore does.
func stopWrites(t *testing.T, s *etcdtest.Server) {
	t.Helper()
	stop := cke.WriteStop("restored", 1)
	id, err := strconv.ParseUint(stop.MemberID, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, err = pb.NewMaintenanceClient(s.Client.ActiveConnection()).Alarm(etcdtest.Context(t),
		&pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType(pb.AlarmType_value[stop.Kind]), MemberID: id})
	if err != nil {
		t.Fatal(err)
	}
}

// A put over the quota raises NOSPACE. etcd 3.5 then goes by its rules, which allow deletions, and no longer by the stop: so cke promises no
// stop there unless the database has room for any request.
func TestWriteStop_HoldsWhereItIsPromised(t *testing.T) {
	const quota = 32 << 20
	o := cke.EtcdOptions{ExtraArgs: []string{"--quota-backend-bytes=33554432", "--max-request-bytes=8388608", "--max-txn-ops=20000"}} // as process sets it
	for _, version := range minors {
		for name, full := range map[string]bool{"room": false, "near the quota": true} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				ctx := etcdtest.Context(t)
				s := process(t, binaries(t, version), filepath.Join(t.TempDir(), "data"), o.ExtraArgs[0])
				if _, err := s.Client.Put(ctx, "k", "1"); err != nil {
					t.Fatal(err)
				}
				size := func() int64 {
					st, err := s.Client.Status(ctx, s.Endpoint)
					if err != nil {
						t.Fatal(err)
					}
					return st.DbSize
				}
				for i := 0; full && size() < quota-(8<<20); i++ {
					if _, err := s.Client.Put(ctx, "large"+strconv.Itoa(i), random(1<<20)); err != nil {
						t.Fatal(err)
					}
				}
				reply := cke.EndpointStatus{Version: version, DBSize: size()}
				promised := cke.NoWriteStop([]cke.Join{{Etcd: o, StartedAt: time.Now()}}, cke.RestoreOrder{}, func(cke.Join) cke.EndpointStatus { return reply }) == ""
				stopWrites(t, s)
				if _, err := s.Client.Put(ctx, "more", random(8<<20-1000)); err == nil {
					t.Fatal("a put is acknowledged")
				}
				_, err := s.Client.Delete(ctx, "k")
				if holds := errors.Is(err, rpctypes.ErrCorrupt); holds != promised {
					t.Errorf("promised: %v, a deletion: %v", promised, err)
				}
			})
		}
	}
}
