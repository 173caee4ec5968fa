package etcdnode

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"cke"
)

// Auth implements cke.Etcd.
func (f *Fleet) Auth(ctx context.Context, url string) (s cke.AuthState, err error) {
	f.redial(url)
	err = f.call(ctx, url, "authentication status", func(ctx context.Context, conn *grpc.ClientConn) error {
		auth := pb.NewAuthClient(conn)
		st, err := auth.AuthStatus(ctx, &pb.AuthStatusRequest{})
		if notAdmitted(err) { // up to 3.6 this, too, needs the role root
			s.Enabled = true
			return nil
		}
		if err != nil {
			return err
		}
		if s.Enabled = st.Enabled; s.Enabled { // a call that needs the role root
			_, err := auth.UserList(ctx, &pb.AuthUserListRequest{}, grpc.MaxCallRecvMsgSize(usersAnswerLimit))
			if notAdmitted(err) {
				return nil
			}
			s.Admitted = err == nil
			return err
		}
		u, err := auth.UserGet(ctx, &pb.AuthUserGetRequest{Name: cke.EtcdUser})
		if errors.Is(rpctypes.Error(err), rpctypes.ErrUserNotFound) {
			return nil
		}
		s.Admitted = err == nil && slices.Contains(u.Roles, cke.EtcdRoot)
		return err
	})
	return s, err
}

// notAdmitted reports whether etcd refused for want of the user or of its role. Source: etcd, authStore.IsAdminPermitted.
func notAdmitted(err error) bool {
	e := rpctypes.Error(err)
	return errors.Is(e, rpctypes.ErrPermissionDenied) || errors.Is(e, rpctypes.ErrUserNotFound)
}

// AdmitSelf implements cke.Etcd.
func (f *Fleet) AdmitSelf(ctx context.Context, url string) error {
	return f.callWithin(ctx, membershipLimit, url, "set up users", func(ctx context.Context, conn *grpc.ClientConn) error {
		auth := pb.NewAuthClient(conn)
		for _, name := range []string{cke.EtcdRoot, cke.EtcdUser} {
			_, err := auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: name, Options: &authpb.UserAddOptions{NoPassword: true}})
			if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrUserAlreadyExist) {
				return err
			}
			if _, err := auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: cke.EtcdRoot}); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetAuth implements cke.Etcd.
func (f *Fleet) SetAuth(ctx context.Context, url string, on bool) error {
	what := "disable authentication"
	if on {
		what = "enable authentication"
	}
	return f.callWithin(ctx, membershipLimit, url, what, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		if auth := pb.NewAuthClient(conn); on {
			_, err = auth.AuthEnable(ctx, &pb.AuthEnableRequest{})
		} else {
			_, err = auth.AuthDisable(ctx, &pb.AuthDisableRequest{})
		}
		return err
	})
}
