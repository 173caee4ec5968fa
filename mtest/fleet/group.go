package fleet

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"google.golang.org/grpc/status"
)

// group is a cluster: its members agree at once.
type group struct {
	mu      sync.Mutex
	id      uint64
	members []*peer
	leader  uint64 // 0: there is none
	term    uint64
	index   uint64
	changed chan struct{} // closed, and made again, when a leader is elected
}

type peer struct {
	*pb.Member
	runs bool
}

// group returns the cluster of an id, which the first of its members makes.
func (f *Fleet) group(id uint64, members []founder) *group {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.groups[id]
	if g == nil {
		g = &group{id: id, term: 1, index: uint64(len(members)), changed: make(chan struct{})}
		for _, m := range members {
			g.members = append(g.members, &peer{Member: &pb.Member{ID: m.ID, PeerURLs: m.PeerURLs}})
		}
		f.groups[id] = g
	}
	return g
}

// up notes that a member runs, or does not any more.
func (g *group) up(id uint64, name, clientURL string, runs bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	running := 0
	for _, p := range g.members {
		if p.ID == id {
			if p.runs = runs; runs && p.Name == "" {
				p.Name, p.ClientURLs = name, []string{clientURL}
				g.index++
			}
		}
		if p.runs {
			running++
		}
	}
	if running <= len(g.members)/2 {
		g.leader = 0
		return
	}
	if g.leader != 0 && g.leader != id {
		return
	}
	for _, p := range g.members {
		if p.runs && (g.leader == 0 || g.leader == id && !runs && p.ID != id) {
			g.leader, g.term, g.index = p.ID, g.term+1, g.index+1
			close(g.changed)
			g.changed = make(chan struct{})
			return
		}
	}
}

// led waits for a leader, as what needs a quorum does.
func (g *group) led(ctx context.Context) error {
	for {
		g.mu.Lock()
		leader, changed := g.leader, g.changed
		g.mu.Unlock()
		if leader != 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// propose takes a change through the log.
func (m *member) propose(ctx context.Context) (*pb.ResponseHeader, error) {
	if err := m.group.led(ctx); err != nil {
		return nil, err
	}
	m.group.mu.Lock()
	m.group.index++
	m.group.mu.Unlock()
	return m.header(), nil
}

func (m *member) header() *pb.ResponseHeader {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return &pb.ResponseHeader{ClusterId: m.group.id, MemberId: m.id, Revision: 1, RaftTerm: m.group.term}
}

// Status implements pb.MaintenanceServer.
func (m *member) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	m.mu.Lock()
	m.asked = time.Now()
	m.mu.Unlock()
	h, g := m.header(), m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	return &pb.StatusResponse{Header: h, Version: m.version, StorageVersion: "3.6.0", DbSize: databaseSize, DbSizeInUse: databaseSize * 3 / 4, DbSizeQuota: 2 << 30,
		Leader: g.leader, RaftIndex: g.index, RaftAppliedIndex: g.index, RaftTerm: g.term}, nil
}

// Range implements pb.KVServer: nothing was written.
func (m *member) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if !r.Serializable {
		if err := m.group.led(ctx); err != nil {
			return nil, err
		}
	}
	return &pb.RangeResponse{Header: m.header()}, nil
}

// MemberList implements pb.ClusterServer.
func (m *member) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	if r.Linearizable {
		if err := m.group.led(ctx); err != nil {
			return nil, err
		}
	}
	resp := &pb.MemberListResponse{Header: m.header()}
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, p := range m.group.members {
		resp.Members = append(resp.Members, &pb.Member{ID: p.ID, Name: p.Name, PeerURLs: slices.Clone(p.PeerURLs), ClientURLs: slices.Clone(p.ClientURLs)})
	}
	return resp, nil
}

// Alarm implements pb.MaintenanceServer: none is raised.
func (m *member) Alarm(ctx context.Context, _ *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	h, err := m.propose(ctx)
	return &pb.AlarmResponse{Header: h}, err
}

// HashKV implements pb.MaintenanceServer.
func (m *member) HashKV(_ context.Context, r *pb.HashKVRequest) (*pb.HashKVResponse, error) {
	if r.Revision > 1 || r.Revision == math.MaxInt64 {
		return nil, rpctypes.ErrGRPCFutureRev
	}
	return &pb.HashKVResponse{Header: m.header(), Hash: 1, HashRevision: 1, CompactRevision: -1}, nil
}

// MoveLeader implements pb.MaintenanceServer.
func (m *member) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	h, g := m.header(), m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leader != m.id {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	if !slices.ContainsFunc(g.members, func(p *peer) bool { return p.ID == r.TargetID && p.runs }) {
		return nil, rpctypes.ErrGRPCBadLeaderTransferee
	}
	g.leader, g.term, g.index = r.TargetID, g.term+1, g.index+1
	return &pb.MoveLeaderResponse{Header: h}, nil
}

// Defragment implements pb.MaintenanceServer.
func (m *member) Defragment(context.Context, *pb.DefragmentRequest) (*pb.DefragmentResponse, error) {
	return &pb.DefragmentResponse{Header: m.header()}, nil
}

// Compact implements pb.KVServer.
func (m *member) Compact(ctx context.Context, _ *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	h, err := m.propose(ctx)
	return &pb.CompactionResponse{Header: h}, err
}

// AuthStatus implements pb.AuthServer: it is off.
func (m *member) AuthStatus(context.Context, *pb.AuthStatusRequest) (*pb.AuthStatusResponse, error) {
	return &pb.AuthStatusResponse{Header: m.header()}, nil
}

// UserGet implements pb.AuthServer: there are no users.
func (m *member) UserGet(context.Context, *pb.AuthUserGetRequest) (*pb.AuthUserGetResponse, error) {
	return nil, rpctypes.ErrGRPCUserNotFound
}
