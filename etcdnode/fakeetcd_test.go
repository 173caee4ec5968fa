package etcdnode

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// fakeEtcd is one member that answers what a look asks. It misbehaves when told to.
type fakeEtcd struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedKVServer
	pb.UnimplementedClusterServer
	pb.UnimplementedAuthServer

	t       testing.TB
	address string
	server  *grpc.Server
	done    chan struct{}

	mu        sync.Mutex
	news      *sync.Cond // of asked
	tls       *tls.Config
	status    *pb.StatusResponse
	members   []*pb.Member
	alarms    []*pb.AlarmMember
	noQuorum  bool                // linearizable questions wait for ever
	silent    bool                // every question does
	held      chan struct{}       // linearizable questions wait until it is closed; nil: they do not
	health    []byte              // what a client has put under the key "health"; nil: nothing
	denied    bool                // reads are refused after the fact
	reader    bool                // reads are allowed, and what needs the role root is refused
	localFail error               // of serializable reads
	refusal   error               // of changes of the member list
	heardOf   func(method string) // nil: nobody listens
	asked     map[string]int
}

func newFakeEtcd(t testing.TB, c *tls.Config) *fakeEtcd {
	t.Helper()
	f := &fakeEtcd{t: t, tls: c, asked: map[string]int{},
		status: &pb.StatusResponse{
			Header: &pb.ResponseHeader{ClusterId: 0xc1, MemberId: 0xa1, Revision: 7}, Leader: 0xa1, Version: "3.6.16",
			StorageVersion: "3.6.0", DbSize: 20480, DbSizeInUse: 16384, RaftTerm: 2, RaftIndex: 9, RaftAppliedIndex: 9,
		},
		members: []*pb.Member{{ID: 0xa1, Name: "n1", PeerURLs: []string{"https://127.0.0.1:2380"}}},
	}
	f.news = sync.NewCond(&f.mu)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = l.Addr().String()
	f.serve(l)
	t.Cleanup(f.stop)
	return f
}

func (f *fakeEtcd) url() string { return "https://" + f.address }

func (f *fakeEtcd) serve(l net.Listener) {
	c := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		c := f.tls.Clone()
		c.ClientAuth, c.NextProtos = tls.RequireAndVerifyClientCert, []string{"h2"}
		return c, nil
	}}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(f.intercept)}
	if f.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(c)))
	}
	f.server, f.done = grpc.NewServer(options...), make(chan struct{})
	pb.RegisterMaintenanceServer(f.server, f)
	pb.RegisterKVServer(f.server, f)
	pb.RegisterClusterServer(f.server, f)
	pb.RegisterAuthServer(f.server, f)
	go func(s *grpc.Server, done chan struct{}) {
		defer close(done)
		s.Serve(l)
	}(f.server, f.done)
}

func (f *fakeEtcd) intercept(ctx context.Context, req any, i *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	f.mu.Lock()
	heard := f.heardOf
	f.mu.Unlock()
	if heard != nil {
		heard(i.FullMethod)
	}
	return handle(ctx, req)
}

func (f *fakeEtcd) UserAdd(context.Context, *pb.AuthUserAddRequest) (*pb.AuthUserAddResponse, error) {
	return &pb.AuthUserAddResponse{}, nil
}

func (f *fakeEtcd) UserGrantRole(context.Context, *pb.AuthUserGrantRoleRequest) (*pb.AuthUserGrantRoleResponse, error) {
	return &pb.AuthUserGrantRoleResponse{}, nil
}

func (f *fakeEtcd) stop() {
	f.server.Stop()
	<-f.done
}

func (f *fakeEtcd) restart() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.serve(l)
}

func (f *fakeEtcd) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// await returns once the question has been asked.
func (f *fakeEtcd) await(question string) { f.awaitMore(question, 0) }

// awaitMore returns once the question has been asked more often than that.
func (f *fakeEtcd) awaitMore(question string, than int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.asked[question] <= than {
		f.news.Wait()
	}
}

func (f *fakeEtcd) count(question string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[question]
}

// heard counts a question and lets it wait if the member is silent to it.
func (f *fakeEtcd) heard(ctx context.Context, question string, needsQuorum bool) error {
	f.mu.Lock()
	f.asked[question]++
	f.news.Broadcast()
	wait, held := f.silent || needsQuorum && f.noQuorum, f.held
	f.mu.Unlock()
	if needsQuorum && held != nil {
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
	if wait {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

func (f *fakeEtcd) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	if err := f.heard(ctx, "status", false); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status, nil
}

func (f *fakeEtcd) Alarm(ctx context.Context, _ *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	if err := f.heard(ctx, "alarm", true); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &pb.AlarmResponse{Alarms: f.alarms}, nil
}

// HashKV answers as etcd does to a revision that it has not reached.
func (f *fakeEtcd) HashKV(context.Context, *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.denied || f.reader {
		return nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	}
	return nil, status.Error(codes.OutOfRange, "etcdserver: mvcc: required revision is a future revision")
}

func (f *fakeEtcd) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	question := "linearizable"
	if r.Serializable {
		question = "serializable"
	}
	if err := f.heard(ctx, question, !r.Serializable); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.denied:
		return nil, status.Error(codes.PermissionDenied, "etcdserver: permission denied")
	case r.Serializable && f.localFail != nil:
		return nil, f.localFail
	case !r.Serializable && f.status.IsLearner:
		return nil, status.Error(codes.Unavailable, "etcdserver: rpc not supported for learner")
	}
	answer := &pb.RangeResponse{Header: f.status.Header}
	if f.health != nil {
		answer.Kvs = []*mvccpb.KeyValue{{Key: r.Key, Value: f.health}}
		if r.KeysOnly {
			answer.Kvs[0].Value = nil
		}
	}
	return answer, nil
}

func (f *fakeEtcd) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if err := f.heard(ctx, "members", r.Linearizable); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return &pb.MemberListResponse{Header: f.status.Header, Members: f.members}, nil
}

// changed counts a change of the member list and refuses it if told to.
func (f *fakeEtcd) changed(ctx context.Context, what string) error {
	if err := f.heard(ctx, what, true); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusal
}

func (f *fakeEtcd) MemberAdd(ctx context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	if err := f.changed(ctx, "add"); err != nil {
		return nil, err
	}
	return &pb.MemberAddResponse{Member: &pb.Member{ID: 0xb2, PeerURLs: r.PeerURLs, IsLearner: r.IsLearner}}, nil
}

func (f *fakeEtcd) MemberPromote(ctx context.Context, _ *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	return &pb.MemberPromoteResponse{}, f.changed(ctx, "promote")
}

func (f *fakeEtcd) MemberRemove(ctx context.Context, _ *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	return &pb.MemberRemoveResponse{}, f.changed(ctx, "remove")
}

func (f *fakeEtcd) MoveLeader(ctx context.Context, _ *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	return &pb.MoveLeaderResponse{}, f.changed(ctx, "move")
}
