package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"cke"
)

// databasePath is the database file in a member's container.
const databasePath = DataPath + "/" + dataDir + "/member/snap/db"

// DataSize implements cke.Machine.
func (m machine) DataSize(ctx context.Context, j cke.Join) (size int64, err error) {
	err = m.read(ctx, engineLimit, "read the size of the database in "+j.Volume, func(ctx context.Context, s *session) error {
		c, err := own(ctx, s, j)
		if err != nil {
			return err
		}
		file, err := s.engine.stat(ctx, c.ID, databasePath)
		size = file.Size
		if errors.Is(err, cke.ErrNotFound) {
			return nil
		}
		return err
	})
	return size, err
}

// AddLearner implements cke.Etcd.
func (f *Fleet) AddLearner(ctx context.Context, url, peerURL string) (id string, err error) {
	err = f.change(ctx, url, "member add "+peerURL, func(ctx context.Context, c pb.ClusterClient) error {
		resp, err := c.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{peerURL}, IsLearner: true})
		if err == nil && resp.GetMember().GetID() == 0 {
			err = &cke.Error{Code: cke.CodeAnswer, What: "the answer of " + url + " lacks the id of the new member"}
		}
		id = hexID(resp.GetMember().GetID())
		return err
	})
	return id, err
}

// Promote implements cke.Etcd.
func (f *Fleet) Promote(ctx context.Context, url, id string) error {
	return f.changeMember(ctx, url, "member promote", id, func(ctx context.Context, c pb.ClusterClient, id uint64) error {
		_, err := c.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
		return err
	})
}

// RemoveMember implements cke.Etcd.
func (f *Fleet) RemoveMember(ctx context.Context, url, id string) error {
	return f.changeMember(ctx, url, "member remove", id, func(ctx context.Context, c pb.ClusterClient, id uint64) error {
		_, err := c.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
		return err
	})
}

// MoveLeader implements cke.Etcd.
func (f *Fleet) MoveLeader(ctx context.Context, url, id string) error {
	target, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not a member id", id)
	}
	return f.callWithin(ctx, membershipLimit, url, "move leader to "+id, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewMaintenanceClient(conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: target})
		return err
	})
}

// UpdateMember implements cke.Etcd.
func (f *Fleet) UpdateMember(ctx context.Context, url, id, peerURL string) error {
	return f.changeMember(ctx, url, "member update", id, func(ctx context.Context, c pb.ClusterClient, id uint64) error {
		_, err := c.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: id, PeerURLs: []string{peerURL}})
		return err
	})
}

func (f *Fleet) changeMember(ctx context.Context, url, what, id string, ask func(context.Context, pb.ClusterClient, uint64) error) error {
	n, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return fmt.Errorf("%q is not a member id", id)
	}
	return f.change(ctx, url, what+" "+id, func(ctx context.Context, c pb.ClusterClient) error { return ask(ctx, c, n) })
}

// change asks for one change of the member list, and distinguishes what callers act on.
func (f *Fleet) change(ctx context.Context, url, what string, ask func(context.Context, pb.ClusterClient) error) error {
	var known error
	err := f.callWithin(ctx, membershipLimit, url, what, func(ctx context.Context, conn *grpc.ClientConn) error {
		err := ask(ctx, pb.NewClusterClient(conn))
		known = membershipError(err)
		return err
	})
	if err != nil && known != nil {
		return fmt.Errorf("%w: %w", err, known)
	}
	return err
}

// membershipError translates etcd's refusals; nil when there is no word for it. A time-out has none: it means unknown.
func membershipError(err error) error {
	switch e := rpctypes.Error(err); {
	case err == nil:
		return nil
	case errors.Is(e, rpctypes.ErrMemberNotFound):
		return cke.ErrNotFound
	case errors.Is(e, rpctypes.ErrPeerURLExist), errors.Is(e, rpctypes.ErrMemberExist), errors.Is(e, rpctypes.ErrMemberNotLearner):
		return cke.ErrConflict
	case errors.Is(e, rpctypes.ErrMemberLearnerNotReady), errors.Is(e, rpctypes.ErrUnhealthy), errors.Is(e, rpctypes.ErrMemberNotEnoughStarted), errors.Is(e, rpctypes.ErrTooManyLearners):
		return cke.ErrNotReady
	}
	return nil
}
