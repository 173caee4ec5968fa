package etcdnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/authpb"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"

	"cke"
)

// Bounds of a reading of users: each of them, and each role, is one request through raft, which takes some 20 ms on a slow disk.
const (
	usersLimit = 45 * time.Second
	mostUsers  = 1000
)

// Users implements cke.Etcd.
func (f *Fleet) Users(ctx context.Context, url string) (u cke.EtcdUsers, err error) {
	denied := false
	err = f.callWithin(ctx, usersLimit, url, "read users", func(ctx context.Context, conn *grpc.ClientConn) error {
		u = cke.EtcdUsers{Users: map[string][]string{}, Roles: map[string][]cke.Grant{}}
		err := readUsers(ctx, pb.NewAuthClient(conn), u)
		denied = notAdmitted(err)
		return err
	})
	if denied {
		err = &cke.Error{Code: cke.CodeAuth, What: fmt.Sprintf("etcd's authentication is on, and its user %s does not have the role root", cke.EtcdUser), Unchanged: true}
	}
	return u, err
}

// readUsers leaves out what is removed meanwhile.
func readUsers(ctx context.Context, auth pb.AuthClient, u cke.EtcdUsers) error {
	limit := grpc.MaxCallRecvMsgSize(usersAnswerLimit)
	users, err := auth.UserList(ctx, &pb.AuthUserListRequest{}, limit)
	if err != nil {
		return err
	}
	roles, err := auth.RoleList(ctx, &pb.AuthRoleListRequest{}, limit)
	if err != nil {
		return err
	}
	if n := max(len(users.Users), len(roles.Roles)); n > mostUsers {
		return answerError{fmt.Sprintf("etcd has %d users or roles: cke reads up to %d", n, mostUsers)}
	}
	for _, name := range users.Users {
		user, err := auth.UserGet(ctx, &pb.AuthUserGetRequest{Name: name}, limit)
		switch {
		case err == nil:
			u.Users[name] = user.Roles
		case !errors.Is(rpctypes.Error(err), rpctypes.ErrUserNotFound):
			return err
		}
	}
	for _, name := range roles.Roles {
		role, err := auth.RoleGet(ctx, &pb.AuthRoleGetRequest{Role: name}, limit)
		switch {
		case err == nil:
			u.Roles[name] = grantsOf(role.Perm)
		case !errors.Is(rpctypes.Error(err), rpctypes.ErrRoleNotFound):
			return err
		}
	}
	return nil
}

func grantsOf(perms []*authpb.Permission) []cke.Grant {
	grants := make([]cke.Grant, 0, len(perms))
	for _, p := range perms {
		grants = append(grants, cke.Grant{KeyRange: cke.KeyRange{Key: string(p.Key), End: string(p.RangeEnd)}, Read: p.PermType != authpb.WRITE, Write: p.PermType != authpb.READ})
	}
	return grants
}

// Permit implements cke.Etcd.
func (f *Fleet) Permit(ctx context.Context, url, name string, g cke.Grant) error {
	perm := &authpb.Permission{Key: []byte(g.Key), RangeEnd: []byte(g.End), PermType: authpb.READ}
	if g.Write {
		perm.PermType = authpb.READWRITE
	}
	role := cke.TenantRole(name)
	return f.callWithin(ctx, membershipLimit, url, "permit user "+name, func(ctx context.Context, conn *grpc.ClientConn) error {
		auth := pb.NewAuthClient(conn)
		_, err := auth.RoleAdd(ctx, &pb.AuthRoleAddRequest{Name: role})
		if err := but(err, rpctypes.ErrRoleAlreadyExist); err != nil {
			return err
		}
		if _, err := auth.RoleGrantPermission(ctx, &pb.AuthRoleGrantPermissionRequest{Name: role, Perm: perm}); err != nil {
			return err
		}
		_, err = auth.UserAdd(ctx, &pb.AuthUserAddRequest{Name: name, Options: &authpb.UserAddOptions{NoPassword: true}})
		if err := but(err, rpctypes.ErrUserAlreadyExist); err != nil {
			return err
		}
		_, err = auth.UserGrantRole(ctx, &pb.AuthUserGrantRoleRequest{User: name, Role: role})
		return err
	})
}

// Forbid implements cke.Etcd.
func (f *Fleet) Forbid(ctx context.Context, url, name string, r cke.KeyRange) error {
	return f.callWithin(ctx, membershipLimit, url, "forbid user "+name, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewAuthClient(conn).RoleRevokePermission(ctx, &pb.AuthRoleRevokePermissionRequest{Role: cke.TenantRole(name), Key: []byte(r.Key), RangeEnd: []byte(r.End)})
		return but(err, rpctypes.ErrRoleNotFound, rpctypes.ErrPermissionNotGranted)
	})
}

// RemoveUser implements cke.Etcd.
func (f *Fleet) RemoveUser(ctx context.Context, url, name string) error {
	return f.callWithin(ctx, membershipLimit, url, "remove user "+name, func(ctx context.Context, conn *grpc.ClientConn) error {
		auth := pb.NewAuthClient(conn)
		_, err := auth.UserDelete(ctx, &pb.AuthUserDeleteRequest{Name: name})
		if err := but(err, rpctypes.ErrUserNotFound); err != nil {
			return err
		}
		_, err = auth.RoleDelete(ctx, &pb.AuthRoleDeleteRequest{Role: cke.TenantRole(name)})
		return but(err, rpctypes.ErrRoleNotFound)
	})
}

// but is err, or nil if it is one of those that mean that there is nothing left to do.
func but(err error, done ...error) error {
	for _, d := range done {
		if errors.Is(rpctypes.Error(err), d) {
			return nil
		}
	}
	return err
}
