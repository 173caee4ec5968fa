package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke"
)

// Endpoint implements cke.Etcd.
func (f *Fleet) Endpoint(ctx context.Context, url string) cke.EndpointStatus {
	e, err := f.member(url)
	if err != nil {
		return cke.EndpointStatus{URL: url, Problem: err.Error()}
	}
	e.touch()
	return e.ask(ctx, false, endpointFacts{}).status
}

// Members implements cke.Etcd.
func (f *Fleet) Members(ctx context.Context, url string) (clusterID string, members []cke.Member, err error) {
	err = f.call(ctx, url, "member list", func(ctx context.Context, conn *grpc.ClientConn) error {
		resp, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
		if err != nil {
			return err
		}
		clusterID, members = hexID(resp.GetHeader().GetClusterId()), membersOf(resp.Members)
		return nil
	})
	return clusterID, members, err
}

// Listed implements cke.Etcd.
func (f *Fleet) Listed(ctx context.Context, url string) (clusterID string, list cke.MemberList, err error) {
	err = f.call(ctx, url, "member list of its own", func(ctx context.Context, conn *grpc.ClientConn) error {
		before, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
		if err != nil {
			return err
		}
		resp, err := pb.NewClusterClient(conn).MemberList(ctx, &pb.MemberListRequest{})
		if err != nil {
			return err
		}
		clusterID = hexID(resp.GetHeader().GetClusterId())
		list = cke.MemberList{Members: membersOf(resp.Members), Source: cke.MembersLocal, At: before.RaftAppliedIndex}
		return nil
	})
	return clusterID, list, err
}

// ProveWrite implements cke.Etcd: etcd takes the question for its alarms through raft as well, also with a full database.
// Source: etcd, EtcdServer.Alarm. As a question it passes the fence of the connection, so the fence is asked here.
func (f *Fleet) ProveWrite(ctx context.Context, url string) error {
	if err := f.guard(); err != nil {
		return err
	}
	return f.call(ctx, url, "alarm", func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
		return err
	})
}

// call asks one member for something that goes through raft.
func (f *Fleet) call(ctx context.Context, url, what string, ask func(context.Context, *grpc.ClientConn) error) error {
	return f.callWithin(ctx, f.proposal, url, what, ask)
}

// callWithin asks once: what a time-out means is the caller's to find out.
func (f *Fleet) callWithin(ctx context.Context, limit time.Duration, url, what string, ask func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	e, err := f.member(url)
	if err != nil {
		return err
	}
	e.touch()
	conn, err := e.acquire()
	if err == nil {
		defer e.release(conn)
		err = e.safely(what+" through "+url, func() error { return ask(ctx, conn.ClientConn) })
	}
	var deposed fenceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &deposed):
		return fmt.Errorf("%s through %s: %w", what, url, deposed.error)
	}
	if status.Code(err) == codes.DeadlineExceeded {
		e.drop(conn)
	}
	if cke.CodeOf(err) == cke.CodeAnswer {
		return err
	}
	return &cke.Error{Code: cke.CodeMemberSilent, What: fmt.Sprintf("%s through %s failed", what, url), Err: errors.New(said(err, limit))}
}

// safely runs something that a panic in it shall not end the daemon for.
func (e *endpoint) safely(what string, do func() error) (err error) {
	defer e.faults.catch(what, &err)
	return do()
}

// hexID writes an id as etcdctl does; "" for none.
func hexID(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 16)
}
