package take

import (
	"context"
	"net"
	"slices"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"cke/backup"
)

// leaseMember answers like a member that has applied the log up to an index, with these leases.
type leaseMember struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedLeaseServer
	pb.UnimplementedKVServer
	silent         bool
	revision       int64
	applied, known uint64
	leases         []int64
	// reads is called before a read by quorum is answered.
	reads func()
}

func (m *leaseMember) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: 1, MemberId: 2, Revision: m.revision}
}

func (m *leaseMember) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	if m.silent {
		return nil, context.DeadlineExceeded
	}
	return &pb.StatusResponse{Header: m.header(), RaftIndex: m.known, RaftAppliedIndex: m.applied, Leader: 3}, nil
}

func (m *leaseMember) LeaseLeases(context.Context, *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	r := &pb.LeaseLeasesResponse{Header: m.header()}
	for _, id := range m.leases {
		r.Leases = append(r.Leases, &pb.LeaseStatus{ID: id})
	}
	return r, nil
}

func (m *leaseMember) LeaseTimeToLive(_ context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return &pb.LeaseTimeToLiveResponse{Header: m.header(), ID: r.ID, TTL: 3000, GrantedTTL: 3600}, nil
}

func (m *leaseMember) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	m.reads()
	return &pb.RangeResponse{Header: m.header()}, nil
}

func (m *leaseMember) start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	pb.RegisterMaintenanceServer(s, m)
	pb.RegisterLeaseServer(s, m)
	pb.RegisterKVServer(s, m)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return "http://" + l.Addr().String()
}

// The deltas of a backlog end before the revision at which leases are listed, so that a member that lags may be asked after one that does not. Its list
// would take back leases that the other one has shown, whose keys come in the next deltas: restored there, they would never expire.
func TestObserver_ListsOfLeasesAreInTheOrderOfTheLog(t *testing.T) {
	ahead := &leaseMember{revision: 7, applied: 70, known: 70, leases: []int64{1}, reads: func() {}}
	lags := &leaseMember{silent: true, revision: 6, applied: 60, known: 60}
	lags.reads = func() { lags.revision, lags.applied, lags.known, lags.leases = 8, 80, 80, []int64{1, 2} }
	c := Config{Endpoints: []string{ahead.start(t), lags.start(t)}, Bucket: backup.Dir(t.TempDir()), Cluster: "prod", Lineage: "a1b2"}
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	k, err := dial(&c)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	o := newObserver(k, &c)
	list, err := o.leases(t.Context(), 4)
	if err != nil || len(list.Granted) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	o.told(list, 4)
	ahead.silent, lags.silent = true, false
	list, err = o.leases(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Gone) > 0 || !slices.ContainsFunc(list.Granted, func(l backup.Lease) bool { return l.ID == 2 }) {
		t.Errorf("%+v", list)
	}
}
