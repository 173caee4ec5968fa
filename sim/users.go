package sim

import (
	"context"
	"slices"

	"cke"
)

// AddUserManually is an operator who adds a user to etcd without cke; an existing one is kept.
func (w *World) AddUserManually(name string) {
	w.change("the operator adds user "+name, func() {
		if _, there := w.users.Users[name]; !there {
			w.users.Users[name] = []string{"reader"}
			w.manual[name] = true
		}
	})
}

// EtcdUsers returns the users that etcd has, but for those of cke.AdmitSelf.
func (w *World) EtcdUsers() cke.EtcdUsers {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.copyUsers()
}

func (w *World) copyUsers() cke.EtcdUsers {
	u := cke.EtcdUsers{Users: map[string][]string{}, Roles: map[string][]cke.Grant{}}
	for name, roles := range w.users.Users {
		u.Users[name] = slices.Clone(roles)
	}
	for name, grants := range w.users.Roles {
		u.Roles[name] = slices.Clone(grants)
	}
	return u
}

func noUsers() cke.EtcdUsers {
	return cke.EtcdUsers{Users: map[string][]string{}, Roles: map[string][]cke.Grant{"reader": {{KeyRange: cke.KeyRange{Key: "\x00", End: "\x00"}, Read: true}}}}
}

// Users implements cke.Etcd.
func (e etcdPort) Users(ctx context.Context, url string) (u cke.EtcdUsers, err error) {
	err = e.call(ctx, url, "Users", false, func() error {
		_, err := e.d.world.voting(url)
		if err == nil {
			err = e.d.world.denied()
		}
		u = e.d.world.copyUsers()
		e.d.sawUsers = u
		e.d.sawUsers = u
		return err
	})
	return u, err
}

// changeUser changes users as etcd does: through raft.
func (e etcdPort) changeUser(ctx context.Context, url, call, name string, do func(u cke.EtcdUsers, role string)) error {
	return e.maintain(ctx, url, call, func(*container) error {
		w := e.d.world
		if err := w.propose(Management, url, entry{}); err != nil {
			return err
		}
		// One that came after the last look is taken for one that was half made, and is a tenant from then on: etcd has no conditions for such requests.
		if _, saw := e.d.sawUsers.Users[name]; saw && w.manual[name] {
			w.violated("user %s, which an operator added, is changed", name)
		}
		delete(w.manual, name)
		do(w.users, cke.TenantRole(name))
		return nil
	})
}

// Permit implements cke.Etcd.
func (e etcdPort) Permit(ctx context.Context, url, name string, g cke.Grant) error {
	return e.changeUser(ctx, url, "Permit", name, func(u cke.EtcdUsers, role string) {
		u.Roles[role] = append(without(u.Roles[role], g.KeyRange), g)
		if !slices.Contains(u.Users[name], role) {
			u.Users[name] = append(u.Users[name], role)
		}
	})
}

func without(grants []cke.Grant, r cke.KeyRange) []cke.Grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g cke.Grant) bool { return g.KeyRange == r })
}

// Forbid implements cke.Etcd.
func (e etcdPort) Forbid(ctx context.Context, url, name string, r cke.KeyRange) error {
	return e.changeUser(ctx, url, "Forbid", name, func(u cke.EtcdUsers, role string) {
		if grants, there := u.Roles[role]; there {
			u.Roles[role] = without(grants, r)
		}
	})
}

// RemoveUser implements cke.Etcd.
func (e etcdPort) RemoveUser(ctx context.Context, url, name string) error {
	return e.changeUser(ctx, url, "RemoveUser", name, func(u cke.EtcdUsers, role string) {
		delete(u.Users, name)
		delete(u.Roles, role)
		for user, roles := range u.Users {
			u.Users[user] = slices.DeleteFunc(roles, func(r string) bool { return r == role })
		}
	})
}
