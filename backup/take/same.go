package take

import (
	"context"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sameCluster lets answers of another cluster count as none: what a member that answers so holds must not get into the
// lineage. id is in hex.
func sameCluster(id string) []grpc.DialOption {
	check := func(answer any) error {
		a, has := answer.(interface{ GetHeader() *pb.ResponseHeader })
		if !has || a.GetHeader().GetClusterId() == 0 {
			return nil
		}
		if is := strconv.FormatUint(a.GetHeader().GetClusterId(), 16); is != id {
			return status.Errorf(codes.Unavailable, "a member answers with cluster id %s, but the recorded one is %s", is, id)
		}
		return nil
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			if err := invoke(ctx, method, req, reply, conn, opts...); err != nil {
				return err
			}
			return check(reply)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			s, err := streamer(ctx, desc, conn, method, opts...)
			if err != nil {
				return nil, err
			}
			return checkedStream{s, check}, nil
		}),
	}
}

type checkedStream struct {
	grpc.ClientStream
	check func(answer any) error
}

func (s checkedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	return s.check(m)
}
