package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"cke"
)

// Bounds of calls that take longer the more data a member has.
const (
	hashLimit       = 2 * time.Minute
	defragmentLimit = 10 * time.Minute
)

// HashKV implements cke.Etcd.
func (f *Fleet) HashKV(ctx context.Context, url string, revision int64) (h cke.HashKV, err error) {
	err = f.callKnown(ctx, hashLimit, url, fmt.Sprintf("hash data at revision %d", revision), func(ctx context.Context, conn *grpc.ClientConn) error {
		resp, err := pb.NewMaintenanceClient(conn).HashKV(ctx, &pb.HashKVRequest{Revision: revision})
		if err == nil {
			h = cke.HashKV{Hash: resp.Hash, Revision: resp.Header.GetRevision(), Compacted: resp.CompactRevision}
		}
		return err
	})
	return h, err
}

// Compact implements cke.Etcd.
func (f *Fleet) Compact(ctx context.Context, url string, revision int64) error {
	err := f.callKnown(ctx, hashLimit, url, fmt.Sprintf("compact at revision %d", revision), func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Compact(ctx, &pb.CompactionRequest{Revision: revision, Physical: true})
		return err
	})
	if errors.Is(err, cke.ErrCompacted) {
		return nil
	}
	return err
}

// Defragment implements cke.Etcd.
func (f *Fleet) Defragment(ctx context.Context, url string) error {
	return f.callKnown(ctx, defragmentLimit, url, "defragment", func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).Defragment(ctx, &pb.DefragmentRequest{})
		return err
	})
}

// Arm implements cke.Etcd.
func (f *Fleet) Arm(ctx context.Context, url string, a cke.Alarm) error {
	return f.alarm(ctx, url, "raise", pb.AlarmRequest_ACTIVATE, a)
}

// Disarm implements cke.Etcd.
func (f *Fleet) Disarm(ctx context.Context, url string, a cke.Alarm) error {
	return f.alarm(ctx, url, "disarm", pb.AlarmRequest_DEACTIVATE, a)
}

func (f *Fleet) alarm(ctx context.Context, url, what string, action pb.AlarmRequest_AlarmAction, a cke.Alarm) error {
	id, err := strconv.ParseUint(a.MemberID, 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not a member id", a.MemberID)
	}
	kind, there := pb.AlarmType_value[a.Kind]
	if !there {
		return fmt.Errorf("%q is not an alarm of etcd", a.Kind)
	}
	return f.callKnown(ctx, membershipLimit, url, what+" "+a.Kind, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).Alarm(ctx, &pb.AlarmRequest{Action: action, MemberID: id, Alarm: pb.AlarmType(kind)})
		return err
	})
}

// callKnown asks once, and distinguishes the answers about revisions that callers act on.
func (f *Fleet) callKnown(ctx context.Context, limit time.Duration, url, what string, ask func(context.Context, *grpc.ClientConn) error) error {
	var answer error
	err := f.callWithin(ctx, limit, url, what, func(ctx context.Context, conn *grpc.ClientConn) error {
		answer = ask(ctx, conn)
		return answer
	})
	switch e := rpctypes.Error(answer); {
	case err == nil:
		return nil
	case errors.Is(e, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: %w", err, cke.ErrCompacted)
	case errors.Is(e, rpctypes.ErrFutureRev):
		return fmt.Errorf("%w: %w", err, cke.ErrNotReady)
	}
	return err
}
